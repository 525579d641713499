// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory)' --remarks=passed,missed,analysis --mlir-pass-statistics 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=SAID --input-file=%t.err

// Without a budget it is what the model takes as imported: %a, 2048 bytes, is used up before %b is made.
// CHECK-LABEL: func.func @main
// CHECK: %a = kernel.launch
// CHECK: %c = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: %d = kernel.launch
// SAID: remark: [fit-memory] in another order 4160 bytes live at once become 2176
// SAID: remark: [fit-memory] 2176 bytes live at once fit into 2560, 4160 did not: +0.0% flops, +0.0% modelled time
builtin.module attributes {mlopt.imported = {max_live_bytes = 2560 : i64}} {
  func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x128xf32>, %v: tensor<128x4xf32>) -> tensor<4x4xf32> {
    %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
    %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
    %c = graph.matmul %a, %v : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
    %d = graph.matmul %b, %v : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
    %y = graph.add %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    func.return %y : tensor<4x4xf32>
  }
}

// -----

// It is a wish: what can't be had is no error.
// CHECK-LABEL: func.func @main
// SAID: remark: [fit-memory] 128 bytes live at once are more than 64, which the model takes as imported; while {{.*}} runs, at least 128 are live
builtin.module attributes {mlopt.imported = {max_live_bytes = 64 : i64}} {
  func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = graph.matmul %a, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = graph.matmul %b, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    func.return %c : tensor<4x4xf32>
  }
}

// -----

// Where it is not known, nothing is done.
// CHECK-LABEL: func.func @main
// CHECK: %a = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: %c = kernel.launch
// SAID-NOT: remark
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x128xf32>, %v: tensor<128x4xf32>) -> tensor<4x4xf32> {
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
  %c = graph.matmul %a, %v : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
  %d = graph.matmul %b, %v : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
  %y = graph.add %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
