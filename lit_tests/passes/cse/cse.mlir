// RUN: mlopt-opt %s --split-input-file --cse | filecheck %s

// CHECK-LABEL: func.func @bits_of_zero
// CHECK-NEXT:    %p = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %n = arith.constant -0.000000e+00 : f32
// CHECK-NEXT:    func.return %p, %n, %p
func.func @bits_of_zero() -> (f32, f32, f32) {
  %p = arith.constant 0.0 : f32
  %n = arith.constant -0.0 : f32
  %q = arith.constant 0.0 : f32
  func.return %p, %n, %q : f32, f32, f32
}

// CHECK-LABEL: func.func @bits_of_tensors
// CHECK:         arith.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-NEXT:    arith.constant dense<-0.000000e+00> : tensor<2xf32>
func.func @bits_of_tensors() -> (tensor<2xf32>, tensor<2xf32>) {
  %p = arith.constant dense<0.0> : tensor<2xf32>
  %n = arith.constant dense<-0.0> : tensor<2xf32>
  func.return %p, %n : tensor<2xf32>, tensor<2xf32>
}

// -----

// A store between two loads keeps both; without it the second is the first.
// CHECK-LABEL: func.func @load_store_load
// CHECK:         %a = memref.load
// CHECK-NEXT:    memref.store
// CHECK-NEXT:    %b = memref.load
// CHECK-NEXT:    func.return %a, %b, %b
func.func @load_store_load(%p: memref<1xf32>, %v: f32) -> (f32, f32, f32) {
  %c0 = arith.constant 0 : index
  %a = memref.load %p[%c0] : memref<1xf32>
  memref.store %v, %p[%c0] : memref<1xf32>
  %b = memref.load %p[%c0] : memref<1xf32>
  %c = memref.load %p[%c0] : memref<1xf32>
  func.return %a, %b, %c : f32, f32, f32
}

// A loop that stores, and a call, may write too.
// CHECK-LABEL: func.func @hidden_writes
// CHECK-COUNT-3: memref.load
func.func @hidden_writes(%p: memref<1xf32>, %v: f32, %n: index) -> (f32, f32, f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.load %p[%c0] : memref<1xf32>
  scf.for %i = %c0 to %n step %c1 {
    memref.store %v, %p[%i] : memref<1xf32>
  }
  %b = memref.load %p[%c0] : memref<1xf32>
  func.call @writes(%p) : (memref<1xf32>) -> ()
  %c = memref.load %p[%c0] : memref<1xf32>
  func.return %a, %b, %c : f32, f32, f32
}
func.func private @writes(memref<1xf32>)

// -----

// Buffers and destinations are never merged.
// CHECK-LABEL: func.func @buffers
// CHECK-COUNT-2: memref.alloc
// CHECK-COUNT-2: tensor.empty
func.func @buffers() -> (memref<4xf32>, memref<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = memref.alloc() : memref<4xf32>
  %b = memref.alloc() : memref<4xf32>
  %c = tensor.empty() : tensor<4xf32>
  %d = tensor.empty() : tensor<4xf32>
  func.return %a, %b, %c, %d : memref<4xf32>, memref<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// What dominates is used: from around a region, from a block before; not from a sibling branch.
// CHECK-LABEL: func.func @dominance
// CHECK:         %s = arith.addi %x, %x
// CHECK-NEXT:    scf.if %c {
// CHECK-NEXT:      func.call @use(%s)
// CHECK:           %m = arith.muli
// CHECK:         } else {
// CHECK-NEXT:      %n = arith.muli
func.func @dominance(%c: i1, %x: i32) -> i32 {
  %s = arith.addi %x, %x : i32
  scf.if %c {
    %t = arith.addi %x, %x : i32
    func.call @use(%t) : (i32) -> ()
    %m = arith.muli %x, %x : i32
    func.call @use(%m) : (i32) -> ()
  } else {
    %n = arith.muli %x, %x : i32
    func.call @use(%n) : (i32) -> ()
  }
  cf.br ^next
^next:
  // CHECK: ^next:
  // CHECK-NEXT: func.return %s
  %u = arith.addi %x, %x : i32
  func.return %u : i32
}
func.func private @use(i32)

// -----

// Operations with equal regions are one; with other regions they are not.
// CHECK-LABEL: func.func @regions
// CHECK-COUNT-2: scf.if
// CHECK-NOT:     scf.if
func.func @regions(%c: i1, %x: i32) -> (i32, i32, i32) {
  %a = scf.if %c -> (i32) {
    %t = arith.addi %x, %x : i32
    scf.yield %t : i32
  } else {
    scf.yield %x : i32
  }
  %b = scf.if %c -> (i32) {
    %t = arith.addi %x, %x : i32
    scf.yield %t : i32
  } else {
    scf.yield %x : i32
  }
  %d = scf.if %c -> (i32) {
    %t = arith.muli %x, %x : i32
    scf.yield %t : i32
  } else {
    scf.yield %x : i32
  }
  func.return %a, %b, %d : i32, i32, i32
}
