// RUN: mlopt-opt %s --split-input-file --fuse-layer-norm --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-layer-norm --remarks --verify-diagnostics

// CHECK-LABEL: @whole
// CHECK:         %y = graph.layer_norm %x, %g, %b axis = 1 epsilon = 1.000000e-02 : (tensor<2x4xf64>, tensor<4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
// CHECK-NEXT:    func.return %y
func.func @whole(%x: tensor<2x4xf64>, %g: tensor<4xf64>, %b: tensor<4xf64>) -> tensor<2x4xf64> {
  %two = graph.constant dense<2.0> : tensor<f64>
  %epsilon = graph.constant dense<0.01> : tensor<f64>
  %m = graph.reduce_mean %x axes = [1] keepdims : (tensor<2x4xf64>) -> tensor<2x1xf64>
  %d = graph.sub %x, %m : (tensor<2x4xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>
  %s = graph.pow %d, %two : (tensor<2x4xf64>, tensor<f64>) -> tensor<2x4xf64>
  %v = graph.reduce_mean %s axes = [1] keepdims : (tensor<2x4xf64>) -> tensor<2x1xf64>
  %e = graph.add %v, %epsilon : (tensor<2x1xf64>, tensor<f64>) -> tensor<2x1xf64>
  %r = graph.sqrt %e : tensor<2x1xf64>
  // expected-remark @below {{[fuse-layer-norm] fused 'reduce_mean', 'sub', 'pow', 'reduce_mean', 'add', 'sqrt', 'div' into 'layer_norm'}}
  %n = graph.div %d, %r : (tensor<2x4xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>
  // expected-remark @below {{fused 'layer_norm', 'mul' into 'layer_norm' with a scale}}
  %0 = graph.mul %n, %g : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
  // expected-remark @below {{fused 'layer_norm', 'add' into 'layer_norm' with a bias}}
  %y = graph.add %0, %b : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
  func.return %y : tensor<2x4xf64>
}

// -----

// CHECK-LABEL: @scale_per_row
// CHECK:         graph.layer_norm
// CHECK-NEXT:    graph.mul
func.func @scale_per_row(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %g = graph.constant dense<[[2.0], [3.0]]> : tensor<2x1xf32>
  %n = graph.layer_norm %x, %one axis = 1 epsilon = 0.0 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // expected-remark @below {{not fused: the scale tensor<2x1xf32> is no row of tensor<2x4xf32>}}
  %y = graph.mul %g, %n : (tensor<2x1xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: @bias_that_enlarges
// CHECK:         graph.layer_norm
// CHECK-NEXT:    graph.add
func.func @bias_that_enlarges(%x: tensor<1x1xf32>) -> tensor<1x2xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %b = graph.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %n = graph.layer_norm %x, %one axis = 1 epsilon = 1.0 : (tensor<1x1xf32>, tensor<f32>) -> tensor<1x1xf32>
  // expected-remark @below {{not fused: the bias tensor<2xf32> is no row of tensor<1x1xf32>}}
  %y = graph.add %n, %b : (tensor<1x1xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

// A residual is no parameter, and no near miss.
// CHECK-LABEL: @residual
// CHECK:         graph.add
func.func @residual(%x: tensor<2x4xf32>, %g: tensor<4xf32>) -> tensor<2x4xf32> {
  %n = graph.layer_norm %x, %g axis = 1 epsilon = 1.0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y = graph.add %x, %n : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: @casts
// CHECK:         graph.layer_norm %x, %{{.*}} axis = 1 epsilon = 1.000000e+00 : (tensor<2x4xf16>, tensor<f16>) -> tensor<2x4xf16>
// CHECK-NEXT:    func.return
func.func @casts(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  %g = graph.constant dense<0.5> : tensor<f32>
  %w = graph.cast %x : tensor<2x4xf16> to tensor<2x4xf32>
  %n = graph.layer_norm %w, %g axis = 1 epsilon = 1.0 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // expected-remark @below {{fused 'cast', 'layer_norm', 'cast' into 'layer_norm' in f16}}
  %y = graph.cast %n : tensor<2x4xf32> to tensor<2x4xf16>
  func.return %y : tensor<2x4xf16>
}

// -----

// CHECK-LABEL: @casts_that_round
// CHECK:         graph.cast
func.func @casts_that_round(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  %g = graph.constant dense<0.1> : tensor<f32>
  %w = graph.cast %x : tensor<2x4xf16> to tensor<2x4xf32>
  %n = graph.layer_norm %w, %g axis = 1 epsilon = 1.0 : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // expected-remark @below {{not fused: a parameter has numbers that f16 does not hold, or is not known}}
  %y = graph.cast %n : tensor<2x4xf32> to tensor<2x4xf16>
  func.return %y : tensor<2x4xf16>
}

// -----

// CHECK-LABEL: @columns
// CHECK-NOT:     graph.layer_norm
func.func @columns(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %m = graph.reduce_mean %x axes = [0] keepdims : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %d = graph.sub %x, %m : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %s = graph.mul %d, %d : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %s axes = [0] keepdims : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %r = graph.sqrt %v : tensor<1x4xf32>
  // expected-remark @below {{not fused: the mean is over axes [0] of 2, not over the last ones}}
  %y = graph.div %d, %r : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: @difference_of_means
// CHECK-NOT:     graph.layer_norm
func.func @difference_of_means(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %epsilon = graph.constant dense<0.01> : tensor<f32>
  %m = graph.reduce_mean %x axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %d = graph.sub %x, %m : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %s = graph.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %ms = graph.reduce_mean %s axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %sm = graph.mul %m, %m : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %v = graph.sub %ms, %sm : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %e = graph.add %v, %epsilon : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %r = graph.sqrt %e : tensor<2x1xf32>
  // expected-remark @below {{not fused: the variance is the difference of two means, which may lose all its digits}}
  %y = graph.div %d, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// CHECK: (S) 1 layer-norms-fused
