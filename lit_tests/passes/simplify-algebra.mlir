// RUN: mlopt-opt %s --split-input-file --simplify-algebra | filecheck %s
// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(simplify-algebra{mode=fast})' | filecheck %s --check-prefix=FAST
// RUN: mlopt-opt %s --split-input-file --simplify-algebra --remarks --verify-diagnostics

// CHECK-LABEL: @signs
// CHECK-NEXT:    %0 = graph.add %a, %b
// CHECK-NEXT:    func.return %0
func.func @signs(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %n = graph.neg %b : tensor<4xf32>
  // expected-remark @below {{rewrote 'graph.sub' by SubtractNegated: a - (-b) -> a + b}}
  %0 = graph.sub %a, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// What torch writes for relu6: one operation.
// CHECK-LABEL: @relu6
// CHECK:         %0 = graph.clip %a min(%{{.*}} : tensor<f32>) max(%{{.*}} : tensor<f32>)
// CHECK-NEXT:    func.return %0
func.func @relu6(%a: tensor<4xf32>) -> tensor<4xf32> {
  %six = graph.constant dense<6.0> : tensor<1xf32>
  %r = graph.relu %a : tensor<4xf32>
  // expected-remark @below {{rewrote 'graph.min' by MergeBounds}}
  %0 = graph.min %r, %six : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// Two roundings are not one: only on request. The sum of 0.0 turns -0.0 into 0.0.
// CHECK-LABEL: @rounding
// CHECK:         %p = graph.mul %a
// CHECK-NEXT:    %q = graph.mul %p
// CHECK-NEXT:    %0 = graph.add %q
// FAST-LABEL:  @rounding
// FAST-NEXT:     %[[C:.*]] = graph.constant dense<6.000000e+00>
// FAST-NEXT:     %[[Q:.*]] = graph.mul %a, %[[C]]
// FAST-NEXT:     func.return %[[Q]]
func.func @rounding(%a: tensor<4xf32>) -> tensor<4xf32> {
  %three = graph.constant dense<3.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %p = graph.mul %a, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // expected-remark @below {{not exact, mode=fast does it: (a + c) + d -> a + (c + d); (a * c) * d -> a * (c * d)}}
  %q = graph.mul %p, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  // expected-remark @below {{not exact, mode=fast does it: a + 0.0 -> a}}
  %0 = graph.add %q, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// The scaled value is used twice: nothing is gained.
// CHECK-LABEL: @used_twice
// CHECK:         %p = graph.mul %a
// CHECK-NEXT:    %q = graph.mul %p
func.func @used_twice(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %four = graph.constant dense<4.0> : tensor<f32>
  %p = graph.mul %a, %four : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %q = graph.mul %p, %four : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %p, %q : tensor<4xf32>, tensor<4xf32>
}
