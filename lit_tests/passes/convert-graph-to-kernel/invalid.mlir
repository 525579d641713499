// RUN: mlopt-opt %s --split-input-file --verify-diagnostics --convert-graph-to-kernel

func.func @main(%x: tensor<2xui64>) -> tensor<2xui64> {
  // expected-error @below {{the power of ui64 numbers has no form at the kernel level}}
  %y = graph.pow %x, %x : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>
  func.return %y : tensor<2xui64>
}
