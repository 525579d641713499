// RUN: mlopt-opt %s --split-input-file --stabilize-softmax --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --stabilize-softmax --remarks --verify-diagnostics

// CHECK-LABEL: @softmax
// CHECK-NEXT:    %y = graph.softmax %x axis = 1 : tensor<2x3xf32>
// CHECK-NEXT:    func.return %y
func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = graph.exp %x : tensor<2x3xf32>
  %s = graph.reduce_sum %e axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // expected-remark @below {{fused 'exp', 'reduce_sum', 'div' into 'softmax', which does not overflow}}
  %y = graph.div %e, %s : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// With the maximum subtracted, the sum put back, and the product with its reciprocal.
// CHECK-LABEL: @shifted
// CHECK-NEXT:    %y = graph.softmax %x axis = 1 : tensor<2x3xf32>
// CHECK-NEXT:    func.return %y
func.func @shifted(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %m = graph.reduce_max %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %z = graph.sub %x, %m : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %e = graph.exp %z : tensor<2x3xf32>
  %r = graph.reduce_sum %e axes = [1] : (tensor<2x3xf32>) -> tensor<2xf32>
  %s = graph.reshape %r : tensor<2xf32> to tensor<2x1xf32>
  %i = graph.reciprocal %s : tensor<2x1xf32>
  // expected-remark @below {{fused 'reduce_max', 'sub', 'exp', 'reduce_sum', 'reshape', 'reciprocal', 'mul' into 'softmax'}}
  %y = graph.mul %e, %i : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @logarithm
// CHECK-NEXT:    %y = graph.log_softmax %x axis = 0 : tensor<2x3xf32>
// CHECK-NEXT:    func.return %y
func.func @logarithm(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %p = graph.softmax %x axis = 0 : tensor<2x3xf32>
  // expected-remark @below {{fused 'softmax', 'log' into 'log_softmax'}}
  %y = graph.log %p : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @logarithm_used_elsewhere
// CHECK-NOT:     graph.log_softmax
func.func @logarithm_used_elsewhere(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %m = graph.reduce_max %x axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %d = graph.sub %x, %m : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %e = graph.exp %d : tensor<2x3xf32>
  %s = graph.reduce_sum %e axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %l = graph.log %s : tensor<2x1xf32>
  %a = graph.add %m, %l : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  // expected-remark @below {{not fused: the result of 'exp' is also a graph output}}
  %y = graph.sub %x, %a : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y, %e : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @used_elsewhere
// CHECK:         graph.div
func.func @used_elsewhere(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %e = graph.exp %x : tensor<2x3xf32>
  %s = graph.reduce_sum %e axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // expected-remark @below {{not fused: the result of 'exp' is also a graph output}}
  %y = graph.div %e, %s : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %e, %y : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// In a square, sums of rows have the shape that meets columns.
// CHECK-LABEL: @rows_meet_columns
// CHECK:         graph.div
func.func @rows_meet_columns(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %e = graph.exp %x : tensor<3x3xf32>
  %s = graph.reduce_sum %e axes = [1] : (tensor<3x3xf32>) -> tensor<3xf32>
  // expected-remark @below {{not fused: 'reduce_sum' is not along one axis, with one sum for each row}}
  %y = graph.div %e, %s : (tensor<3x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  func.return %y : tensor<3x3xf32>
}

// -----

// CHECK-LABEL: @one_more
// CHECK:         graph.div
func.func @one_more(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %e = graph.exp %x : tensor<2x3xf32>
  %s = graph.reduce_sum %e axes = [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %t = graph.add %s, %one : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  // expected-remark @below {{not fused: something is added to the sum of the exponentials}}
  %y = graph.div %e, %t : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// CHECK: (S) 1 softmaxes-stabilized
// CHECK: (S) 1 log-softmaxes-stabilized
