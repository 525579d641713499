// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Channels-last operations are checked as those on channels-first tensors are.

func.func @main(%x: tensor<4x4xf32>, %w: tensor<3x3x4x5xf32>) {
  // expected-error @below {{expected a rank of 3 to 5, found tensor<4x4xf32>}}
  %y = graph.channels_last_conv %x, %w : (tensor<4x4xf32>, tensor<3x3x4x5xf32>) -> tensor<4x4xf32>
  func.return
}

// -----

// As if the channels came first.
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<3x3x4x6xf32>) {
  // expected-error @below {{expected 1 groups to divide 6 features, and 8 channels into groups of 4}}
  %y = graph.channels_last_conv %x, %w : (tensor<1x4x8x8xf32>, tensor<3x3x4x6xf32>) -> tensor<1x2x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x4x6xf32>) {
  // expected-error @below {{expected result type tensor<1x6x6x6xf32>, found tensor<1x6x6x5xf32>}}
  %y = graph.channels_last_conv %x, %w : (tensor<1x8x8x4xf32>, tensor<3x3x4x6xf32>) -> tensor<1x6x6x5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x8x4xf32>) {
  // expected-error @below {{expected spatial sizes of at least the window's extent}}
  %y = graph.channels_last_max_pool %x kernel = [3, 3] : (tensor<1x2x8x4xf32>) -> tensor<1x1x6x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x8x4xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the input, found}}
  %y = graph.channels_last_average_pool %x kernel = [3, 3] : (tensor<1x8x8x4xi32>) -> tensor<1x6x6x4xi32>
  func.return
}
