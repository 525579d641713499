// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// Transposed windows print as they are read, also through the generic form.

// CHECK-LABEL: @conv_transpose(
// CHECK-NEXT: %y = graph.conv_transpose %x, %w : (tensor<1x4x3xf32>, tensor<4x2x2xf32>) -> tensor<1x2x4xf32>
func.func @conv_transpose(%x: tensor<1x4x3xf32>, %w: tensor<4x2x2xf32>) {
  %y = graph.conv_transpose %x, %w : (tensor<1x4x3xf32>, tensor<4x2x2xf32>) -> tensor<1x2x4xf32>
  func.return
}

// CHECK-LABEL: @conv_transpose_with_all_attributes(
// CHECK-NEXT: %y = graph.conv_transpose %x, %w, %b strides = [2] pads = [1, 0] dilations = [3] output_padding = [1] group = 2 : (tensor<1x4x3xf32>, tensor<4x2x2xf32>, tensor<4xf32>) -> tensor<1x4x8xf32>
func.func @conv_transpose_with_all_attributes(%x: tensor<1x4x3xf32>, %w: tensor<4x2x2xf32>, %b: tensor<4xf32>) {
  %y = graph.conv_transpose %x, %w, %b strides = [2] pads = [1, 0] dilations = [3] output_padding = [1] group = 2
    : (tensor<1x4x3xf32>, tensor<4x2x2xf32>, tensor<4xf32>) -> tensor<1x4x8xf32>
  func.return
}

// CHECK-LABEL: @col2im(
// CHECK-NEXT: %y = graph.col2im %x image = [5, 6] kernel = [2, 3] strides = [2, 1] pads = [1, 0, 0, 0] dilations = [2, 1] : (tensor<1x12x8xi8>) -> tensor<1x2x5x6xi8>
func.func @col2im(%x: tensor<1x12x8xi8>) {
  %y = graph.col2im %x image = [5, 6] kernel = [2, 3] strides = [2, 1] pads = [1, 0, 0, 0] dilations = [2, 1]
    : (tensor<1x12x8xi8>) -> tensor<1x2x5x6xi8>
  func.return
}
