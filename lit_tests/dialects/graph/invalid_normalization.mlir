// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifier of group normalizations.

func.func @main(%x: tensor<1x8x7xi32>, %s: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the input, found tensor<1x8x7xi32>}}
  %y = graph.group_norm %x, %s, %b groups = 2 epsilon = 1.000000e-05 : (tensor<1x8x7xi32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x7xi32>
  func.return
}

// -----

func.func @main(%x: tensor<8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected rank 2 or more for the input, found tensor<8xf32>}}
  %y = graph.group_norm %x, %s, %b groups = 2 epsilon = 1.000000e-05 : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x7xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{expected a number of groups that divides 8 channels, found 3}}
  %y = graph.group_norm %x, %s, %b groups = 3 epsilon = 1.000000e-05 : (tensor<1x8x7xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x7xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x7xf32>, %s: tensor<8xf16>, %b: tensor<8xf32>) {
  // expected-error @below {{expected f32 elements for the scale, found tensor<8xf16>}}
  %y = graph.group_norm %x, %s, %b groups = 2 epsilon = 1.000000e-05 : (tensor<1x8x7xf32>, tensor<8xf16>, tensor<8xf32>) -> tensor<1x8x7xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x7xf32>, %s: tensor<8xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected shape [8] for the bias, found tensor<4xf32>}}
  %y = graph.group_norm %x, %s, %b groups = 2 epsilon = 1.000000e-05 : (tensor<1x8x7xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<1x8x7xf32>
  func.return
}
