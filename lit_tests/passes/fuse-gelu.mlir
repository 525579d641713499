// RUN: mlopt-opt %s --split-input-file --fuse-gelu --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-gelu --remarks --verify-diagnostics

// CHECK-LABEL: @erf
// CHECK:         %y = graph.gelu %x : tensor<2x3xf32>
// CHECK-NEXT:    func.return %y
func.func @erf(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = graph.constant dense<1.41421354> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = graph.erf %0 : tensor<2x3xf32>
  %2 = graph.add %one, %1 : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = graph.mul %2, %half : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // expected-remark @below {{[fuse-gelu] fused 'div', 'erf', 'add', 'mul', 'mul' into 'gelu'}}
  %y = graph.mul %x, %3 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// The numbers are those of f16: 0.7979 and 0.0447.
// CHECK-LABEL: @tanh
// CHECK:         %y = graph.gelu %x approximate = "tanh" : tensor<f16>
// CHECK-NEXT:    func.return %y
func.func @tanh(%x: tensor<f16>) -> tensor<f16> {
  %c = graph.constant dense<0.7979> : tensor<f16>
  %k = graph.constant dense<0.0447> : tensor<f16>
  %three = graph.constant dense<3.0> : tensor<f16>
  %one = graph.constant dense<1.0> : tensor<f16>
  %half = graph.constant dense<0.5> : tensor<f16>
  %0 = graph.pow %x, %three : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %1 = graph.mul %0, %k : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %2 = graph.add %x, %1 : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %3 = graph.mul %2, %c : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %4 = graph.tanh %3 : tensor<f16>
  %5 = graph.add %4, %one : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %6 = graph.mul %half, %x : (tensor<f16>, tensor<f16>) -> tensor<f16>
  // expected-remark @below {{into 'gelu' in its tanh form}}
  %y = graph.mul %6, %5 : (tensor<f16>, tensor<f16>) -> tensor<f16>
  func.return %y : tensor<f16>
}

// -----

// CHECK-LABEL: @other_factor
// CHECK:         graph.erf
func.func @other_factor(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = graph.constant dense<1.41421354> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %factor = graph.constant dense<0.6> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.erf %0 : tensor<3xf32>
  %2 = graph.add %1, %one : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = graph.mul %x, %2 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  // expected-remark @below {{not fused: the factor of 'erf' is 0.6, not 0.5}}
  %y = graph.mul %3, %factor : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK-LABEL: @other_argument
// CHECK:         graph.erf
func.func @other_argument(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = graph.constant dense<1.5> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.erf %0 : tensor<3xf32>
  %2 = graph.mul %1, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = graph.add %2, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // expected-remark @below {{not fused: the argument of 'erf' is not x / sqrt(2)}}
  %y = graph.mul %x, %3 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

// CHECK-LABEL: @output
// CHECK:         graph.erf
func.func @output(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = graph.constant dense<1.41421354> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.erf %0 : tensor<3xf32> loc("inner")
  %2 = graph.mul %1, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = graph.add %2, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  // expected-remark @below {{not fused: the result of 'erf' (inner) is also a graph output}}
  %y = graph.mul %x, %3 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y, %1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// Half of what is needed is computed before the branch that may need it.
// CHECK-LABEL: @in_a_branch
// CHECK:         graph.erf
func.func @in_a_branch(%x: tensor<3xf32>, %p: i1) -> tensor<3xf32> {
  %c = graph.constant dense<1.41421354> : tensor<f32>
  %half = graph.constant dense<0.5> : tensor<f32>
  %0 = graph.div %x, %c : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = graph.erf %0 : tensor<3xf32>
  %y = scf.if %p -> (tensor<3xf32>) {
    %2 = graph.mul %1, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    %3 = graph.add %2, %half : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    // expected-remark @below {{not fused: 'erf' is in another block}}
    %4 = graph.mul %x, %3 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    scf.yield %4 : tensor<3xf32>
  } else {
    scf.yield %x : tensor<3xf32>
  }
  func.return %y : tensor<3xf32>
}

// CHECK: (S) 1 gelus-fused
