// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// CHECK-LABEL: func.func @reduce_mean(%x: tensor<2x8x4xf32>) -> tensor<2x1x4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2x1x4xf32>
// CHECK-NEXT:    %y = kernel.launch @reduce_mean ins(%x : tensor<2x8x4xf32>) outs(%0 : tensor<2x1x4xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<2x8x4xf32>, %O: tensor<2x1x4xf32>):
// CHECK-NEXT:      %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %2 = kernel.fill %1 : f32 outs(%O : tensor<2x1x4xf32>)
// CHECK-NEXT:      %3 = kernel.reduce bounds [d0 = 2, d1 = 8, d2 = 4] ins(%input[d0, d1, d2] : tensor<2x8x4xf32>) outs(%2[d0, 0, d2] : tensor<2x1x4xf32>) {
// CHECK-NEXT:      ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:        %6 = arith.addf %5, %4 : f32
// CHECK-NEXT:        kernel.yield %6 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %7 = kernel.map bounds [d0 = 2, d2 = 4] outs(%3[d0, 0, d2] : tensor<2x1x4xf32>) {
// CHECK-NEXT:      ^bb0(%8: f32):
// CHECK-NEXT:        %9 = arith.constant 8.000000e+00 : f32
// CHECK-NEXT:        %10 = arith.divf %8, %9 : f32
// CHECK-NEXT:        kernel.yield %10 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %7 : tensor<2x1x4xf32>
// CHECK-NEXT:    } -> tensor<2x1x4xf32>
// CHECK-NEXT:    func.return %y : tensor<2x1x4xf32>
func.func @reduce_mean(%x: tensor<2x8x4xf32>) -> tensor<2x1x4xf32> {
  %y = graph.reduce_mean %x axes = [1] keepdims : (tensor<2x8x4xf32>) -> tensor<2x1x4xf32>
  func.return %y : tensor<2x1x4xf32>
}

// -----

