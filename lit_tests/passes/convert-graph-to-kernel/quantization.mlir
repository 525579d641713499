// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// Scale and zero point are broadcast by index maps; where they are one constant number, they stand in the body.

// CHECK-LABEL: func.func @quantize(%x: tensor<2x3xf32>, %scale: tensor<f32>, %zero: tensor<i8> {mlopt.dtype = "uint8"}) -> (tensor<2x3xi8> {mlopt.dtype = "uint8"}) {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<2x3xi8>
// CHECK-NEXT:      %y = kernel.launch @quantize ins(%x, %scale, %zero : tensor<2x3xf32>, tensor<f32>, tensor<i8>) outs(%0 : tensor<2x3xi8>) {
// CHECK-NEXT:      ^bb0(%input: tensor<2x3xf32>, %scale_1: tensor<f32>, %zero_point: tensor<i8>, %O: tensor<2x3xi8>):
// CHECK-NEXT:        %1 = kernel.map bounds [d0 = 2, d1 = 3] ins(%input[d0, d1], %scale_1[], %zero_point[] : tensor<2x3xf32>, tensor<f32>, tensor<i8>) outs(%O[d0, d1] : tensor<2x3xi8>) {
// CHECK-NEXT:        ^bb0(%2: f32, %3: f32, %4: i8, %5: i8):
// CHECK-NEXT:          %6 = arith.divf %2, %3 : f32
// CHECK-NEXT:          %7 = math.roundeven %6 : f32
// CHECK-NEXT:          %8 = arith.uitofp %4 : i8 to f32
// CHECK-NEXT:          %9 = arith.addf %7, %8 : f32
// CHECK-NEXT:          %10 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:          %11 = arith.maxnumf %9, %10 : f32
// CHECK-NEXT:          %12 = arith.constant 2.550000e+02 : f32
// CHECK-NEXT:          %13 = arith.minimumf %11, %12 : f32
// CHECK-NEXT:          %14 = arith.fptoui %13 : f32 to i8
// CHECK-NEXT:          kernel.yield %14 : i8
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.yield %1 : tensor<2x3xi8>
// CHECK-NEXT:      } -> tensor<2x3xi8>
// CHECK-NEXT:      func.return %y : tensor<2x3xi8>
func.func @quantize(%x: tensor<2x3xf32>, %scale: tensor<f32>, %zero: tensor<ui8>) -> tensor<2x3xui8> {
  %y = graph.quantize %x, %scale, %zero : (tensor<2x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x3xui8>
  func.return %y : tensor<2x3xui8>
}

// -----

// CHECK-LABEL: func.func @quantize_by_constants(%x: tensor<2x3xf32>) -> (tensor<2x3xi8> {mlopt.dtype = "uint8"}) {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<2x3xi8>
// CHECK-NEXT:      %y = kernel.launch @quantize ins(%x : tensor<2x3xf32>) outs(%0 : tensor<2x3xi8>) {
// CHECK-NEXT:      ^bb0(%input: tensor<2x3xf32>, %O: tensor<2x3xi8>):
// CHECK-NEXT:        %1 = kernel.map bounds [d0 = 2, d1 = 3] ins(%input[d0, d1] : tensor<2x3xf32>) outs(%O[d0, d1] : tensor<2x3xi8>) {
// CHECK-NEXT:        ^bb0(%2: f32, %3: i8):
// CHECK-NEXT:          %4 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:          %5 = arith.constant -56 : i8
// CHECK-NEXT:          %6 = arith.divf %2, %4 : f32
// CHECK-NEXT:          %7 = math.roundeven %6 : f32
// CHECK-NEXT:          %8 = arith.constant 2.000000e+02 : f32
// CHECK-NEXT:          %9 = arith.addf %7, %8 : f32
// CHECK-NEXT:          %10 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:          %11 = arith.maxnumf %9, %10 : f32
// CHECK-NEXT:          %12 = arith.constant 2.550000e+02 : f32
// CHECK-NEXT:          %13 = arith.minimumf %11, %12 : f32
// CHECK-NEXT:          %14 = arith.fptoui %13 : f32 to i8
// CHECK-NEXT:          kernel.yield %14 : i8
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.yield %1 : tensor<2x3xi8>
// CHECK-NEXT:      } -> tensor<2x3xi8>
// CHECK-NEXT:      func.return %y : tensor<2x3xi8>
func.func @quantize_by_constants(%x: tensor<2x3xf32>) -> tensor<2x3xui8> {
  %scale = graph.constant dense<0.5> : tensor<f32>
  %zero = graph.constant dense<200> : tensor<ui8>
  %y = graph.quantize %x, %scale, %zero : (tensor<2x3xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x3xui8>
  func.return %y : tensor<2x3xui8>
}

// -----

// CHECK-LABEL: func.func @quantize_to_small_floats(%x: tensor<4xf32>, %scale: tensor<f32>) -> tensor<4xf8E5M2> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xf8E5M2>
// CHECK-NEXT:      %y = kernel.launch @quantize ins(%x, %scale : tensor<4xf32>, tensor<f32>) outs(%0 : tensor<4xf8E5M2>) {
// CHECK-NEXT:      ^bb0(%input: tensor<4xf32>, %scale_1: tensor<f32>, %O: tensor<4xf8E5M2>):
// CHECK-NEXT:        %1 = kernel.map bounds [d0 = 4] ins(%input[d0], %scale_1[] : tensor<4xf32>, tensor<f32>) outs(%O[d0] : tensor<4xf8E5M2>) {
// CHECK-NEXT:        ^bb0(%2: f32, %3: f32, %4: f8E5M2):
// CHECK-NEXT:          %5 = arith.divf %2, %3 : f32
// CHECK-NEXT:          %6 = arith.constant -5.734400e+04 : f32
// CHECK-NEXT:          %7 = arith.maximumf %5, %6 : f32
// CHECK-NEXT:          %8 = arith.constant 5.734400e+04 : f32
// CHECK-NEXT:          %9 = arith.minimumf %7, %8 : f32
// CHECK-NEXT:          %10 = arith.truncf %9 : f32 to f8E5M2
// CHECK-NEXT:          kernel.yield %10 : f8E5M2
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.yield %1 : tensor<4xf8E5M2>
// CHECK-NEXT:      } -> tensor<4xf8E5M2>
// CHECK-NEXT:      func.return %y : tensor<4xf8E5M2>
func.func @quantize_to_small_floats(%x: tensor<4xf32>, %scale: tensor<f32>) -> tensor<4xf8E5M2> {
  %y = graph.quantize %x, %scale saturate : (tensor<4xf32>, tensor<f32>) -> tensor<4xf8E5M2>
  func.return %y : tensor<4xf8E5M2>
}

// -----

// CHECK-LABEL: func.func @dequantize_per_row(%x: tensor<2x3xi8>, %scale: tensor<2x1xf16>, %zero: tensor<2x1xi8>) -> tensor<2x3xf16> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<2x3xf16>
// CHECK-NEXT:      %y = kernel.launch @dequantize ins(%x, %scale, %zero : tensor<2x3xi8>, tensor<2x1xf16>, tensor<2x1xi8>) outs(%0 : tensor<2x3xf16>) {
// CHECK-NEXT:      ^bb0(%input: tensor<2x3xi8>, %scale_1: tensor<2x1xf16>, %zero_point: tensor<2x1xi8>, %O: tensor<2x3xf16>):
// CHECK-NEXT:        %1 = kernel.map bounds [d0 = 2, d1 = 3] ins(%input[d0, d1], %scale_1[d0, 0], %zero_point[d0, 0] : tensor<2x3xi8>, tensor<2x1xf16>, tensor<2x1xi8>) outs(%O[d0, d1] : tensor<2x3xf16>) {
// CHECK-NEXT:        ^bb0(%2: i8, %3: f16, %4: i8, %5: f16):
// CHECK-NEXT:          %6 = arith.sitofp %2 : i8 to f32
// CHECK-NEXT:          %7 = arith.sitofp %4 : i8 to f32
// CHECK-NEXT:          %8 = arith.subf %6, %7 : f32
// CHECK-NEXT:          %9 = arith.extf %3 : f16 to f32
// CHECK-NEXT:          %10 = arith.mulf %8, %9 : f32
// CHECK-NEXT:          %11 = arith.truncf %10 : f32 to f16
// CHECK-NEXT:          kernel.yield %11 : f16
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.yield %1 : tensor<2x3xf16>
// CHECK-NEXT:      } -> tensor<2x3xf16>
// CHECK-NEXT:      func.return %y : tensor<2x3xf16>
func.func @dequantize_per_row(%x: tensor<2x3xi8>, %scale: tensor<2x1xf16>, %zero: tensor<2x1xi8>) -> tensor<2x3xf16> {
  %y = graph.dequantize %x, %scale, %zero : (tensor<2x3xi8>, tensor<2x1xf16>, tensor<2x1xi8>) -> tensor<2x3xf16>
  func.return %y : tensor<2x3xf16>
}

// -----

// CHECK-LABEL: func.func @dequantize_i32(%x: tensor<4xi32>, %scale: tensor<f32>, %zero: tensor<i32>) -> tensor<4xf32> {
// CHECK-NEXT:      %0 = tensor.empty() : tensor<4xf32>
// CHECK-NEXT:      %y = kernel.launch @dequantize ins(%x, %scale, %zero : tensor<4xi32>, tensor<f32>, tensor<i32>) outs(%0 : tensor<4xf32>) {
// CHECK-NEXT:      ^bb0(%input: tensor<4xi32>, %scale_1: tensor<f32>, %zero_point: tensor<i32>, %O: tensor<4xf32>):
// CHECK-NEXT:        %1 = kernel.map bounds [d0 = 4] ins(%input[d0], %scale_1[], %zero_point[] : tensor<4xi32>, tensor<f32>, tensor<i32>) outs(%O[d0] : tensor<4xf32>) {
// CHECK-NEXT:        ^bb0(%2: i32, %3: f32, %4: i32, %5: f32):
// CHECK-NEXT:          %6 = arith.subi %2, %4 : i32
// CHECK-NEXT:          %7 = arith.sitofp %6 : i32 to f32
// CHECK-NEXT:          %8 = arith.mulf %7, %3 : f32
// CHECK-NEXT:          kernel.yield %8 : f32
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.yield %1 : tensor<4xf32>
// CHECK-NEXT:      } -> tensor<4xf32>
// CHECK-NEXT:      func.return %y : tensor<4xf32>
func.func @dequantize_i32(%x: tensor<4xi32>, %scale: tensor<f32>, %zero: tensor<i32>) -> tensor<4xf32> {
  %y = graph.dequantize %x, %scale, %zero : (tensor<4xi32>, tensor<f32>, tensor<i32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
