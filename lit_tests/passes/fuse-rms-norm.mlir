// RUN: mlopt-opt %s --split-input-file --fuse-rms-norm --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-rms-norm --remarks --verify-diagnostics
// RUN: mlopt-opt %s --split-input-file --fuse-layer-norm --fuse-rms-norm | filecheck %s --check-prefix=AFTER

// CHECK-LABEL: @llama
// CHECK:         %y = graph.rms_norm %x, %g axis = 1 epsilon = 1.000000e-02 : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
// CHECK-NEXT:    func.return %y
func.func @llama(%x: tensor<2x4xf64>, %g: tensor<4xf64>) -> tensor<2x4xf64> {
  %two = graph.constant dense<2.0> : tensor<f64>
  %epsilon = graph.constant dense<0.01> : tensor<f64>
  %s = graph.pow %x, %two : (tensor<2x4xf64>, tensor<f64>) -> tensor<2x4xf64>
  %v = graph.reduce_mean %s axes = [1] keepdims : (tensor<2x4xf64>) -> tensor<2x1xf64>
  %e = graph.add %v, %epsilon : (tensor<2x1xf64>, tensor<f64>) -> tensor<2x1xf64>
  %r = graph.sqrt %e : tensor<2x1xf64>
  %i = graph.reciprocal %r : tensor<2x1xf64>
  // expected-remark @below {{[fuse-rms-norm] fused 'pow', 'reduce_mean', 'add', 'sqrt', 'reciprocal', 'mul' into 'rms_norm'}}
  %n = graph.mul %x, %i : (tensor<2x4xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>
  // expected-remark @below {{fused 'rms_norm', 'mul' into 'rms_norm' with a scale}}
  %y = graph.mul %g, %n : (tensor<4xf64>, tensor<2x4xf64>) -> tensor<2x4xf64>
  func.return %y : tensor<2x4xf64>
}

// -----

// A layer norm, which is left to fuse-layer-norm.
// CHECK-LABEL: @centered
// CHECK-NOT:     graph.rms_norm
// AFTER-LABEL: @centered
// AFTER:         %y = graph.layer_norm %x
func.func @centered(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %m = graph.reduce_mean %x axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %d = graph.sub %x, %m : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %s = graph.mul %d, %d : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %s axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %r = graph.sqrt %v : tensor<2x1xf32>
  %y = graph.div %d, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// The centered value is needed, and its norm is one.
// CHECK-LABEL: @centered_and_returned
// CHECK:         %y = graph.rms_norm %d
func.func @centered_and_returned(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %m = graph.reduce_mean %x axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %d = graph.sub %x, %m : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %s = graph.mul %d, %d : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %s axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %r = graph.sqrt %v : tensor<2x1xf32>
  // expected-remark @below {{fused 'mul', 'reduce_mean', 'sqrt', 'div' into 'rms_norm'}}
  %y = graph.div %d, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %y, %d : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// CHECK-LABEL: @columns
// CHECK-NOT:     graph.rms_norm
func.func @columns(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = graph.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %s axes = [0] keepdims : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %r = graph.sqrt %v : tensor<1x4xf32>
  // expected-remark @below {{not fused: the mean is over axes [0] of 2, not over the last ones}}
  %y = graph.div %x, %r : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: @inner_output
// CHECK-NOT:     graph.rms_norm
func.func @inner_output(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>) {
  %s = graph.mul %x, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = graph.reduce_mean %s axes = [1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32> loc("mean")
  %r = graph.sqrt %v : tensor<2x1xf32>
  // expected-remark @below {{not fused: the result of 'reduce_mean' (mean) is also a graph output}}
  %y = graph.div %x, %r : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %y, %v : tensor<2x4xf32>, tensor<2x1xf32>
}

// CHECK: (S) 1 rms-norms-fused