// CHECK-LABEL: func.func @arg_max(%x: tensor<2x8xf32>) -> tensor<2xi64> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<2xi64>
// CHECK-NEXT:    %y = kernel.launch @arg_max ins(%x : tensor<2x8xf32>) outs(%0 : tensor<2xi64>) {
// CHECK-NEXT:    ^bb0(%input: tensor<2x8xf32>, %O: tensor<2xi64>):
// CHECK-NEXT:      %1 = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:      %2 = arith.constant 0xFF800000 : f32
// CHECK-NEXT:      %3 = kernel.fill %2 : f32 outs(%1 : tensor<2xf32>)
// CHECK-NEXT:      %max = kernel.reduce bounds [d0 = 2, d1 = 8] ins(%input[d0, d1] : tensor<2x8xf32>) outs(%3[d0] : tensor<2xf32>) {
// CHECK-NEXT:      ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:        %6 = arith.maximumf %5, %4 : f32
// CHECK-NEXT:        kernel.yield %6 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %7 = arith.constant 8 : i64
// CHECK-NEXT:      %8 = kernel.fill %7 : i64 outs(%O : tensor<2xi64>)
// CHECK-NEXT:      %9 = kernel.reduce bounds [d0 = 2, d1 = 8] ins(%input[d0, d1], %max[d0] : tensor<2x8xf32>, tensor<2xf32>) outs(%8[d0] : tensor<2xi64>) {
// CHECK-NEXT:      ^bb0(%10: f32, %11: f32, %12: i64):
// CHECK-NEXT:        %13 = arith.cmpf oeq, %10, %11 : f32
// CHECK-NEXT:        %14 = arith.cmpf uno, %10, %10 : f32
// CHECK-NEXT:        %15 = arith.ori %13, %14 : i1
// CHECK-NEXT:        %16 = kernel.index 1
// CHECK-NEXT:        %17 = arith.index_cast %16 : index to i64
// CHECK-NEXT:        %18 = arith.constant 8 : i64
// CHECK-NEXT:        %19 = arith.select %15, %17, %18 : i64
// CHECK-NEXT:        %20 = arith.minsi %12, %19 : i64
// CHECK-NEXT:        kernel.yield %20 : i64
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %9 : tensor<2xi64>
// CHECK-NEXT:    } -> tensor<2xi64>
// CHECK-NEXT:    func.return %y : tensor<2xi64>
func.func @arg_max(%x: tensor<2x8xf32>) -> tensor<2xi64> {
  %y = graph.arg_max %x axis = 1 : (tensor<2x8xf32>) -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

// -----

// CHECK-LABEL: func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4x8xf32>
// CHECK-NEXT:    %y = kernel.launch @softmax ins(%x : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4x8xf32>, %O: tensor<4x8xf32>):
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %2 = arith.constant 0xFF800000 : f32
// CHECK-NEXT:      %3 = kernel.fill %2 : f32 outs(%1 : tensor<4xf32>)
// CHECK-NEXT:      %max = kernel.reduce bounds [d0 = 4, d1 = 8] ins(%input[d0, d1] : tensor<4x8xf32>) outs(%3[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:        %6 = arith.maximumf %5, %4 : f32
// CHECK-NEXT:        kernel.yield %6 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %7 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %8 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %9 = kernel.fill %8 : f32 outs(%7 : tensor<4xf32>)
// CHECK-NEXT:      %exp = kernel.map bounds [d0 = 4, d1 = 8] ins(%input[d0, d1], %max[d0] : tensor<4x8xf32>, tensor<4xf32>) outs(%O[d0, d1] : tensor<4x8xf32>) {
// CHECK-NEXT:      ^bb0(%10: f32, %11: f32, %12: f32):
// CHECK-NEXT:        %13 = arith.subf %10, %11 : f32
// CHECK-NEXT:        %14 = math.exp %13 : f32
// CHECK-NEXT:        kernel.yield %14 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %sum = kernel.reduce bounds [d0 = 4, d1 = 8] ins(%exp[d0, d1] : tensor<4x8xf32>) outs(%9[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%15: f32, %16: f32):
// CHECK-NEXT:        %17 = arith.addf %16, %15 : f32
// CHECK-NEXT:        kernel.yield %17 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %18 = kernel.map bounds [d0 = 4, d1 = 8] ins(%sum[d0] : tensor<4xf32>) outs(%exp[d0, d1] : tensor<4x8xf32>) {
// CHECK-NEXT:      ^bb0(%19: f32, %20: f32):
// CHECK-NEXT:        %21 = arith.divf %20, %19 : f32
// CHECK-NEXT:        kernel.yield %21 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %18 : tensor<4x8xf32>
// CHECK-NEXT:    } -> tensor<4x8xf32>
// CHECK-NEXT:    func.return %y : tensor<4x8xf32>
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = graph.softmax %x axis = 1 : tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// -----

// CHECK-LABEL: func.func @softmax_f16(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4x8xf16>
// CHECK-NEXT:    %y = kernel.launch @softmax ins(%x : tensor<4x8xf16>) outs(%0 : tensor<4x8xf16>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4x8xf16>, %O: tensor<4x8xf16>):
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4xf16>
// CHECK-NEXT:      %2 = arith.constant 0xFC00 : f16
// CHECK-NEXT:      %3 = kernel.fill %2 : f16 outs(%1 : tensor<4xf16>)
// CHECK-NEXT:      %max = kernel.reduce bounds [d0 = 4, d1 = 8] ins(%input[d0, d1] : tensor<4x8xf16>) outs(%3[d0] : tensor<4xf16>) {
// CHECK-NEXT:      ^bb0(%4: f16, %5: f16):
// CHECK-NEXT:        %6 = arith.maximumf %5, %4 : f16
// CHECK-NEXT:        kernel.yield %6 : f16
// CHECK-NEXT:      }
// CHECK-NEXT:      %7 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %8 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %9 = kernel.fill %8 : f32 outs(%7 : tensor<4xf32>)
// CHECK-NEXT:      %sum = kernel.reduce bounds [d0 = 4, d1 = 8] ins(%input[d0, d1], %max[d0] : tensor<4x8xf16>, tensor<4xf16>) outs(%9[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%10: f16, %11: f16, %12: f32):
// CHECK-NEXT:        %13 = arith.extf %10 : f16 to f32
// CHECK-NEXT:        %14 = arith.extf %11 : f16 to f32
// CHECK-NEXT:        %15 = arith.subf %13, %14 : f32
// CHECK-NEXT:        %16 = math.exp %15 : f32
// CHECK-NEXT:        %17 = arith.addf %12, %16 : f32
// CHECK-NEXT:        kernel.yield %17 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %18 = kernel.map bounds [d0 = 4, d1 = 8] ins(%input[d0, d1], %max[d0], %sum[d0] : tensor<4x8xf16>, tensor<4xf16>, tensor<4xf32>) outs(%O[d0, d1] : tensor<4x8xf16>) {
// CHECK-NEXT:      ^bb0(%19: f16, %20: f16, %21: f32, %22: f16):
// CHECK-NEXT:        %23 = arith.extf %19 : f16 to f32
// CHECK-NEXT:        %24 = arith.extf %20 : f16 to f32
// CHECK-NEXT:        %25 = arith.subf %23, %24 : f32
// CHECK-NEXT:        %26 = math.exp %25 : f32
// CHECK-NEXT:        %27 = arith.divf %26, %21 : f32
// CHECK-NEXT:        %28 = arith.truncf %27 : f32 to f16
// CHECK-NEXT:        kernel.yield %28 : f16
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %18 : tensor<4x8xf16>
// CHECK-NEXT:    } -> tensor<4x8xf16>
// CHECK-NEXT:    func.return %y : tensor<4x8xf16>
func.func @softmax_f16(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = graph.softmax %x axis = 1 : tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK-LABEL: func.func @layer_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> tensor<4x8xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4x8xf32>
// CHECK-NEXT:    %y = kernel.launch @layer_norm ins(%x, %scale, %bias : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%0 : tensor<4x8xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<4x8xf32>, %scale_1: tensor<8xf32>, %bias_1: tensor<8xf32>, %O: tensor<4x8xf32>):
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %3 = kernel.fill %2 : f32 outs(%1 : tensor<4xf32>)
// CHECK-NEXT:      %sum = kernel.reduce bounds [d0 = 4, d1 = 8] ins(%input[d0, d1] : tensor<4x8xf32>) outs(%3[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:        %6 = arith.addf %5, %4 : f32
// CHECK-NEXT:        kernel.yield %6 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %mean = kernel.map bounds [d0 = 4] outs(%sum[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%7: f32):
// CHECK-NEXT:        %8 = arith.constant 8.000000e+00 : f32
// CHECK-NEXT:        %9 = arith.divf %7, %8 : f32
// CHECK-NEXT:        kernel.yield %9 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %10 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %11 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %12 = kernel.fill %11 : f32 outs(%10 : tensor<4xf32>)
// CHECK-NEXT:      %centered = kernel.map bounds [d0 = 4, d1 = 8] ins(%input[d0, d1], %mean[d0] : tensor<4x8xf32>, tensor<4xf32>) outs(%O[d0, d1] : tensor<4x8xf32>) {
// CHECK-NEXT:      ^bb0(%13: f32, %14: f32, %15: f32):
// CHECK-NEXT:        %16 = arith.subf %13, %14 : f32
// CHECK-NEXT:        kernel.yield %16 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %squares = kernel.reduce bounds [d0 = 4, d1 = 8] ins(%centered[d0, d1] : tensor<4x8xf32>) outs(%12[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%17: f32, %18: f32):
// CHECK-NEXT:        %19 = arith.mulf %17, %17 : f32
// CHECK-NEXT:        %20 = arith.addf %18, %19 : f32
// CHECK-NEXT:        kernel.yield %20 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %inverse_deviation = kernel.map bounds [d0 = 4] outs(%squares[d0] : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%21: f32):
// CHECK-NEXT:        %22 = arith.constant 8.000000e+00 : f32
// CHECK-NEXT:        %23 = arith.divf %21, %22 : f32
// CHECK-NEXT:        %24 = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:        %25 = arith.constant 1.000000e-05 : f32
// CHECK-NEXT:        %26 = arith.addf %23, %25 : f32
// CHECK-NEXT:        %27 = math.sqrt %26 : f32
// CHECK-NEXT:        %28 = arith.divf %24, %27 : f32
// CHECK-NEXT:        kernel.yield %28 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %29 = kernel.map bounds [d0 = 4, d1 = 8] ins(%inverse_deviation[d0], %scale_1[d1], %bias_1[d1] : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) outs(%centered[d0, d1] : tensor<4x8xf32>) {
// CHECK-NEXT:      ^bb0(%30: f32, %31: f32, %32: f32, %33: f32):
// CHECK-NEXT:        %34 = arith.mulf %33, %30 : f32
// CHECK-NEXT:        %35 = arith.mulf %34, %31 : f32
// CHECK-NEXT:        %36 = arith.addf %35, %32 : f32
// CHECK-NEXT:        kernel.yield %36 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %29 : tensor<4x8xf32>
// CHECK-NEXT:    } -> tensor<4x8xf32>
// CHECK-NEXT:    func.return %y : tensor<4x8xf32>
func.func @layer_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>, %bias: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = graph.layer_norm %x, %scale, %bias axis = 1 epsilon = 1.000000e-05
    : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
