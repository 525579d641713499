// RUN: mlopt-opt %s --split-input-file --fuse-conv --dce --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-conv --remarks --verify-diagnostics

// Bias, residual and activation, in this order; a constant bias becomes one of rank 1.
// CHECK-LABEL: @all
// CHECK-NEXT:    %[[B:.*]] = graph.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
// CHECK-NEXT:    %d = graph.conv %x, %w, %[[B]] residual(%r : tensor<1x4x6x3xf32>) strides = [1, 2] group = 2 activation = <hard_swish> :
// CHECK-NEXT:    func.return %d
func.func @all(%x: tensor<1x4x8x8xf32>, %w: tensor<4x2x3x3xf32>, %r: tensor<1x4x6x3xf32>) -> tensor<1x4x6x3xf32> {
  %b = graph.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32>
  %m = graph.conv %x, %w strides = [1, 2] group = 2 : (tensor<1x4x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x6x3xf32>
  // expected-remark @below {{fused 'conv', 'add' into 'conv' as its bias}}
  %a = graph.add %m, %b : (tensor<1x4x6x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x3xf32>
  // expected-remark @below {{fused 'conv', 'add' into 'conv' as its residual}}
  %c = graph.add %r, %a : (tensor<1x4x6x3xf32>, tensor<1x4x6x3xf32>) -> tensor<1x4x6x3xf32>
  // expected-remark @below {{fused 'conv', 'hard_swish' into 'conv' as its activation}}
  %d = graph.hard_swish %c : tensor<1x4x6x3xf32>
  func.return %d : tensor<1x4x6x3xf32>
}

// -----

// A bias that is no constant is reshaped.
// CHECK-LABEL: @bias
// CHECK-NEXT:    %[[B:.*]] = graph.reshape %b : tensor<1x2x1xf32> to tensor<2xf32>
// CHECK-NEXT:    %y = graph.conv %x, %w, %[[B]] :
func.func @bias(%x: tensor<3x2x5xf32>, %w: tensor<2x2x1xf32>, %b: tensor<1x2x1xf32>) -> tensor<3x2x5xf32> {
  %m = graph.conv %x, %w : (tensor<3x2x5xf32>, tensor<2x2x1xf32>) -> tensor<3x2x5xf32>
  // expected-remark @below {{fused 'conv', 'add' into 'conv' as its bias}}
  %y = graph.add %m, %b : (tensor<3x2x5xf32>, tensor<1x2x1xf32>) -> tensor<3x2x5xf32>
  func.return %y : tensor<3x2x5xf32>
}

// -----

// A transposed convolution has no residual.
// CHECK-LABEL: @transposed
// CHECK-NEXT:    %[[B:.*]] = graph.reshape %b : tensor<3x1xf32> to tensor<3xf32>
// CHECK-NEXT:    %y = graph.conv_transpose %x, %w, %[[B]] strides = [2] output_padding = [1] activation = <relu> :
// CHECK-NEXT:    %n = graph.conv_transpose %x, %w strides = [2] output_padding = [1] :
// CHECK-NEXT:    graph.add %n, %y
func.func @transposed(%x: tensor<1x2x4xf32>, %w: tensor<2x3x2xf32>, %b: tensor<3x1xf32>) -> tensor<1x3x9xf32> {
  %m = graph.conv_transpose %x, %w strides = [2] output_padding = [1] : (tensor<1x2x4xf32>, tensor<2x3x2xf32>) -> tensor<1x3x9xf32>
  // expected-remark @below {{fused 'conv_transpose', 'add' into 'conv_transpose' as its bias}}
  %a = graph.add %m, %b : (tensor<1x3x9xf32>, tensor<3x1xf32>) -> tensor<1x3x9xf32>
  // expected-remark @below {{fused 'conv_transpose', 'relu' into 'conv_transpose' as its activation}}
  %y = graph.relu %a : tensor<1x3x9xf32>
  %n = graph.conv_transpose %x, %w strides = [2] output_padding = [1] : (tensor<1x2x4xf32>, tensor<2x3x2xf32>) -> tensor<1x3x9xf32>
  // expected-remark @below {{not fused: tensor<1x3x9xf32> is no bias of 'conv_transpose', which has no residual}}
  %z = graph.add %n, %y : (tensor<1x3x9xf32>, tensor<1x3x9xf32>) -> tensor<1x3x9xf32>
  func.return %z : tensor<1x3x9xf32>
}

// -----

// In 16 bits the convolution would round once what is rounded twice; a residual and an activation are the same.
// CHECK-LABEL: @narrow
// CHECK:         %m = graph.conv %x, %w :
// CHECK-NEXT:    %a = graph.add %m, %b
// CHECK-NEXT:    %y = graph.conv %a, %w residual(%x : tensor<1x2x2xf16>) activation = <tanh> :
func.func @narrow(%x: tensor<1x2x2xf16>, %w: tensor<2x2x1xf16>, %b: tensor<2x1xf16>) -> tensor<1x2x2xf16> {
  %m = graph.conv %x, %w : (tensor<1x2x2xf16>, tensor<2x2x1xf16>) -> tensor<1x2x2xf16>
  // expected-remark @below {{not fused: 'conv' would round its sums to f16 after the bias only}}
  %a = graph.add %m, %b : (tensor<1x2x2xf16>, tensor<2x1xf16>) -> tensor<1x2x2xf16>
  %n = graph.conv %a, %w : (tensor<1x2x2xf16>, tensor<2x2x1xf16>) -> tensor<1x2x2xf16>
  // expected-remark @below {{fused 'conv', 'add' into 'conv' as its residual}}
  %c = graph.add %n, %x : (tensor<1x2x2xf16>, tensor<1x2x2xf16>) -> tensor<1x2x2xf16>
  // expected-remark @below {{fused 'conv', 'tanh' into 'conv' as its activation}}
  %y = graph.tanh %c : tensor<1x2x2xf16>
  func.return %y : tensor<1x2x2xf16>
}

// -----

// One number for each position along the last dimension; the convolution itself; one that is used elsewhere.
// CHECK-LABEL: @near_misses
// CHECK-NEXT:    graph.conv %x, %w :
// CHECK-NEXT:    graph.add
// CHECK-NEXT:    graph.conv %x, %w :
// CHECK-NEXT:    graph.add
// CHECK-NEXT:    graph.conv %x, %w :
// CHECK-NEXT:    graph.relu
func.func @near_misses(%x: tensor<1x2x2xf32>, %w: tensor<2x2x1xf32>, %b: tensor<2xf32>)
    -> (tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) {
  %a = graph.conv %x, %w : (tensor<1x2x2xf32>, tensor<2x2x1xf32>) -> tensor<1x2x2xf32>
  // expected-remark @below {{not fused: tensor<2xf32> is no bias of 'conv', nor of the shape of its result}}
  %0 = graph.add %a, %b : (tensor<1x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  %c = graph.conv %x, %w : (tensor<1x2x2xf32>, tensor<2x2x1xf32>) -> tensor<1x2x2xf32>
  // expected-remark @below {{not fused: the result of 'conv' is added to itself}}
  %1 = graph.add %c, %c : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  %d = graph.conv %x, %w : (tensor<1x2x2xf32>, tensor<2x2x1xf32>) -> tensor<1x2x2xf32>
  // expected-remark @below {{not fused: the result of 'conv' is also a graph output}}
  %2 = graph.relu %d : tensor<1x2x2xf32>
  func.return %0, %1, %2, %d : tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>
}

// CHECK: (S) 1 activations-fused
// CHECK-NEXT: (S) 1 biases-fused
// CHECK-NEXT: (S) 1 residuals-fused
