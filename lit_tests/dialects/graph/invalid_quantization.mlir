// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message about quantization.

func.func @main(%x: tensor<3xi32>, %s: tensor<i32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the input, found tensor<3xi32>}}
  %y = graph.quantize %x, %s : (tensor<3xi32>, tensor<i32>) -> tensor<3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<f16>) {
  // expected-error @below {{expected f32 elements for the scale, found tensor<f16>}}
  %y = graph.quantize %x, %s : (tensor<3xf32>, tensor<f16>) -> tensor<3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [3] for the scale, found tensor<2xf32>}}
  %y = graph.quantize %x, %s : (tensor<3xf32>, tensor<2xf32>) -> tensor<3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected integer elements of 2 to 16 bits, or floats of 8 bits or fewer but f8E8M0FNU for the result, found tensor<3xi32>}}
  %y = graph.quantize %x, %s : (tensor<3xf32>, tensor<f32>) -> tensor<3xi32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected shape [3] for the result, found tensor<4xi8>}}
  %y = graph.quantize %x, %s : (tensor<3xf32>, tensor<f32>) -> tensor<4xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<f32>, %z: tensor<i8>) {
  // expected-error @below {{expected ui8 elements for the zero point, found tensor<i8>}}
  %y = graph.quantize %x, %s, %z : (tensor<3xf32>, tensor<f32>, tensor<i8>) -> tensor<3xui8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<f32>, %z: tensor<1x3xi8>) {
  // expected-error @below {{expected a shape that broadcasts to [3] for the zero point, found tensor<1x3xi8>}}
  %y = graph.quantize %x, %s, %z : (tensor<3xf32>, tensor<f32>, tensor<1x3xi8>) -> tensor<3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<f32>) {
  // expected-error @below {{expected 'saturate' only to floats of 8 bits or fewer, found it to tensor<3xi8>}}
  %y = graph.quantize %x, %s saturate : (tensor<3xf32>, tensor<f32>) -> tensor<3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xi64>, %s: tensor<f32>) {
  // expected-error @below {{expected i32 elements, integer elements of 2 to 16 bits, or floats of 8 bits or fewer but f8E8M0FNU for the input, found tensor<3xi64>}}
  %y = graph.dequantize %x, %s : (tensor<3xi64>, tensor<f32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi8>, %s: tensor<i8>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the scale, found tensor<i8>}}
  %y = graph.dequantize %x, %s : (tensor<3xi8>, tensor<i8>) -> tensor<3xi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xi8>, %s: tensor<2xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [3] for the scale, found tensor<2xf32>}}
  %y = graph.dequantize %x, %s : (tensor<3xi8>, tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi8>, %s: tensor<f32>, %z: tensor<ui8>) {
  // expected-error @below {{expected i8 elements for the zero point, found tensor<ui8>}}
  %y = graph.dequantize %x, %s, %z : (tensor<3xi8>, tensor<f32>, tensor<ui8>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi8>, %s: tensor<f32>, %z: tensor<2xi8>) {
  // expected-error @below {{expected a shape that broadcasts to [3] for the zero point, found tensor<2xi8>}}
  %y = graph.dequantize %x, %s, %z : (tensor<3xi8>, tensor<f32>, tensor<2xi8>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi8>, %s: tensor<f32>) {
  // expected-error @below {{expected result type tensor<3xf32>, found tensor<3xf16>}}
  %y = graph.dequantize %x, %s : (tensor<3xi8>, tensor<f32>) -> tensor<3xf16>
  func.return
}
