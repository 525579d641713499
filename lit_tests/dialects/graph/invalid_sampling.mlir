// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifiers of sampling operations.

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<1x3x3x2xf32>) {
  // expected-error @below {{expected mode to be one of "nearest", "linear", "cubic", found "area"}}
  %r = graph.grid_sample %x, %y mode = "area" padding = "zeros"
    : (tensor<1x2x5x4xf32>, tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<1x3x3x2xf32>) {
  // expected-error @below {{expected padding to be one of "zeros", "border", "reflection", found "wrap"}}
  %r = graph.grid_sample %x, %y mode = "linear" padding = "wrap"
    : (tensor<1x2x5x4xf32>, tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xi8>, %y: tensor<1x3x3x2xf32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the input, found tensor<1x2x5x4xi8>}}
  %r = graph.grid_sample %x, %y mode = "linear" padding = "zeros"
    : (tensor<1x2x5x4xi8>, tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<1x3x3x2xi8>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the grid, found tensor<1x3x3x2xi8>}}
  %r = graph.grid_sample %x, %y mode = "linear" padding = "zeros"
    : (tensor<1x2x5x4xf32>, tensor<1x3x3x2xi8>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5xf32>, %y: tensor<1x3x1xf32>) {
  // expected-error @below {{expected an input of rank 4 or 5, found tensor<1x2x5xf32>}}
  %r = graph.grid_sample %x, %y mode = "linear" padding = "zeros"
    : (tensor<1x2x5xf32>, tensor<1x3x1xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4x3xf32>, %y: tensor<1x3x3x3x3xf32>) {
  // expected-error @below {{expected an input of rank 4 for cubic interpolation, found tensor<1x2x5x4x3xf32>}}
  %r = graph.grid_sample %x, %y mode = "cubic" padding = "zeros"
    : (tensor<1x2x5x4x3xf32>, tensor<1x3x3x3x3xf32>) -> tensor<1x2x3x3x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x2x5x4xf32>, %y: tensor<1x3x3x2xf32>) {
  // expected-error @below {{expected a grid of rank 4 for batch 2, with 2 coordinates, found tensor<1x3x3x2xf32>}}
  %r = graph.grid_sample %x, %y mode = "linear" padding = "zeros"
    : (tensor<2x2x5x4xf32>, tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x0x4xf32>, %y: tensor<1x3x3x2xf32>) {
  // expected-error @below {{expected an image that is not empty, found tensor<1x2x0x4xf32>}}
  %r = graph.grid_sample %x, %y mode = "linear" padding = "zeros"
    : (tensor<1x2x0x4xf32>, tensor<1x3x3x2xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<3x4xf32>, %z: tensor<3xi64>) {
  // expected-error @below {{expected mode to be one of "avg", "max", found "sum"}}
  %r = graph.roi_align %x, %y, %z mode = "sum" size = [2, 2] samples = 1 scale = 1.0
    : (tensor<1x2x5x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<3x5xf32>, %z: tensor<3xi64>) {
  // expected-error @below {{expected rois of shape [r, 4], found tensor<3x5xf32>}}
  %r = graph.roi_align %x, %y, %z mode = "avg" size = [2, 2] samples = 1 scale = 1.0
    : (tensor<1x2x5x4xf32>, tensor<3x5xf32>, tensor<3xi64>) -> tensor<3x2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<3x4xf32>, %z: tensor<2xi64>) {
  // expected-error @below {{expected shape [3] for the batch indices, found tensor<2xi64>}}
  %r = graph.roi_align %x, %y, %z mode = "avg" size = [2, 2] samples = 1 scale = 1.0
    : (tensor<1x2x5x4xf32>, tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<3x4xf32>, %z: tensor<3xf32>) {
  // expected-error @below {{expected i32 or i64 elements for the batch indices, found tensor<3xf32>}}
  %r = graph.roi_align %x, %y, %z mode = "avg" size = [2, 2] samples = 1 scale = 1.0
    : (tensor<1x2x5x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x5x4xf32>, %y: tensor<3x4xf32>, %z: tensor<3xi64>) {
  // expected-error @below {{expected 2 sizes of 1 or more and samples of 0 or more, found [2, 2] and -1}}
  %r = graph.roi_align %x, %y, %z mode = "avg" size = [2, 2] samples = -1 scale = 1.0
    : (tensor<1x2x5x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x0x4xf32>, %y: tensor<3x4xf32>, %z: tensor<3xi64>) {
  // expected-error @below {{expected an image that is not empty, found tensor<1x2x0x4xf32>}}
  %r = graph.roi_align %x, %y, %z mode = "avg" size = [2, 2] samples = 1 scale = 1.0
    : (tensor<1x2x0x4xf32>, tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x6x5xf32>, %y: tensor<6x2x2xf32>, %z: tensor<1x8x5x4xf32>) {
  // expected-error @below {{expected an image that is not empty and a weight of rank 4, found tensor<1x4x6x5xf32> and tensor<6x2x2xf32>}}
  %r = graph.deform_conv %x, %y, %z
    : (tensor<1x4x6x5xf32>, tensor<6x2x2xf32>, tensor<1x8x5x4xf32>) -> tensor<1x6x5x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x6x5xf32>, %y: tensor<6x3x2x2xf32>, %z: tensor<1x8x5x4xf32>) {
  // expected-error @below {{expected 1 groups to divide 6 features, and 4 channels into groups of 3}}
  %r = graph.deform_conv %x, %y, %z
    : (tensor<1x4x6x5xf32>, tensor<6x3x2x2xf32>, tensor<1x8x5x4xf32>) -> tensor<1x6x5x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x6x5xf32>, %y: tensor<6x4x2x2xf32>, %z: tensor<1x8x5x4xf32>) {
  // expected-error @below {{expected 3 offset groups to divide 4 channels}}
  %r = graph.deform_conv %x, %y, %z offset_group = 3
    : (tensor<1x4x6x5xf32>, tensor<6x4x2x2xf32>, tensor<1x8x5x4xf32>) -> tensor<1x6x5x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x6x5xf32>, %y: tensor<6x4x2x2xf32>, %z: tensor<1x9x5x4xf32>) {
  // expected-error @below {{expected shape [1, 8, 5, 4] for the offset, found tensor<1x9x5x4xf32>}}
  %r = graph.deform_conv %x, %y, %z
    : (tensor<1x4x6x5xf32>, tensor<6x4x2x2xf32>, tensor<1x9x5x4xf32>) -> tensor<1x6x5x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x6x5xf32>, %y: tensor<6x4x2x2xf32>, %z: tensor<1x8x5x4xf32>, %w: tensor<1x8x5x4xf32>) {
  // expected-error @below {{expected shape [1, 4, 5, 4] for the mask, found tensor<1x8x5x4xf32>}}
  %r = graph.deform_conv %x, %y, %z, %w
    : (tensor<1x4x6x5xf32>, tensor<6x4x2x2xf32>, tensor<1x8x5x4xf32>, tensor<1x8x5x4xf32>) -> tensor<1x6x5x4xf32>
  func.return
}
