// RUN: mlopt-opt %s --convert-kernel-to-memref --split-input-file | filecheck %s

// The input may not be overwritten: `%t` gets a buffer. `%t` dies in the second launch, which updates it in place; the
// result is in the output from the start.

// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    memref.copy %x, %y : memref<4xf32> to memref<4xf32>
// CHECK-NEXT:    func.call @double(%y)
// CHECK-NEXT:    func.call @double(%y)
// CHECK-NEXT:    func.return
// CHECK:       func.func private @double(%O: memref<4xf32>)
// CHECK-NOT:   @again
func.func @main(%x: tensor<4xf32> {mlopt.name = "x"}) -> (tensor<4xf32> {mlopt.name = "y"}) {
  %t = kernel.launch @double outs(%x : tensor<4xf32>) {
  ^bb0(%O: tensor<4xf32>):
    %0 = kernel.map bounds [n = 4] outs(%O[n] : tensor<4xf32>) {
    ^bb1(%o: f32):
      %r = arith.addf %o, %o : f32
      kernel.yield %r : f32
    }
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  %y = kernel.launch @again outs(%t : tensor<4xf32>) {
  ^bb0(%P: tensor<4xf32>):
    %0 = kernel.map bounds [i = 4] outs(%P[i] : tensor<4xf32>) {
    ^bb1(%p: f32):
      %s = arith.addf %p, %p : f32
      kernel.yield %s : f32
    }
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// Reading another place of what is overwritten: the old contents stay in `%O`, the sum goes to a copy and back.

// CHECK-LABEL: func.func private @plus_transposed(%O: memref<2x2xf32>)
// CHECK-NEXT:    %s = memref.alloc() : memref<2x2xf32>
// CHECK-NEXT:    memref.copy %O, %s
// CHECK-NEXT:    linalg.generic {{.*}} ins(%O : memref<2x2xf32>) outs(%s : memref<2x2xf32>)
// CHECK:         memref.copy %s, %O
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<2x2xf32> {mlopt.name = "x"}) -> (tensor<2x2xf32> {mlopt.name = "y"}) {
  %y = kernel.launch @plus_transposed outs(%x : tensor<2x2xf32>) {
  ^bb0(%O: tensor<2x2xf32>):
    %s = kernel.map bounds [m = 2, n = 2] ins(%O[n, m] : tensor<2x2xf32>) outs(%O[m, n] : tensor<2x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.addf %o, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %s : tensor<2x2xf32>
  } -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// A tile is a subview with a dynamic offset; putting it back where it was taken from moves nothing.

// CHECK-LABEL: func.func private @tiles(%X: memref<8xf32>, %O: memref<8xf32>)
// CHECK:         scf.for %i = %c0 to %c8 step %c4 {
// CHECK-NEXT:      %[[IN:.*]] = memref.subview %X[%i] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1], offset: ?>>
// CHECK-NEXT:      %[[OUT:.*]] = memref.subview %O[%i] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1], offset: ?>>
// CHECK-NEXT:      linalg.generic {{.*}} ins(%[[IN]] : {{.*}}) outs(%[[OUT]] : {{.*}})
// CHECK-NOT:     memref.copy
// CHECK:         func.return
func.func @main(%x: tensor<8xf32> {mlopt.name = "x"}) -> (tensor<8xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<8xf32>
  %y = kernel.launch @tiles ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%X: tensor<8xf32>, %O: tensor<8xf32>):
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %all = scf.for %i = %c0 to %c8 step %c4 iter_args(%acc = %O) -> (tensor<8xf32>) {
      %in = tensor.extract_slice %X[%i] [4] [1] : tensor<8xf32> to tensor<4xf32>
      %out = tensor.extract_slice %acc[%i] [4] [1] : tensor<8xf32> to tensor<4xf32>
      %tile = kernel.map bounds [n = 4] ins(%in[n] : tensor<4xf32>) outs(%out[n] : tensor<4xf32>) {
      ^bb1(%a: f32, %o: f32):
        %r = arith.mulf %a, %a : f32
        kernel.yield %r : f32
      }
      %next = tensor.insert_slice %tile into %acc[%i] [4] [1] : tensor<4xf32> into tensor<8xf32>
      scf.yield %next : tensor<8xf32>
    }
    kernel.yield %all : tensor<8xf32>
  } -> tensor<8xf32>
  func.return %y : tensor<8xf32>
}

// -----

// Carried tensors that change places: both are saved before either is overwritten.

// CHECK-LABEL: func.func @main(
// CHECK:         memref.copy %x, %a : memref<2xf32> to memref<2xf32>
// CHECK-NEXT:    memref.copy %y, %b : memref<2xf32> to memref<2xf32>
// CHECK-NEXT:    scf.for %i = %c0 to %c3 step %c1 {
// CHECK-NEXT:      %[[P:.*]] = memref.alloc()
// CHECK-NEXT:      memref.copy %b, %[[P]]
// CHECK-NEXT:      %[[Q:.*]] = memref.alloc()
// CHECK-NEXT:      memref.copy %a, %[[Q]]
// CHECK-NEXT:      memref.copy %[[P]], %a
// CHECK-NEXT:      memref.copy %[[Q]], %b
// CHECK-NEXT:    }
func.func @main(%x: tensor<2xf32> {mlopt.name = "x"}, %y: tensor<2xf32> {mlopt.name = "y"})
    -> (tensor<2xf32> {mlopt.name = "a"}, tensor<2xf32> {mlopt.name = "b"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %p, %q = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %x, %t = %y) -> (tensor<2xf32>, tensor<2xf32>) {
    scf.yield %t, %s : tensor<2xf32>, tensor<2xf32>
  }
  func.return %p, %q : tensor<2xf32>, tensor<2xf32>
}

// -----

// A branch computes right into the buffer of the result, which is the output here; the other branch copies.

// CHECK-LABEL: func.func @main(
// CHECK:         scf.if %c {
// CHECK-NEXT:      linalg.fill ins(%one : f32) outs(%y : memref<2xf32>)
// CHECK-NEXT:    } else {
// CHECK-NEXT:      memref.copy %x, %y
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<2xf32> {mlopt.name = "x"}, %go: tensor<i1> {mlopt.name = "go"}) -> (tensor<2xf32> {mlopt.name = "y"}) {
  %one = arith.constant 1.0 : f32
  %c = tensor.extract %go[] : tensor<i1>
  %y = scf.if %c -> (tensor<2xf32>) {
    %e = tensor.empty() : tensor<2xf32>
    %f = kernel.fill %one : f32 outs(%e : tensor<2xf32>)
    scf.yield %f : tensor<2xf32>
  } else {
    scf.yield %x : tensor<2xf32>
  }
  func.return %y : tensor<2xf32>
}
