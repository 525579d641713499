// RUN: mlopt-opt %s --split-input-file --dce --mlir-pass-statistics 2>&1 | filecheck %s

// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    func.return
func.func @chain(%x: i32, %p: memref<4xi32>) {
  %c0 = arith.constant 0 : index
  %a = memref.load %p[%c0] : memref<4xi32>
  %b = arith.addi %a, %x : i32
  %c = arith.muli %b, %b : i32
  %buffer = memref.alloc() : memref<4xi32>
  func.return
}

// -----

// Writes stay, also those inside a loop whose results nobody uses; so does a call, and what they need.
// CHECK-LABEL: func.func @effects
// CHECK:         %v = arith.addi
// CHECK:         memref.store
// CHECK:         scf.for
// CHECK:           memref.store
// CHECK:         func.call @opaque
func.func @effects(%x: i32, %p: memref<4xi32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.addi %x, %x : i32
  memref.store %v, %p[%c0] : memref<4xi32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %x) -> (i32) {
    memref.store %x, %p[%i] : memref<4xi32>
    scf.yield %acc : i32
  }
  %u = func.call @opaque() : () -> i32
  func.return
}
func.func private @opaque() -> i32

// -----

// A loop without effects goes as a whole, with what only it used.
// CHECK-LABEL: func.func @pure_loop
// CHECK-NEXT:    func.return
func.func @pure_loop(%x: i32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = arith.muli %x, %x : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %x) -> (i32) {
    %s = arith.addi %acc, %y : i32
    scf.yield %s : i32
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @unreachable
// CHECK-NEXT:    func.return
// CHECK-NEXT:  }
func.func @unreachable(%x: i32) {
  func.return
^dead(%a: i32):
  %b = arith.addi %a, %x : i32
  cf.br ^more(%b : i32)
^more(%c: i32):
  cf.br ^dead(%c : i32)
}

// The statistics, piece by piece.
// CHECK:      (S) 0 blocks-erased
// CHECK-NEXT: (S) 5 ops-erased
// CHECK:      (S) 0 blocks-erased
// CHECK-NEXT: (S) 0 ops-erased
// CHECK:      (S) 0 blocks-erased
// CHECK-NEXT: (S) 6 ops-erased
// CHECK:      (S) 2 blocks-erased
