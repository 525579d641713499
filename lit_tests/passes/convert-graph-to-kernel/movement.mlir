// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// CHECK-LABEL: func.func @transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4x2x3xf32>
// CHECK-NEXT:    %y = kernel.launch @transpose ins(%x : tensor<2x3x4xf32>) outs(%0 : tensor<4x2x3xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<2x3x4xf32>, %O: tensor<4x2x3xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4, d1 = 2, d2 = 3] ins(%input[d1, d2, d0] : tensor<2x3x4xf32>) outs(%O[d0, d1, d2] : tensor<4x2x3xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        kernel.yield %2 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4x2x3xf32>
// CHECK-NEXT:    } -> tensor<4x2x3xf32>
// CHECK-NEXT:    func.return %y : tensor<4x2x3xf32>
func.func @transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %y = graph.transpose %x perm = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  func.return %y : tensor<4x2x3xf32>
}

// -----

// CHECK-LABEL: func.func @reshape(%x: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
// CHECK-NEXT:    %y = kernel.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
// CHECK-NEXT:    func.return %y : tensor<6x4xf32>
func.func @reshape(%x: tensor<2x3x4xf32>) -> tensor<6x4xf32> {
  %y = graph.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  func.return %y : tensor<6x4xf32>
}

// -----

// CHECK-LABEL: func.func @slice(%x: tensor<4x9xf32>) -> tensor<2x3xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2x3xf32>
// CHECK-NEXT:    %y = kernel.launch @slice ins(%x : tensor<4x9xf32>) outs(%0 : tensor<2x3xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4x9xf32>, %O: tensor<2x3xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2, d1 = 3] ins(%input[d0 + 1, -3 * d1 + 8] : tensor<4x9xf32>) outs(%O[d0, d1] : tensor<2x3xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        kernel.yield %2 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<2x3xf32>
// CHECK-NEXT:    } -> tensor<2x3xf32>
// CHECK-NEXT:    func.return %y : tensor<2x3xf32>
func.func @slice(%x: tensor<4x9xf32>) -> tensor<2x3xf32> {
  %y = graph.slice %x starts = [1, 8] stops = [3, 1] steps = [1, -3] : (tensor<4x9xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @pad(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    %y = kernel.launch @pad ins(%x : tensor<2x3xf32>) outs(%0 : tensor<4x3xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<2x3xf32>, %O: tensor<4x3xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4, d1 = 3] ins(%input[d0, d1 - 1] pad 1.000000e+00 : f32 : tensor<2x3xf32>) outs(%O[d0, d1] : tensor<4x3xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        kernel.yield %2 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4x3xf32>
// CHECK-NEXT:    } -> tensor<4x3xf32>
// CHECK-NEXT:    func.return %y : tensor<4x3xf32>
func.func @pad(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %y = graph.pad %x low = [0, 1] high = [2, -1] value = 1.0 : f32 : (tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func.func @concat(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) -> tensor<6x3xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<6x3xf32>
// CHECK-NEXT:    %y = kernel.launch @concat ins(%a, %b : tensor<2x3xf32>, tensor<4x3xf32>) outs(%0 : tensor<6x3xf32>) {
// CHECK-NEXT:    ^bb0(%part0: tensor<2x3xf32>, %part1: tensor<4x3xf32>, %O: tensor<6x3xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2, d1 = 3] ins(%part0[d0, d1] : tensor<2x3xf32>) outs(%O[d0, d1] : tensor<6x3xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        kernel.yield %2 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %4 = kernel.map bounds [d0 = 4, d1 = 3] ins(%part1[d0, d1] : tensor<4x3xf32>) outs(%1[d0 + 2, d1] : tensor<6x3xf32>) {
// CHECK-NEXT:      ^bb0(%5: f32, %6: f32):
// CHECK-NEXT:        kernel.yield %5 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %4 : tensor<6x3xf32>
// CHECK-NEXT:    } -> tensor<6x3xf32>
// CHECK-NEXT:    func.return %y : tensor<6x3xf32>
func.func @concat(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) -> tensor<6x3xf32> {
  %y = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  func.return %y : tensor<6x3xf32>
}

// -----

// CHECK-LABEL: func.func @split(%x: tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>) {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2x3xf32>
// CHECK-NEXT:    %a = kernel.launch @split ins(%x : tensor<6x3xf32>) outs(%0 : tensor<2x3xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<6x3xf32>, %O: tensor<2x3xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2, d1 = 3] ins(%input[d0, d1] : tensor<6x3xf32>) outs(%O[d0, d1] : tensor<2x3xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        kernel.yield %2 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<2x3xf32>
// CHECK-NEXT:    } -> tensor<2x3xf32>
// CHECK-NEXT:    %1 = tensor.empty() : tensor<4x3xf32>
// CHECK-NEXT:    %b = kernel.launch @split ins(%x : tensor<6x3xf32>) outs(%1 : tensor<4x3xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<6x3xf32>, %O: tensor<4x3xf32>):
// CHECK-NEXT:      %2 = kernel.map bounds [d0 = 4, d1 = 3] ins(%input[d0 + 2, d1] : tensor<6x3xf32>) outs(%O[d0, d1] : tensor<4x3xf32>) {
// CHECK-NEXT:      ^bb0(%3: f32, %4: f32):
// CHECK-NEXT:        kernel.yield %3 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %2 : tensor<4x3xf32>
// CHECK-NEXT:    } -> tensor<4x3xf32>
// CHECK-NEXT:    func.return %a, %b : tensor<2x3xf32>, tensor<4x3xf32>
func.func @split(%x: tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>) {
  %a, %b = graph.split %x axis = 0 : (tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>)
  func.return %a, %b : tensor<2x3xf32>, tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func.func @gather(%table: tensor<10x4xf32>, %ids: tensor<3xi64>) -> tensor<3x4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<3x4xf32>
// CHECK-NEXT:    %y = kernel.launch @gather ins(%table, %ids : tensor<10x4xf32>, tensor<3xi64>) outs(%0 : tensor<3x4xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<10x4xf32>, %indices: tensor<3xi64>, %O: tensor<3x4xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 3, d1 = 4] ins(%indices[d0] : tensor<3xi64>) outs(%O[d0, d1] : tensor<3x4xf32>) {
// CHECK-NEXT:      ^bb0(%2: i64, %3: f32):
// CHECK-NEXT:        %4 = arith.constant 0 : i64
// CHECK-NEXT:        %5 = arith.cmpi slt, %2, %4 : i64
// CHECK-NEXT:        %6 = arith.constant 10 : i64
// CHECK-NEXT:        %7 = arith.addi %2, %6 : i64
// CHECK-NEXT:        %8 = arith.select %5, %7, %2 : i64
// CHECK-NEXT:        %9 = arith.index_cast %8 : i64 to index
// CHECK-NEXT:        %10 = kernel.index 1
// CHECK-NEXT:        %11 = tensor.extract %input[%9, %10] : tensor<10x4xf32>
// CHECK-NEXT:        kernel.yield %11 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<3x4xf32>
// CHECK-NEXT:    } -> tensor<3x4xf32>
// CHECK-NEXT:    func.return %y : tensor<3x4xf32>
func.func @gather(%table: tensor<10x4xf32>, %ids: tensor<3xi64>) -> tensor<3x4xf32> {
  %y = graph.gather %table, %ids axis = 0 : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @gather_at_a_constant(%x: tensor<2x5x4xf32>) -> tensor<2x4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2x4xf32>
// CHECK-NEXT:    %y = kernel.launch @gather ins(%x : tensor<2x5x4xf32>) outs(%0 : tensor<2x4xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<2x5x4xf32>, %O: tensor<2x4xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2, d1 = 4] ins(%input[d0, 4, d1] : tensor<2x5x4xf32>) outs(%O[d0, d1] : tensor<2x4xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        kernel.yield %2 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<2x4xf32>
// CHECK-NEXT:    } -> tensor<2x4xf32>
// CHECK-NEXT:    func.return %y : tensor<2x4xf32>
func.func @gather_at_a_constant(%x: tensor<2x5x4xf32>) -> tensor<2x4xf32> {
  %first = graph.constant dense<-1> : tensor<i64>
  %y = graph.gather %x, %first axis = 1 : (tensor<2x5x4xf32>, tensor<i64>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
