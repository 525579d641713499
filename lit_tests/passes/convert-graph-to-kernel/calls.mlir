// RUN: mlopt-opt %s --convert-graph-to-kernel | filecheck %s

// What has no structured form calls a run-time function. Scatters begin with their data, the others uninitialised.

// CHECK-LABEL: @main(
// CHECK-NEXT: %s = kernel.call @mlopt_rt_scatter_elements ins(%i, %u : tensor<2x3xi64>, tensor<2x3xi8>) outs(%x : tensor<4x3xi8>) attributes {axis = 0 : i64, reduction = "max", unsigned} -> tensor<4x3xi8>
// CHECK-NEXT: %n = kernel.call @mlopt_rt_scatter_nd ins(%j, %u : tensor<2x1xi64>, tensor<2x3xi8>) outs(%s : tensor<4x3xi8>) attributes {reduction = "none", unsigned} -> tensor<4x3xi8>
// CHECK-NEXT: %0 = tensor.empty() : tensor<4x3xi8>
// CHECK-NEXT: %c = kernel.call @mlopt_rt_scan ins(%n : tensor<4x3xi8>) outs(%0 : tensor<4x3xi8>) attributes {axis = 1 : i64, operation = "mul", reverse} -> tensor<4x3xi8>
// CHECK-NEXT: %1 = tensor.empty() : tensor<4x1xi8>
// CHECK-NEXT: %2 = tensor.empty() : tensor<4x1xi64>
// CHECK-NEXT: %v, %k = kernel.call @mlopt_rt_top_k ins(%c : tensor<4x3xi8>) outs(%1, %2 : tensor<4x1xi8>, tensor<4x1xi64>) attributes {axis = 1 : i64, smallest, unsigned} -> tensor<4x1xi8>, tensor<4x1xi64>
// CHECK-NEXT: %3 = tensor.empty() : tensor<5xf32>
// CHECK-NEXT: %d = kernel.call @mlopt_rt_det ins(%m : tensor<5x2x2xf32>) outs(%3 : tensor<5xf32>) -> tensor<5xf32>
func.func @main(%x: tensor<4x3xui8>, %i: tensor<2x3xi64>, %u: tensor<2x3xui8>, %j: tensor<2x1xi64>, %m: tensor<5x2x2xf32>)
    -> (tensor<4x1xui8>, tensor<4x1xi64>, tensor<5xf32>) {
  %s = graph.scatter_elements %x, %i, %u axis = 0 reduction = "max"
    : (tensor<4x3xui8>, tensor<2x3xi64>, tensor<2x3xui8>) -> tensor<4x3xui8>
  %n = graph.scatter_nd %s, %j, %u : (tensor<4x3xui8>, tensor<2x1xi64>, tensor<2x3xui8>) -> tensor<4x3xui8>
  %c = graph.cum_prod %n axis = 1 reverse : tensor<4x3xui8>
  %v, %k = graph.top_k %c axis = 1 k = 1 smallest : (tensor<4x3xui8>) -> (tensor<4x1xui8>, tensor<4x1xi64>)
  %d = graph.det %m : (tensor<5x2x2xf32>) -> tensor<5xf32>
  func.return %v, %k, %d : tensor<4x1xui8>, tensor<4x1xi64>, tensor<5xf32>
}
