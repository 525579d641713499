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
