// RUN: mlopt-opt %s --pass-pipeline='builtin.module(fold-batch-norm,dce)' | filecheck %s

// Channels 0 and 1 are scaled by 3 and 5; the bias becomes c * a + (bias - mean * a).
// CHECK-LABEL: @conv
// CHECK-NEXT: %w = graph.constant dense<{{.*}}6.000000e+00{{.*}}2.000000e+01{{.*}}> : tensor<2x1x1xf32>
// CHECK-NEXT: %c = graph.constant dense<[2.000000e+00, 6.000000e+00]> : tensor<2xf32>
// CHECK-NEXT: %y = graph.conv %x, %w, %c strides = [2] pads = [1, 0] : (tensor<1x1x4xf32>, tensor<2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>
// CHECK-NEXT: func.return %y
func.func @conv(%x: tensor<1x1x4xf32>) -> tensor<1x2x3xf32> {
  %w = graph.constant dense<[[[2.0]], [[4.0]]]> : tensor<2x1x1xf32>
  %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %scale = graph.constant dense<[3.0, 5.0]> : tensor<2xf32>
  %bias = graph.constant dense<[2.0, 1.0]> : tensor<2xf32>
  %mean = graph.constant dense<[1.0, 1.0]> : tensor<2xf32>
  %variance = graph.constant dense<[1.0, 1.0]> : tensor<2xf32>
  %0 = graph.conv %x, %w, %c strides = [2] pads = [1, 0] : (tensor<1x1x4xf32>, tensor<2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>
  %y = graph.batch_norm %0, %scale, %bias, %mean, %variance epsilon = 0.0 : (tensor<1x2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x3xf32>
  func.return %y : tensor<1x2x3xf32>
}

// The convolution is used twice: its weights stay, the normalization becomes mul and add.
// CHECK-LABEL: @conv_used_twice
// CHECK: %0 = graph.conv %x, %w :
// CHECK: graph.mul %0, %s{{.*}} : (tensor<1x1x1x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x1x2xf32>
// CHECK-NEXT: graph.add
// CHECK-NEXT: graph.relu %0
func.func @conv_used_twice(%x: tensor<1x1x1x2xf32>) -> (tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>) {
  %w = graph.constant dense<2.0> : tensor<1x1x1x1xf32>
  %s = graph.constant dense<3.0> : tensor<1xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32>
  %zero = graph.constant dense<0.0> : tensor<1xf32>
  %0 = graph.conv %x, %w : (tensor<1x1x1x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x1x2xf32>
  %y1 = graph.batch_norm %0, %s, %one, %zero, %one epsilon = 0.0 : (tensor<1x1x1x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1x2xf32>
  %y2 = graph.relu %0 : tensor<1x1x1x2xf32>
  func.return %y1, %y2 : tensor<1x1x1x2xf32>, tensor<1x1x1x2xf32>
}

// CHECK-LABEL: @conv_returned
// CHECK: graph.mul
// CHECK-NEXT: graph.add
// CHECK-NEXT: func.return %0, %
func.func @conv_returned(%x: tensor<1x1x2xf32>) -> (tensor<1x1x2xf32>, tensor<1x1x2xf32>) {
  %w = graph.constant dense<2.0> : tensor<1x1x1xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32>
  %0 = graph.conv %x, %w : (tensor<1x1x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x2xf32>
  %y = graph.batch_norm %0, %one, %one, %one, %one epsilon = 0.0 : (tensor<1x1x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x2xf32>
  func.return %0, %y : tensor<1x1x2xf32>, tensor<1x1x2xf32>
}

// CHECK-LABEL: @matmul_and_bias
// CHECK-NEXT: %w = graph.constant dense<{{.*}}> : tensor<2x2xf32>
// CHECK-NEXT: %[[B:.*]] = graph.constant dense<[2.100000e+01, 4.100000e+01]> : tensor<2xf32>
// CHECK-NEXT: %[[P:.*]] = graph.matmul %x, %w
// CHECK-NEXT: %{{.*}} = graph.add %[[P]], %[[B]]
// CHECK-NEXT: func.return
func.func @matmul_and_bias(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %c = graph.constant dense<[[10.0, 20.0]]> : tensor<1x2xf32>
  %two = graph.constant dense<2.0> : tensor<2xf32>
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.add %c, %0 : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %y = graph.batch_norm %1, %two, %one, %zero, %one epsilon = 0.0 : (tensor<1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// A bias per row is no bias per channel; a scale that is not constant folds nowhere; nor does a variance of 0.
// CHECK-LABEL: @not_folded
// CHECK: graph.add
// CHECK: graph.mul
// CHECK-NEXT: graph.add
// CHECK: graph.batch_norm %0, %s
// CHECK: graph.batch_norm %0, %one
func.func @not_folded(%x: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %c = graph.constant dense<[[10.0], [20.0]]> : tensor<2x1xf32>
  %two = graph.constant dense<2.0> : tensor<2xf32>
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %0 = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = graph.add %0, %c : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %y1 = graph.batch_norm %1, %two, %one, %zero, %one epsilon = 0.0 : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %y2 = graph.batch_norm %0, %s, %one, %zero, %one epsilon = 0.0 : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %y3 = graph.batch_norm %0, %one, %one, %zero, %zero epsilon = 0.0 : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  func.return %y1, %y2, %y3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}
