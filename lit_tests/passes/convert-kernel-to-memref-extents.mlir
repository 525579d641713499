// RUN: mlopt-opt %s --convert-graph-to-kernel --convert-kernel-to-memref | filecheck %s

// The extent of an output is an argument that says what of.
// CHECK-LABEL: @main(
// CHECK-SAME: %y: memref<2x6xi64> {mlopt.output = "y"}, %y_extent: memref<i64> {mlopt.extent = {of = "y", axis = 1 : i64}})
// CHECK-NEXT: func.call @mlopt_rt_nonzero(%x, %y, %y_extent)
// CHECK-NEXT: func.return
func.func @main(%x: tensor<2x3xf32> {mlopt.name = "x"})
    -> (tensor<2x6xi64> {mlopt.name = "y"}, tensor<i64> {mlopt.extent = {of = "y", axis = 1 : i64}}) {
  %i, %n = graph.nonzero %x : (tensor<2x3xf32>) -> (tensor<2x6xi64>, tensor<i64>)
  func.return %i, %n : tensor<2x6xi64>, tensor<i64>
}
