// RUN: mlopt-opt %s --convert-kernel-to-memref --split-input-file | filecheck %s

// The interface: inputs, weights, outputs by their exact names. A launch is a private function; its result is computed
// right in the output. Elementwise reads of what is overwritten are the out argument of the body.

// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %x: memref<4x8xf32> {mlopt.input = "x:0"}, %fc.weight: memref<8x3xf32> {mlopt.weight = "fc.weight"},
// CHECK-SAME:    %y_0: memref<4x3xf32> {mlopt.output = "y:0"}) {
// CHECK-NEXT:    %bias = memref.get_global @constant_3xf32 : memref<3xf32>
// CHECK-NEXT:    func.call @linear_relu(%x, %fc.weight, %bias, %y_0)
// CHECK-NEXT:    func.return
// CHECK:       func.func private @linear_relu(%X: memref<4x8xf32>, %W: memref<8x3xf32>, %B: memref<3xf32>, %O: memref<4x3xf32>) {
// CHECK-NEXT:    %z = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    linalg.fill ins(%z : f32) outs(%O : memref<4x3xf32>)
// CHECK-NEXT:    linalg.generic {indexing_maps = [
// CHECK-SAME:      affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>],
// CHECK-SAME:      iterator_types = ["parallel", "parallel", "reduction"]} ins(%X, %W : {{.*}}) outs(%O : memref<4x3xf32>) {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32):
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[A]], %[[B]] : f32
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[C]], %[[P]] : f32
// CHECK-NEXT:      linalg.yield %[[S]] : f32
// CHECK:         linalg.generic
// CHECK-SAME:      [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]
// CHECK-SAME:      ins(%B : memref<3xf32>) outs(%O : memref<4x3xf32>)
// CHECK-NEXT:    ^bb0(%b: f32, %acc: f32):
// CHECK-NEXT:      %s = arith.addf %acc, %b : f32
// CHECK-NEXT:      %r = arith.maximumf %s, %z : f32
// CHECK-NEXT:      linalg.yield %r : f32
// CHECK:         func.return
func.func @main(%x: tensor<4x8xf32> {mlopt.name = "x:0"}) -> (tensor<4x3xf32> {mlopt.name = "y:0"}) {
  %w = kernel.constant #mlopt.weight<"fc.weight"> : tensor<8x3xf32>
  %bias = kernel.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %y = kernel.launch @linear_relu ins(%x, %w, %bias : tensor<4x8xf32>, tensor<8x3xf32>, tensor<3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%X: tensor<4x8xf32>, %W: tensor<8x3xf32>, %B: tensor<3xf32>, %O: tensor<4x3xf32>):
    %z = arith.constant 0.0 : f32
    %0 = kernel.fill %z : f32 outs(%O : tensor<4x3xf32>)
    %1 = kernel.contract bounds [m = 4, n = 3, k = 8] ins(%X[m, k], %W[k, n] : tensor<4x8xf32>, tensor<8x3xf32>) outs(%0[m, n] : tensor<4x3xf32>)
    %2 = kernel.map bounds [m = 4, n = 3] ins(%B[n], %1[m, n] : tensor<3xf32>, tensor<4x3xf32>) outs(%1[m, n] : tensor<4x3xf32>) {
    ^bb1(%b: f32, %same: f32, %acc: f32):
      %s = arith.addf %same, %b : f32
      %r = arith.maximumf %s, %z : f32
      kernel.yield %r : f32
    }
    kernel.yield %2 : tensor<4x3xf32>
  } -> tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}

// -----

// A padded read is a guarded load; only the axes that can leave the bounds are checked.

