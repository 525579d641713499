// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// Products of integers print as they are read, also through the generic form.

// CHECK-LABEL: @integer_matmul(
// CHECK-NEXT: %y = graph.integer_matmul %a, %b : (tensor<8x77x64xi8>, tensor<64x32xi16>) -> tensor<8x77x32xf32>
func.func @integer_matmul(%a: tensor<8x77x64xi8>, %b: tensor<64x32xi16>) {
  %y = graph.integer_matmul %a, %b : (tensor<8x77x64xi8>, tensor<64x32xi16>) -> tensor<8x77x32xf32>
  func.return
}

// CHECK-LABEL: @integer_conv(
// CHECK-NEXT: %y = graph.integer_conv %x, %w : (tensor<1x4x7x6xi8>, tensor<6x4x3x2xi8>) -> tensor<1x6x5x5xf32>
func.func @integer_conv(%x: tensor<1x4x7x6xi8>, %w: tensor<6x4x3x2xi8>) {
  %y = graph.integer_conv %x, %w : (tensor<1x4x7x6xi8>, tensor<6x4x3x2xi8>) -> tensor<1x6x5x5xf32>
  func.return
}

// CHECK-LABEL: @integer_conv_padded(
// CHECK-NEXT: %y = graph.integer_conv %x, %w strides = [2] pads = [1, 0] dilations = [3] group = 2 pad_value = -128 : (tensor<2x4x9xi8>, tensor<6x2x3xi8>) -> tensor<2x6x2xf32>
func.func @integer_conv_padded(%x: tensor<2x4x9xi8>, %w: tensor<6x2x3xi8>) {
  %y = graph.integer_conv %x, %w strides = [2] pads = [1, 0] dilations = [3] group = 2 pad_value = -128
    : (tensor<2x4x9xi8>, tensor<6x2x3xi8>) -> tensor<2x6x2xf32>
  func.return
}
