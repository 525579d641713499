// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// Windows over channels-last tensors print as they are read, also through the generic form.

// CHECK-LABEL: @conv(
// CHECK-NEXT: %y = graph.channels_last_conv %x, %w, %b residual(%r : tensor<2x4x3x6xf32>) strides = [2, 1] pads = [1, 0, 1, 1] dilations = [1, 2] group = 2 activation = <relu> : (tensor<2x7x6x4xf32>, tensor<3x3x2x6xf32>, tensor<6xf32>) -> tensor<2x4x3x6xf32>
func.func @conv(%x: tensor<2x7x6x4xf32>, %w: tensor<3x3x2x6xf32>, %b: tensor<6xf32>, %r: tensor<2x4x3x6xf32>) {
  %y = graph.channels_last_conv %x, %w, %b residual(%r : tensor<2x4x3x6xf32>) strides = [2, 1] pads = [1, 0, 1, 1]
    dilations = [1, 2] group = 2 activation = <relu>
    : (tensor<2x7x6x4xf32>, tensor<3x3x2x6xf32>, tensor<6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// CHECK-LABEL: @conv_of_one_dimension(
// CHECK-NEXT: %y = graph.channels_last_conv %x, %w : (tensor<1x9x4xf16>, tensor<3x4x5xf16>) -> tensor<1x7x5xf16>
func.func @conv_of_one_dimension(%x: tensor<1x9x4xf16>, %w: tensor<3x4x5xf16>) {
  %y = graph.channels_last_conv %x, %w : (tensor<1x9x4xf16>, tensor<3x4x5xf16>) -> tensor<1x7x5xf16>
  func.return
}

// CHECK-LABEL: @pools(
// CHECK-NEXT: %y = graph.channels_last_max_pool %x kernel = [3, 2] strides = [2, 2] pads = [1, 0, 1, 0] ceil_mode : (tensor<1x7x6x4xi8>) -> tensor<1x4x3x4xi8>
// CHECK-NEXT: %z = graph.channels_last_average_pool %f kernel = [2, 2, 2] count_include_pad : (tensor<1x4x4x4x3xf32>) -> tensor<1x3x3x3x3xf32>
func.func @pools(%x: tensor<1x7x6x4xi8>, %f: tensor<1x4x4x4x3xf32>) {
  %y = graph.channels_last_max_pool %x kernel = [3, 2] strides = [2, 2] pads = [1, 0, 1, 0] ceil_mode
    : (tensor<1x7x6x4xi8>) -> tensor<1x4x3x4xi8>
  %z = graph.channels_last_average_pool %f kernel = [2, 2, 2] count_include_pad
    : (tensor<1x4x4x4x3xf32>) -> tensor<1x3x3x3x3xf32>
  func.return
}
