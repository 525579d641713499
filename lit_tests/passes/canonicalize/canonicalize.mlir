// RUN: mlopt-opt %s --split-input-file --canonicalize --mlir-print-debuginfo | filecheck %s

// Folding keeps the location of what was folded.
// CHECK-LABEL: func.func @fold
// CHECK-NEXT:    %b = arith.constant 6 : i32 loc("sum")
func.func @fold() -> i32 {
  %a = arith.constant 3 : i32 loc("three")
  %b = arith.addi %a, %a : i32 loc("sum")
  func.return %b : i32
}

// -----

// x + 0.0 is not x: for x = -0.0 it is +0.0, and 1 / (x + 0.0) = +inf.
// CHECK-LABEL: func.func @signed_zero
// CHECK:         arith.addf %x
func.func @signed_zero(%x: f32) -> f32 {
  %z = arith.constant 0.0 : f32
  %a = arith.addf %x, %z : f32
  func.return %a : f32
}

// -----

// Dead operations go; operations with effects stay, in a loop too.
// CHECK-LABEL: func.func @effects
// CHECK-NOT:     arith.muli
// CHECK:         scf.for
// CHECK-NEXT:      memref.store
func.func @effects(%x: f32, %k: i32, %p: memref<4xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %dead = arith.muli %k, %k : i32
  scf.for %i = %c0 to %n step %c1 {
    memref.store %x, %p[%i] : memref<4xf32>
  }
  func.return
}
