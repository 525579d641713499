// RUN: mlopt-opt %s --split-input-file --fuse-linear --dce --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-linear --remarks --verify-diagnostics

// Bias, residual and activation, in this order.
// CHECK-LABEL: @all
// CHECK-NEXT:    %d = graph.linear %x, %w, %b residual(%r : tensor<7x6xf32>) activation = <clip min = 0.000000e+00 max = 6.000000e+00> : (tensor<7x8xf32>, tensor<8x6xf32>, tensor<6xf32>) -> tensor<7x6xf32>
// CHECK-NEXT:    func.return %d
func.func @all(%x: tensor<7x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>, %r: tensor<7x6xf32>) -> tensor<7x6xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %six = graph.constant dense<6.0> : tensor<f32>
  %m = graph.matmul %x, %w : (tensor<7x8xf32>, tensor<8x6xf32>) -> tensor<7x6xf32>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its bias}}
  %a = graph.add %m, %b : (tensor<7x6xf32>, tensor<6xf32>) -> tensor<7x6xf32>
  // expected-remark @below {{fused 'linear', 'add' into 'linear' as its residual}}
  %c = graph.add %r, %a : (tensor<7x6xf32>, tensor<7x6xf32>) -> tensor<7x6xf32>
  // expected-remark @below {{fused 'linear', 'clip' into 'linear' as its activation}}
  %d = graph.clip %c min(%zero : tensor<f32>) max(%six : tensor<f32>) : tensor<7x6xf32>
  func.return %d : tensor<7x6xf32>
}

// -----

// An activation alone; the product of a vector.
// CHECK-LABEL: @activation
// CHECK-NEXT:    %y = graph.linear %x, %w activation = <leaky_relu alpha = 1.000000e-01> :
// CHECK-NEXT:    %z = graph.linear %y, %v, %y activation = <gelu approximate = "tanh"> :
func.func @activation(%x: tensor<8xf32>, %w: tensor<8x6xf32>, %v: tensor<6x6xf32>) -> tensor<6xf32> {
  %m = graph.matmul %x, %w : (tensor<8xf32>, tensor<8x6xf32>) -> tensor<6xf32>
  // expected-remark @below {{fused 'matmul', 'leaky_relu' into 'linear' as its activation}}
  %y = graph.leaky_relu %m alpha = 0.1 : tensor<6xf32>
  %n = graph.linear %y, %v, %y : (tensor<6xf32>, tensor<6x6xf32>, tensor<6xf32>) -> tensor<6xf32>
  // expected-remark @below {{fused 'linear', 'gelu' into 'linear' as its activation}}
  %z = graph.gelu %n approximate = "tanh" : tensor<6xf32>
  func.return %z : tensor<6xf32>
}

// -----

// Integers: sums and relu wrap and compare as their parts do; a clip is left.
// CHECK-LABEL: @integers
// CHECK:         %r = graph.linear %x, %w, %b activation = <relu> : (tensor<2x3xi8>, tensor<3x3xi8>, tensor<3xi8>)
// CHECK-NEXT:    %n = graph.matmul %r, %w
// CHECK-NEXT:    graph.clip %n
func.func @integers(%x: tensor<2x3xi8>, %w: tensor<3x3xi8>, %b: tensor<3xi8>) -> tensor<2x3xi8> {
  %zero = graph.constant dense<0> : tensor<i8>
  %m = graph.matmul %x, %w : (tensor<2x3xi8>, tensor<3x3xi8>) -> tensor<2x3xi8>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its bias}}
  %a = graph.add %m, %b : (tensor<2x3xi8>, tensor<3xi8>) -> tensor<2x3xi8>
  // expected-remark @below {{fused 'linear', 'relu' into 'linear' as its activation}}
  %r = graph.relu %a : tensor<2x3xi8>
  %n = graph.matmul %r, %w : (tensor<2x3xi8>, tensor<3x3xi8>) -> tensor<2x3xi8>
  // expected-remark @below {{not fused: 'clip' is of integers, or has numbers that are not finite, or not constant}}
  %y = graph.clip %n min(%zero : tensor<i8>) : tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// -----

