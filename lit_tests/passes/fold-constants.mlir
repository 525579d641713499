// RUN: mlopt-opt %s --fold-constants | filecheck %s
// RUN: mlopt-opt %s --fold-constants='max-growth=100000' | filecheck %s --check-prefix=GROW
// RUN: mlopt-opt %s --fold-constants --fold-constants --verify-diagnostics

// Shape arithmetic folds away: here what a reshape computes from a shape.
// CHECK-LABEL: @shape_arithmetic
// CHECK-NEXT: %n = graph.constant dense<[6, 4]> : tensor<2xi64>
// CHECK-NEXT: func.return %n
func.func @shape_arithmetic(%x: tensor<2x3x4xf32>) -> tensor<2xi64> {
  %s = graph.shape %x : (tensor<2x3x4xf32>) -> tensor<3xi64>
  %a = graph.slice %s starts = [0] stops = [2] : (tensor<3xi64>) -> tensor<2xi64>
  %p = graph.reduce_prod %a axes = [0] keepdims : (tensor<2xi64>) -> tensor<1xi64>
  %b = graph.slice %s starts = [2] stops = [3] : (tensor<3xi64>) -> tensor<1xi64>
  %n = graph.concat %p, %b axis = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  func.return %n : tensor<2xi64>
}

// Integers wrap and divide toward zero; 2^53 + 1 does not pass through floating point.
// CHECK-LABEL: @integers
// CHECK-NEXT: %sum = graph.constant dense<-2147482649> : tensor<i32>
// CHECK-NEXT: %bytes = graph.constant dense<44> : tensor<ui8>
// CHECK-NEXT: %quotient = graph.constant dense<[-2, -2, -3, -3]> : tensor<4xi64>
// CHECK-NEXT: %exact = graph.constant dense<9007199254740993> : tensor<i64>
// CHECK-NEXT: %minimum = graph.constant dense<-128> : tensor<i8>
func.func @integers() -> (tensor<i32>, tensor<ui8>, tensor<4xi64>, tensor<i64>, tensor<i8>) {
  %a = graph.constant dense<2147483647> : tensor<i32>
  %b = graph.constant dense<1000> : tensor<i32>
  %sum = graph.add %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %c = graph.constant dense<200> : tensor<ui8>
  %d = graph.constant dense<100> : tensor<ui8>
  %bytes = graph.add %c, %d : (tensor<ui8>, tensor<ui8>) -> tensor<ui8>
  %e = graph.constant dense<[8, -8, 7, -7]> : tensor<4xi64>
  %f = graph.constant dense<[-3, 3, -2, 2]> : tensor<4xi64>
  %quotient = graph.div %e, %f : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %g = graph.constant dense<9007199254740993> : tensor<i64>
  %one = graph.constant dense<1> : tensor<i64>
  %exact = graph.div %g, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %h = graph.constant dense<-128> : tensor<i8>
  %minus_one = graph.constant dense<-1> : tensor<i8>
  %minimum = graph.div %h, %minus_one : (tensor<i8>, tensor<i8>) -> tensor<i8>
  func.return %sum, %bytes, %quotient, %exact, %minimum : tensor<i32>, tensor<ui8>, tensor<4xi64>, tensor<i64>, tensor<i8>
}

// [1, 0, nan, -1] / [-0, -0, 0, -0] is [-inf, nan, nan, inf].
// CHECK-LABEL: @float_division_by_zero
// CHECK-NEXT: %q = graph.constant dense<[0xFF800000, 0x{{[7F]}}FC00000, 0x7FC00000, 0x7F800000]> : tensor<4xf32>
func.func @float_division_by_zero() -> tensor<4xf32> {
  %a = graph.constant dense<[1.0, 0.0, 0x7FC00000, -1.0]> : tensor<4xf32>
  %b = graph.constant dense<[-0.0, -0.0, 0.0, -0.0]> : tensor<4xf32>
  %q = graph.div %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %q : tensor<4xf32>
}

