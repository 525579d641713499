// RUN: mlopt-opt %s --plan-workspaces --assign-buffers --remarks=analysis --verify-diagnostics
// RUN: mlopt-opt %s --plan-workspaces --assign-buffers --remarks=passed,missed 2>&1 | filecheck %s --check-prefix=OTHERS

// OTHERS-NOT: remark:
// OTHERS: builtin.module
// OTHERS-NOT: remark:

// A workspace of 64 bytes for each call, and %t, which lives over both: 128 of 192 bytes at once.
// expected-remark @below {{[assign-buffers] the arena of 128 bytes holds 3 buffers of together 192, 128 live at once: optimal (max-live)}}
func.func @main(%x: memref<16xf32> {mlopt.input = "x"}, %y: memref<16xf32> {mlopt.output = "y"}) {
  %t = memref.alloc() : memref<16xf32>
  func.call @twice(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @twice(%t, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
// expected-remark @below {{[plan-workspaces] '@twice' works in 64 bytes}}
func.func private @twice(%X: memref<16xf32>, %O: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  memref.copy %X, %a : memref<16xf32> to memref<16xf32>
  memref.copy %a, %O : memref<16xf32> to memref<16xf32>
  func.return
}
