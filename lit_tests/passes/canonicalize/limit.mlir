// RUN: mlopt-opt %s --canonicalize=max-rewrites=1 2>&1 | filecheck %s

// CHECK: limit.mlir:{{.*}}warning: canonicalize stopped after 1 rewrites without converging
func.func @f(%x: i32) {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %a : i32
  func.return
}
