// RUN: mlopt-opt %s --split-input-file --fuse-quantized --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-quantized --remarks --verify-diagnostics

// The bias is in units of the products (0.5 / (0.5 * 0.25) = 4), less the zero point times the sum of the weights
// (-(-2) * 3 = 6); the factor is 0.5 * 0.25 / 0.5.
// CHECK-LABEL: @conv
// CHECK:         %y = graph.integer_conv %q, %w pads = [1, 0] pad_value = -2 : (tensor<1x1x4xi8>, tensor<1x1x2xi8>) -> tensor<1x1x4xf32>
// CHECK-NEXT:    %offset = graph.constant dense<1.000000e+01> : tensor<f32>
// CHECK-NEXT:    graph.add {{%.*}}, %offset
// CHECK-NEXT:    %scale = graph.constant dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:    graph.mul {{%.*}}, %scale
// CHECK-NEXT:    %one = graph.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    graph.quantize {{%.*}}, %one, %z
// CHECK-NEXT:    func.return
func.func @conv(%q: tensor<1x1x4xi8>) -> tensor<1x1x4xi8> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %quarter = graph.constant dense<0.25> : tensor<f32>
  %zq = graph.constant dense<-2> : tensor<i8>
  %z = graph.constant dense<-128> : tensor<i8>
  %w = graph.constant dense<[[[1, 2]]]> : tensor<1x1x2xi8>
  %bias = graph.constant dense<0.5> : tensor<1xf32>
  %x = graph.dequantize %q, %half, %zq : (tensor<1x1x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x1x4xf32>
  %v = graph.dequantize %w, %quarter : (tensor<1x1x2xi8>, tensor<f32>) -> tensor<1x1x2xf32>
  %s = graph.conv %x, %v, %bias pads = [1, 0] : (tensor<1x1x4xf32>, tensor<1x1x2xf32>, tensor<1xf32>) -> tensor<1x1x4xf32>
  %r = graph.relu %s : tensor<1x1x4xf32>
  // expected-remark @below {{fused 'relu', 'quantize' into 'quantize', which saturates there}}
  // expected-remark @below {{fused 'conv', 'quantize' into a product of integers}}
  %y = graph.quantize %r, %half, %z : (tensor<1x1x4xf32>, tensor<f32>, tensor<i8>) -> tensor<1x1x4xi8>
  func.return %y : tensor<1x1x4xi8>
}

// -----

// Without a quantize behind it the factor is that of the numbers.
// CHECK-LABEL: @float_result
// CHECK:         graph.integer_matmul %q, %w : (tensor<3x2xi8>, tensor<2x2xi8>) -> tensor<3x2xf32>
// CHECK:         graph.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:    graph.mul
func.func @float_result(%q: tensor<3x2xi8>) -> tensor<3x2xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %scales = graph.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %x = graph.dequantize %q, %one : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32>
  %v = graph.dequantize %w, %scales : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{fused 'matmul' into a product of integers}}
  %y = graph.matmul %x, %v : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Near misses of products.
// CHECK-LABEL: @float_weight
// CHECK-NOT: graph.integer
func.func @float_weight(%q: tensor<3x2xi8>, %u: tensor<3x2xf32>, %s: tensor<f32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x3xf32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %two = graph.constant dense<2> : tensor<i8>
  %v = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %rows = graph.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32>
  %x = graph.dequantize %q, %one, %two : (tensor<3x2xi8>, tensor<f32>, tensor<i8>) -> tensor<3x2xf32>
  // expected-remark @below {{not fused: its weight is not dequantized from constant integers}}
  %0 = graph.matmul %x, %v : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %dw = graph.dequantize %w, %one : (tensor<2x2xi8>, tensor<f32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: its input is not dequantized from integers by one constant scale}}
  %1 = graph.matmul %u, %dw : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %dr = graph.dequantize %w, %rows : (tensor<2x2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: the scale of its weight varies along what is summed}}
  %2 = graph.matmul %x, %dr : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %t = graph.transpose %x perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{fused 'transpose', 'quantize' into movements of the integers}}
  %p = graph.quantize %t, %one, %two : (tensor<2x3xf32>, tensor<f32>, tensor<i8>) -> tensor<2x3xi8>
  %dt = graph.dequantize %p, %one, %two : (tensor<2x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3xf32>
  // expected-remark @below {{not fused: both factors vary, and one has a zero point}}
  %3 = graph.matmul %x, %dt : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  func.return %0, %1, %2, %3 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x3xf32>
}

