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

// -----

// Only the branch that is taken is left; and nothing of one that is empty.
// CHECK-LABEL: func.func @branches
// CHECK-NEXT:    %a = arith.addi %x, %x
// CHECK-NEXT:    func.return %a
func.func @branches(%x: i32, %p: memref<1xi32>) -> i32 {
  %true = arith.constant true
  %false = arith.constant false
  %c0 = arith.constant 0 : index
  %y = scf.if %true -> (i32) {
    %a = arith.addi %x, %x : i32
    scf.if %false {
      memref.store %a, %p[%c0] : memref<1xi32>
    }
    scf.yield %a : i32
  } else {
    %b = scf.if %false -> (i32) {
      scf.yield %x : i32
    } else {
      %c = arith.muli %x, %x : i32
      scf.yield %c : i32
    }
    scf.yield %b : i32
  }
  func.return %y : i32
}

// -----

// %t is read by nothing, %u by %s, and %w by a store.
// CHECK-LABEL: func.func @unread
// CHECK:         scf.for {{.*}} iter_args(%s = %x, %u = %x, %w = %x) -> (i32, i32, i32)
// CHECK-NEXT:      %s2 = arith.addi %s, %u
// CHECK-NEXT:      %u2 = arith.muli %u, %x
// CHECK-NEXT:      %w2 = arith.subi %w, %x
// CHECK-NEXT:      memref.store %w, %p
// CHECK-NEXT:      scf.yield %s2, %u2, %w2
// CHECK:         scf.if %c -> (i32)
// CHECK-NEXT:      scf.yield %{{.*}} : i32
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %x : i32
func.func @unread(%x: i32, %n: index, %p: memref<1xi32>, %c: i1) -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a:4 = scf.for %i = %c0 to %n step %c1 iter_args(%s = %x, %t = %x, %u = %x, %w = %x) -> (i32, i32, i32, i32) {
    %s2 = arith.addi %s, %u : i32
    %t2 = arith.addi %t, %s : i32
    %u2 = arith.muli %u, %x : i32
    %w2 = arith.subi %w, %x : i32
    memref.store %w, %p[%c0] : memref<1xi32>
    scf.yield %s2, %t2, %u2, %w2 : i32, i32, i32, i32
  }
  %y, %z = scf.if %c -> (i32, i32) {
    %b = arith.muli %x, %x : i32
    scf.yield %a#0, %b : i32, i32
  } else {
    scf.yield %x, %x : i32, i32
  }
  func.return %y : i32
}

// The statistics, piece by piece.
// CHECK:      (S) 0 blocks-erased
// CHECK:      (S) 5 ops-erased
// CHECK:      (S) 0 blocks-erased
// CHECK:      (S) 0 ops-erased
// CHECK:      (S) 0 blocks-erased
// CHECK:      (S) 6 ops-erased
// CHECK:      (S) 2 blocks-erased
// CHECK:      (S) 2 branches-taken
// CHECK:      (S) 2 results-dropped
