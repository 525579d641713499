// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2560})' --remarks --mlir-pass-statistics 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=SAID --input-file=%t.err
// RUN: not mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=1KiB})' 2>&1 | filecheck %s --check-prefix=KIB
// RUN: not mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=1024})' 2>&1 | filecheck %s --check-prefix=REFUSED
// RUN: not mlopt-opt %s --split-input-file --fit-memory=budget=-1 2>&1 | filecheck %s --check-prefix=NEGATIVE

// KIB: pass 'fit-memory': option 'budget' expects an integer, found '1KiB'
// NEGATIVE: pass 'fit-memory': the budget can't be negative, found -1

// In order: %a, 2048 bytes, is used up before %b is made.
// CHECK-LABEL: func.func @main
// CHECK: %a = kernel.launch
// CHECK: %c = kernel.launch
// CHECK: %b = kernel.launch
// CHECK: %d = kernel.launch
// SAID: remark: [fit-memory] in another order 4160 bytes live at once become 2176
// SAID: remark: [fit-memory] 2176 bytes live at once fit into 2560, 4160 did not: +0.0% flops, +0.0% modelled time
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x128xf32>, %v: tensor<128x4xf32>) -> tensor<4x4xf32> {
  %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
  %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x128xf32>) -> tensor<4x128xf32>
  %c = graph.matmul %a, %v : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
  %d = graph.matmul %b, %v : (tensor<4x128xf32>, tensor<128x4xf32>) -> tensor<4x4xf32>
  %y = graph.add %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

// Tiles: 4096 bytes pass between two launches. They become one, in which each half is made and summed up.
// CHECK-LABEL: func.func @main
// CHECK: kernel.launch @exp_reduce_sum
// CHECK: tensor.empty() : tensor<16x32xf32>
// CHECK: kernel.map bounds [d0 = 16, d1 = 32] ins(%{{.*}}[d0, d1] : tensor<32x32xf32>)
// CHECK: kernel.reduce bounds [d0 = 16, d1 = 32] ins(%{{.*}}[d0, d1] : tensor<16x32xf32>) outs(%{{.*}}[d0] : tensor<32xf32>)
// CHECK: tensor.empty() : tensor<16x32xf32>
// CHECK: kernel.map bounds [d0 = 16, d1 = 32] ins(%{{.*}}[d0 + 16, d1] : tensor<32x32xf32>)
// CHECK: kernel.reduce bounds [d0 = 16, d1 = 32] ins(%{{.*}}[d0, d1] : tensor<16x32xf32>) outs(%{{.*}}[d0 + 16] : tensor<32xf32>)
// CHECK-NOT: kernel.launch
// SAID: remark: [fit-memory] 'exp' and 'reduce_sum' run in 2 tiles: 4096 bytes live at once become 2112, for 0 flops
func.func @main(%x: tensor<32x32xf32>) -> tensor<32xf32> {
  %a = graph.exp %x : tensor<32x32xf32>
  %y = graph.reduce_sum %a axes = [1] : (tensor<32x32xf32>) -> tensor<32xf32>
  func.return %y : tensor<32xf32>
}

// -----

// Again: %a is kept over %p and %q, 1024 bytes each. Made again right before the end, it costs 2 * 4 * 256 flops.
// CHECK-LABEL: func.func @main
// CHECK: %a = kernel.launch @matmul ins(%x, %w
// CHECK: %c = kernel.launch @matmul ins(%a, %v
// CHECK: %p = kernel.launch
// CHECK: %q = kernel.launch
// CHECK: %r = kernel.launch
// CHECK: %[[AGAIN:a_[0-9]+]] = kernel.launch @matmul ins(%x, %w
// CHECK: kernel.launch @add ins(%[[AGAIN]], %t
// SAID: remark: [fit-memory] 'matmul' run again before 'add': 3072 bytes live at once become 2048, for 2048 flops
// SAID: remark: [fit-memory] 2048 bytes live at once fit into 2560, 3072 did not: +{{.*}}% flops, +{{.*}}% modelled time
// REFUSED: error: no order of the launches, and no second run of single ones, fits into 1024 bytes: while 'matmul' runs, at least 2048 are live
// REFUSED: note: 1024 bytes made by 'matmul', used there
// REFUSED: note: 1024 bytes made by 'matmul', used there
func.func @main(%x: tensor<1x4xf32>, %w: tensor<4x256xf32>, %v: tensor<256x4xf32>, %u: tensor<256x256xf32>) -> tensor<1x256xf32> {
  %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
  %c = graph.matmul %a, %v : (tensor<1x256xf32>, tensor<256x4xf32>) -> tensor<1x4xf32>
  %p = graph.matmul %c, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
  %q = graph.matmul %p, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %r = graph.matmul %q, %v : (tensor<1x256xf32>, tensor<256x4xf32>) -> tensor<1x4xf32>
  %t = graph.matmul %r, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
  %y = graph.add %a, %t : (tensor<1x256xf32>, tensor<1x256xf32>) -> tensor<1x256xf32>
  func.return %y : tensor<1x256xf32>
}

// -----

// Enough already.
// SAID: [fit-memory] 64 bytes live at once fit into 2560
// CHECK-LABEL: func.func @main
// CHECK: kernel.launch @exp
// CHECK: kernel.launch @sqrt
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %a = graph.exp %x : tensor<16xf32>
  %y = graph.sqrt %a : tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// SAID: (S) 1 orders-changed
// SAID: (S) 2 launches-tiled
// SAID: (S) 1 launches-run-again