// -----

// What is not known says so at the end that it is about.
// CHECK-LABEL: @unknown
// CHECK-NOT:     graph.transpose {{.*}}xi8>
func.func @unknown(%q: tensor<3x2xi8>, %h: tensor<3x2xi4>, %s: tensor<f32>) -> (tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<3x2xi8>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %ones = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %x = graph.dequantize %q, %s : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32> loc("x")
  %t = graph.transpose %x perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{not fused: the scale or zero point of 'dequantize' (x) is not constant}}
  %y = graph.quantize %t, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi8>
  %u = graph.dequantize %h, %one : (tensor<3x2xi4>, tensor<f32>) -> tensor<3x2xf32> loc("u")
  %v = graph.transpose %u perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{not fused: 'dequantize' (u) is of i4, not integers of 8 or 16 bits}}
  %z = graph.quantize %v, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi8>
  %w = graph.dequantize %q, %one : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32>
  %a = graph.transpose %w perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{not fused: 'quantize' has several scales or zero points}}
  %b = graph.quantize %a, %ones : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi8>
  %c = graph.add %w, %w : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  // expected-remark @below {{not fused: the scale or zero point of 'quantize' is not constant}}
  %d = graph.quantize %c, %s : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xi8>
  func.return %y, %z, %b, %d : tensor<2x3xi8>, tensor<2x3xi8>, tensor<2x3xi8>, tensor<3x2xi8>
}

// -----

// CHECK-LABEL: @movement
// CHECK:         %y = graph.transpose %q perm = [1, 0] : (tensor<3x2xi8>) -> tensor<2x3xi8>
// CHECK:         graph.quantize
func.func @movement(%q: tensor<3x2xi8>) -> (tensor<2x3xi8>, tensor<2x3xi8>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %x = graph.dequantize %q, %one : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32>
  %t = graph.transpose %x perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{fused 'transpose', 'quantize' into movements of the integers}}
  %y = graph.quantize %t, %one : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi8>
  %u = graph.transpose %x perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{not fused: integers of scale 1, zero point 0 become integers of scale 2, zero point 0}}
  %z = graph.quantize %u, %two : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xi8>
  func.return %y, %z : tensor<2x3xi8>, tensor<2x3xi8>
}

// -----

// What is added in a body is no part of the product before it: a loop would compute that in each trip.
// CHECK-LABEL: @added_inside
// CHECK:         graph.integer_matmul
// CHECK:         scf.if
// CHECK-NEXT:      graph.add {{%.*}}, %b
func.func @added_inside(%q: tensor<3x2xi8>, %c: i1) -> tensor<3x2xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %b = graph.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %w = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %x = graph.dequantize %q, %one : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32>
  %v = graph.dequantize %w, %one : (tensor<2x2xi8>, tensor<f32>) -> tensor<2x2xf32>
  // expected-remark @below {{fused 'matmul' into a product of integers}}
  %y = graph.matmul %x, %v : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %r = scf.if %c -> (tensor<3x2xf32>) {
    %s = graph.add %y, %b : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
    scf.yield %s : tensor<3x2xf32>
  } else {
    %z = graph.constant dense<0.0> : tensor<3x2xf32>
    scf.yield %z : tensor<3x2xf32>
  }
  func.return %r : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: @arithmetic
// CHECK-NOT: graph.dequantize
// CHECK: graph.add
// CHECK-LABEL: @unsigned
// CHECK: graph.quantize {{%.*}} : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
func.func @arithmetic(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi8> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %x = graph.dequantize %a, %one : (tensor<4xi8>, tensor<f32>) -> tensor<4xf32>
  %z = graph.dequantize %b, %two : (tensor<4xi8>, tensor<f32>) -> tensor<4xf32>
  %s = graph.add %x, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-remark @below {{fused 'add', 'quantize' into arithmetic on the integers}}
  %y = graph.quantize %s, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

func.func @unsigned(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %zero = graph.constant dense<130> : tensor<ui8>
  // expected-remark @below {{ui8 became i8}}
  %q = graph.quantize %x, %one, %zero : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  %y = graph.dequantize %q, %one, %zero : (tensor<4xui8>, tensor<f32>, tensor<ui8>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// CHECK-DAG: (S) 1 bounds-absorbed
// CHECK-DAG: (S) 1 integer-products
