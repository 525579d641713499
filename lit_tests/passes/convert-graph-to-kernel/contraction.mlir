// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// CHECK-LABEL: func.func @matmul(%a: tensor<8x77x64xf32>, %b: tensor<64x32xf32>) -> tensor<8x77x32xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<8x77x32xf32>
// CHECK-NEXT:    %y = kernel.launch @matmul ins(%a, %b : tensor<8x77x64xf32>, tensor<64x32xf32>) outs(%0 : tensor<8x77x32xf32>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<8x77x64xf32>, %rhs: tensor<64x32xf32>, %O: tensor<8x77x32xf32>):
// CHECK-NEXT:      %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %2 = kernel.fill %1 : f32 outs(%O : tensor<8x77x32xf32>)
// CHECK-NEXT:      %3 = kernel.contract bounds [b0 = 8, m = 77, n = 32, k = 64] ins(%lhs[b0, m, k], %rhs[k, n] : tensor<8x77x64xf32>, tensor<64x32xf32>) outs(%2[b0, m, n] : tensor<8x77x32xf32>)
// CHECK-NEXT:      kernel.yield %3 : tensor<8x77x32xf32>
// CHECK-NEXT:    } -> tensor<8x77x32xf32>
// CHECK-NEXT:    func.return %y : tensor<8x77x32xf32>
func.func @matmul(%a: tensor<8x77x64xf32>, %b: tensor<64x32xf32>) -> tensor<8x77x32xf32> {
  %y = graph.matmul %a, %b : (tensor<8x77x64xf32>, tensor<64x32xf32>) -> tensor<8x77x32xf32>
  func.return %y : tensor<8x77x32xf32>
}

// -----

