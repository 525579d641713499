// RUN: mlopt-opt %s --split-input-file --elide-copies | filecheck %s
// RUN: mlopt-opt %s --split-input-file --elide-copies --mlir-pass-statistics 2>&1 >/dev/null | filecheck %s --check-prefix=STATS
// RUN: mlopt-opt %s --split-input-file --elide-copies --remarks --verify-diagnostics

// What is computed only to be copied is computed in the destination, under its own shape.
// CHECK-LABEL: @in_place
// CHECK-SAME:    %y: memref<4x4xf32>
// CHECK-NEXT:    %t = memref.reinterpret_cast %y to offset: [0], sizes: [16], strides: [1]
// CHECK-NEXT:    func.call @double(%x, %t)
// CHECK-NEXT:    func.call @double(%t, %z)
// CHECK-NEXT:    func.return
func.func @in_place(%x: memref<16xf32>, %y: memref<4x4xf32>, %z: memref<16xf32>) {
  %t = memref.alloc() : memref<16xf32>
  func.call @double(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  %s = memref.reinterpret_cast %t to offset: [0], sizes: [4, 4], strides: [4, 1] : memref<16xf32> to memref<4x4xf32>
  // expected-remark @below {{elided: a copy of 64 bytes from '%t' to '%y': it is computed there}}
  memref.copy %s, %y : memref<4x4xf32> to memref<4x4xf32>
  func.call @double(%t, %z) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @double(%X: memref<16xf32>, %O: memref<16xf32>) {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%X : memref<16xf32>) outs(%O : memref<16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %a, %a : f32
    linalg.yield %r : f32
  }
  func.return
}

// -----

// What a loop yields is computed in what it carries; what the caller gave must be copied to be carried.
// CHECK-LABEL: @loop
// CHECK:         %h = memref.alloc()
// CHECK-NEXT:    memref.copy %x, %h
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      %u = memref.alloc()
// CHECK-NEXT:      func.call @step(%h, %u)
// CHECK-NEXT:      func.call @step(%u, %h)
// CHECK-NEXT:    }
// CHECK-NEXT:    func.call @step(%h, %y)
func.func @loop(%x: memref<16xf32>, %y: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %h = memref.alloc() : memref<16xf32>
  // expected-remark @below {{not elided: a copy of 64 bytes from '%x' to '%h': the source is an argument}}
  memref.copy %x, %h : memref<16xf32> to memref<16xf32>
  scf.for %i = %c0 to %c9 step %c1 {
    %u = memref.alloc() : memref<16xf32>
    func.call @step(%h, %u) : (memref<16xf32>, memref<16xf32>) -> ()
    %t = memref.alloc() : memref<16xf32>
    func.call @step(%u, %t) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-remark @below {{elided: a copy of 64 bytes from '%t' to '%h': it is computed there}}
    memref.copy %t, %h : memref<16xf32> to memref<16xf32>
  }
  func.call @step(%h, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// -----

// The next iteration reads what the loop carries only after the copy, but this one does so while %t is there.
// CHECK-LABEL: @read_between
// CHECK:         memref.copy %t, %h
func.func @read_between(%h: memref<16xf32>, %y: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c1 step %c1 {
    %t = memref.alloc() : memref<16xf32>
    func.call @step(%y, %t) : (memref<16xf32>, memref<16xf32>) -> ()
    func.call @step(%h, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-remark @below {{not elided: a copy of 64 bytes from '%t' to '%h': 'func.call' accesses the destination before}}
    memref.copy %t, %h : memref<16xf32> to memref<16xf32>
  }
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// -----

// One call reads the destination and writes the source: they can't be one buffer.
// CHECK-LABEL: @same_call
// CHECK:         memref.copy %t, %h
func.func @same_call(%h: memref<16xf32>) {
  %t = memref.alloc() : memref<16xf32>
  func.call @step(%h, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  // expected-remark @below {{'func.call' accesses the destination before}}
  memref.copy %t, %h : memref<16xf32> to memref<16xf32>
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// -----

// The copy is only read, and what was copied stays as it is: all read that, and of a chain of copies the last is left.
// CHECK-LABEL: @read_instead
// CHECK-NEXT:    memref.copy %x, %y
// CHECK-NEXT:    func.call @step(%x, %z)
// CHECK-NEXT:    func.return
func.func @read_instead(%x: memref<16xf32>, %y: memref<16xf32>, %z: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  // expected-remark @below {{elided: a copy of 64 bytes from '%x' to '%a': what reads it reads what was copied}}
  memref.copy %x, %a : memref<16xf32> to memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  // expected-remark @below {{elided: a copy of 64 bytes from '%x' to '%b': what reads it reads what was copied}}
  memref.copy %a, %b : memref<16xf32> to memref<16xf32>
  // expected-remark @below {{not elided: a copy of 64 bytes from '%x' to '%y': the source is an argument}}
  memref.copy %b, %y : memref<16xf32> to memref<16xf32>
  func.call @step(%a, %z) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// -----

// What was copied is overwritten while the copy is still read.
// CHECK-LABEL: @overwritten
// CHECK:         memref.copy %y, %a
func.func @overwritten(%x: memref<16xf32>, %y: memref<16xf32>, %z: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  // expected-remark @below {{not elided: a copy of 64 bytes from '%y' to '%a': the source is an argument}}
  memref.copy %y, %a : memref<16xf32> to memref<16xf32>
  func.call @step(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @step(%a, %z) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// -----

// The source is updated after it was copied, the destination while the source is still read; a constant stays.
// CHECK-LABEL: @two_values
// CHECK:         memref.copy %t, %y
// CHECK:         memref.copy %u, %z
// CHECK:         memref.copy %c, %z
memref.global "private" constant @seven : memref<16xf32> = dense<7.0>
func.func @two_values(%x: memref<16xf32>, %y: memref<16xf32>, %z: memref<16xf32>) {
  %t = memref.alloc() : memref<16xf32>
  func.call @step(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  // expected-remark @below {{the source is written again}}
  memref.copy %t, %y : memref<16xf32> to memref<16xf32>
  func.call @step(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  %u = memref.alloc() : memref<16xf32>
  func.call @step(%t, %u) : (memref<16xf32>, memref<16xf32>) -> ()
  // expected-remark @below {{'memref.copy' writes the destination while the source is still used}}
  memref.copy %u, %z : memref<16xf32> to memref<16xf32>
  %c = memref.get_global @seven : memref<16xf32>
  // expected-remark @below {{the source is a constant}}
  memref.copy %c, %z : memref<16xf32> to memref<16xf32>
  func.call @step(%u, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// -----

// Of a part of a buffer another part may be in use; what nobody reads needs no copy; what a branch computes into a
// buffer from outside is copied on one way only.
// CHECK-LABEL: @parts
// CHECK:         memref.copy %t, %part
// CHECK-NOT:     memref.copy %t, %dead
// CHECK:         scf.if
// CHECK-NEXT:      memref.copy %t, %y
func.func @parts(%x: memref<16xf32>, %w: memref<32xf32>, %y: memref<16xf32>, %go: i1) {
  %t = memref.alloc() : memref<16xf32>
  func.call @step(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  %part = memref.subview %w[16] [16] [1] : memref<32xf32> to memref<16xf32, strided<[1], offset: 16>>
  // expected-remark @below {{the destination is a part of a buffer}}
  memref.copy %t, %part : memref<16xf32> to memref<16xf32, strided<[1], offset: 16>>
  %dead = memref.alloc() : memref<16xf32>
  // expected-remark @below {{elided: a copy of 64 bytes from '%t' to '%dead': nothing reads it}}
  memref.copy %t, %dead : memref<16xf32> to memref<16xf32>
  scf.if %go {
    // expected-remark @below {{the source lives on in an enclosing region}}
    memref.copy %t, %y : memref<16xf32> to memref<16xf32>
  }
  func.return
}
func.func private @step(memref<16xf32>, memref<16xf32>) attributes {mlopt.runtime = "mlopt_rt_step", mlopt.written = array<i64: 1>}

// STATS:       ElideCopies
// STATS-NEXT:  (S) 64 bytes-elided
// STATS-NEXT:  (S) 1 copies-elided
// STATS-NEXT:  (S) 1 pattern compute-in-destination
// STATS:       (S) 2 copies-left
