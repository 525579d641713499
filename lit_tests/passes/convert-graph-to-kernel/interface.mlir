// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// CHECK-LABEL: func.func @main(%x: tensor<2xi8> {mlopt.name = "x:0", mlopt.dtype = "uint8"}) -> (tensor<2xi8> {mlopt.name = "y:0", mlopt.dtype = "uint8"}) {
// CHECK-NEXT:    func.return %x : tensor<2xi8>
func.func @main(%x: tensor<2xui8> {mlopt.name = "x:0"}) -> (tensor<2xui8> {mlopt.name = "y:0"}) {
  func.return %x : tensor<2xui8>
}

// -----

// CHECK-LABEL: func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi8> {mlopt.dtype = "uint8"}, tensor<2xi64>) {
// CHECK-NEXT:    %w = kernel.constant #mlopt.weight<"w"> : tensor<2xf32>
// CHECK-NEXT:    %c = kernel.constant dense<[1, -1]> : tensor<2xi8>
// CHECK-NEXT:    %s = kernel.constant dense<2> : tensor<1xi64>
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:    %y = kernel.launch @add ins(%x, %w : tensor<2xf32>, tensor<2xf32>) outs(%0 : tensor<2xf32>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<2xf32>, %rhs: tensor<2xf32>, %O: tensor<2xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2] ins(%lhs[d0], %rhs[d0] : tensor<2xf32>, tensor<2xf32>) outs(%O[d0] : tensor<2xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32, %4: f32):
// CHECK-NEXT:        %5 = arith.addf %2, %3 : f32
// CHECK-NEXT:        kernel.yield %5 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<2xf32>
// CHECK-NEXT:    } -> tensor<2xf32>
// CHECK-NEXT:    %1 = tensor.empty() : tensor<2xi64>
// CHECK-NEXT:    %r = kernel.launch @range outs(%1 : tensor<2xi64>) {
// CHECK-NEXT:    ^bb0(%O: tensor<2xi64>):
// CHECK-NEXT:      %2 = kernel.map bounds [d0 = 2] outs(%O[d0] : tensor<2xi64>) {
// CHECK-NEXT:      ^bb0(%3: i64):
// CHECK-NEXT:        %4 = kernel.index 0
// CHECK-NEXT:        %5 = arith.index_cast %4 : index to i64
// CHECK-NEXT:        %6 = arith.constant 3 : i64
// CHECK-NEXT:        %7 = arith.constant -2 : i64
// CHECK-NEXT:        %8 = arith.muli %5, %7 : i64
// CHECK-NEXT:        %9 = arith.addi %6, %8 : i64
// CHECK-NEXT:        kernel.yield %9 : i64
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %2 : tensor<2xi64>
// CHECK-NEXT:    } -> tensor<2xi64>
// CHECK-NEXT:    func.return %y, %c, %r : tensor<2xf32>, tensor<2xi8>, tensor<2xi64>
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xui8>, tensor<2xi64>) {
  %w = graph.constant #mlopt.weight<"w"> : tensor<2xf32>
  %c = graph.constant dense<[1, 255]> : tensor<2xui8>
  %unused = graph.constant dense<[1, 2]> : tensor<2xi64>
  %s = graph.shape %x : (tensor<2xf32>) -> tensor<1xi64>
  %y = graph.add %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %r = graph.range start = 3 : i64 delta = -2 : i64 length = 2 : tensor<2xi64>
  func.return %y, %c, %r : tensor<2xf32>, tensor<2xui8>, tensor<2xi64>
}

// -----

// Integers of 4 and 2 bits are bytes below the graph level; what they are at the interface is said there.
// CHECK-LABEL: func.func @narrow(%x: tensor<2xi8> {mlopt.dtype = "int4"}, %y: tensor<2xi8> {mlopt.dtype = "uint2"}) -> (tensor<2xi8> {mlopt.dtype = "uint4"}, tensor<2xi8>, tensor<2xi8> {mlopt.dtype = "int4"}) {
// CHECK-NEXT:    %c = kernel.constant dense<[-8, 7]> : tensor<2xi8>
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2xi8>
// CHECK-NEXT:    %u = kernel.launch @cast ins(%x : tensor<2xi8>) outs(%0 : tensor<2xi8>) {
// CHECK-NEXT:    ^bb0(%input: tensor<2xi8>, %O: tensor<2xi8>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2] ins(%input[d0] : tensor<2xi8>) outs(%O[d0] : tensor<2xi8>) {
// CHECK-NEXT:      ^bb0(%2: i8, %3: i8):
// CHECK-NEXT:        %4 = arith.constant 15 : i8
// CHECK-NEXT:        %5 = arith.andi %2, %4 : i8
// CHECK-NEXT:        kernel.yield %5 : i8
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<2xi8>
// CHECK-NEXT:    } -> tensor<2xi8>
// CHECK-NEXT:    func.return %u, %y, %c : tensor<2xi8>, tensor<2xi8>, tensor<2xi8>
func.func @narrow(%x: tensor<2xi4>, %y: tensor<2xui2>) -> (tensor<2xui4>, tensor<2xi8>, tensor<2xi4>) {
  %c = graph.constant dense<[-8, 7]> : tensor<2xi4>
  %u = graph.cast %x : tensor<2xi4> to tensor<2xui4>
  %w = graph.cast %y : tensor<2xui2> to tensor<2xi8>
  func.return %u, %w, %c : tensor<2xui4>, tensor<2xi8>, tensor<2xi4>
}
