// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// Operations that write at computed positions, and those along an axis in an order, print as they are read.

// CHECK-LABEL: @scatter_elements(
// CHECK-NEXT: %y = graph.scatter_elements %x, %i, %u axis = 1 : (tensor<2x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x9xf32>
// CHECK-NEXT: %z = graph.scatter_elements %x, %i, %u axis = 1 reduction = "add" : (tensor<2x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x9xf32>
func.func @scatter_elements(%x: tensor<2x9xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>) {
  %y = graph.scatter_elements %x, %i, %u axis = 1 : (tensor<2x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x9xf32>
  %z = graph.scatter_elements %x, %i, %u axis = 1 reduction = "add"
    : (tensor<2x9xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x9xf32>
  func.return
}

// CHECK-LABEL: @scatter_nd(
// CHECK-NEXT: %y = graph.scatter_nd %x, %i, %u : (tensor<2x9xi8>, tensor<5x1xi32>, tensor<5x9xi8>) -> tensor<2x9xi8>
// CHECK-NEXT: %z = graph.scatter_nd %x, %i, %u reduction = "min" : (tensor<2x9xi8>, tensor<5x1xi32>, tensor<5x9xi8>) -> tensor<2x9xi8>
func.func @scatter_nd(%x: tensor<2x9xi8>, %i: tensor<5x1xi32>, %u: tensor<5x9xi8>) {
  %y = graph.scatter_nd %x, %i, %u : (tensor<2x9xi8>, tensor<5x1xi32>, tensor<5x9xi8>) -> tensor<2x9xi8>
  %z = graph.scatter_nd %x, %i, %u reduction = "min" : (tensor<2x9xi8>, tensor<5x1xi32>, tensor<5x9xi8>) -> tensor<2x9xi8>
  func.return
}

// CHECK-LABEL: @cumulative(
// CHECK-NEXT: %a = graph.cum_sum %x axis = 1 : tensor<2x3xf32>
// CHECK-NEXT: %b = graph.cum_sum %x axis = 0 exclusive : tensor<2x3xf32>
// CHECK-NEXT: %c = graph.cum_prod %x axis = 1 reverse : tensor<2x3xf32>
// CHECK-NEXT: %d = graph.cum_prod %x axis = 1 exclusive reverse : tensor<2x3xf32>
func.func @cumulative(%x: tensor<2x3xf32>) {
  %a = graph.cum_sum %x axis = 1 : tensor<2x3xf32>
  %b = graph.cum_sum %x axis = 0 exclusive : tensor<2x3xf32>
  %c = graph.cum_prod %x axis = 1 reverse : tensor<2x3xf32>
  %d = graph.cum_prod %x axis = 1 exclusive reverse : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @top_k(
// CHECK-NEXT: %v, %i = graph.top_k %x axis = 1 k = 3 : (tensor<2x9xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
// CHECK-NEXT: %w, %j = graph.top_k %x axis = 0 k = 0 smallest : (tensor<2x9xf32>) -> (tensor<0x9xf32>, tensor<0x9xi64>)
func.func @top_k(%x: tensor<2x9xf32>) {
  %v, %i = graph.top_k %x axis = 1 k = 3 : (tensor<2x9xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  %w, %j = graph.top_k %x axis = 0 k = 0 smallest : (tensor<2x9xf32>) -> (tensor<0x9xf32>, tensor<0x9xi64>)
  func.return
}
