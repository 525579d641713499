// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifiers of scatters, of operations along an axis in an order, and of determinants.

func.func @main(%x: tensor<2x3xf32>, %i: tensor<2x3xi8>, %u: tensor<2x3xf32>) {
  // expected-error @below {{expected i32 or i64 elements for the indices, found tensor<2x3xi8>}}
  %y = graph.scatter_elements %x, %i, %u axis = 0 : (tensor<2x3xf32>, tensor<2x3xi8>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xi32>) {
  // expected-error @below {{expected f32 elements for the updates, found tensor<2x3xi32>}}
  %y = graph.scatter_elements %x, %i, %u axis = 0 : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x3xi32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>) {
  // expected-error @below {{expected a reduction (one of none, add, mul, max, min), found 'or'}}
  %y = graph.scatter_elements %x, %i, %u axis = 0 reduction = "or" : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi1>, %i: tensor<3xi64>, %u: tensor<3xi1>) {
  // expected-error @below {{expected floating-point or integer elements for a reduction, found tensor<3xi1>}}
  %y = graph.scatter_elements %x, %i, %u axis = 0 reduction = "max" : (tensor<3xi1>, tensor<3xi64>, tensor<3xi1>) -> tensor<3xi1>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>) {
  // expected-error @below {{expected an axis in [0, 2), found 2}}
  %y = graph.scatter_elements %x, %i, %u axis = 2 : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<3x3xi64>, %u: tensor<3x3xf32>) {
  // expected-error @below {{expected indices within tensor<2x3xf32> but for axis 1, found tensor<3x3xi64>}}
  %y = graph.scatter_elements %x, %i, %u axis = 1 : (tensor<2x3xf32>, tensor<3x3xi64>, tensor<3x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x2xf32>) {
  // expected-error @below {{expected shape [2, 3] for the updates, found tensor<2x2xf32>}}
  %y = graph.scatter_elements %x, %i, %u axis = 1 : (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<i64>, %u: tensor<3xf32>) {
  // expected-error @below {{expected rank 1 or more for the indices, found tensor<i64>}}
  %y = graph.scatter_nd %x, %i, %u : (tensor<2x3xf32>, tensor<i64>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<4x3xi64>, %u: tensor<4xf32>) {
  // expected-error @below {{expected index tuples of at most 2 numbers, found tensor<4x3xi64>}}
  %y = graph.scatter_nd %x, %i, %u : (tensor<2x3xf32>, tensor<4x3xi64>, tensor<4xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<4x1xi64>, %u: tensor<4xf32>) {
  // expected-error @below {{expected shape [4, 3] for the updates, found tensor<4xf32>}}
  %y = graph.scatter_nd %x, %i, %u : (tensor<2x3xf32>, tensor<4x1xi64>, tensor<4xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xi1>) {
  // expected-error @below {{expected floating-point or integer elements for the operand, found tensor<2x3xi1>}}
  %y = graph.cum_sum %x axis = 0 : tensor<2x3xi1>
  func.return
}

// -----

func.func @main(%x: tensor<f32>) {
  // expected-error @below {{expected an axis in [0, 0), found 0}}
  %y = graph.cum_prod %x axis = 0 : tensor<f32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi1>) {
  // expected-error @below {{expected floating-point or integer elements for the operand, found tensor<3xi1>}}
  %v, %i = graph.top_k %x axis = 0 k = 1 : (tensor<3xi1>) -> (tensor<1xi1>, tensor<1xi64>)
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected an axis in [0, 1), found 1}}
  %v, %i = graph.top_k %x axis = 1 k = 1 : (tensor<3xf32>) -> (tensor<1xf32>, tensor<1xi64>)
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected k in [0, 3], found 4}}
  %v, %i = graph.top_k %x axis = 0 k = 4 : (tensor<3xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected result type tensor<2xi64>, found tensor<2xi32>}}
  %v, %i = graph.top_k %x axis = 0 k = 2 : (tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  func.return
}

// -----

func.func @main(%x: tensor<3x3xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the operand, found tensor<3x3xi32>}}
  %y = graph.det %x : (tensor<3x3xi32>) -> tensor<i32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected rank 2 or more for the operand, found tensor<3xf32>}}
  %y = graph.det %x : (tensor<3xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected square matrices, found tensor<2x3xf32>}}
  %y = graph.det %x : (tensor<2x3xf32>) -> tensor<f32>
  func.return
}