// A constant of the shape of the result is a bias if it can be one, another value a residual.
// CHECK-LABEL: @single_row
// CHECK:         graph.linear %x, %w, %c :
// CHECK-NEXT:    graph.linear %x, %w residual(%r : tensor<1x2xf32>) :
func.func @single_row(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>, %r: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %c = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %m = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its bias}}
  %y = graph.add %c, %m : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %n = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its residual}}
  %z = graph.add %n, %r : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %y, %z : tensor<1x2xf32>, tensor<1x2xf32>
}

// -----

// Of two products the later one takes the other, whichever side it is on; one that is used elsewhere can't.
// CHECK-LABEL: @two_products
// CHECK-NEXT:    %m = graph.matmul %x, %w
// CHECK-NEXT:    %y = graph.linear %x, %v residual(%m : tensor<2x2xf32>) :
// CHECK-NEXT:    %o = graph.matmul %x, %v
// CHECK-NEXT:    %z = graph.linear %y, %w residual(%o : tensor<2x2xf32>) :
// CHECK-NEXT:    func.return %y, %z, %o
func.func @two_products(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %v: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %n = graph.matmul %x, %v : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its residual}}
  %y = graph.add %m, %n : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p = graph.matmul %y, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %o = graph.matmul %x, %v : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its residual}}
  %z = graph.add %o, %p : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y, %z, %o : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// One number for each row, also of a square; a scalar; what enlarges the product, in either way.
// CHECK-LABEL: @no_bias
// CHECK-NOT:     graph.linear
func.func @no_bias(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %row: tensor<1x2xf32>, %column: tensor<2x1xf32>, %scalar: tensor<f32>, %four: tensor<4x1xf32>, %deep: tensor<1x1x1x1x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<4x2xf32>, tensor<1x1x1x2x2xf32>) {
  %a = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: tensor<2x1xf32> is no bias of 'matmul', nor of the shape of its result}}
  %0 = graph.add %a, %column : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %b = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: tensor<f32> is no bias of 'matmul', nor of the shape of its result}}
  %1 = graph.add %b, %scalar : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %c = graph.matmul %row, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // expected-remark @below {{not fused: what is added enlarges tensor<1x2xf32> to tensor<4x2xf32>}}
  %2 = graph.add %c, %four : (tensor<1x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %d = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: what is added enlarges tensor<2x2xf32> to tensor<1x1x1x2x2xf32>}}
  %3 = graph.add %d, %deep : (tensor<2x2xf32>, tensor<1x1x1x1x2xf32>) -> tensor<1x1x1x2x2xf32>
  func.return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<4x2xf32>, tensor<1x1x1x2x2xf32>
}

// -----

// A product, or a sum, that is needed elsewhere stays.
// CHECK-LABEL: @other_uses
// CHECK-NEXT:    %m = graph.matmul
// CHECK-NEXT:    %a = graph.add %m, %b
// CHECK-NEXT:    %n = graph.linear %x, %w, %b :
// CHECK-NEXT:    graph.relu %n
// CHECK-NEXT:    graph.neg %n
// CHECK-NEXT:    %p = graph.matmul
// CHECK-NEXT:    graph.add %p, %p
func.func @other_uses(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %b: tensor<2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: the result of 'matmul' is also a graph output}}
  %a = graph.add %m, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %o = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{fused 'matmul', 'add' into 'linear' as its bias}}
  %n = graph.add %o, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: the result of 'linear' is also used by 'neg'}}
  %r = graph.relu %n : tensor<2x2xf32>
  %s = graph.neg %n : tensor<2x2xf32>
  %p = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: the result of 'matmul' is added to itself}}
  %t = graph.add %p, %p : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %m, %a, %r, %s, %t : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// What is added depends on the product by another way.
