// RUN: mlopt-opt %s --approximate-gelu --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(approximate-gelu{method=sigmoid})' | filecheck %s --check-prefix=SIGMOID
// RUN: mlopt-opt %s --approximate-gelu --remarks --verify-diagnostics

// CHECK-LABEL: @main
// CHECK-NEXT:    %y = graph.gelu %x approximate = "tanh"
// CHECK-NEXT:    %z = graph.gelu %x approximate = "tanh"
// SIGMOID-LABEL: @main
// SIGMOID-NEXT:    %y = graph.swish %x alpha = 1.702
// SIGMOID-NEXT:    %z = graph.gelu %x approximate = "tanh"
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-remark @below {{'gelu' became the tanh form: off by up to 4.732e-04, at x = -2.699}}
  %y = graph.gelu %x : tensor<4xf32>
  %z = graph.gelu %x approximate = "tanh" : tensor<4xf32>
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}
// CHECK: (S) 1 gelus-approximated
