// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,fuse-kernels,tile-contractions{max-bytes=512})' | filecheck %s
// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(convert-graph-to-kernel,fuse-kernels,tile-contractions{max-bytes=512})' --remarks 2>&1 | filecheck %s --check-prefix=REMARK

// 32 columns of 8 sums take 1024 bytes: two tiles of 16 columns. The factor on the left, the smaller, is read in both.
// REMARK: remark: [tile-contractions] 1024 bytes of sums are made in 2 tiles
// CHECK-LABEL: @narrowed
// CHECK:         tensor.empty() : tensor<8x16xf32>
// CHECK-NEXT:    kernel.fill
// CHECK-NEXT:    kernel.contract bounds [m = 8, n = 16, k = 2] ins(%lhs[m, k], %rhs[k, n] :
// CHECK:         kernel.map bounds [d0 = 8, d1 = 16] {{.*}} outs(%O[d0, d1] :
// CHECK:         tensor.empty() : tensor<8x16xf32>
// CHECK-NEXT:    kernel.fill
// CHECK-NEXT:    kernel.contract bounds [m = 8, n = 16, k = 2] ins(%lhs[m, k], %rhs[k, n + 16] :
// CHECK:         kernel.map bounds [d0 = 8, d1 = 16] {{.*}} outs({{%.*}}[d0, d1 + 16] :
func.func @narrowed(%a: tensor<8x2xi8>, %b: tensor<2x32xi8>) -> tensor<8x32xi8> {
  %one = graph.constant dense<1.0> : tensor<f32>
  %s = graph.integer_matmul %a, %b : (tensor<8x2xi8>, tensor<2x32xi8>) -> tensor<8x32xf32>
  %y = graph.quantize %s, %one : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xi8>
  func.return %y : tensor<8x32xi8>
}

// -----

// The sums are the result: they are made in its place.
// CHECK-LABEL: @wide
// CHECK:         kernel.contract bounds [m = 8, n = 32, k = 2]
// CHECK-NOT:     kernel.contract
func.func @wide(%a: tensor<8x2xi8>, %b: tensor<2x32xi8>) -> tensor<8x32xf32> {
  %s = graph.integer_matmul %a, %b : (tensor<8x2xi8>, tensor<2x32xi8>) -> tensor<8x32xf32>
  %y = graph.relu %s : tensor<8x32xf32>
  func.return %y : tensor<8x32xf32>
}
