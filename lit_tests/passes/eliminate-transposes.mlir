// RUN: mlopt-opt %s --split-input-file --eliminate-transposes --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --eliminate-transposes=regions=false | filecheck %s --check-prefix=MERGED
// RUN: mlopt-opt %s --split-input-file --eliminate-transposes --remarks --verify-diagnostics

// A transpose and the one that undoes it, with operations between them; a small constant is put into order too.
// CHECK-LABEL: @around
// CHECK-NEXT:    %c = graph.constant {{.*}} : tensor<1x3x1xf32>
// CHECK-NEXT:    %a = graph.add %x, %c : (tensor<2x3x4xf32>, tensor<1x3x1xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:    %y = graph.softmax %a axis = 2 : tensor<2x3x4xf32>
// CHECK-NEXT:    func.return %y
// MERGED-LABEL: @around
// MERGED-NEXT:    graph.transpose
func.func @around(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // expected-remark @below {{2 transposes fewer: 2 operations run in another order of dimensions}}
  %t = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %c = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %a = graph.add %t, %c : (tensor<2x4x3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
  %s = graph.softmax %a axis = 1 : tensor<2x4x3xf32>
  %y = graph.transpose %s perm = [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// -----

// The transpose is an output, so it stays; what undoes it goes.
// CHECK-LABEL: @shared
// CHECK-NEXT:    %t = graph.transpose %x
// CHECK-NEXT:    %r = graph.relu %t
// CHECK-NEXT:    func.return %x, %r, %t
// MERGED-LABEL: @shared
// MERGED:         func.return %x, %r, %t
func.func @shared(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %t = graph.transpose %x perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{a transpose is merged into what is before it, or is a reshape}}
  %y = graph.transpose %t perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %r = graph.relu %t : tensor<2x2xf32>
  func.return %y, %r, %t : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A reduction takes it in, whatever is left keeps its sequence.
// CHECK-LABEL: @reduction
// CHECK-NEXT:    %y = graph.reduce_max %x axes = [1] : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
func.func @reduction(%x: tensor<2x3x4xf32>) -> tensor<2x4xf32> {
  // expected-remark @below {{1 transpose fewer: 1 operation runs in another order of dimensions}}
  %t = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %y = graph.reduce_max %t axes = [2] : (tensor<2x4x3xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// The product of two transposes is the transpose of the product of the operands in the other sequence.
// CHECK-LABEL: @product
// CHECK-NEXT:    %0 = graph.matmul %b, %a : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:    %y = graph.transpose %0 perm = [1, 0]
func.func @product(%a: tensor<3x2xf32>, %b: tensor<4x3xf32>) -> tensor<2x4xf32> {
  // expected-remark @below {{1 transpose fewer: 1 operation runs in another order of dimensions}}
  %s = graph.transpose %a perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %t = graph.transpose %b perm = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %y = graph.matmul %s, %t : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// As many transposes would be needed elsewhere: %u has one order.
// CHECK-LABEL: @kept
// CHECK-NEXT:    graph.gather
// CHECK-NEXT:    graph.transpose
// CHECK:         graph.add
// CHECK:         graph.transpose
func.func @kept(%x: tensor<2x3xf32>, %i: tensor<3xi64>, %v: tensor<3x2xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>) {
  %u = graph.gather %v, %i axis = 0 : (tensor<3x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  // expected-remark @below {{not removed: 2 transposes meet here, but the result of 'gather' has one order}}
  %t = graph.transpose %x perm = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %a = graph.add %t, %u : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %y = graph.transpose %a perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  func.return %y, %a : tensor<2x3xf32>, tensor<3x2xf32>
}

// -----

// No data moves.
// CHECK-LABEL: @ones
// CHECK-NEXT:    %y = graph.reshape %x : tensor<1x3x1x2xf32> to tensor<3x2x1x1xf32>
func.func @ones(%x: tensor<1x3x1x2xf32>) -> tensor<3x2x1x1xf32> {
  // expected-remark @below {{a transpose is merged into what is before it, or is a reshape}}
  %y = graph.transpose %x perm = [1, 3, 0, 2] : (tensor<1x3x1x2xf32>) -> tensor<3x2x1x1xf32>
  func.return %y : tensor<3x2x1x1xf32>
}

// CHECK: (S) 1 regions-reordered
// CHECK: (S) 2 transposes-removed
// CHECK: (S) 1 regions-kept
