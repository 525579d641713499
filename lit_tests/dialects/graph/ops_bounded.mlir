// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// Operations whose results have a size that depends on data print as they are read.

// CHECK-LABEL: @nonzero(
// CHECK-NEXT: %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
func.func @nonzero(%x: tensor<2x3xf32>) {
  %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
  func.return
}

// CHECK-LABEL: @unique(
// CHECK-NEXT: graph.unique %x : (tensor<4x2xf32>) -> (tensor<8xf32>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>, tensor<i64>)
// CHECK-NEXT: graph.unique %x axis = 0 in_order : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<i64>)
func.func @unique(%x: tensor<4x2xf32>) {
  %v, %i, %p, %c, %n = graph.unique %x : (tensor<4x2xf32>) -> (tensor<8xf32>, tensor<8xi64>, tensor<8xi64>, tensor<8xi64>, tensor<i64>)
  %v1, %i1, %p1, %c1, %n1 = graph.unique %x axis = 0 in_order : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<i64>)
  func.return
}

// CHECK-LABEL: @suppression(
// CHECK-NEXT: graph.non_max_suppression %b, %s, %n, %t most = 3 center : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
// CHECK-NEXT: graph.non_max_suppression %b, %s, %n, %t, %t most = 9 : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
func.func @suppression(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>, %n: tensor<i64>, %t: tensor<f32>) {
  %y, %m = graph.non_max_suppression %b, %s, %n, %t most = 3 center : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>) -> (tensor<6x3xi64>, tensor<i64>)
  %z, %k = graph.non_max_suppression %b, %s, %n, %t, %t most = 9 : (tensor<1x6x4xf32>, tensor<1x2x6xf32>, tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<12x3xi64>, tensor<i64>)
  func.return
}

// CHECK-LABEL: @require_equal(
// CHECK-NEXT: %n = graph.require_equal %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i64>
func.func @require_equal(%a: tensor<i64>, %b: tensor<i64>) {
  %n = graph.require_equal %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i64>
  func.return
}

// CHECK-LABEL: @counted(
// CHECK-NEXT: %y = graph.scatter_nd %x, %i, %u count = %n reduction = "add" : (tensor<9xf32>, tensor<5x1xi64>, tensor<5xf32>, tensor<i64>) -> tensor<9xf32>
// CHECK-NEXT: %z = graph.scatter_elements %x, %j, %u count = %n axis = 0 : (tensor<9xf32>, tensor<5xi64>, tensor<5xf32>, tensor<i64>) -> tensor<9xf32>
func.func @counted(%x: tensor<9xf32>, %i: tensor<5x1xi64>, %j: tensor<5xi64>, %u: tensor<5xf32>, %n: tensor<i64>) {
  %y = graph.scatter_nd %x, %i, %u count = %n reduction = "add" : (tensor<9xf32>, tensor<5x1xi64>, tensor<5xf32>, tensor<i64>) -> tensor<9xf32>
  %z = graph.scatter_elements %x, %j, %u count = %n axis = 0 : (tensor<9xf32>, tensor<5xi64>, tensor<5xf32>, tensor<i64>) -> tensor<9xf32>
  func.return
}

// The extent of an output is a result that says what of.
// CHECK-LABEL: @main(
// CHECK-SAME: -> (tensor<2x6xi64> {mlopt.name = "y"}, tensor<i64> {mlopt.extent = {of = "y", axis = 1 : i64}})
func.func @main(%x: tensor<2x3xf32> {mlopt.name = "x"})
    -> (tensor<2x6xi64> {mlopt.name = "y"}, tensor<i64> {mlopt.extent = {of = "y", axis = 1 : i64}}) {
  %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
  func.return %i, %n : tensor<2x6xi64>, tensor<i64>
}
