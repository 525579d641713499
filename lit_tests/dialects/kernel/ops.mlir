// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The operations of the kernel dialect print as they are read, also through the generic form.

// CHECK-LABEL: @fill(
// CHECK-NEXT:    %z = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %y = kernel.fill %z : f32 outs(%e : tensor<4x8xf32>)
func.func @fill(%e: tensor<4x8xf32>) {
  %z = arith.constant 0.0 : f32
  %y = kernel.fill %z : f32 outs(%e : tensor<4x8xf32>)
  func.return
}

// CHECK-LABEL: @copy(
// CHECK-NEXT:    %s = kernel.copy %x to 1 : tensor<4x6xf32>
// CHECK-NEXT:    %b = kernel.copy %s to 0 {note = "back"} : tensor<4x6xf32>
func.func @copy(%x: tensor<4x6xf32>) {
  %s = kernel.copy %x to 1 : tensor<4x6xf32>
  %b = kernel.copy %s to 0 {note = "back"} : tensor<4x6xf32>
  func.return
}

// CHECK-LABEL: @reshape(
// CHECK-NEXT:    %y = kernel.reshape %x : tensor<4x6xf32> to tensor<2x12xf32>
func.func @reshape(%x: tensor<4x6xf32>) {
  %y = kernel.reshape %x : tensor<4x6xf32> to tensor<2x12xf32>
  func.return
}

// CHECK-LABEL: @constant(
// CHECK-NEXT:    %c = kernel.constant dense<[1, 2]> : tensor<2xi64>
// CHECK-NEXT:    %f = kernel.constant dense<0xFF800000> : tensor<3xf32>
// CHECK-NEXT:    %w = kernel.constant #mlopt.weight<"fc1.weight"> : tensor<256x128xf32>
func.func @constant() {
  %c = kernel.constant dense<[1, 2]> : tensor<2xi64>
  %f = kernel.constant dense<0xFF800000> : tensor<3xf32>
  %w = kernel.constant #mlopt.weight<"fc1.weight"> : tensor<256x128xf32>
  func.return
}

// CHECK-LABEL: @map(
// CHECK-NEXT:    %y = kernel.map bounds [m = 4, n = 8] ins(%x[n, m], %b[n] : tensor<8x4xf32>, tensor<8xf32>) outs(%e[m, n] : tensor<4x8xf32>) {
// CHECK-NEXT:    ^bb0(%a: f32, %c: f32, %old: f32):
// CHECK-NEXT:      %s = arith.addf %a, %c : f32
// CHECK-NEXT:      kernel.yield %s : f32
// CHECK-NEXT:    }
func.func @map(%x: tensor<8x4xf32>, %b: tensor<8xf32>, %e: tensor<4x8xf32>) {
  %y = kernel.map bounds [m = 4, n = 8] ins(%x[n, m], %b[n] : tensor<8x4xf32>, tensor<8xf32>)
                                        outs(%e[m, n] : tensor<4x8xf32>) {
  ^bb0(%a: f32, %c: f32, %old: f32):
    %s = arith.addf %a, %c : f32
    kernel.yield %s : f32
  }
  func.return
}

// Index expressions may be written in any order; they print in the order of the dimensions.
// CHECK-LABEL: @index_expressions(
// CHECK-NEXT:    %y = kernel.map bounds [oh = 4, kh = 3] ins(%x[2 * oh + kh - 1, -kh + 1, 7, -oh + 3] pad -1 : i8 : tensor<9x3x8x4xi8>) outs(%e[oh, 2 * kh + 5] : tensor<4x10xi8>) {
func.func @index_expressions(%x: tensor<9x3x8x4xi8>, %e: tensor<4x10xi8>) {
  %y = kernel.map bounds [oh = 4, kh = 3] ins(%x[-1 + kh + oh * 2, -1 * kh + 1, 7, 3 - oh] pad -1 : i8 : tensor<9x3x8x4xi8>)
                                          outs(%e[oh, kh * 2 + 5] : tensor<4x10xi8>) {
  ^bb0(%a: i8, %old: i8):
    kernel.yield %a : i8
  }
  func.return
}

// CHECK-LABEL: @no_dimensions(
// CHECK-NEXT:    %y = kernel.map bounds [] outs(%e[] : tensor<f32>) attributes {note = "square"} {
// CHECK-NEXT:    ^bb0(%old: f32):
func.func @no_dimensions(%e: tensor<f32>) {
  %y = kernel.map bounds [] outs(%e[] : tensor<f32>) attributes {note = "square"} {
  ^bb0(%old: f32):
    %s = arith.mulf %old, %old : f32
    kernel.yield %s : f32
  }
  func.return
}

