// RUN: mlopt-opt %s --order-in-waves --remarks=analysis 2>&1 | filecheck %s
// RUN: mlopt-opt %s --order-in-waves --plan-workspaces --assign-buffers | filecheck %s --check-prefix=PLACED
// RUN: not mlopt-opt %s --order-in-waves=width=1 2>&1 | filecheck %s --check-prefix=NARROW
// RUN: not mlopt-opt %s --order-in-waves --elide-copies 2>&1 | filecheck %s --check-prefix=LATE

// Two chains from one input: the first launches of both run together, then the second ones; the sum runs alone.

// CHECK: remark: [order-in-waves] 4 of 5 steps may run at the same time as another, in 2 waves
// CHECK-LABEL: func.func @main(
// CHECK:         %a = memref.alloc()
// CHECK-NEXT:    %c = memref.alloc()
// CHECK-NEXT:    func.call @copy(%x, %a) {mlopt.wave = 0 : i64}
// CHECK-NEXT:    func.call @copy(%x, %c) {mlopt.wave = 0 : i64}
// CHECK-NEXT:    %b = memref.alloc()
// CHECK-NEXT:    %d = memref.alloc()
// CHECK-NEXT:    func.call @copy(%a, %b) {mlopt.wave = 1 : i64}
// CHECK-NEXT:    memref.copy %c, %d {mlopt.wave = 1 : i64}
// CHECK-NEXT:    func.call @add(%b, %d, %y) :
// CHECK-NEXT:    func.return

// Four buffers live at once, where one after the other three did.

// PLACED: func.func @main(%arena: memref<256xi8> {mlopt.arena}

// NARROW: error: the width of waves must be at least 2, found 1
// LATE: error: {{.*}}expected no waves yet, found one at 'func.call': 'elide-copies' stands before 'order-in-waves'

func.func @main(%x: memref<16xf32> {mlopt.input = "x"}, %y: memref<16xf32> {mlopt.output = "y"}) {
  %a = memref.alloc() : memref<16xf32>
  func.call @copy(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  %b = memref.alloc() : memref<16xf32>
  func.call @copy(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
  %c = memref.alloc() : memref<16xf32>
  func.call @copy(%x, %c) : (memref<16xf32>, memref<16xf32>) -> ()
  %d = memref.alloc() : memref<16xf32>
  memref.copy %c, %d : memref<16xf32> to memref<16xf32>
  func.call @add(%b, %d, %y) : (memref<16xf32>, memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @copy(%X: memref<16xf32>, %O: memref<16xf32>) {
  memref.copy %X, %O : memref<16xf32> to memref<16xf32>
  func.return
}
func.func private @add(%X: memref<16xf32>, %Y: memref<16xf32>, %O: memref<16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
    ins(%X, %Y : memref<16xf32>, memref<16xf32>) outs(%O : memref<16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %s = arith.addf %p, %q : f32
    linalg.yield %s : f32
  }
  func.return
}
