// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The contraction operations print as they are read, also through the generic form.

// CHECK-LABEL: @average_pool(
// CHECK-NEXT: %y = graph.average_pool %x kernel = [2, 2] strides = [2, 2] count_include_pad : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
func.func @average_pool(%x: tensor<1x8x4x4xf32>) {
  %y = graph.average_pool %x kernel = [2, 2] strides = [2, 2] count_include_pad : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>
  func.return
}

// CHECK-LABEL: @conv(
// CHECK-NEXT: %y = graph.conv %x, %w, %b strides = [2, 2] pads = [3, 3, 3, 3] : (tensor<1x3x224x224xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<1x64x112x112xf32>
func.func @conv(%x: tensor<1x3x224x224xf32>, %w: tensor<64x3x7x7xf32>, %b: tensor<64xf32>) {
  %y = graph.conv %x, %w, %b strides = [2, 2] pads = [3, 3, 3, 3] : (tensor<1x3x224x224xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<1x64x112x112xf32>
  func.return
}

// CHECK-LABEL: @conv_2(
// CHECK-NEXT: %y = graph.conv %x, %w strides = [2] pads = [1, 0] dilations = [3] group = 2 : (tensor<2x4x9xf16>, tensor<6x2x3xf16>) -> tensor<2x6x2xf16>
func.func @conv_2(%x: tensor<2x4x9xf16>, %w: tensor<6x2x3xf16>) {
  %y = graph.conv %x, %w strides = [2] pads = [1, 0] dilations = [3] group = 2 : (tensor<2x4x9xf16>, tensor<6x2x3xf16>) -> tensor<2x6x2xf16>
  func.return
}

// CHECK-LABEL: @conv_with_more(
// CHECK-NEXT: %y = graph.conv %x, %w residual(%x : tensor<1x3x5x1xf32>) strides = [1, 2] activation = <hard_swish> : (tensor<1x3x5x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x5x1xf32>
// CHECK-NEXT: %z = graph.conv %x, %w, %b residual(%y : tensor<1x3x5x1xf32>) : (tensor<1x3x5x1xf32>, tensor<3x3x1x1xf32>, tensor<3xf32>) -> tensor<1x3x5x1xf32>
func.func @conv_with_more(%x: tensor<1x3x5x1xf32>, %w: tensor<3x3x1x1xf32>, %b: tensor<3xf32>) {
  %y = graph.conv %x, %w residual(%x : tensor<1x3x5x1xf32>) strides = [1, 2] activation = <hard_swish> : (tensor<1x3x5x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x5x1xf32>
  %z = graph.conv %x, %w, %b residual(%y : tensor<1x3x5x1xf32>) : (tensor<1x3x5x1xf32>, tensor<3x3x1x1xf32>, tensor<3xf32>) -> tensor<1x3x5x1xf32>
  func.return
}

// CHECK-LABEL: @linear(
// CHECK-NEXT: %0 = graph.linear %x, %w : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: %1 = graph.linear %x, %w, %b activation = <relu> : (tensor<2x4x3xf32>, tensor<3x3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: %2 = graph.linear %x, %w, %c residual(%x : tensor<2x4x3xf32>) : (tensor<2x4x3xf32>, tensor<3x3xf32>, tensor<1x1x3xf32>) -> tensor<2x4x3xf32>
// CHECK-NEXT: %3 = graph.linear %b, %w residual(%b : tensor<3xf32>) activation = <tanh> : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
// CHECK-NEXT: %4 = graph.linear %x, %w activation = <clip min = -5.000000e-01 max = 6.000000e+00> : (
// CHECK-NEXT: %5 = graph.linear %x, %w activation = <clip max = 6.000000e+00> : (
// CHECK-NEXT: %6 = graph.linear %x, %w activation = <gelu> : (
// CHECK-NEXT: %7 = graph.linear %x, %w activation = <gelu approximate = "tanh"> : (
// CHECK-NEXT: %8 = graph.linear %x, %w activation = <leaky_relu alpha = 1.000000e-01> : (
// CHECK-NEXT: %9 = graph.linear %x, %w activation = <hard_sigmoid alpha = 2.000000e-01 beta = 5.000000e-01> : (
// CHECK-NEXT: %10 = graph.linear %x, %w activation = <swish alpha = 1.000000e+00> : (
// CHECK-NEXT: %11 = graph.linear %x, %w activation = <sigmoid> : (
func.func @linear(%x: tensor<2x4x3xf32>, %w: tensor<3x3xf32>, %b: tensor<3xf32>, %c: tensor<1x1x3xf32>) {
  %0 = graph.linear %x, %w : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %1 = graph.linear %x, %w, %b activation = <relu> : (tensor<2x4x3xf32>, tensor<3x3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
  %2 = graph.linear %x, %w, %c residual(%x : tensor<2x4x3xf32>) : (tensor<2x4x3xf32>, tensor<3x3xf32>, tensor<1x1x3xf32>) -> tensor<2x4x3xf32>
  %3 = graph.linear %b, %w residual(%b : tensor<3xf32>) activation = <tanh> : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32>
  %4 = graph.linear %x, %w activation = <clip min = -0.5 max = 6.0> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %5 = graph.linear %x, %w activation = <clip max = 6.0> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %6 = graph.linear %x, %w activation = <gelu> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %7 = graph.linear %x, %w activation = <gelu approximate = "tanh"> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %8 = graph.linear %x, %w activation = <leaky_relu alpha = 0.1> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %9 = graph.linear %x, %w activation = <hard_sigmoid alpha = 0.2 beta = 0.5> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %10 = graph.linear %x, %w activation = <swish alpha = 1.0> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  %11 = graph.linear %x, %w activation = <sigmoid> : (tensor<2x4x3xf32>, tensor<3x3xf32>) -> tensor<2x4x3xf32>
  func.return
}

// CHECK-LABEL: @matmul(
// CHECK-NEXT: %y = graph.matmul %a, %b : (tensor<8x77x64xf32>, tensor<64x32xf32>) -> tensor<8x77x32xf32>
func.func @matmul(%a: tensor<8x77x64xf32>, %b: tensor<64x32xf32>) {
  %y = graph.matmul %a, %b : (tensor<8x77x64xf32>, tensor<64x32xf32>) -> tensor<8x77x32xf32>
  func.return
}

// CHECK-LABEL: @max_pool(
// CHECK-NEXT: %y = graph.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] : (tensor<1x64x112x112xf32>) -> tensor<1x64x56x56xf32>
func.func @max_pool(%x: tensor<1x64x112x112xf32>) {
  %y = graph.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] : (tensor<1x64x112x112xf32>) -> tensor<1x64x56x56xf32>
  func.return
}

// CHECK-LABEL: @max_pool_5(
// CHECK-NEXT: %y = graph.max_pool %x kernel = [2] strides = [2] dilations = [2] ceil_mode : (tensor<1x1x6xi8>) -> tensor<1x1x3xi8>
func.func @max_pool_5(%x: tensor<1x1x6xi8>) {
  %y = graph.max_pool %x kernel = [2] strides = [2] dilations = [2] ceil_mode : (tensor<1x1x6xi8>) -> tensor<1x1x3xi8>
  func.return
}

// CHECK-LABEL: @det(
// CHECK-NEXT: %y = graph.det %x : (tensor<8x3x3xf32>) -> tensor<8xf32>
func.func @det(%x: tensor<8x3x3xf32>) {
  %y = graph.det %x : (tensor<8x3x3xf32>) -> tensor<8xf32>
  func.return
}

// CHECK-LABEL: @max_pool_with_indices(
// CHECK-NEXT: %y, %i = graph.max_pool_with_indices %x kernel = [2] strides = [2] pads = [1, 0] ceil_mode column_major : (tensor<1x2x4xf32>) -> (tensor<1x2x3xf32>, tensor<1x2x3xi64>)
func.func @max_pool_with_indices(%x: tensor<1x2x4xf32>) {
  %y, %i = graph.max_pool_with_indices %x kernel = [2] strides = [2] pads = [1, 0] ceil_mode column_major
    : (tensor<1x2x4xf32>) -> (tensor<1x2x3xf32>, tensor<1x2x3xi64>)
  func.return
}
