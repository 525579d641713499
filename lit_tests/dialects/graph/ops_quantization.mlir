// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The operations of quantization print as they are read, also through the generic form.

// CHECK-LABEL: @quantize(
// CHECK-NEXT: %y = graph.quantize %x, %scale, %zero : (tensor<2x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x3xui8>
// CHECK-NEXT: %y2 = graph.quantize %x, %scale : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi16>
// CHECK-NEXT: %y3 = graph.quantize %x, %scale saturate : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf8E5M2>
func.func @quantize(%x: tensor<2x3xf32>, %scale: tensor<f32>, %zero: tensor<ui8>) {
  %y = graph.quantize %x, %scale, %zero : (tensor<2x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x3xui8>
  %y2 = graph.quantize %x, %scale : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi16>
  %y3 = graph.quantize %x, %scale saturate : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf8E5M2>
  func.return
}

// CHECK-LABEL: @dequantize(
// CHECK-NEXT: %y = graph.dequantize %x, %scale, %zero : (tensor<2x3xi8>, tensor<2x1xf16>, tensor<2x1xi8>) -> tensor<2x3xf16>
// CHECK-NEXT: %y2 = graph.dequantize %x, %scale : (tensor<2x3xi8>, tensor<2x1xf16>) -> tensor<2x3xf16>
func.func @dequantize(%x: tensor<2x3xi8>, %scale: tensor<2x1xf16>, %zero: tensor<2x1xi8>) {
  %y = graph.dequantize %x, %scale, %zero : (tensor<2x3xi8>, tensor<2x1xf16>, tensor<2x1xi8>) -> tensor<2x3xf16>
  %y2 = graph.dequantize %x, %scale : (tensor<2x3xi8>, tensor<2x1xf16>) -> tensor<2x3xf16>
  func.return
}

// Convolutions of integers are what integer operators become.

// CHECK-LABEL: @integer_conv(
// CHECK-NEXT: %y = graph.conv %x, %w, %b : (tensor<1x2x5xi32>, tensor<3x2x2xi32>, tensor<3xi32>) -> tensor<1x3x4xi32>
func.func @integer_conv(%x: tensor<1x2x5xi32>, %w: tensor<3x2x2xi32>, %b: tensor<3xi32>) {
  %y = graph.conv %x, %w, %b : (tensor<1x2x5xi32>, tensor<3x2x2xi32>, tensor<3xi32>) -> tensor<1x3x4xi32>
  func.return
}
