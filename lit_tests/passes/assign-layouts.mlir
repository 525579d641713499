// RUN: mlopt-opt %s --split-input-file --assign-layouts=target=channels-last --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --assign-layouts=target=channels-last --remarks --verify-diagnostics
// RUN: mlopt-opt %s --split-input-file --assign-layouts --disable-pattern channels-last | filecheck %s --check-prefix=OFF

// Both convolutions, the sum and the pool; conversions of the image, once, of a weight that is no constant, and of the result.
// CHECK-LABEL: @region
// CHECK-NEXT:    %[[X:.*]] = graph.transpose %x perm = [0, 2, 3, 1] : (tensor<1x4x8x8xf32>) -> tensor<1x8x8x4xf32>
// CHECK-NEXT:    %[[W:.*]] = graph.transpose %w perm = [2, 3, 1, 0] : (tensor<4x4x3x3xf32>) -> tensor<3x3x4x4xf32>
// CHECK-NEXT:    %p = graph.channels_last_conv %[[X]], %[[W]], %b pads = [1, 1, 1, 1] activation = <relu>
// CHECK-SAME:      -> tensor<1x8x8x4xf32>
// CHECK-NEXT:    %q = graph.channels_last_conv %p, %[[W]] residual(%[[X]] : tensor<1x8x8x4xf32>) pads = [1, 1, 1, 1]
// CHECK-NEXT:    %[[P:.*]] = graph.channels_last_max_pool %q kernel = [2, 2] strides = [2, 2] : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32>
// CHECK-NEXT:    %y = graph.transpose %[[P]] perm = [0, 3, 1, 2] : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
// CHECK-NEXT:    func.return %y
// OFF-LABEL: @region
// OFF-NOT:     channels_last
func.func @region(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
  // expected-remark @below {{3 of 3 operations run channels last: 19.2 instead of 37.4 us by the cost model}}
  // expected-remark @below {{conversion of argument 'x' for 'channels_last_conv' and 1 more}}
  // expected-remark @below {{conversion of argument 'w' for 'channels_last_conv' and 1 more}}
  %p = graph.conv %x, %w, %b pads = [1, 1, 1, 1] activation = <relu>
    : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %q = graph.conv %p, %w residual(%x : tensor<1x4x8x8xf32>) pads = [1, 1, 1, 1]
    : (tensor<1x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<1x4x8x8xf32>
  // expected-remark @below {{conversion of the result of 'channels_last_max_pool' for 'return'}}
  %y = graph.max_pool %q kernel = [2, 2] strides = [2, 2] : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// Transposes that are there already are conversions that need not be made; axes, constants and shapes of others follow.
// CHECK-LABEL: @between_transposes
// CHECK-NEXT:    %w = graph.constant dense<{{\[\[\[\[}}1.000000e+00, 2.000000e+00], [4.000000e+00, 5.000000e+00{{.*}} : tensor<3x1x2x2xf32>
// CHECK-NEXT:    %c = graph.channels_last_conv %x, %w : (tensor<1x6x4x2xf32>, tensor<3x1x2x2xf32>) -> tensor<1x4x4x2xf32>
// CHECK-NEXT:    %s = graph.constant dense<{{\[\[\[\[}}1.000000e+00, 2.000000e+00]]]]> : tensor<1x1x1x2xf32>
// CHECK-NEXT:    %m = graph.mul %c, %s
// CHECK-NEXT:    %y = graph.softmax %m axis = 3 : tensor<1x4x4x2xf32>
// CHECK-NEXT:    func.return %y
func.func @between_transposes(%x: tensor<1x6x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %w = graph.constant dense<[[[[1.0], [0.0], [0.0]], [[4.0], [0.0], [0.0]]], [[[2.0], [0.0], [0.0]], [[5.0], [0.0], [0.0]]]]> : tensor<2x2x3x1xf32>
  %s = graph.constant dense<[[[1.0]], [[2.0]]]> : tensor<2x1x1xf32>
  %t = graph.transpose %x perm = [0, 3, 1, 2] : (tensor<1x6x4x2xf32>) -> tensor<1x2x6x4xf32>
  // expected-remark @below {{3 of 3 operations run channels last: 0.2 instead of 0.5 us by the cost model}}
  %c = graph.conv %t, %w : (tensor<1x2x6x4xf32>, tensor<2x2x3x1xf32>) -> tensor<1x2x4x4xf32>
  %m = graph.mul %c, %s : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n = graph.softmax %m axis = 1 : tensor<1x2x4x4xf32>
  %y = graph.transpose %n perm = [0, 2, 3, 1] : (tensor<1x2x4x4xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// -----

// It would cost more to convert the operands than the operation gains.
// CHECK-LABEL: @too_little
// CHECK-NEXT:    graph.average_pool
func.func @too_little(%x: tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> {
  // expected-remark @below {{channels stay first in 1 operation: nothing would be gained}}
  %y = graph.average_pool %x kernel = [1, 1] : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %y : tensor<1x4x8x8xf32>
}

// CHECK: (S) 3 conversions
// CHECK: (S) 3 operations-converted
// CHECK: (S) 1 regions-converted
// CHECK: (S) 1 regions-kept
