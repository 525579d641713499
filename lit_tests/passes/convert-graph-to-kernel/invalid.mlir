// RUN: mlopt-opt %s --split-input-file --verify-diagnostics --convert-graph-to-kernel

func.func @main(%x: tensor<2xui64>) -> tensor<2xui64> {
  // expected-error @below {{the power of ui64 numbers has no form at the kernel level}}
  %y = graph.pow %x, %x : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>
  func.return %y : tensor<2xui64>
}

// -----

func.func @two_elements(%a: i64, %x: tensor<2xi64>) -> tensor<2xi64> {
  // expected-error @below {{expected 1 element of a tensor.from_elements, found 2}}
  %t = tensor.from_elements %a, %a : tensor<2xi64>
  %y = graph.add %t, %x : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}
