// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the verifier of graph.attention.

func.func @main(%q: tensor<2x4x3x8xi32>, %k: tensor<2x4x5x8xi32>, %v: tensor<2x4x5x6xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the query, found tensor<2x4x3x8xi32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xi32>, tensor<2x4x5x8xi32>, tensor<2x4x5x6xi32>) -> tensor<2x4x3x6xi32>
  func.return
}

// -----

func.func @main(%q: tensor<8xf32>, %k: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @below {{expected rank 2 or more for the query, found tensor<8xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf16>, %v: tensor<2x4x5x6xf32>) {
  // expected-error @below {{expected f32 elements for the key, found tensor<2x4x5x8xf16>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf16>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<4x5x8xf32>, %v: tensor<2x4x5x6xf32>) {
  // expected-error @below {{expected the query's rank 4 for the key, found tensor<4x5x8xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<4x5x8xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf64>) {
  // expected-error @below {{expected f32 elements for the value, found tensor<2x4x5x6xf64>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf64>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<4x5x6xf32>) {
  // expected-error @below {{expected the query's rank 4 for the value, found tensor<4x5x6xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x7xf32>, %v: tensor<2x4x5x6xf32>) {
  // expected-error @below {{expected rows of 8 for the key, found tensor<2x4x5x7xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x7xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x4x6xf32>) {
  // expected-error @below {{expected 5 rows, one for each key, for the value, found tensor<2x4x4x6xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x4x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x2x5x6xf32>) {
  // expected-error @below {{expected as many heads as the key has for the value, found tensor<2x2x5x6xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x2x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x6xf32>) {
  // expected-error @below {{expected heads of the query that those of the key divide, found 4 and 3}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x0x5x8xf32>, %v: tensor<2x0x5x6xf32>) {
  // expected-error @below {{expected heads of the query that those of the key divide, found 4 and 0}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x0x5x8xf32>, tensor<2x0x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<3x4x5x8xf32>, %v: tensor<3x4x5x6xf32>) {
  // expected-error @below {{expected shapes that broadcast to one shape, found [2] and [3] and [3]}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<3x4x5x8xf32>, tensor<3x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>, %m: tensor<3x5xi64>) {
  // expected-error @below {{expected f32 elements for the mask, or i1, found tensor<3x5xi64>}}
  %y = graph.attention %q, %k, %v mask %m : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>, tensor<3x5xi64>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>, %m: tensor<3x4xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [2, 4, 3, 5] for the mask, found tensor<3x4xf32>}}
  %y = graph.attention %q, %k, %v mask %m : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>, tensor<3x4xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>, %m: tensor<1x2x4x3x5xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [2, 4, 3, 5] for the mask, found tensor<1x2x4x3x5xf32>}}
  %y = graph.attention %q, %k, %v mask %m : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>, tensor<1x2x4x3x5xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>) {
  // expected-error @below {{expected a finite scale, found inf}}
  %y = graph.attention %q, %k, %v scale = 1.0e999 : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>) {
  // expected-error @below {{expected a finite score_scale, found inf}}
  %y = graph.attention %q, %k, %v score_scale = 1.0e999 : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>, %m: tensor<3x5xi1>) {
  // expected-error @below {{expected a finite fill, found inf}}
  %y = graph.attention %q, %k, %v mask %m fill = 1.0e999 : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>, tensor<3x5xi1>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>, %m: tensor<3x5xf32>) {
  // expected-error @below {{expected a mask of i1 with 'fill'}}
  %y = graph.attention %q, %k, %v mask %m fill = 0.0 : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>, tensor<3x5xf32>) -> tensor<2x4x3x6xf32>
  func.return
}

// -----

func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>) {
  // expected-error @below {{expected result type tensor<2x4x3x6xf32>, found tensor<2x4x3x5xf32>}}
  %y = graph.attention %q, %k, %v : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x5xf32>
  func.return
}