// CHECK-LABEL: func.func private @pad(
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%O : memref<2x5xf32>) {
// CHECK-NEXT:    ^bb0(%o: f32):
// CHECK-NEXT:      %[[I:.*]] = linalg.index 0 : index
// CHECK-NEXT:      %[[D:.*]] = linalg.index 1 : index
// CHECK-NEXT:      %[[J:.*]] = arith.addi %[[D]], %cm1 : index
// CHECK-NEXT:      %[[IN:.*]] = arith.cmpi ult, %[[J]], %c3 : index
// CHECK-NEXT:      %[[V:.*]] = scf.if %[[IN]] -> (f32) {
// CHECK-NEXT:        %[[L:.*]] = memref.load %X[%[[I]], %[[J]]] : memref<2x3xf32>
// CHECK-NEXT:        scf.yield %[[L]] : f32
// CHECK-NEXT:      } else {
// CHECK-NEXT:        %[[P:.*]] = arith.constant 7.000000e+00 : f32
// CHECK-NEXT:        scf.yield %[[P]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      linalg.yield %[[V]] : f32
func.func @main(%x: tensor<2x3xf32> {mlopt.name = "x"}) -> (tensor<2x5xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<2x5xf32>
  %y = kernel.launch @pad ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x5xf32>) {
  ^bb0(%X: tensor<2x3xf32>, %O: tensor<2x5xf32>):
    %0 = kernel.map bounds [m = 2, n = 5] ins(%X[m, n - 1] pad 7.0 : f32 : tensor<2x3xf32>) outs(%O[m, n] : tensor<2x5xf32>) {
    ^bb1(%a: f32, %o: f32):
      kernel.yield %a : f32
    }
    kernel.yield %0 : tensor<2x5xf32>
  } -> tensor<2x5xf32>
  func.return %y : tensor<2x5xf32>
}

// -----

// Offsets and strides of a whole dimension are subviews, on both sides; a mirrored dimension and a broadcast stay in
// the map; a window that no operand bounds takes an uninitialised global.

// CHECK-LABEL: memref.global "private" @window_2xf32 : memref<2xf32> = uninitialized
// CHECK:       func.func private @slices(
// CHECK-NEXT:    %[[S:.*]] = memref.subview %X[1, 0] [2, 3] [2, 1] : memref<4x3xf32> to memref<2x3xf32, strided<[6, 1], offset: 3>>
// CHECK-NEXT:    %[[D:.*]] = memref.subview %O[2, 0] [2, 3] [1, 1] : memref<4x3xf32> to memref<2x3xf32, strided<[3, 1], offset: 6>>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, ((d1 * -1) + 2))>, affine_map<(d0, d1) -> (0, d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME:      ins(%[[S]], %V : {{.*}}) outs(%[[D]] : {{.*}})
// CHECK:         %[[W:.*]] = memref.get_global @window_2xf32 : memref<2xf32>
// CHECK-NEXT:    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, (d1 + d2))>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%X, %[[W]] : {{.*}}) outs(%P : memref<4x2xf32>)
func.func @main(%x: tensor<4x3xf32> {mlopt.name = "x"}, %v: tensor<1x3xf32> {mlopt.name = "v"}, %old: tensor<4x3xf32> {mlopt.name = "old"})
    -> (tensor<4x3xf32> {mlopt.name = "y"}, tensor<4x2xf32> {mlopt.name = "z"}) {
  %e = tensor.empty() : tensor<4x2xf32>
  %y, %z = kernel.launch @slices ins(%x, %v : tensor<4x3xf32>, tensor<1x3xf32>) outs(%old, %e : tensor<4x3xf32>, tensor<4x2xf32>) {
  ^bb0(%X: tensor<4x3xf32>, %V: tensor<1x3xf32>, %O: tensor<4x3xf32>, %P: tensor<4x2xf32>):
    %0 = kernel.map bounds [m = 2, n = 3] ins(%X[2 * m + 1, -1 * n + 2], %V[0, n] : tensor<4x3xf32>, tensor<1x3xf32>) outs(%O[m + 2, n] : tensor<4x3xf32>) {
    ^bb1(%a: f32, %b: f32, %o: f32):
      %r = arith.addf %a, %b : f32
      kernel.yield %r : f32
    }
    %z = arith.constant 0.0 : f32
    %1 = kernel.fill %z : f32 outs(%P : tensor<4x2xf32>)
    %2 = kernel.reduce bounds [m = 4, n = 2, k = 2] ins(%X[m, n + k] : tensor<4x3xf32>) outs(%1[m, n] : tensor<4x2xf32>) {
    ^bb1(%a: f32, %o: f32):
      %r = arith.addf %a, %o : f32
      kernel.yield %r : f32
    }
    kernel.yield %0, %2 : tensor<4x3xf32>, tensor<4x2xf32>
  } -> tensor<4x3xf32>, tensor<4x2xf32>
  func.return %y, %z : tensor<4x3xf32>, tensor<4x2xf32>
}
