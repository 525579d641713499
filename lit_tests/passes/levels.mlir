// Every pass of a level says so if it is run at another one; passes of all levels (canonicalize, cse, dce) run anywhere.

// RUN: not mlopt-opt %s --fuse-kernels 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not mlopt-opt %s --schedule-for-memory 2>&1 | filecheck %s --check-prefix=EARLY
// RUN: not mlopt-opt %s --convert-kernel-to-memref 2>&1 | filecheck %s --check-prefix=EARLY
// EARLY: levels.mlir:{{[0-9]+}}:8: error: expected a module at the kernel level, found 'graph.exp': a pass of that level stands behind 'convert-graph-to-kernel'
// EARLY: note: pass '{{[a-z-]+}}' requires this

// RUN: not mlopt-opt %s --convert-graph-to-kernel --plan-workspaces 2>&1 | filecheck %s --check-prefix=UNBUFFERED
// RUN: not mlopt-opt %s --convert-graph-to-kernel --assign-buffers 2>&1 | filecheck %s --check-prefix=UNBUFFERED
// UNBUFFERED: error: expected a module at the memref level, found 'tensor.empty': a pass of that level stands behind 'convert-kernel-to-memref'

// RUN: mlopt-opt %s --O0 | not mlopt-opt --reuse-in-place 2>&1 | filecheck %s --check-prefix=LATE
// LATE: error: expected a module at the kernel level, found 'memref.{{.*}}': a pass of that level stands before 'convert-kernel-to-memref'

// RUN: mlopt-opt %s --O0 | not mlopt-opt --convert-graph-to-kernel 2>&1 | filecheck %s --check-prefix=BACK
// BACK: error: expected a module at the graph or kernel level, found 'memref.{{.*}}': there is no way back up

// RUN: mlopt-opt %s --O0 | mlopt-opt --canonicalize --cse --dce --convert-kernel-to-memref --plan-workspaces --assign-buffers | filecheck %s
// CHECK: func.func @main

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = graph.exp %x : tensor<4xf32>
  %y = graph.softmax %a axis = 0 : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