// CHECK-LABEL: @not_folded
// CHECK: graph.div
// CHECK-NEXT: graph.mod
func.func @not_folded() -> (tensor<1xi32>, tensor<1xi32>) {
  %a = graph.constant dense<7> : tensor<1xi32>
  %zero = graph.constant dense<0> : tensor<1xi32>
  %0 = graph.div %a, %zero : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
  %1 = graph.mod %a, %zero : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
  func.return %0, %1 : tensor<1xi32>, tensor<1xi32>
}

// A few bytes do not become megabytes, unless asked for.
// CHECK-LABEL: @growth
// CHECK: graph.expand
// GROW-LABEL: @growth
// GROW-NEXT: %big = graph.constant #mlopt.weight<"big"> : tensor<200x100xf32>
func.func @growth() -> tensor<200x100xf32> {
  %c = graph.constant dense<1.0> : tensor<f32>
  %big = graph.expand %c : tensor<f32> to tensor<200x100xf32>
  func.return %big : tensor<200x100xf32>
}

// A constant without its weights in the store is not known, of which the user is warned once.
// CHECK-LABEL: @weight_not_in_the_store
// CHECK: graph.relu
// CHECK: graph.exp
func.func @weight_not_in_the_store(%x: tensor<100xf32>) -> tensor<100xf32> {
  %w = graph.constant #mlopt.weight<"nowhere"> : tensor<100xf32>
  %z = graph.add %x, %w : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
  // expected-warning @below {{constants are not folded: there is no weight "nowhere"; give the weights with --weights FILE}}
  %y = graph.relu %w : tensor<100xf32>
  %e = graph.exp %y : tensor<100xf32>
  %s = graph.add %e, %z : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
  func.return %s : tensor<100xf32>
}

// Regular indices: a row, every second one backwards, and a grid, as an attention mask is read.
// CHECK-LABEL: @regular_gathers
// CHECK-NEXT: %row = graph.slice %x starts = [1, 0] stops = [2, 4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT: %row_1 = graph.reshape %row : tensor<1x4xf32> to tensor<4xf32>
// CHECK-NEXT: %back = graph.slice %x starts = [0, 3] stops = [3, 0] steps = [1, -2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
// CHECK-NEXT: %grid = graph.slice %x starts = [1, 2] stops = [3, 4] : (tensor<3x4xf32>) -> tensor<2x2xf32>
// CHECK-NEXT: %grid_1 = graph.reshape %grid : tensor<2x2xf32> to tensor<2x1x2xf32>
func.func @regular_gathers(%x: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x2xf32>, tensor<2x1x2xf32>) {
  %a = graph.constant dense<-2> : tensor<i64>
  %row = graph.gather %x, %a axis = 0 : (tensor<3x4xf32>, tensor<i64>) -> tensor<4xf32>
  %b = graph.constant dense<[3, 1]> : tensor<2xi64>
  %back = graph.gather %x, %b axis = 1 : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  %c = graph.constant dense<[[[[1, 2], [1, 3]]], [[[2, 2], [2, -1]]]]> : tensor<2x1x2x2xi64>
  %grid = graph.gather_nd %x, %c : (tensor<3x4xf32>, tensor<2x1x2x2xi64>) -> tensor<2x1x2xf32>
  func.return %row, %back, %grid : tensor<4xf32>, tensor<3x2xf32>, tensor<2x1x2xf32>
}

