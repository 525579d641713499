// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// CHECK-LABEL: func.func @broadcast(%a: tensor<2x1x4xf32>, %b: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2x3x4xf32>
// CHECK-NEXT:    %y = kernel.launch @add ins(%a, %b : tensor<2x1x4xf32>, tensor<3x1xf32>) outs(%0 : tensor<2x3x4xf32>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<2x1x4xf32>, %rhs: tensor<3x1xf32>, %O: tensor<2x3x4xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 2, d1 = 3, d2 = 4] ins(%lhs[d0, 0, d2], %rhs[d1, 0] : tensor<2x1x4xf32>, tensor<3x1xf32>) outs(%O[d0, d1, d2] : tensor<2x3x4xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32, %4: f32):
// CHECK-NEXT:        %5 = arith.addf %2, %3 : f32
// CHECK-NEXT:        kernel.yield %5 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<2x3x4xf32>
// CHECK-NEXT:    } -> tensor<2x3x4xf32>
// CHECK-NEXT:    func.return %y : tensor<2x3x4xf32>
func.func @broadcast(%a: tensor<2x1x4xf32>, %b: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %y = graph.add %a, %b : (tensor<2x1x4xf32>, tensor<3x1xf32>) -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @constant_in_body(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:    %y = kernel.launch @mul ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<4xf32>, %O: tensor<4xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4] ins(%lhs[d0] : tensor<4xf32>) outs(%O[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        %4 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:        %5 = arith.mulf %2, %4 : f32
// CHECK-NEXT:        kernel.yield %5 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4xf32>
// CHECK-NEXT:    } -> tensor<4xf32>
// CHECK-NEXT:    func.return %y : tensor<4xf32>
func.func @constant_in_body(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = graph.constant dense<0.5> : tensor<1xf32>
  %y = graph.mul %x, %half : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:    %y = kernel.launch @relu ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4xf32>, %O: tensor<4xf32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4] ins(%input[d0] : tensor<4xf32>) outs(%O[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: f32):
// CHECK-NEXT:        %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %5 = arith.maximumf %2, %4 : f32
// CHECK-NEXT:        kernel.yield %5 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4xf32>
// CHECK-NEXT:    } -> tensor<4xf32>
// CHECK-NEXT:    func.return %y : tensor<4xf32>
func.func @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.relu %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @gelu_in_f32(%x: tensor<4xf16>) -> tensor<4xf16> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4xf16>
// CHECK-NEXT:    %y = kernel.launch @gelu ins(%x : tensor<4xf16>) outs(%0 : tensor<4xf16>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4xf16>, %O: tensor<4xf16>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4] ins(%input[d0] : tensor<4xf16>) outs(%O[d0] : tensor<4xf16>) {
// CHECK-NEXT:      ^bb0(%2: f16, %3: f16):
// CHECK-NEXT:        %4 = arith.extf %2 : f16 to f32
// CHECK-NEXT:        %5 = arith.constant 1.41421354 : f32
// CHECK-NEXT:        %6 = arith.divf %4, %5 : f32
// CHECK-NEXT:        %7 = math.erf %6 : f32
// CHECK-NEXT:        %8 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:        %9 = arith.addf %7, %8 : f32
// CHECK-NEXT:        %10 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:        %11 = arith.mulf %9, %10 : f32
// CHECK-NEXT:        %12 = arith.mulf %4, %11 : f32
// CHECK-NEXT:        %13 = arith.truncf %12 : f32 to f16
// CHECK-NEXT:        kernel.yield %13 : f16
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4xf16>
// CHECK-NEXT:    } -> tensor<4xf16>
// CHECK-NEXT:    func.return %y : tensor<4xf16>
func.func @gelu_in_f32(%x: tensor<4xf16>) -> tensor<4xf16> {
  %y = graph.gelu %x : tensor<4xf16>
  func.return %y : tensor<4xf16>
}

// -----

// CHECK-LABEL: func.func @unsigned(%x: tensor<4xi8> {mlopt.dtype = "uint8"}, %y: tensor<4xi8> {mlopt.dtype = "uint8"}) -> tensor<4xi1> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:    %m = kernel.launch @max ins(%x, %y : tensor<4xi8>, tensor<4xi8>) outs(%0 : tensor<4xi8>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<4xi8>, %rhs: tensor<4xi8>, %O: tensor<4xi8>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4] ins(%lhs[d0], %rhs[d0] : tensor<4xi8>, tensor<4xi8>) outs(%O[d0] : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%2: i8, %3: i8, %4: i8):
// CHECK-NEXT:        %5 = arith.maxui %2, %3 : i8
// CHECK-NEXT:        kernel.yield %5 : i8
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4xi8>
// CHECK-NEXT:    } -> tensor<4xi8>
// CHECK-NEXT:    %1 = tensor.empty() : tensor<4xi1>
// CHECK-NEXT:    %z = kernel.launch @less ins(%m, %y : tensor<4xi8>, tensor<4xi8>) outs(%1 : tensor<4xi1>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<4xi8>, %rhs: tensor<4xi8>, %O: tensor<4xi1>):
// CHECK-NEXT:      %2 = kernel.map bounds [d0 = 4] ins(%lhs[d0], %rhs[d0] : tensor<4xi8>, tensor<4xi8>) outs(%O[d0] : tensor<4xi1>) {
// CHECK-NEXT:      ^bb0(%3: i8, %4: i8, %5: i1):
// CHECK-NEXT:        %6 = arith.cmpi ult, %3, %4 : i8
// CHECK-NEXT:        kernel.yield %6 : i1
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %2 : tensor<4xi1>
// CHECK-NEXT:    } -> tensor<4xi1>
// CHECK-NEXT:    func.return %z : tensor<4xi1>
func.func @unsigned(%x: tensor<4xui8>, %y: tensor<4xui8>) -> tensor<4xi1> {
  %m = graph.max %x, %y : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  %z = graph.less %m, %y : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  func.return %z : tensor<4xi1>
}

// -----

// CHECK-LABEL: func.func @division(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:    %a = kernel.launch @div ins(%x : tensor<4xi32>) outs(%0 : tensor<4xi32>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<4xi32>, %O: tensor<4xi32>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4] ins(%lhs[d0] : tensor<4xi32>) outs(%O[d0] : tensor<4xi32>) {
// CHECK-NEXT:      ^bb0(%2: i32, %3: i32):
// CHECK-NEXT:        %4 = arith.constant 3 : i32
// CHECK-NEXT:        %5 = arith.divsi %2, %4 : i32
// CHECK-NEXT:        kernel.yield %5 : i32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4xi32>
// CHECK-NEXT:    } -> tensor<4xi32>
// CHECK-NEXT:    %1 = tensor.empty() : tensor<4xi32>
// CHECK-NEXT:    %b = kernel.launch @div ins(%a, %y : tensor<4xi32>, tensor<4xi32>) outs(%1 : tensor<4xi32>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<4xi32>, %rhs: tensor<4xi32>, %O: tensor<4xi32>):
// CHECK-NEXT:      %2 = kernel.map bounds [d0 = 4] ins(%lhs[d0], %rhs[d0] : tensor<4xi32>, tensor<4xi32>) outs(%O[d0] : tensor<4xi32>) {
// CHECK-NEXT:      ^bb0(%3: i32, %4: i32, %5: i32):
// CHECK-NEXT:        %6 = arith.constant 0 : i32
// CHECK-NEXT:        %7 = arith.cmpi eq, %4, %6 : i32
// CHECK-NEXT:        %8 = arith.constant -1 : i32
// CHECK-NEXT:        %9 = arith.cmpi eq, %4, %8 : i32
// CHECK-NEXT:        %10 = arith.ori %7, %9 : i1
// CHECK-NEXT:        %11 = arith.constant 1 : i32
// CHECK-NEXT:        %12 = arith.select %10, %11, %4 : i32
// CHECK-NEXT:        %13 = arith.divsi %3, %12 : i32
// CHECK-NEXT:        %14 = arith.constant 0 : i32
// CHECK-NEXT:        %15 = arith.subi %14, %3 : i32
// CHECK-NEXT:        %16 = arith.select %9, %15, %13 : i32
// CHECK-NEXT:        %17 = arith.select %7, %14, %16 : i32
// CHECK-NEXT:        kernel.yield %17 : i32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %2 : tensor<4xi32>
// CHECK-NEXT:    } -> tensor<4xi32>
// CHECK-NEXT:    func.return %b : tensor<4xi32>
func.func @division(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %three = graph.constant dense<3> : tensor<i32>
  %a = graph.div %x, %three : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %b = graph.div %a, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  func.return %b : tensor<4xi32>
}

// -----

// CHECK-LABEL: func.func @casts(%x: tensor<4xf32>) -> tensor<4xi8> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4xi8>
// CHECK-NEXT:    %y = kernel.launch @cast ins(%x : tensor<4xf32>) outs(%0 : tensor<4xi8>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4xf32>, %O: tensor<4xi8>):
// CHECK-NEXT:      %1 = kernel.map bounds [d0 = 4] ins(%input[d0] : tensor<4xf32>) outs(%O[d0] : tensor<4xi8>) {
// CHECK-NEXT:      ^bb0(%2: f32, %3: i8):
// CHECK-NEXT:        %4 = arith.fptosi %2 : f32 to i8
// CHECK-NEXT:        %5 = arith.constant 1.280000e+02 : f32
// CHECK-NEXT:        %6 = arith.cmpf oge, %2, %5 : f32
// CHECK-NEXT:        %7 = arith.constant 127 : i8
// CHECK-NEXT:        %8 = arith.select %6, %7, %4 : i8
// CHECK-NEXT:        %9 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:        %10 = arith.cmpf ole, %2, %9 : f32
// CHECK-NEXT:        %11 = arith.constant -128 : i8
// CHECK-NEXT:        %12 = arith.select %10, %11, %8 : i8
// CHECK-NEXT:        %13 = arith.cmpf uno, %2, %2 : f32
// CHECK-NEXT:        %14 = arith.constant 0 : i8
// CHECK-NEXT:        %15 = arith.select %13, %14, %12 : i8
// CHECK-NEXT:        kernel.yield %15 : i8
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %1 : tensor<4xi8>
// CHECK-NEXT:    } -> tensor<4xi8>
// CHECK-NEXT:    func.return %y : tensor<4xi8>
func.func @casts(%x: tensor<4xf32>) -> tensor<4xi8> {
  %y = graph.cast %x : tensor<4xf32> to tensor<4xi8>
  func.return %y : tensor<4xi8>
}
