// RUN: mlopt-opt %s --O2 | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(O2)' | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(O0)' | filecheck %s --check-prefix=APART
// RUN: mlopt-opt %s --convert-graph-to-kernel | mlopt-opt --O2 --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=KERNEL
// RUN: mlopt-opt %s --O2 | mlopt-opt --O1 --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=MEMREF
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(cse, O0 )' --dump-pass-pipeline -o %t 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(cse,func.func(O1))' 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(O1{size=2})' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not mlopt-opt %s --O1=size=2 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: mlopt-opt --list-passes | filecheck %s --check-prefix=LIST

// Fused, and at the memref level with its arena; as imported, two kernels.
// CHECK: func.func @main(%arena: memref<{{[0-9]+}}xi8> {mlopt.arena}
// CHECK-COUNT-1: func.call
// CHECK-NOT: func.call
// APART: func.func @main(%arena: memref<{{[0-9]+}}xi8> {mlopt.arena}
// APART-COUNT-2: func.call
// APART-NOT: func.call

// From the level that the module is at.
// KERNEL:      builtin.module(
// KERNEL-NEXT:   fuse-kernels{max-ops={{[0-9]+}}},
// KERNEL-NEXT:   place-concats,
// KERNEL-NEXT:   place-donated,
// KERNEL-NEXT:   reuse-in-place,
// KERNEL-NEXT:   chunk-scans{growth={{[0-9]+}}},
// KERNEL-NEXT:   schedule-for-memory{nodes={{[0-9]+}}},
// KERNEL-NEXT:   cse,
// KERNEL-NEXT:   dce,
// KERNEL-NEXT:   fit-memory{nodes={{[0-9]+}}},
// KERNEL-NEXT:   convert-kernel-to-memref,
// KERNEL-NEXT:   elide-copies,
// KERNEL-NEXT:   place-outputs,
// KERNEL-NEXT:   plan-workspaces{growth={{[0-9]+}}},
// KERNEL-NEXT:   assign-buffers{
// MEMREF:      Pass Manager with 4 passes:
// MEMREF-NEXT: builtin.module(
// MEMREF-NEXT:   elide-copies,
// MEMREF-NEXT:   place-outputs,
// MEMREF-NEXT:   plan-workspaces{growth={{[0-9]+}}},

// Expanded in place, with the values of options.
// DUMP:      Pass Manager with 6 passes:
// DUMP-NEXT: builtin.module(
// DUMP-NEXT:   cse,
// DUMP-NEXT:   dce,
// DUMP-NEXT:   convert-graph-to-kernel,
// DUMP-NEXT:   convert-kernel-to-memref,
// DUMP-NEXT:   plan-workspaces{growth={{[0-9]+}}},
// DUMP-NEXT:   assign-buffers{strategy=aggressive alignment=64 nodes={{[0-9]+}}}
// DUMP-NEXT: )

// NESTED: <pass-pipeline>:1:30: error: can't add pass '{{.*}}' restricted to 'builtin.module'
// OPTION: error: pipeline 'O1': no such option size (its options: none)

// LIST:      {{^}}Passes:
// LIST:      {{^}}--canonicalize
// LIST:      {{^}}Pass Pipelines:
// LIST-NEXT: {{^}}--O0
// LIST-NEXT:     As imported: every operator its own kernel.
// LIST-NEXT:       dce, convert-graph-to-kernel, convert-kernel-to-memref, plan-workspaces,
// LIST:      {{^}}--O2

func.func @main(%x: tensor<4x8xf32> {mlopt.name = "x"}, %w: tensor<8x6xf32> {mlopt.name = "w"}) -> (tensor<4x6xf32> {mlopt.name = "y"}) {
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.relu %m : tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}
