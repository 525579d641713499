// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// CHECK-LABEL: @resize(
// CHECK-NEXT: %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [1.000000e+00, 6.000000e-01, 2.000000e+00] : (tensor<3x5x4xf32>) -> tensor<3x3x8xf32>
func.func @resize(%x: tensor<3x5x4xf32>) {
  %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [1.0, 0.6, 2.0]
    : (tensor<3x5x4xf32>) -> tensor<3x3x8xf32>
  func.return
}

// CHECK-LABEL: @resize_with_all_attributes(
// CHECK-NEXT: mode = "cubic" coordinates = "tf_crop_and_resize" scales = [1.000000e+00, 5.000000e-01] nearest = "ceil" cubic_a = -5.000000e-01 roi = [0.000000e+00, 2.500000e-01, 1.000000e+00, 7.500000e-01] extrapolation = 7.000000e+00 exclude_outside antialias fractional : (tensor<3x5xui8>) -> tensor<3x2xui8>
func.func @resize_with_all_attributes(%x: tensor<3x5xui8>) {
  %y = graph.resize %x mode = "cubic" coordinates = "tf_crop_and_resize" scales = [1.0, 0.5] nearest = "ceil"
    cubic_a = -0.5 roi = [0.0, 0.25, 1.0, 0.75] extrapolation = 7.0 exclude_outside antialias fractional
    : (tensor<3x5xui8>) -> tensor<3x2xui8>
  func.return
}
