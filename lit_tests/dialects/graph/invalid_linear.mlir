// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

func.func @main(%x: tensor<2x3xf32>, %w: tensor<4x3xf32>) {
  // expected-error @below {{expected a weight of 3 rows and of rank 2, found tensor<4x3xf32>}}
  %y = graph.linear %x, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %w: tensor<1x3x4xf32>) {
  // expected-error @below {{expected a weight of 3 rows and of rank 2, found tensor<1x3x4xf32>}}
  %y = graph.linear %x, %w : (tensor<2x3xf32>, tensor<1x3x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<f32>, %w: tensor<1x3xf32>) {
  // expected-error @below {{expected rank 1 or more for the input, found tensor<f32>}}
  %y = graph.linear %x, %w : (tensor<f32>, tensor<1x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf16>) {
  // expected-error @below {{expected f32 elements for the weight, found tensor<3x4xf16>}}
  %y = graph.linear %x, %w : (tensor<2x3xf32>, tensor<3x4xf16>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xi1>, %w: tensor<3x4xi1>) {
  // expected-error @below {{expected floating-point or integer elements for the input, found tensor<2x3xi1>}}
  %y = graph.linear %x, %w : (tensor<2x3xi1>, tensor<3x4xi1>) -> tensor<2x4xi1>
  func.return
}

// -----

// One number for each row, in a square.
func.func @main(%x: tensor<2x2xf32>, %b: tensor<2x1xf32>) {
  // expected-error @below {{expected 2 numbers along the last dimension for the bias, in at most 2 dimensions, found tensor<2x1xf32>}}
  %y = graph.linear %x, %x, %b : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>, %b: tensor<1x1x2xf32>) {
  // expected-error @below {{expected 2 numbers along the last dimension for the bias, in at most 2 dimensions, found tensor<1x1x2xf32>}}
  %y = graph.linear %x, %x, %b : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<1x1x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>, %b: tensor<f32>) {
  // expected-error @below {{expected 2 numbers along the last dimension for the bias, in at most 2 dimensions, found tensor<f32>}}
  %y = graph.linear %x, %x, %b : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>, %b: tensor<2xf64>) {
  // expected-error @below {{expected f32 elements for the bias, found tensor<2xf64>}}
  %y = graph.linear %x, %x, %b : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf64>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>, %r: tensor<2xf32>) {
  // expected-error @below {{expected shape [2, 2] for the residual, found tensor<2xf32>}}
  %y = "graph.linear"(%x, %x, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x1x2xf32>, %r: tensor<1x1x2xf64>) {
  // expected-error @below {{expected f32 elements for the residual, found tensor<1x1x2xf64>}}
  %y = "graph.conv"(%x, %x, %r) <{operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (tensor<1x1x2xf32>, tensor<1x1x2xf32>, tensor<1x1x2xf64>) -> tensor<1x1x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the operand, found tensor<2x2xi32>}}
  %y = graph.linear %x, %x activation = <sigmoid> : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for clip, found tensor<2x2xi32>}}
  %y = graph.linear %x, %x activation = <clip min = 0.0> : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>) {
  // expected-error @below {{expected one of clip, gelu, hard_sigmoid, hard_swish, leaky_relu, relu, sigmoid, swish, tanh, found #graph.activation<elu>}}
  %y = graph.linear %x, %x activation = <elu> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>) {
  // expected-error @below {{expected no parameters of relu, found #graph.activation<relu alpha = 5.000000e-01>}}
  %y = graph.linear %x, %x activation = <relu alpha = 0.5> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>) {
  // expected-error @below {{expected alpha and beta of hard_sigmoid, found #graph.activation<hard_sigmoid alpha = 5.000000e-01>}}
  %y = graph.linear %x, %x activation = <hard_sigmoid alpha = 0.5> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>) {
  // expected-error @below {{expected min, max or both as parameters of clip, found #graph.activation<clip>}}
  %y = graph.linear %x, %x activation = <clip> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>) {
  // expected-error @below {{expected numbers as parameters of clip, found #graph.activation<clip min = "0">}}
  %y = graph.linear %x, %x activation = <clip min = "0"> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2xf32>) {
  // expected-error @below {{expected approximate = "none" or "tanh", found "fast"}}
  %y = graph.linear %x, %x activation = <gelu approximate = "fast"> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return
}
