// RUN: mlopt-opt %s --split-input-file --eliminate-reshapes --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --eliminate-reshapes --remarks --verify-diagnostics

// A linear layer on rows.
// CHECK-LABEL: @linear
// CHECK-NEXT:    %p = graph.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
// CHECK-NEXT:    %a = graph.add %p, %b : (tensor<2x3x5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
// CHECK-NEXT:    %y = graph.softmax %a axis = 2 : tensor<2x3x5xf32>
// CHECK-NEXT:    func.return %y
func.func @linear(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>) -> tensor<2x3x5xf32> {
  %r = graph.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  %p = graph.matmul %r, %w : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %a = graph.add %p, %b : (tensor<6x5xf32>, tensor<5xf32>) -> tensor<6x5xf32>
  %s = graph.softmax %a axis = 1 : tensor<6x5xf32>
  // expected-remark @below {{two reshapes around operations on rows are one or none}}
  %y = graph.reshape %s : tensor<6x5xf32> to tensor<2x3x5xf32>
  func.return %y : tensor<2x3x5xf32>
}

// -----

// The bias has a dimension that the reshape merges: nothing moves.
// CHECK-LABEL: @merged_dimension
// CHECK-COUNT-2: graph.reshape
func.func @merged_dimension(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %r = graph.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  %a = graph.add %r, %c : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %y = graph.reshape %a : tensor<6xf32> to tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @shared
// CHECK-COUNT-2: graph.reshape
func.func @shared(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<6xf32>) {
  %r = graph.reshape %x : tensor<2x3xf32> to tensor<6xf32>
  %a = graph.relu %r : tensor<6xf32>
  // expected-remark @below {{not merged: what stands between the two reshapes is used elsewhere too}}
  %y = graph.reshape %a : tensor<6xf32> to tensor<3x2xf32>
  func.return %y, %a : tensor<3x2xf32>, tensor<6xf32>
}

// -----

// CHECK-LABEL: @transpose
// CHECK-NEXT:    graph.reshape %x : tensor<2x2x4x5x6xf32> to tensor<2x8x5x6xf32>
// CHECK-NEXT:    graph.transpose {{.*}} perm = [0, 1, 3, 2]
// CHECK-NEXT:    func.return
func.func @transpose(%x: tensor<2x2x4x5x6xf32>) -> tensor<2x8x6x5xf32> {
  %r = graph.reshape %x : tensor<2x2x4x5x6xf32> to tensor<16x5x6xf32>
  %t = graph.transpose %r perm = [0, 2, 1] : (tensor<16x5x6xf32>) -> tensor<16x6x5xf32>
  // expected-remark @below {{two reshapes around a transpose are one or none}}
  %y = graph.reshape %t : tensor<16x6x5xf32> to tensor<2x8x6x5xf32>
  func.return %y : tensor<2x8x6x5xf32>
}

// -----

// CHECK-LABEL: @pooled
// CHECK-NEXT:    graph.reduce_mean %x axes = [2, 3] : (tensor<2x3x4x5xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    graph.reduce_max %x axes = [1] keepdims : (tensor<2x3x4x5xf32>) -> tensor<2x1x4x5xf32>
// CHECK-NEXT:    func.return
func.func @pooled(%x: tensor<2x3x4x5xf32>) -> (tensor<2x3xf32>, tensor<2x1x4x5xf32>) {
  %m = graph.reduce_mean %x axes = [2, 3] keepdims : (tensor<2x3x4x5xf32>) -> tensor<2x3x1x1xf32>
  // expected-remark @below {{a reduction gives the shape that it is reshaped to}}
  %a = graph.reshape %m : tensor<2x3x1x1xf32> to tensor<2x3xf32>
  %n = graph.reduce_max %x axes = [1] : (tensor<2x3x4x5xf32>) -> tensor<2x4x5xf32>
  // expected-remark @below {{a reduction gives the shape that it is reshaped to}}
  %b = graph.reshape %n : tensor<2x4x5xf32> to tensor<2x1x4x5xf32>
  func.return %a, %b : tensor<2x3xf32>, tensor<2x1x4x5xf32>
}

// -----

// Another shape; and a reduction that is returned too.
// CHECK-LABEL: @pooled_otherwise
// CHECK-COUNT-2: graph.reshape
func.func @pooled_otherwise(%x: tensor<2x3x4xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x3x1xf32>) {
  %m = graph.reduce_sum %x axes = [2] keepdims : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  %a = graph.reshape %m : tensor<2x3x1xf32> to tensor<3x2xf32>
  %n = graph.reduce_min %x axes = [2] keepdims : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  %b = graph.reshape %n : tensor<2x3x1xf32> to tensor<2x3xf32>
  func.return %a, %b, %n : tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x3x1xf32>
}

// CHECK-DAG: (S) 2 reductions-reshaped
// CHECK-DAG: (S) 1 rows-kept
// CHECK-DAG: (S) 1 reshapes-merged
