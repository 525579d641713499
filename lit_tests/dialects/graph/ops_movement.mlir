// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The movement operations print as they are read, also through the generic form.

// CHECK-LABEL: @concat(
// CHECK-NEXT: %y = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
func.func @concat(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) {
  %y = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  func.return
}

// CHECK-LABEL: @constant(
// CHECK-NEXT: %c = graph.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
func.func @constant() {
  %c = graph.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  func.return
}

// CHECK-LABEL: @constant_2(
// CHECK-NEXT: %w = graph.constant #mlopt.weight<"fc1.weight"> : tensor<256x128xf32>
func.func @constant_2() {
  %w = graph.constant #mlopt.weight<"fc1.weight"> : tensor<256x128xf32>
  func.return
}

// CHECK-LABEL: @constant_3(
// CHECK-NEXT: %y = graph.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, -0.000000e+00, 0x4B800000]> : tensor<5xf32>
func.func @constant_3() {
  %y = graph.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000, -0.000000e+00, 0x4B800000]> : tensor<5xf32>
  func.return
}

// CHECK-LABEL: @constant_4(
// CHECK-NEXT: %y = graph.constant dense<[0, 255]> : tensor<2xui8>
func.func @constant_4() {
  %y = graph.constant dense<[0, 255]> : tensor<2xui8>
  func.return
}

// CHECK-LABEL: @constant_5(
// CHECK-NEXT: %y = graph.constant dense<true> : tensor<i1>
func.func @constant_5() {
  %y = graph.constant dense<true> : tensor<i1>
  func.return
}

// CHECK-LABEL: @constant_6(
// CHECK-NEXT: %y = graph.constant dense<> : tensor<0x3xbf16>
func.func @constant_6() {
  %y = graph.constant dense<> : tensor<0x3xbf16>
  func.return
}

// CHECK-LABEL: @expand(
// CHECK-NEXT: %y = graph.expand %x : tensor<3x1xf32> to tensor<2x3x4xf32>
func.func @expand(%x: tensor<3x1xf32>) {
  %y = graph.expand %x : tensor<3x1xf32> to tensor<2x3x4xf32>
  func.return
}