// CHECK-LABEL: @cycle
// CHECK-NOT:     graph.linear
func.func @cycle(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = graph.softmax %m axis = 1 : tensor<2x2xf32>
  // expected-remark @below {{not fused: the result of 'matmul' is also used by 'softmax'}}
  %y = graph.add %m, %s : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// Each part once, and in the order in which they are added.
// CHECK-LABEL: @order
// CHECK-NEXT:    %0 = graph.linear %x, %w residual(%r : tensor<2x2xf32>) :
// CHECK-NEXT:    %1 = graph.add %0, %b
// CHECK-NEXT:    %2 = graph.linear %x, %w, %b :
// CHECK-NEXT:    %3 = graph.add %2, %b
// CHECK-NEXT:    %4 = graph.linear %x, %w activation = <tanh> :
// CHECK-NEXT:    %5 = graph.add %4, %r
// CHECK-NEXT:    %6 = graph.linear %x, %w activation = <sigmoid> :
// CHECK-NEXT:    %7 = graph.tanh %6
// CHECK-NEXT:    %8 = graph.linear %x, %w residual(%r : tensor<2x2xf32>) :
// CHECK-NEXT:    %9 = graph.add %8, %r
func.func @order(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %b: tensor<2xf32>, %r: tensor<2x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = graph.linear %x, %w residual(%r : tensor<2x2xf32>) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: the residual of 'linear' is added before the bias}}
  %1 = graph.add %0, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %2 = graph.linear %x, %w, %b : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: 'linear' has a bias already}}
  %3 = graph.add %2, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %4 = graph.linear %x, %w activation = <tanh> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: the activation of 'linear' comes before the addition}}
  %5 = graph.add %4, %r : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = graph.linear %x, %w activation = <sigmoid> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %7 = graph.tanh %6 : tensor<2x2xf32>
  %8 = graph.linear %x, %w residual(%r : tensor<2x2xf32>) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: 'linear' has a residual already}}
  %9 = graph.add %8, %r : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %1, %3, %5, %7, %9 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// CHECK-LABEL: @no_matrix
// CHECK-NOT:     graph.linear
func.func @no_matrix(%x: tensor<3x2x2xf32>, %w: tensor<3x2x2xf32>, %v: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<3x2x2xf32>, tensor<3x2xf32>) {
  %m = graph.matmul %x, %w : (tensor<3x2x2xf32>, tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
  // expected-remark @below {{not fused: the weight of 'matmul' is no matrix: tensor<3x2x2xf32>}}
  %0 = graph.add %m, %b : (tensor<3x2x2xf32>, tensor<2xf32>) -> tensor<3x2x2xf32>
  %n = graph.matmul %x, %v : (tensor<3x2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  // expected-remark @below {{not fused: the weight of 'matmul' is no matrix: tensor<2xf32>}}
  %1 = graph.relu %n : tensor<3x2xf32>
  func.return %0, %1 : tensor<3x2x2xf32>, tensor<3x2xf32>
}

// -----

// Bounds that are infinite, or not known; the constant NaN.
// CHECK-LABEL: @bounds
// CHECK-NOT:     graph.linear
func.func @bounds(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %b: tensor<f32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %inf = graph.constant dense<0x7F800000> : tensor<f32>
  %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: 'clip' is of integers, or has numbers that are not finite, or not constant}}
  %0 = graph.clip %m min(%b : tensor<f32>) : tensor<2x2xf32>
  %n = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{not fused: 'clip' is of integers, or has numbers that are not finite, or not constant}}
  %1 = graph.clip %n max(%inf : tensor<f32>) : tensor<2x2xf32>
  func.return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A product is not taken into a loop.
// CHECK-LABEL: @loop
// CHECK-NOT:     graph.linear
func.func @loop(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %n: index) -> tensor<2x2xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %m = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = scf.for %i = %zero to %n step %one iter_args(%r = %x) -> (tensor<2x2xf32>) {
    %s = graph.add %m, %r : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    scf.yield %s : tensor<2x2xf32>
  }
  func.return %y : tensor<2x2xf32>
}

// CHECK: (S) 1 activations-fused
// CHECK-NEXT: (S) 1 biases-fused
// CHECK-NEXT: (S) 1 residuals-fused