// CHECK-LABEL: @irregular_gathers
// CHECK: graph.gather
// CHECK: graph.gather
// CHECK: graph.gather_nd
func.func @irregular_gathers(%x: tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>, tensor<2xf32>) {
  %a = graph.constant dense<[1, 1]> : tensor<2xi64>
  %0 = graph.gather %x, %a axis = 0 : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %b = graph.constant dense<[0, 2, 1]> : tensor<3xi64>
  %1 = graph.gather %x, %b axis = 0 : (tensor<3x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %c = graph.constant dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>
  %2 = graph.gather_nd %x, %c : (tensor<3x4xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  func.return %0, %1, %2 : tensor<2x4xf32>, tensor<3x4xf32>, tensor<2xf32>
}

// An element of a constant is a scalar: now it is known which branch is taken.
// CHECK-LABEL: @element
// CHECK-NEXT: %c0 = arith.constant 0 : index
// CHECK-NEXT: %c1 = arith.constant 1 : index
// CHECK-NEXT: %a = arith.constant false
// CHECK-NEXT: %b = arith.constant 2.500000e+00 : f32
// CHECK-NEXT: %c = arith.constant -3 : i64
// CHECK-NEXT: func.return
func.func @element() -> (i1, f32, i64) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bools = graph.constant dense<[true, false]> : tensor<2xi1>
  %floats = graph.constant dense<[[1.5, 2.5]]> : tensor<1x2xf32>
  %number = graph.constant dense<-3> : tensor<i64>
  %a = tensor.extract %bools[%c1] : tensor<2xi1>
  %b = tensor.extract %floats[%c0, %c1] : tensor<1x2xf32>
  %c = tensor.extract %number[] : tensor<i64>
  func.return %a, %b, %c : i1, f32, i64
}

// Parameters of quantization: the scale and zero point of a range, and a weight that is quantized and back.
// CHECK-LABEL: @quantization
// CHECK-NEXT: %scale = graph.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT: %point = graph.constant dense<2> : tensor<ui8>
// CHECK-NEXT: %w = graph.constant dense<[-1.000000e+00, 5.000000e-01]> : tensor<2xf32>
// CHECK-NEXT: func.return
func.func @quantization() -> (tensor<f32>, tensor<ui8>, tensor<2xf32>) {
  %range = graph.constant dense<127.5> : tensor<f32>
  %steps = graph.constant dense<255.0> : tensor<f32>
  %low = graph.constant dense<-1.0> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %scale = graph.div %range, %steps : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %below = graph.sub %zero, %low : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %points = graph.div %below, %scale : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %round = graph.round %points : tensor<f32>
  %point = graph.cast %round : tensor<f32> to tensor<ui8>
  %x = graph.constant dense<[-1.1, 0.6]> : tensor<2xf32>
  %q = graph.quantize %x, %scale, %point : (tensor<2xf32>, tensor<f32>, tensor<ui8>) -> tensor<2xui8>
  %w = graph.dequantize %q, %scale, %point : (tensor<2xui8>, tensor<f32>, tensor<ui8>) -> tensor<2xf32>
  func.return %scale, %point, %w : tensor<f32>, tensor<ui8>, tensor<2xf32>
}

// A tensor of constant scalars is a constant; a gather with it reads where it says. Other scalars stay.
// CHECK-LABEL: @elements
// CHECK: %a = graph.slice %x starts = [1, 0] stops = [2, 2]
// CHECK-NEXT: %b = graph.constant dense<{{.*}}true, false{{.*}}> : tensor<1x2xi1>
// CHECK-NEXT: %c = graph.constant dense<-1.500000e+00> : tensor<f32>
// CHECK-NEXT: %d = tensor.from_elements %n : tensor<1xi64>
// CHECK-NEXT: func.return
func.func @elements(%x: tensor<3x2xf32>, %n: i64) -> (tensor<1x2xf32>, tensor<1x2xi1>, tensor<f32>, tensor<1xi64>) {
  %c1 = arith.constant 1 : i64
  %true = arith.constant true
  %false = arith.constant false
  %half = arith.constant -1.5 : f32
  %i = tensor.from_elements %c1 : tensor<1xi64>
  %a = graph.gather %x, %i axis = 0 : (tensor<3x2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
  %b = tensor.from_elements %true, %false : tensor<1x2xi1>
  %c = tensor.from_elements %half : tensor<f32>
  %d = tensor.from_elements %n : tensor<1xi64>
  func.return %a, %b, %c, %d : tensor<1x2xf32>, tensor<1x2xi1>, tensor<f32>, tensor<1xi64>
}