// CHECK-LABEL: func.func @matmul_f16(%a: tensor<4x64xf16>, %b: tensor<64x8xf16>) -> tensor<4x8xf16> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<4x8xf16>
// CHECK-NEXT:    %y = kernel.launch @matmul ins(%a, %b : tensor<4x64xf16>, tensor<64x8xf16>) outs(%0 : tensor<4x8xf16>) {
// CHECK-NEXT:    ^bb0(%lhs: tensor<4x64xf16>, %rhs: tensor<64x8xf16>, %O: tensor<4x8xf16>):
// CHECK-NEXT:      %1 = tensor.empty() : tensor<4x8xf32>
// CHECK-NEXT:      %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %3 = kernel.fill %2 : f32 outs(%1 : tensor<4x8xf32>)
// CHECK-NEXT:      %4 = kernel.contract bounds [m = 4, n = 8, k = 64] ins(%lhs[m, k], %rhs[k, n] : tensor<4x64xf16>, tensor<64x8xf16>) outs(%3[m, n] : tensor<4x8xf32>)
// CHECK-NEXT:      %5 = kernel.map bounds [m = 4, n = 8] ins(%4[m, n] : tensor<4x8xf32>) outs(%O[m, n] : tensor<4x8xf16>) {
// CHECK-NEXT:      ^bb0(%6: f32, %7: f16):
// CHECK-NEXT:        %8 = arith.truncf %6 : f32 to f16
// CHECK-NEXT:        kernel.yield %8 : f16
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %5 : tensor<4x8xf16>
// CHECK-NEXT:    } -> tensor<4x8xf16>
// CHECK-NEXT:    func.return %y : tensor<4x8xf16>
func.func @matmul_f16(%a: tensor<4x64xf16>, %b: tensor<64x8xf16>) -> tensor<4x8xf16> {
  %y = graph.matmul %a, %b : (tensor<4x64xf16>, tensor<64x8xf16>) -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// CHECK-LABEL: func.func @conv(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<1x4x4x4xf32>
// CHECK-NEXT:    %y = kernel.launch @conv ins(%x, %w, %b : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) outs(%0 : tensor<1x4x4x4xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<1x3x8x8xf32>, %weight: tensor<4x3x3x3xf32>, %bias: tensor<4xf32>, %O: tensor<1x4x4x4xf32>):
// CHECK-NEXT:      %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %2 = kernel.fill %1 : f32 outs(%O : tensor<1x4x4x4xf32>)
// CHECK-NEXT:      %3 = kernel.contract bounds [n = 1, oc = 4, oh = 4, ow = 4, ic = 3, kh = 3, kw = 3] ins(%input[n, ic, 2 * oh + kh - 1, 2 * ow + kw - 1] pad 0.000000e+00 : f32, %weight[oc, ic, kh, kw] : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) outs(%2[n, oc, oh, ow] : tensor<1x4x4x4xf32>)
// CHECK-NEXT:      %4 = kernel.map bounds [n = 1, oc = 4, oh = 4, ow = 4] ins(%bias[oc] : tensor<4xf32>) outs(%3[n, oc, oh, ow] : tensor<1x4x4x4xf32>) {
// CHECK-NEXT:      ^bb0(%5: f32, %6: f32):
// CHECK-NEXT:        %7 = arith.addf %6, %5 : f32
// CHECK-NEXT:        kernel.yield %7 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %4 : tensor<1x4x4x4xf32>
// CHECK-NEXT:    } -> tensor<1x4x4x4xf32>
// CHECK-NEXT:    func.return %y : tensor<1x4x4x4xf32>
func.func @conv(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
  %y = graph.conv %x, %w, %b strides = [2, 2] pads = [1, 1, 1, 1]
    : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// CHECK-LABEL: func.func @depthwise(%x: tensor<1x4x8x8xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<1x4x6x6xf32>
// CHECK-NEXT:    %y = kernel.launch @conv ins(%x, %w : tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) outs(%0 : tensor<1x4x6x6xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<1x4x8x8xf32>, %weight: tensor<4x1x3x3xf32>, %O: tensor<1x4x6x6xf32>):
// CHECK-NEXT:      %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %2 = kernel.fill %1 : f32 outs(%O : tensor<1x4x6x6xf32>)
// CHECK-NEXT:      %3 = kernel.contract bounds [n = 1, c = 4, oh = 6, ow = 6, kh = 3, kw = 3] ins(%input[n, c, oh + kh, ow + kw], %weight[c, 0, kh, kw] : tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) outs(%2[n, c, oh, ow] : tensor<1x4x6x6xf32>)
// CHECK-NEXT:      kernel.yield %3 : tensor<1x4x6x6xf32>
// CHECK-NEXT:    } -> tensor<1x4x6x6xf32>
// CHECK-NEXT:    func.return %y : tensor<1x4x6x6xf32>
func.func @depthwise(%x: tensor<1x4x8x8xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %y = graph.conv %x, %w group = 4 : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return %y : tensor<1x4x6x6xf32>
}

// -----

// CHECK-LABEL: func.func @groups(%x: tensor<1x4x8xf32>, %w: tensor<6x2x3xf32>, %b: tensor<6xf32>) -> tensor<1x6x6xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<1x2x3x6xf32>
// CHECK-NEXT:    %1 = kernel.launch @conv ins(%x, %w, %b : tensor<1x4x8xf32>, tensor<6x2x3xf32>, tensor<6xf32>) outs(%0 : tensor<1x2x3x6xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<1x4x8xf32>, %weight: tensor<6x2x3xf32>, %bias: tensor<6xf32>, %O: tensor<1x2x3x6xf32>):
// CHECK-NEXT:      %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %3 = kernel.fill %2 : f32 outs(%O : tensor<1x2x3x6xf32>)
// CHECK-NEXT:      %4 = kernel.contract bounds [n = 1, g = 2, oc = 3, ow = 6, ic = 2, kw = 3] ins(%input[n, 2 * g + ic, ow + kw], %weight[3 * g + oc, ic, kw] : tensor<1x4x8xf32>, tensor<6x2x3xf32>) outs(%3[n, g, oc, ow] : tensor<1x2x3x6xf32>)
// CHECK-NEXT:      %5 = kernel.map bounds [n = 1, g = 2, oc = 3, ow = 6] ins(%bias[3 * g + oc] : tensor<6xf32>) outs(%4[n, g, oc, ow] : tensor<1x2x3x6xf32>) {
// CHECK-NEXT:      ^bb0(%6: f32, %7: f32):
// CHECK-NEXT:        %8 = arith.addf %7, %6 : f32
// CHECK-NEXT:        kernel.yield %8 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %5 : tensor<1x2x3x6xf32>
// CHECK-NEXT:    } -> tensor<1x2x3x6xf32>
// CHECK-NEXT:    %y = kernel.reshape %1 : tensor<1x2x3x6xf32> to tensor<1x6x6xf32>
// CHECK-NEXT:    func.return %y : tensor<1x6x6xf32>
func.func @groups(%x: tensor<1x4x8xf32>, %w: tensor<6x2x3xf32>, %b: tensor<6xf32>) -> tensor<1x6x6xf32> {
  %y = graph.conv %x, %w, %b group = 2 : (tensor<1x4x8xf32>, tensor<6x2x3xf32>, tensor<6xf32>) -> tensor<1x6x6xf32>
  func.return %y : tensor<1x6x6xf32>
}

// -----

// CHECK-LABEL: func.func @max_pool(%x: tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32> {
// CHECK-NEXT:    %0 = tensor.empty() : tensor<1x2x4x4xf32>
// CHECK-NEXT:    %y = kernel.launch @max_pool ins(%x : tensor<1x2x8x8xf32>) outs(%0 : tensor<1x2x4x4xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<1x2x8x8xf32>, %O: tensor<1x2x4x4xf32>):
// CHECK-NEXT:      %1 = arith.constant 0xFF800000 : f32
// CHECK-NEXT:      %2 = kernel.fill %1 : f32 outs(%O : tensor<1x2x4x4xf32>)
// CHECK-NEXT:      %3 = kernel.reduce bounds [n = 1, c = 2, oh = 4, ow = 4, kh = 3, kw = 3] ins(%input[n, c, 2 * oh + kh - 1, 2 * ow + kw - 1] pad 0xFF800000 : f32 : tensor<1x2x8x8xf32>) outs(%2[n, c, oh, ow] : tensor<1x2x4x4xf32>) {
// CHECK-NEXT:      ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:        %6 = arith.maximumf %5, %4 : f32
// CHECK-NEXT:        kernel.yield %6 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %3 : tensor<1x2x4x4xf32>
// CHECK-NEXT:    } -> tensor<1x2x4x4xf32>
// CHECK-NEXT:    func.return %y : tensor<1x2x4x4xf32>
func.func @max_pool(%x: tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32> {
  %y = graph.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: func.func @average_pool(%x: tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32> {
// CHECK-NEXT:    %count_ow = kernel.constant dense<[2.000000e+00, 3.000000e+00, 3.000000e+00, 3.000000e+00, 2.000000e+00]> : tensor<5xf32>
// CHECK-NEXT:    %0 = tensor.empty() : tensor<1x2x3x5xf32>
// CHECK-NEXT:    %y = kernel.launch @average_pool ins(%x, %count_ow : tensor<1x2x4x5xf32>, tensor<5xf32>) outs(%0 : tensor<1x2x3x5xf32>) {
// CHECK-NEXT:    ^bb0(%input: tensor<1x2x4x5xf32>, %count_ow_1: tensor<5xf32>, %O: tensor<1x2x3x5xf32>):
// CHECK-NEXT:      %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %2 = kernel.fill %1 : f32 outs(%O : tensor<1x2x3x5xf32>)
// CHECK-NEXT:      %3 = kernel.reduce bounds [n = 1, c = 2, oh = 3, ow = 5, kh = 2, kw = 3] ins(%input[n, c, oh + kh, ow + kw - 1] pad 0.000000e+00 : f32 : tensor<1x2x4x5xf32>) outs(%2[n, c, oh, ow] : tensor<1x2x3x5xf32>) {
// CHECK-NEXT:      ^bb0(%4: f32, %5: f32):
// CHECK-NEXT:        %6 = arith.addf %5, %4 : f32
// CHECK-NEXT:        kernel.yield %6 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %7 = kernel.map bounds [n = 1, c = 2, oh = 3, ow = 5] ins(%count_ow_1[ow] : tensor<5xf32>) outs(%3[n, c, oh, ow] : tensor<1x2x3x5xf32>) {
// CHECK-NEXT:      ^bb0(%8: f32, %9: f32):
// CHECK-NEXT:        %10 = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:        %11 = arith.mulf %10, %8 : f32
// CHECK-NEXT:        %12 = arith.divf %9, %11 : f32
// CHECK-NEXT:        kernel.yield %12 : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %7 : tensor<1x2x3x5xf32>
// CHECK-NEXT:    } -> tensor<1x2x3x5xf32>
// CHECK-NEXT:    func.return %y : tensor<1x2x3x5xf32>
func.func @average_pool(%x: tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32> {
  %y = graph.average_pool %x kernel = [2, 3] pads = [0, 1, 0, 1] : (tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  func.return %y : tensor<1x2x3x5xf32>
}
