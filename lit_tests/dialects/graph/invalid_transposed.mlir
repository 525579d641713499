// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifiers of transposed windows.

func.func @main(%x: tensor<1x4xf32>, %w: tensor<4x2xf32>) {
  // expected-error @below {{expected an input of rank 3 to 5, found tensor<1x4xf32>}}
  %y = graph.conv_transpose %x, %w : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x3xf32>, %w: tensor<4x2xf32>) {
  // expected-error @below {{expected a weight of the input's rank 3, found tensor<4x2xf32>}}
  %y = graph.conv_transpose %x, %w : (tensor<1x4x3xf32>, tensor<4x2xf32>) -> tensor<1x2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x3xf32>, %w: tensor<3x2x2xf32>) {
  // expected-error @below {{expected 1 groups to divide 4 channels, and as many channels in the weight, found tensor<3x2x2xf32>}}
  %y = graph.conv_transpose %x, %w : (tensor<1x4x3xf32>, tensor<3x2x2xf32>) -> tensor<1x2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x3xf32>, %w: tensor<4x2x2xf32>) {
  // expected-error @below {{expected 1 output_padding of 0 or more, found [-1]}}
  %y = graph.conv_transpose %x, %w output_padding = [-1] : (tensor<1x4x3xf32>, tensor<4x2x2xf32>) -> tensor<1x2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x3xf32>, %w: tensor<4x2x2xf32>) {
  // expected-error @below {{expected a result of sizes of 0 or more, found [-2]}}
  %y = graph.conv_transpose %x, %w pads = [3, 3] : (tensor<1x4x3xf32>, tensor<4x2x2xf32>) -> tensor<1x2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x16xf32>) {
  // expected-error @below {{expected an image and a kernel of one rank, found [5, 5] and [2]}}
  %y = graph.col2im %x image = [5, 5] kernel = [2] : (tensor<1x4x16xf32>) -> tensor<1x1x5x5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x9xf32>) {
  // expected-error @below {{expected an input of rank 3 with a multiple of 4 rows and 16 columns, found tensor<1x4x9xf32>}}
  %y = graph.col2im %x image = [5, 5] kernel = [2, 2] : (tensor<1x4x9xf32>) -> tensor<1x1x5x5xf32>
  func.return
}