// CHECK-LABEL: @gather_elements(
// CHECK-NEXT: %y = graph.gather_elements %x, %i axis = 1 : (tensor<2x9xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
func.func @gather_elements(%x: tensor<2x9xf32>, %i: tensor<2x3xi64>) {
  %y = graph.gather_elements %x, %i axis = 1 : (tensor<2x9xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @gather_nd(
// CHECK-NEXT: %y = graph.gather_nd %x, %i : (tensor<2x9x4xf32>, tensor<5x2xi64>) -> tensor<5x4xf32>
func.func @gather_nd(%x: tensor<2x9x4xf32>, %i: tensor<5x2xi64>) {
  %y = graph.gather_nd %x, %i : (tensor<2x9x4xf32>, tensor<5x2xi64>) -> tensor<5x4xf32>
  func.return
}

// CHECK-LABEL: @gather_nd_10(
// CHECK-NEXT: %y = graph.gather_nd %x, %i batch_dims = 1 : (tensor<2x9x4xf32>, tensor<2x5x1xi32>) -> tensor<2x5x4xf32>
func.func @gather_nd_10(%x: tensor<2x9x4xf32>, %i: tensor<2x5x1xi32>) {
  %y = graph.gather_nd %x, %i batch_dims = 1 : (tensor<2x9x4xf32>, tensor<2x5x1xi32>) -> tensor<2x5x4xf32>
  func.return
}

// CHECK-LABEL: @gather(
// CHECK-NEXT: %y = graph.gather %table, %ids axis = 0 : (tensor<32000x256xf32>, tensor<77xi64>) -> tensor<77x256xf32>
func.func @gather(%table: tensor<32000x256xf32>, %ids: tensor<77xi64>) {
  %y = graph.gather %table, %ids axis = 0 : (tensor<32000x256xf32>, tensor<77xi64>) -> tensor<77x256xf32>
  func.return
}

// CHECK-LABEL: @pad(
// CHECK-NEXT: %y = graph.pad %x low = [0, 1] high = [2, -1] value = 0.000000e+00 : f32 : (tensor<2x3xf32>) -> tensor<4x3xf32>
func.func @pad(%x: tensor<2x3xf32>) {
  %y = graph.pad %x low = [0, 1] high = [2, -1] value = 0.000000e+00 : f32 : (tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}

// CHECK-LABEL: @pad_13(
// CHECK-NEXT: %y = graph.pad %x low = [1] high = [0] value = 0xFF800000 : f32 : (tensor<2xf32>) -> tensor<3xf32>
func.func @pad_13(%x: tensor<2xf32>) {
  %y = graph.pad %x low = [1] high = [0] value = 0xFF800000 : f32 : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// CHECK-LABEL: @pad_14(
// CHECK-NEXT: %y = graph.pad %x low = [1] high = [0] value = true : (tensor<2xi1>) -> tensor<3xi1>
func.func @pad_14(%x: tensor<2xi1>) {
  %y = graph.pad %x low = [1] high = [0] value = true : (tensor<2xi1>) -> tensor<3xi1>
  func.return
}

// CHECK-LABEL: @range(
// CHECK-NEXT: %r = graph.range start = 0 : i64 delta = 1 : i64 length = 16 : tensor<16xi64>
func.func @range() {
  %r = graph.range start = 0 : i64 delta = 1 : i64 length = 16 : tensor<16xi64>
  func.return
}

// CHECK-LABEL: @range_16(
// CHECK-NEXT: %y = graph.range start = 5.000000e-01 : f16 delta = -1.000000e+00 : f16 length = 0 : tensor<0xf16>
func.func @range_16() {
  %y = graph.range start = 5.000000e-01 : f16 delta = -1.000000e+00 : f16 length = 0 : tensor<0xf16>
  func.return
}

// CHECK-LABEL: @reshape(
// CHECK-NEXT: %y = graph.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
func.func @reshape(%x: tensor<2x3x4xf32>) {
  %y = graph.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  func.return
}

// CHECK-LABEL: @shape(
// CHECK-NEXT: %s = graph.shape %x start = 0 end = 2 : (tensor<2x3x4xf32>) -> tensor<2xi64>
func.func @shape(%x: tensor<2x3x4xf32>) {
  %s = graph.shape %x start = 0 end = 2 : (tensor<2x3x4xf32>) -> tensor<2xi64>
  func.return
}

// CHECK-LABEL: @shape_19(
// CHECK-NEXT: %y = graph.shape %x : (tensor<2x0x4xf32>) -> tensor<3xi64>
func.func @shape_19(%x: tensor<2x0x4xf32>) {
  %y = graph.shape %x : (tensor<2x0x4xf32>) -> tensor<3xi64>
  func.return
}

// CHECK-LABEL: @slice(
// CHECK-NEXT: %y = graph.slice %x starts = [0, 8] stops = [2, -1] steps = [1, -1] : (tensor<4x9xf32>) -> tensor<2x9xf32>
func.func @slice(%x: tensor<4x9xf32>) {
  %y = graph.slice %x starts = [0, 8] stops = [2, -1] steps = [1, -1] : (tensor<4x9xf32>) -> tensor<2x9xf32>
  func.return
}

// CHECK-LABEL: @slice_21(
// CHECK-NEXT: %y = graph.slice %x starts = [1] stops = [3] : (tensor<4xui16>) -> tensor<2xui16>
func.func @slice_21(%x: tensor<4xui16>) {
  %y = graph.slice %x starts = [1] stops = [3] : (tensor<4xui16>) -> tensor<2xui16>
  func.return
}

// CHECK-LABEL: @split(
// CHECK-NEXT: %a, %b = graph.split %x axis = 0 : (tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>)
func.func @split(%x: tensor<6x3xf32>) {
  %a, %b = graph.split %x axis = 0 : (tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>)
  func.return
}

// CHECK-LABEL: @transpose(
// CHECK-NEXT: %y = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
func.func @transpose(%x: tensor<2x3x4xf32>) {
  %y = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  func.return
}

// CHECK-LABEL: @transpose_24(
// CHECK-NEXT: %y = graph.transpose %x perm = [] : (tensor<f64>) -> tensor<f64>
func.func @transpose_24(%x: tensor<f64>) {
  %y = graph.transpose %x perm = [] : (tensor<f64>) -> tensor<f64>
  func.return
}
