// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

func.func @main() {
  // expected-error @below {{expected an operand from each way, found none}}
  %y = graph.all_reduce : () -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>) {
  // expected-error @below {{expected tensor<2x3xf32> of way 1, as of way 0, found tensor<2x1xf32>}}
  %y = graph.all_reduce %a, %b : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2xf32>, %b: tensor<2xf16>) {
  // expected-error @below {{expected tensor<2xf32> of way 1, as of way 0, found tensor<2xf16>}}
  %y = graph.all_reduce %a, %b : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2xi1>) {
  // expected-error @below {{expected floating-point or integer elements for the partial results, found tensor<2xi1>}}
  %y = graph.all_reduce %a, %a : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  func.return
}

// -----

func.func @main(%a: tensor<2xf32>) {
  // expected-error @below {{expected result type tensor<2xf32>, found tensor<4xf32>}}
  %y = graph.all_reduce %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected an operand from each way, found none}}
  %y = graph.all_gather axis = 0 : () -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>) {
  // expected-error @below {{expected operand 1 to be like tensor<2x3xf32> but for axis 1, found tensor<1x3xf32>}}
  %y = graph.all_gather %a, %b axis = 1 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2xf32>) {
  // expected-error @below {{axis}}
  %y = graph.all_gather %a, %a axis = 1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2xf32>) {
  // expected-error @below {{expected result type tensor<4xf32>, found tensor<2xf32>}}
  %y = graph.all_gather %a, %a axis = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}
