// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifiers of operations whose results have a size that depends on data.

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected result type tensor<2x6xi64>, found tensor<2x5xi64>}}
  %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x5xi64>, tensor<i64>)
  func.return
}

// -----

func.func @main(%x: tensor<4x2xf32>) {
  // expected-error @below {{expected an axis in [0, 2), found 2}}
  %v, %i, %p, %c, %n = graph.unique %x axis = 2 : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<i64>)
  func.return
}

// -----

func.func @main(%b: tensor<1x6x4xf32>, %s: tensor<1x2x5xf32>, %n: tensor<i64>, %t: tensor<f32>) {
  // expected-error @below {{expected boxes [batch, box, 4] and scores [batch, class, box], found [1, 6, 4] and [1, 2, 5]}}
  %y, %m = graph.non_max_suppression %b, %s, %n, %t most = 3 : (tensor<1x6x4xf32>, tensor<1x2x5xf32>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
  func.return
}

// -----

func.func @main(%b: tensor<1x6x4xf64>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %t: tensor<f32>) {
  // expected-error @below {{expected tensor<1x6x4xf32>, found tensor<1x6x4xf64>}}
  %y, %m = graph.non_max_suppression %b, %s, %n, %t most = 3 : (tensor<1x6x4xf64>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
  func.return
}

// -----

func.func @main(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %t: tensor<1xf32>) {
  // expected-error @below {{expected tensor<f32> for a threshold, found tensor<1xf32>}}
  %y, %m = graph.non_max_suppression %b, %s, %n, %t most = 3 : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<1xf32>) -> (tensor<6x3xi64>, tensor<i64>)
  func.return
}

// -----

func.func @main(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %t: tensor<f32>) {
  // expected-error @below {{expected at least 0 for most, found -1}}
  %y, %m = graph.non_max_suppression %b, %s, %n, %t most = -1 : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
  func.return
}

// -----

func.func @main(%a: tensor<i64>, %b: tensor<1xi64>) {
  // expected-error @below {{expected tensor<i64>, found tensor<1xi64>}}
  %n = graph.require_equal %a, %b : (tensor<i64>, tensor<1xi64>) -> tensor<i64>
  func.return
}

// -----

func.func @main(%x: tensor<9xf32>, %i: tensor<5x1xi64>, %u: tensor<5xf32>, %n: tensor<1xi64>) {
  // expected-error @below {{expected tensor<i64> for the count, found tensor<1xi64>}}
  %y = graph.scatter_nd %x, %i, %u count = %n : (tensor<9xf32>, tensor<5x1xi64>, tensor<5xf32>, tensor<1xi64>) -> tensor<9xf32>
  func.return
}

// -----

func.func @main(%x: tensor<9xf32>, %i: tensor<1xi64>, %u: tensor<f32>, %n: tensor<i64>) {
  // expected-error @below {{expected several index tuples, of which some count, found tensor<1xi64>}}
  %y = graph.scatter_nd %x, %i, %u count = %n : (tensor<9xf32>, tensor<1xi64>, tensor<f32>, tensor<i64>) -> tensor<9xf32>
  func.return
}
