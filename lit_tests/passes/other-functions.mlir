// RUN: not mlopt-opt %s --O2 2>&1 | filecheck %s

// CHECK: other-functions.mlir:4:1: error: expected '@main' to be the only function with tensors, found '@helper': leave it out
func.func @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.relu %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.neg %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
