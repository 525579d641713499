// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message about products of integers; shapes are checked as those of graph.matmul and graph.conv.

func.func @main(%a: tensor<2x3xui8>, %b: tensor<3x2xi8>) {
  // expected-error @below {{expected i8 or i16 elements for the first factor, found tensor<2x3xui8>}}
  %y = graph.integer_matmul %a, %b : (tensor<2x3xui8>, tensor<3x2xi8>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xi8>, %b: tensor<3x2xi32>) {
  // expected-error @below {{expected i8 or i16 elements for the second factor, found tensor<3x2xi32>}}
  %y = graph.integer_matmul %a, %b : (tensor<2x3xi8>, tensor<3x2xi32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xi8>, %b: tensor<3x2xi8>) {
  // expected-error @below {{expected result type tensor<2x2xf32>, found tensor<2x2xi32>}}
  %y = graph.integer_matmul %a, %b : (tensor<2x3xi8>, tensor<3x2xi8>) -> tensor<2x2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x9xi8>, %w: tensor<6x4x3xi8>) {
  // expected-error @below {{expected a pad_value of type i8, found 128}}
  %y = graph.integer_conv %x, %w pad_value = 128 : (tensor<1x4x9xi8>, tensor<6x4x3xi8>) -> tensor<1x6x7xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x9xi8>, %w: tensor<6x3x3xi8>) {
  // expected-error @below {{expected 1 groups to divide 6 features, and 4 channels into groups of 3}}
  %y = graph.integer_conv %x, %w : (tensor<1x4x9xi8>, tensor<6x3x3xi8>) -> tensor<1x6x7xf32>
  func.return
}
