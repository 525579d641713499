// RUN: mlopt-opt %s --assign-buffers | filecheck %s
// RUN: mlopt-opt %s --assign-buffers=strategy=conservative | filecheck %s --check-prefix=CONSERVATIVE
// RUN: mlopt-opt %s --assign-buffers='strategy=none alignment=128' | filecheck %s --check-prefix=NONE
// RUN: mlopt-opt %s --assign-buffers=budget=192 | filecheck %s
// RUN: not mlopt-opt %s --assign-buffers=budget=191 2>&1 | filecheck %s --check-prefix=BUDGET

// `%a` (64 bytes) is dead when `%c` (32 bytes) is written; `%r` is a view of `%b`. Workspaces are buffers like others.

// CHECK-LABEL: func.func @main(%arena: memref<192xi8> {mlopt.arena}, %x:
// CHECK-DAG:     %c0 = arith.constant 0 : index
// CHECK-DAG:     %c64 = arith.constant 64 : index
// CHECK:         %a = memref.view %arena[%[[A:.*]]][] : memref<192xi8> to memref<16xf32>
// CHECK:         %b = memref.view %arena[%[[B:.*]]][] : memref<192xi8> to memref<16xf32>
// CHECK:         %ws = memref.view %arena[%[[W:.*]]][] {mlopt.workspace} : memref<192xi8> to memref<64xi8>
// CHECK:         %r = memref.reinterpret_cast %b to
// CHECK:         %c = memref.view %arena[%[[C:.*]]][] : memref<192xi8> to memref<8xf32>
// CHECK-NOT:     memref.alloc

// CONSERVATIVE: %arena: memref<256xi8> {mlopt.arena}

// BUDGET: error: the arena of 192 bytes does not fit into the budget of 191; 192 are live at once, and these do not fit together
// BUDGET: note: 64 bytes of a tensor
// BUDGET: note: 64 bytes of a tensor
// BUDGET: note: 64 bytes of a workspace

// NONE:         %arena: memref<512xi8> {mlopt.arena}
// NONE-DAG:     %c0 = arith.constant 0 : index
// NONE-DAG:     %c128 = arith.constant 128 : index
// NONE-DAG:     %c256 = arith.constant 256 : index
// NONE-DAG:     %c384 = arith.constant 384 : index
func.func @main(%x: memref<16xf32> {mlopt.input = "x"}, %y: memref<8xf32> {mlopt.output = "y"}) {
  %a = memref.alloc() : memref<16xf32>
  memref.copy %x, %a : memref<16xf32> to memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %ws = memref.alloc() {mlopt.workspace} : memref<64xi8>
  func.call @f(%a, %b, %ws) : (memref<16xf32>, memref<16xf32>, memref<64xi8>) -> ()
  %r = memref.reinterpret_cast %b to offset: [0], sizes: [2, 8], strides: [8, 1] : memref<16xf32> to memref<2x8xf32>
  %s = memref.subview %r[0, 0] [1, 8] [1, 1] : memref<2x8xf32> to memref<8xf32, strided<[1]>>
  %c = memref.alloc() : memref<8xf32>
  memref.copy %s, %c : memref<8xf32, strided<[1]>> to memref<8xf32>
  memref.copy %c, %y : memref<8xf32> to memref<8xf32>
  func.return
}
func.func private @f(%X: memref<16xf32>, %O: memref<16xf32>, %ws: memref<64xi8> {mlopt.workspace}) {
  memref.copy %X, %O : memref<16xf32> to memref<16xf32>
  func.return
}
