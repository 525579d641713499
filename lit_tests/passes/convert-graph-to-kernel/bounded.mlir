// RUN: mlopt-opt %s --convert-graph-to-kernel | filecheck %s

// CHECK-LABEL: @nonzero(
// CHECK: kernel.call @mlopt_rt_nonzero ins(%x : tensor<2x3xf32>) outs(%{{.*}}, %{{.*}} : tensor<2x6xi64>, tensor<i64>) -> tensor<2x6xi64>, tensor<i64>
func.func @nonzero(%x: tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>) {
  %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
  func.return %i, %n : tensor<2x6xi64>, tensor<i64>
}

// CHECK-LABEL: @unique(
// CHECK: kernel.call @mlopt_rt_unique ins(%x : tensor<4x2xi8>)
// CHECK-SAME: {axis = 0 : i64, flat, unsigned}
// CHECK: kernel.call @mlopt_rt_unique ins(%x : tensor<4x2xi8>)
// CHECK-SAME: {axis = 1 : i64, in_order, unsigned}
func.func @unique(%x: tensor<4x2xui8>) -> (tensor<i64>, tensor<i64>) {
  %v, %i, %p, %c, %n = graph.unique %x : (tensor<4x2xui8>) -> (tensor<8xui8>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>, tensor<i64>)
  %v1, %i1, %p1, %c1, %n1 = graph.unique %x axis = 1 in_order : (tensor<4x2xui8>) -> (tensor<4x2xui8>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<i64>)
  func.return %n, %n1 : tensor<i64>, tensor<i64>
}

// Without a threshold of the scores the flag says so, and a number is there that is not looked at.
// CHECK-LABEL: @suppression(
// CHECK: kernel.call @mlopt_rt_non_max_suppression ins(%b, %s, %n, %t, %t :
// CHECK-SAME: {most = 3 : i64, center, all_scores}
func.func @suppression(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %t: tensor<f32>) -> tensor<i64> {
  %y, %m = graph.non_max_suppression %b, %s, %n, %t most = 3 center : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
  func.return %m : tensor<i64>
}

// CHECK-LABEL: @require_equal(
// CHECK: kernel.call @mlopt_rt_require_equal ins(%a, %b : tensor<i64>, tensor<i64>)
func.func @require_equal(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i64> {
  %n = graph.require_equal %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i64>
  func.return %n : tensor<i64>
}

// CHECK-LABEL: @counted(
// CHECK: kernel.call @mlopt_rt_scatter_nd_counted ins(%i, %u, %n : tensor<5x1xi64>, tensor<5xf32>, tensor<i64>) outs(%x : tensor<9xf32>)
func.func @counted(%x: tensor<9xf32>, %i: tensor<5x1xi64>, %u: tensor<5xf32>, %n: tensor<i64>) -> tensor<9xf32> {
  %y = graph.scatter_nd %x, %i, %u count = %n : (tensor<9xf32>, tensor<5x1xi64>, tensor<5xf32>, tensor<i64>) -> tensor<9xf32>
  func.return %y : tensor<9xf32>
}
