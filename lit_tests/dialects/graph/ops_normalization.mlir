// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The normalization operations print as they are read, also through the generic form.

// CHECK-LABEL: @batch_norm(
// CHECK-NEXT: %y = graph.batch_norm %x, %scale, %bias, %mean, %variance epsilon = 1.000000e-05 : (tensor<1x8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4xf32>
func.func @batch_norm(%x: tensor<1x8x4xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>, %mean: tensor<8xf32>, %variance: tensor<8xf32>) {
  %y = graph.batch_norm %x, %scale, %bias, %mean, %variance epsilon = 1.000000e-05 : (tensor<1x8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4xf32>
  func.return
}

// CHECK-LABEL: @group_norm(
// CHECK-NEXT: %y = graph.group_norm %x, %s, %b groups = 2 epsilon = 1.000000e-05 : (tensor<1x8x7x7xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x7x7xf32>
func.func @group_norm(%x: tensor<1x8x7x7xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) {
  %y = graph.group_norm %x, %s, %b groups = 2 epsilon = 1.000000e-05 : (tensor<1x8x7x7xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x7x7xf32>
  func.return
}

// CHECK-LABEL: @layer_norm(
// CHECK-NEXT: %y = graph.layer_norm %x, %scale, %bias axis = 2 epsilon = 1.000000e-05 : (tensor<1x77x256xf32>, tensor<256xf32>, tensor<256xf32>) -> tensor<1x77x256xf32>
func.func @layer_norm(%x: tensor<1x77x256xf32>, %scale: tensor<256xf32>, %bias: tensor<256xf32>) {
  %y = graph.layer_norm %x, %scale, %bias axis = 2 epsilon = 1.000000e-05 : (tensor<1x77x256xf32>, tensor<256xf32>, tensor<256xf32>) -> tensor<1x77x256xf32>
  func.return
}

// CHECK-LABEL: @layer_norm_2(
// CHECK-NEXT: %y = graph.layer_norm %x, %scale axis = 1 epsilon = 9.999999960041972e-13 : (tensor<2x3xf16>, tensor<3xf16>) -> tensor<2x3xf16>
func.func @layer_norm_2(%x: tensor<2x3xf16>, %scale: tensor<3xf16>) {
  %y = graph.layer_norm %x, %scale axis = 1 epsilon = 9.999999960041972e-13 : (tensor<2x3xf16>, tensor<3xf16>) -> tensor<2x3xf16>
  func.return
}

// CHECK-LABEL: @log_softmax(
// CHECK-NEXT: %y = graph.log_softmax %x axis = 1 : tensor<4x8xf32>
func.func @log_softmax(%x: tensor<4x8xf32>) {
  %y = graph.log_softmax %x axis = 1 : tensor<4x8xf32>
  func.return
}

// CHECK-LABEL: @rms_norm(
// CHECK-NEXT: %y = graph.rms_norm %x, %scale axis = 2 epsilon = 1.000000e-05 : (tensor<1x77x256xf32>, tensor<256xf32>) -> tensor<1x77x256xf32>
func.func @rms_norm(%x: tensor<1x77x256xf32>, %scale: tensor<256xf32>) {
  %y = graph.rms_norm %x, %scale axis = 2 epsilon = 1.000000e-05 : (tensor<1x77x256xf32>, tensor<256xf32>) -> tensor<1x77x256xf32>
  func.return
}

// CHECK-LABEL: @softmax(
// CHECK-NEXT: %y = graph.softmax %x axis = 3 : tensor<1x2x8x8xf32>
func.func @softmax(%x: tensor<1x2x8x8xf32>) {
  %y = graph.softmax %x axis = 3 : tensor<1x2x8x8xf32>
  func.return
}
