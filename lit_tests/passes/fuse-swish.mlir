// RUN: mlopt-opt %s --split-input-file --fuse-swish --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-swish --remarks --verify-diagnostics

// CHECK-LABEL: @silu
// CHECK-NEXT:    %y = graph.swish %x alpha = 1.000000e+00 : tensor<2x3xf32>
// CHECK-NEXT:    func.return %y
func.func @silu(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = graph.sigmoid %x : tensor<2x3xf32>
  // expected-remark @below {{[fuse-swish] fused 'sigmoid', 'mul' into 'swish'}}
  %y = graph.mul %0, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @with_alpha
// CHECK:         %y = graph.swish %x alpha = 1.75{{0*}}e+00 : tensor<3xf16>
// CHECK-NEXT:    func.return %y
func.func @with_alpha(%x: tensor<3xf16>) -> tensor<3xf16> {
  %alpha = graph.constant dense<1.75> : tensor<f16>
  %0 = graph.mul %x, %alpha : (tensor<3xf16>, tensor<f16>) -> tensor<3xf16>
  %1 = graph.sigmoid %0 : tensor<3xf16>
  // expected-remark @below {{fused 'mul', 'sigmoid', 'mul' into 'swish'}}
  %y = graph.mul %x, %1 : (tensor<3xf16>, tensor<3xf16>) -> tensor<3xf16>
  func.return %y : tensor<3xf16>
}

// -----

// CHECK-LABEL: @quotient
// CHECK:         %y = graph.swish %x alpha = 1.000000e+00 : tensor<3xf64>
// CHECK-NEXT:    func.return %y
func.func @quotient(%x: tensor<3xf64>) -> tensor<3xf64> {
  %one = graph.constant dense<1.0> : tensor<f64>
  %0 = graph.neg %x : tensor<3xf64>
  %1 = graph.exp %0 : tensor<3xf64>
  %2 = graph.add %1, %one : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  // expected-remark @below {{fused 'neg', 'exp', 'add', 'div' into 'swish'}}
  %y = graph.div %x, %2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  func.return %y : tensor<3xf64>
}

// -----

// CHECK-LABEL: @hard
// CHECK:         %y = graph.hard_swish %x : tensor<3xf32>
// CHECK-NEXT:    func.return %y
func.func @hard(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %six = graph.constant dense<6.0> : tensor<f32>
  %0 = graph.add %x, %three : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.clip %0 min(%zero : tensor<f32>) max(%six : tensor<f32>) : tensor<3xf32>
  %2 = graph.mul %x, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  // expected-remark @below {{fused 'add', 'clip', 'mul', 'div' into 'hard_swish'}}
  %y = graph.div %2, %six : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK-LABEL: @hard_with_other_numbers
// CHECK:         graph.clip
func.func @hard_with_other_numbers(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %six = graph.constant dense<6.0> : tensor<f32>
  %0 = graph.add %x, %two : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.clip %0 min(%zero : tensor<f32>) max(%six : tensor<f32>) : tensor<3xf32>
  %2 = graph.mul %x, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  // expected-remark @below {{not fused: slope, shift and upper bound of 'clip' come to 0.1666667, 0.3333333, 1, not 0.1666667, 0.5, 1}}
  %y = graph.div %2, %six : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK-LABEL: @output
// CHECK:         graph.sigmoid
func.func @output(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = graph.sigmoid %x : tensor<3xf32> loc("gate")
  // expected-remark @below {{not fused: the result of 'sigmoid' (gate) is also a graph output}}
  %y = graph.mul %x, %0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %0 : tensor<3xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: @shifted
// CHECK:         graph.sigmoid
func.func @shifted(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.add %x, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.sigmoid %0 : tensor<3xf32>
  // expected-remark @below {{not fused: the sigmoid is not of a multiple of its other operand}}
  %y = graph.mul %x, %1 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// A gate of another value is none of these, and no near miss.
// CHECK-LABEL: @gate
// CHECK:         graph.sigmoid
func.func @gate(%x: tensor<3xf32>, %z: tensor<3xf32>) -> tensor<3xf32> {
  %0 = graph.sigmoid %z : tensor<3xf32>
  %y = graph.mul %x, %0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// A quotient of integers is truncated.
// CHECK-LABEL: @integers
// CHECK-NOT:     graph.hard_swish
func.func @integers(%x: tensor<3xi32>) -> tensor<3xi32> {
  %zero = graph.constant dense<0> : tensor<i32>
  %three = graph.constant dense<3> : tensor<i32>
  %six = graph.constant dense<6> : tensor<i32>
  %0 = graph.add %x, %three : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  %1 = graph.clip %0 min(%zero : tensor<i32>) max(%six : tensor<i32>) : tensor<3xi32>
  %2 = graph.mul %x, %1 : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  %y = graph.div %2, %six : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  func.return %y : tensor<3xi32>
}

// CHECK: (S) 1 swishes-fused
// CHECK: (S) 1 hard-swishes-fused
