// RUN: mlopt-opt %s --split-input-file --fuse-group-norm --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-group-norm --remarks --verify-diagnostics

// As torch exports a group normalization: instances of 2 groups, then a scale and a bias for each of 4 channels.
// CHECK-LABEL: @groups
// CHECK:         graph.group_norm %x, %{{.*}}, %{{.*}} groups = 2 epsilon = 1.000000e-05 : (tensor<1x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x3x3xf32>
// CHECK-NEXT:    func.return
func.func @groups(%x: tensor<1x4x3x3xf32>, %scale: tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32> {
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %bias = graph.constant dense<[[[1.0]], [[2.0]], [[3.0]], [[0.0]]]> : tensor<4x1x1xf32>
  %rows = graph.reshape %x : tensor<1x4x3x3xf32> to tensor<1x2x18xf32>
  %norm = graph.group_norm %rows, %one, %zero groups = 2 epsilon = 1.000000e-05 : (tensor<1x2x18xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x18xf32>
  %back = graph.reshape %norm : tensor<1x2x18xf32> to tensor<1x4x3x3xf32>
  %scaled = graph.mul %back, %scale : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  // expected-remark @below {{fused 'group_norm', 'reshape', 'mul', 'add' into 'group_norm'}}
  %y = graph.add %bias, %scaled : (tensor<4x1x1xf32>, tensor<1x4x3x3xf32>) -> tensor<1x4x3x3xf32>
  func.return %y : tensor<1x4x3x3xf32>
}

// -----

// CHECK-LABEL: @own_scale
// CHECK:         graph.add
func.func @own_scale(%x: tensor<1x2x18xf32>) -> tensor<1x4x3x3xf32> {
  %one = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %scale = graph.constant dense<2.0> : tensor<4x1x1xf32>
  %bias = graph.constant dense<1.0> : tensor<4x1x1xf32>
  %norm = graph.group_norm %x, %one, %zero groups = 2 epsilon = 1.000000e-05 : (tensor<1x2x18xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x18xf32>
  %back = graph.reshape %norm : tensor<1x2x18xf32> to tensor<1x4x3x3xf32>
  %scaled = graph.mul %back, %scale : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  // expected-remark @below {{not fused: the normalization has a scale or bias of its own}}
  %y = graph.add %scaled, %bias : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  func.return %y : tensor<1x4x3x3xf32>
}

// -----

// CHECK-LABEL: @by_column
// CHECK:         graph.add
func.func @by_column(%x: tensor<1x2x18xf32>) -> tensor<1x4x3x3xf32> {
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %scale = graph.constant dense<2.0> : tensor<1x1x3xf32>
  %bias = graph.constant dense<1.0> : tensor<4x1x1xf32>
  %norm = graph.group_norm %x, %one, %zero groups = 2 epsilon = 1.000000e-05 : (tensor<1x2x18xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x18xf32>
  %back = graph.reshape %norm : tensor<1x2x18xf32> to tensor<1x4x3x3xf32>
  %scaled = graph.mul %back, %scale : (tensor<1x4x3x3xf32>, tensor<1x1x3xf32>) -> tensor<1x4x3x3xf32>
  // expected-remark @below {{not fused: the scale or bias is not one number for each channel}}
  %y = graph.add %scaled, %bias : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  func.return %y : tensor<1x4x3x3xf32>
}

// -----

// CHECK-LABEL: @negative_zero
// CHECK:         graph.add
func.func @negative_zero(%x: tensor<1x2x18xf32>) -> tensor<1x4x3x3xf32> {
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %scale = graph.constant dense<2.0> : tensor<4x1x1xf32>
  %bias = graph.constant dense<-0.0> : tensor<4x1x1xf32>
  %norm = graph.group_norm %x, %one, %zero groups = 2 epsilon = 1.000000e-05 : (tensor<1x2x18xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x18xf32>
  %back = graph.reshape %norm : tensor<1x2x18xf32> to tensor<1x4x3x3xf32>
  %scaled = graph.mul %back, %scale : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  // expected-remark @below {{not fused: the bias is not constant, or has -0.0}}
  %y = graph.add %scaled, %bias : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  func.return %y : tensor<1x4x3x3xf32>
}

// -----

// CHECK-LABEL: @an_output
// CHECK:         graph.add
func.func @an_output(%x: tensor<1x2x18xf32>) -> (tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32>) {
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %scale = graph.constant dense<2.0> : tensor<4x1x1xf32>
  %bias = graph.constant dense<1.0> : tensor<4x1x1xf32>
  %norm = graph.group_norm %x, %one, %zero groups = 2 epsilon = 1.000000e-05 : (tensor<1x2x18xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x18xf32>
  %back = graph.reshape %norm : tensor<1x2x18xf32> to tensor<1x4x3x3xf32>
  %scaled = graph.mul %back, %scale : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  // expected-remark @below {{not fused: the result of 'mul' is also a graph output}}
  %y = graph.add %scaled, %bias : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  func.return %y, %scaled : tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32>
}

// CHECK: (S) 1 group-norms-fused
