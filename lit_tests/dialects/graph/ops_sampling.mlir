// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The sampling operations print as they are read, also through the generic form.

// CHECK-LABEL: @grid_sample(
// CHECK-NEXT: %y = graph.grid_sample %x, %g mode = "cubic" padding = "border" align_corners : (tensor<2x3x5x4xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
func.func @grid_sample(%x: tensor<2x3x5x4xf32>, %g: tensor<2x6x7x2xf32>) {
  %y = graph.grid_sample %x, %g mode = "cubic" padding = "border" align_corners
    : (tensor<2x3x5x4xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32>
  func.return
}

// CHECK-LABEL: @grid_sample_in_3_dimensions(
// CHECK-NEXT: %y = graph.grid_sample %x, %g mode = "nearest" padding = "zeros" : (tensor<1x2x5x4x3xi8>, tensor<1x6x7x8x3xf16>) -> tensor<1x2x6x7x8xi8>
func.func @grid_sample_in_3_dimensions(%x: tensor<1x2x5x4x3xi8>, %g: tensor<1x6x7x8x3xf16>) {
  %y = graph.grid_sample %x, %g mode = "nearest" padding = "zeros"
    : (tensor<1x2x5x4x3xi8>, tensor<1x6x7x8x3xf16>) -> tensor<1x2x6x7x8xi8>
  func.return
}

// CHECK-LABEL: @roi_align(
// CHECK-NEXT: %y = graph.roi_align %x, %r, %b mode = "max" size = [3, 2] samples = 2 scale = 2.500000e-01 half_pixel : (tensor<2x3x5x4xf32>, tensor<7x4xf32>, tensor<7xi64>) -> tensor<7x3x3x2xf32>
func.func @roi_align(%x: tensor<2x3x5x4xf32>, %r: tensor<7x4xf32>, %b: tensor<7xi64>) {
  %y = graph.roi_align %x, %r, %b mode = "max" size = [3, 2] samples = 2 scale = 0.25 half_pixel
    : (tensor<2x3x5x4xf32>, tensor<7x4xf32>, tensor<7xi64>) -> tensor<7x3x3x2xf32>
  func.return
}

// CHECK-LABEL: @deform_conv(
// CHECK-NEXT: %y = graph.deform_conv %x, %w, %o, %m strides = [2, 1] pads = [1, 0, 1, 0] dilations = [1, 2] group = 2 offset_group = 4 : (tensor<1x4x6x5xf32>, tensor<6x2x2x2xf32>, tensor<1x32x4x3xf32>, tensor<1x16x4x3xf32>) -> tensor<1x6x4x3xf32>
func.func @deform_conv(
    %x: tensor<1x4x6x5xf32>, %w: tensor<6x2x2x2xf32>, %o: tensor<1x32x4x3xf32>, %m: tensor<1x16x4x3xf32>) {
  %y = graph.deform_conv %x, %w, %o, %m strides = [2, 1] pads = [1, 0, 1, 0] dilations = [1, 2] group = 2 offset_group = 4
    : (tensor<1x4x6x5xf32>, tensor<6x2x2x2xf32>, tensor<1x32x4x3xf32>, tensor<1x16x4x3xf32>) -> tensor<1x6x4x3xf32>
  func.return
}
