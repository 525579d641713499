// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The collectives print as they are read, also through the generic form, and so does the way of an operation.

// CHECK-LABEL: @all_reduce(
// CHECK-NEXT: %n = graph.neg %a {mlopt.way = 0 : i64} : tensor<2x3xf32>
// CHECK-NEXT: %y = graph.all_reduce %n, %b, %c : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @all_reduce(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xf32>) {
  %n = graph.neg %a {mlopt.way = 0 : i64} : tensor<2x3xf32>
  %y = graph.all_reduce %n, %b, %c : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @all_reduce_of_one(
// CHECK-NEXT: %y = graph.all_reduce %a : (tensor<ui8>) -> tensor<ui8>
func.func @all_reduce_of_one(%a: tensor<ui8>) {
  %y = graph.all_reduce %a : (tensor<ui8>) -> tensor<ui8>
  func.return
}

// CHECK-LABEL: @all_gather(
// CHECK-NEXT: %y = graph.all_gather %a, %b axis = 1 : (tensor<2x3xi1>, tensor<2x0xi1>) -> tensor<2x3xi1>
func.func @all_gather(%a: tensor<2x3xi1>, %b: tensor<2x0xi1>) {
  %y = graph.all_gather %a, %b axis = 1 : (tensor<2x3xi1>, tensor<2x0xi1>) -> tensor<2x3xi1>
  func.return
}
