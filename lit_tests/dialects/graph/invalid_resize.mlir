// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifier of graph.resize.

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected mode to be one of "nearest", "linear", "cubic", found "area"}}
  %y = graph.resize %x mode = "area" coordinates = "half_pixel" scales = [2.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected coordinates to be one of "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", found "center"}}
  %y = graph.resize %x mode = "linear" coordinates = "center" scales = [2.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected nearest to be one of "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", found "up"}}
  %y = graph.resize %x mode = "nearest" coordinates = "half_pixel" scales = [2.0] nearest = "up" : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected 1 scales above 0, found [2.0, 1.0]}}
  %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [2.0, 1.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected 1 scales above 0, found [-2.0]}}
  %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [-2.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected antialias with mode "linear" or "cubic" only}}
  %y = graph.resize %x mode = "nearest" coordinates = "half_pixel" scales = [2.0] antialias : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected a roi with coordinates "tf_crop_and_resize", and only with them}}
  %y = graph.resize %x mode = "linear" coordinates = "tf_crop_and_resize" scales = [2.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected a roi of 2 numbers, found 1}}
  %y = graph.resize %x mode = "linear" coordinates = "tf_crop_and_resize" scales = [2.0] roi = [0.0] : (tensor<4xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected a result of rank 1, found tensor<2x4xf32>}}
  %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [2.0] : (tensor<4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected sizes of about the scaled ones, found tensor<4xf32> to tensor<10xf32> by [2.0]}}
  %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [2.0] : (tensor<4xf32>) -> tensor<10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected f32 elements for the result, found tensor<8xi32>}}
  %y = graph.resize %x mode = "linear" coordinates = "half_pixel" scales = [2.0] : (tensor<4xf32>) -> tensor<8xi32>
  func.return
}

// -----

func.func @main(%x: tensor<4xi1>) {
  // expected-error @below {{expected floating-point or integer elements for the operand, found tensor<4xi1>}}
  %y = graph.resize %x mode = "nearest" coordinates = "half_pixel" scales = [2.0] : (tensor<4xi1>) -> tensor<8xi1>
  func.return
}
