// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifier of recurrent layers.

func.func @main(%x: tensor<9x2x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected one of forward, reverse, bidirectional for the direction, found "both"}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "both" : (tensor<9x2x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<9x2x4xf16>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected f32 elements for the input, found tensor<9x2x4xf16>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<9x2x4xf16>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<0x2x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected at least one step of an input of rank 3, and a recurrence of rank 3, found tensor<0x2x4xf32> and tensor<1x12x3xf32>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<0x2x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<9x2x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x9x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected shape [1, 12, 3] for the recurrence, found tensor<1x9x3xf32>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<9x2x4xf32>, tensor<1x12x4xf32>, tensor<1x9x3xf32>, tensor<1x24xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<9x2x4xf32>, %w: tensor<1x12x5xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected shape [1, 12, 4] for the weight, found tensor<1x12x5xf32>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<9x2x4xf32>, tensor<1x12x5xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<9x2x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x12xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected shape [1, 24] for the bias, found tensor<1x12xf32>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<9x2x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x12xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<9x2x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x1x3xf32>, %c0: tensor<1x2x3xf32>) {
  // expected-error @below {{expected shape [1, 2, 3] for initial_h, found tensor<1x1x3xf32>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<9x2x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, tensor<1x1x3xf32>, tensor<1x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<9x2x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>, %h0: tensor<1x2x3xf32>, %c0: tensor<2x2x3xf32>) {
  // expected-error @below {{expected shape [1, 2, 3] for initial_c, found tensor<2x2x3xf32>}}
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "forward" : (tensor<9x2x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, tensor<1x2x3xf32>, tensor<2x2x3xf32>) -> (tensor<9x1x2x3xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  func.return
}
