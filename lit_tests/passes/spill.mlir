// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2048 spill=any})' --remarks --mlir-pass-statistics 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=SAID --input-file=%t.err
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2048 spill=1024},convert-kernel-to-memref,elide-copies,plan-workspaces{budget=2048},assign-buffers{budget=2048 spill=1024})' | filecheck %s --check-prefix=PLANNED
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2048})' 2>&1 | filecheck %s --check-prefix=NOT-ALLOWED
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2048 spill=1023})' 2>&1 | filecheck %s --check-prefix=NO-ROOM
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2047 spill=any})' 2>&1 | filecheck %s --check-prefix=REFUSED
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fit-memory{budget=2048 spill=any},convert-kernel-to-memref,assign-buffers{spill=1000})' 2>&1 | filecheck %s --check-prefix=PLAN
// RUN: not mlopt-opt %s --fit-memory='budget=1 spill=-1' 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not mlopt-opt %s --fit-memory='budget=1 spill=all' 2>&1 | filecheck %s --check-prefix=WORD

// %a, 1024 bytes, is kept over a product that reads 1024 bytes and makes 1024. What made it is five products away from
// what is there, so it is not made again: it is copied to the second memory after %p, which reads it, and back at the end.

// CHECK-LABEL: func.func @main
// CHECK: %a = kernel.launch @matmul ins(%c5
// CHECK: %p = kernel.launch @matmul ins(%a
// CHECK: %a_spilled = kernel.copy %a to 1 : tensor<1x256xf32>
// CHECK: %q = kernel.launch @matmul ins(%p
// CHECK: %a_back = kernel.copy %a_spilled to 0 : tensor<1x256xf32>
// CHECK-NEXT: %[[T:.*]] = kernel.reshape %a_back : tensor<1x256xf32> to tensor<256x1xf32>
// CHECK-NOT: kernel.copy
// CHECK: kernel.launch @matmul ins(%q, %[[T]]
// SAID: remark: [fit-memory] 1024 bytes made by 'matmul' are spilled to memory space 1 after 'matmul', and back before 'matmul'
// SAID: remark: [fit-memory] 1 tensor spilled: 3072 bytes live at once become 2048, for 0 flops, 2048 bytes moved and
// SAID: remark: [fit-memory] 2048 bytes live at once fit into 2048, 3072 did not: +0.0% flops, {{.*}} modelled time; spilling -1024 bytes for 0 flops, 2048 bytes moved
// SAID: (S) 1 tensors-spilled

// PLANNED: func.func @main(%arena: memref<2048xi8> {mlopt.arena}, %spill: memref<1024xi8, 1 : i64> {mlopt.arena}, %x:
// PLANNED: %a_spilled = memref.view %spill[%c0][] : memref<1024xi8, 1 : i64> to memref<1x256xf32, 1 : i64>
// PLANNED-NEXT: memref.copy %a, %a_spilled : memref<1x256xf32> to memref<1x256xf32, 1 : i64>
// PLANNED: %a_back = memref.view %arena[{{.*}}][] : memref<2048xi8> to memref<1x256xf32>
// PLANNED-NEXT: memref.copy %a_spilled, %a_back : memref<1x256xf32, 1 : i64> to memref<1x256xf32>

// NOT-ALLOWED: error: no order of the launches, and no second run of single ones, fits into 2048 bytes: while 'matmul' runs, at least 3072 are live
// NOT-ALLOWED: note: a spill budget may help: what one launch uses takes at most 2048 bytes
// NO-ROOM: error: found no way to fit into 2048 bytes, and 1023 to spill to; it is proved that no order of the launches, no second run of single ones, and no spilling takes less than 2048, which are live while 'matmul' runs
// REFUSED: error: no order of the launches, no second run of single ones, and no spilling fits into 2047 bytes: while 'matmul' runs, at least 2048 are live
// REFUSED: note: 1024 bytes made by 'matmul', used there
// REFUSED: note: 1024 bytes made by 'matmul', used there
// PLAN: error: the arena of memory space 1 of 1024 bytes does not fit into the budget of 1000; 1024 are live at once
// NEGATIVE: error: pass 'fit-memory': the bytes to spill to can't be negative, found -1
// WORD: error: pass 'fit-memory': option 'spill' expects an integer or any, found 'all'
func.func @main(%x: tensor<1x256xf32>, %u: tensor<256x256xf32>) -> tensor<1x1xf32> {
  %c1 = graph.matmul %x, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %c2 = graph.matmul %c1, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %c3 = graph.matmul %c2, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %c4 = graph.matmul %c3, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %c5 = graph.matmul %c4, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %a = graph.matmul %c5, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %p = graph.matmul %a, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %q = graph.matmul %p, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
  %t = graph.reshape %a : tensor<1x256xf32> to tensor<256x1xf32>
  %y = graph.matmul %q, %t : (tensor<1x256xf32>, tensor<256x1xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
