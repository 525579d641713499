// RUN: mlopt-opt %s --cse --mlir-print-debuginfo --mlir-pass-statistics 2>&1 | filecheck %s

// The operation that stays has the locations of all that it stands for.
// CHECK: %a = arith.addi %x, %x : i32 loc(fused["first", "second", "third"])
// CHECK: (S) 2 ops-merged
func.func @f(%x: i32) -> (i32, i32, i32) {
  %a = arith.addi %x, %x : i32 loc("first")
  %b = arith.addi %x, %x : i32 loc("second")
  %c = arith.addi %x, %x : i32 loc("third")
  func.return %a, %b, %c : i32, i32, i32
}
