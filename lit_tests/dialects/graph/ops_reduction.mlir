// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The reduction operations print as they are read, also through the generic form.

// CHECK-LABEL: @arg_max(
// CHECK-NEXT: %y = graph.arg_max %x axis = 1 : (tensor<2x3xf32>) -> tensor<2xi64>
func.func @arg_max(%x: tensor<2x3xf32>) {
  %y = graph.arg_max %x axis = 1 : (tensor<2x3xf32>) -> tensor<2xi64>
  func.return
}

// CHECK-LABEL: @arg_max_1(
// CHECK-NEXT: %y = graph.arg_max %x axis = 0 keepdims select_last : (tensor<2x3xi8>) -> tensor<1x3xi64>
func.func @arg_max_1(%x: tensor<2x3xi8>) {
  %y = graph.arg_max %x axis = 0 keepdims select_last : (tensor<2x3xi8>) -> tensor<1x3xi64>
  func.return
}

// CHECK-LABEL: @reduce_max(
// CHECK-NEXT: %y = graph.reduce_max %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
func.func @reduce_max(%x: tensor<2x3xf32>) {
  %y = graph.reduce_max %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return
}

// CHECK-LABEL: @reduce_mean(
// CHECK-NEXT: %y = graph.reduce_mean %x axes = [2, 3] keepdims : (tensor<1x8x4x4xf32>) -> tensor<1x8x1x1xf32>
func.func @reduce_mean(%x: tensor<1x8x4x4xf32>) {
  %y = graph.reduce_mean %x axes = [2, 3] keepdims : (tensor<1x8x4x4xf32>) -> tensor<1x8x1x1xf32>
  func.return
}

// CHECK-LABEL: @reduce_min(
// CHECK-NEXT: %y = graph.reduce_min %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
func.func @reduce_min(%x: tensor<2x3xf32>) {
  %y = graph.reduce_min %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return
}

// CHECK-LABEL: @reduce_prod(
// CHECK-NEXT: %y = graph.reduce_prod %x axes = [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
func.func @reduce_prod(%x: tensor<2x3xf32>) {
  %y = graph.reduce_prod %x axes = [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  func.return
}

// CHECK-LABEL: @reduce_sum(
// CHECK-NEXT: %y = graph.reduce_sum %x axes = [1] : (tensor<2x3xf32>) -> tensor<2xf32>
func.func @reduce_sum(%x: tensor<2x3xf32>) {
  %y = graph.reduce_sum %x axes = [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  func.return
}

// CHECK-LABEL: @reduce_sum_7(
// CHECK-NEXT: %y = graph.reduce_sum %x axes = [] : (tensor<ui64>) -> tensor<ui64>
func.func @reduce_sum_7(%x: tensor<ui64>) {
  %y = graph.reduce_sum %x axes = [] : (tensor<ui64>) -> tensor<ui64>
  func.return
}
