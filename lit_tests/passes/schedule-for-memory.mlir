// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,schedule-for-memory)' --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,schedule-for-memory)' --remarks --verify-diagnostics
// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,schedule-for-memory{nodes=0})' | filecheck %s --check-prefix=BEAM

// One branch after the other: 1024 bytes of %b and 64 each of %c and %d, where %a, %b and %c took 2112.
// CHECK-LABEL: func.func @branches
// CHECK: %a = kernel.launch
// CHECK: %c = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: %d = kernel.launch
// CHECK: %y = kernel.launch
// BEAM-LABEL: func.func @branches
// BEAM: %a = kernel.launch
// BEAM: %c = kernel.launch
// BEAM: %b = kernel.launch
func.func @branches(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>) -> tensor<4x4xf32> {
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  // expected-remark @below {{ordered for memory: 2112 bytes live at once become 1152, no order takes less than 1152: optimal (proved)}}
  %c = graph.matmul %a, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %d = graph.matmul %b, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %y = graph.add %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

// What may stop the run stays where it is: both are live when it is reached.
// CHECK-LABEL: func.func @effects
// CHECK: %a = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: cf.assert
// CHECK: %c = kernel.launch
// expected-remark @below {{2112 bytes live at once in the order as it is, no order takes less than 2112: optimal (proved)}}
func.func @effects(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>) -> tensor<4x4xf32> {
  %true = arith.constant true
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  cf.assert %true, "never"
  %c = graph.matmul %a, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %d = graph.matmul %b, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %y = graph.add %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

// Outputs are the caller's memory: %b, %a and %d take nothing here, and the order stays.
// CHECK-LABEL: func.func @outputs
// CHECK: %a = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: %c = kernel.launch
// expected-remark @below {{64 bytes live at once in the order as it is, no order takes less than 64: optimal (proved)}}
func.func @outputs(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x4xf32>) {
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %c = graph.matmul %a, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %d = graph.matmul %c, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %a, %b, %d : tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x4xf32>
}

// -----

// A view lives as long as what it is a view of, and goes along: %r stands before %c, which needs it.
// CHECK-LABEL: func.func @views
// CHECK: %a = kernel.launch
// CHECK: %r = kernel.reshape %a
// CHECK: %c = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: %s = kernel.reshape %b
// CHECK: %d = kernel.launch
func.func @views(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<32x4xf32>) -> tensor<8x4xf32> {
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %r = graph.reshape %a : tensor<4x64xf32> to tensor<8x32xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %s = graph.reshape %b : tensor<4x64xf32> to tensor<8x32xf32>
  // expected-remark @below {{ordered for memory: 2176 bytes live at once become 1280}}
  %c = graph.matmul %r, %v : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
  %d = graph.matmul %s, %v : (tensor<8x32xf32>, tensor<32x4xf32>) -> tensor<8x4xf32>
  %y = graph.add %c, %d : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %y : tensor<8x4xf32>
}

// -----

// A view that nothing needs stands behind what it is a view of.
// CHECK-LABEL: func.func @unused
// CHECK: %a = kernel.launch
// CHECK: %c = kernel.launch
// CHECK: %b = kernel.launch
// CHECK-NEXT: ^bb0
// CHECK: %r = kernel.reshape %b
// CHECK: %d = kernel.launch
func.func @unused(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>) -> tensor<4x4xf32> {
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %r = graph.reshape %b : tensor<4x64xf32> to tensor<8x32xf32>
  // expected-remark @below {{ordered for memory: 2112 bytes live at once become 1152}}
  %c = graph.matmul %a, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %d = graph.matmul %b, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
  %y = graph.add %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// CHECK: (S) 1 blocks-ordered