// Nothing is read in an empty iteration space, so nothing is out of bounds.
// CHECK-LABEL: @empty_space(
// CHECK-NEXT:    %y = kernel.map bounds [i = 0] ins(%x[i + 9] : tensor<3xf32>) outs(%e[i] : tensor<0xf32>) {
func.func @empty_space(%x: tensor<3xf32>, %e: tensor<0xf32>) {
  %y = kernel.map bounds [i = 0] ins(%x[i + 9] : tensor<3xf32>) outs(%e[i] : tensor<0xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// CHECK-LABEL: @reduce(
// CHECK-NEXT:    %v, %p = kernel.reduce bounds [m = 4, n = 8] ins(%x[m, n] : tensor<4x8xf32>) outs(%init[m], %at[m] : tensor<4xf32>, tensor<4xindex>) {
// CHECK-NEXT:    ^bb0(%a: f32, %best: f32, %old: index):
// CHECK-NEXT:      %more = arith.cmpf ogt, %a, %best : f32
// CHECK-NEXT:      %here = kernel.index 1
func.func @reduce(%x: tensor<4x8xf32>, %init: tensor<4xf32>, %at: tensor<4xindex>) {
  %v, %p = kernel.reduce bounds [m = 4, n = 8] ins(%x[m, n] : tensor<4x8xf32>)
                                               outs(%init[m], %at[m] : tensor<4xf32>, tensor<4xindex>) {
  ^bb0(%a: f32, %best: f32, %old: index):
    %more = arith.cmpf ogt, %a, %best : f32
    %here = kernel.index 1
    %value = arith.select %more, %a, %best : f32
    %where = arith.select %more, %here, %old : index
    kernel.yield %value, %where : f32, index
  }
  func.return
}

// CHECK-LABEL: @contract(
// CHECK-NEXT:    %y = kernel.contract bounds [m = 4, n = 8, k = 16] ins(%a[m, k], %b[k, n] : tensor<4x16xf16>, tensor<16x8xf16>) outs(%zero[m, n] : tensor<4x8xf32>)
func.func @contract(%a: tensor<4x16xf16>, %b: tensor<16x8xf16>, %zero: tensor<4x8xf32>) {
  %y = kernel.contract bounds [m = 4, n = 8, k = 16] ins(%a[m, k], %b[k, n] : tensor<4x16xf16>, tensor<16x8xf16>)
                                                     outs(%zero[m, n] : tensor<4x8xf32>)
  func.return
}

// CHECK-LABEL: @launch(
// CHECK-NEXT:    %e = tensor.empty() : tensor<2xf32>
// CHECK-NEXT:    %y = kernel.launch @gather ins(%t, %i : tensor<9xf32>, tensor<2xi64>) outs(%e : tensor<2xf32>) {
// CHECK-NEXT:    ^bb0(%T: tensor<9xf32>, %I: tensor<2xi64>, %O: tensor<2xf32>):
// CHECK-NEXT:      %0 = kernel.map bounds [i = 2] ins(%I[i] : tensor<2xi64>) outs(%O[i] : tensor<2xf32>) {
// CHECK-NEXT:      ^bb0(%k: i64, %old: f32):
// CHECK-NEXT:        %j = arith.index_cast %k : i64 to index
// CHECK-NEXT:        %v = tensor.extract %T[%j] : tensor<9xf32>
// CHECK-NEXT:        kernel.yield %v : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.yield %0 : tensor<2xf32>
// CHECK-NEXT:    } -> tensor<2xf32>
func.func @launch(%t: tensor<9xf32>, %i: tensor<2xi64>) {
  %e = tensor.empty() : tensor<2xf32>
  %y = kernel.launch @gather ins(%t, %i : tensor<9xf32>, tensor<2xi64>) outs(%e : tensor<2xf32>) {
  ^bb0(%T: tensor<9xf32>, %I: tensor<2xi64>, %O: tensor<2xf32>):
    %0 = kernel.map bounds [i = 2] ins(%I[i] : tensor<2xi64>) outs(%O[i] : tensor<2xf32>) {
    ^bb1(%k: i64, %old: f32):
      %j = arith.index_cast %k : i64 to index
      %v = tensor.extract %T[%j] : tensor<9xf32>
      kernel.yield %v : f32
    }
    kernel.yield %0 : tensor<2xf32>
  } -> tensor<2xf32>
  func.return
}

// CHECK-LABEL: @call(
// CHECK-NEXT:    %v = kernel.call @mlopt_rt_sort ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
func.func @call(%x: tensor<8xf32>, %e: tensor<8xf32>) {
  %v = kernel.call @mlopt_rt_sort ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// Integers are widened to floats.
// CHECK-LABEL: @contract_of_integers(
// CHECK: kernel.contract bounds [m = 2, n = 3, k = 4] ins(%a[m, k], %b[k, n] : tensor<2x4xi8>, tensor<4x3xi16>) outs(%e[m, n] : tensor<2x3xf32>)
func.func @contract_of_integers(%a: tensor<2x4xi8>, %b: tensor<4x3xi16>, %e: tensor<2x3xf32>) {
  %y = kernel.contract bounds [m = 2, n = 3, k = 4] ins(%a[m, k], %b[k, n] : tensor<2x4xi8>, tensor<4x3xi16>) outs(%e[m, n] : tensor<2x3xf32>)
  func.return
}
