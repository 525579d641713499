// RUN: mlopt-opt %s --split-input-file --convert-graph-to-kernel | filecheck %s

// A loop keeps its shape; graph ops inside become launches, the number of the trip a fill, and what is gathered at it a
// slice: it is within bounds, as the loop is.
// CHECK-LABEL: func.func @running_sum(
// CHECK-SAME:    %x: tensor<4x3xf32>, %h: tensor<3xf32>) -> tensor<4x3xf32> {
// CHECK:         %all = tensor.empty() : tensor<4x3xf32>
// CHECK:         %last, %sums = scf.for %i = %first to %end step %step iter_args(%a = %h, %w = %all) -> (tensor<3xf32>, tensor<4x3xf32>) : i64 {
// CHECK-NEXT:      %[[EMPTY:.*]] = tensor.empty() : tensor<i64>
// CHECK-NEXT:      %trip = kernel.fill %i : i64 outs(%[[EMPTY]] : tensor<i64>)
// CHECK-NEXT:      %[[AT:.*]] = arith.index_cast %i : i64 to index
// CHECK-NEXT:      %[[ROW:.*]] = tensor.extract_slice %x[%[[AT]], 0] [1, 3] [1, 1] : tensor<4x3xf32> to tensor<3xf32>
// CHECK:           %next = kernel.launch @add ins(%a, %[[ROW]] : tensor<3xf32>, tensor<3xf32>)
// CHECK:           %written = tensor.insert_slice %next into %w[%at, 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<4x3xf32>
// CHECK-NEXT:      scf.yield %next, %written : tensor<3xf32>, tensor<4x3xf32>
// CHECK:         func.return %sums : tensor<4x3xf32>
func.func @running_sum(%x: tensor<4x3xf32>, %h: tensor<3xf32>) -> tensor<4x3xf32> {
  %all = tensor.empty() : tensor<4x3xf32>
  %first = arith.constant 0 : i64
  %end = arith.constant 4 : i64
  %step = arith.constant 1 : i64
  %last, %sums = scf.for %i = %first to %end step %step iter_args(%a = %h, %w = %all) -> (tensor<3xf32>, tensor<4x3xf32>) : i64 {
    %trip = tensor.from_elements %i : tensor<i64>
    %row = graph.gather %x, %trip axis = 0 : (tensor<4x3xf32>, tensor<i64>) -> tensor<3xf32>
    %next = graph.add %a, %row : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %at = arith.index_cast %i : i64 to index
    %written = tensor.insert_slice %next into %w[%at, 0] [1, 3] [1, 1] : tensor<3xf32> into tensor<4x3xf32>
    scf.yield %next, %written : tensor<3xf32>, tensor<4x3xf32>
  }
  func.return %sums : tensor<4x3xf32>
}

// -----

// Unsigned tensors are signless in branches too.
// CHECK-LABEL: func.func @branches(
// CHECK-SAME:    %c: tensor<i1>, %x: tensor<2xi8> {mlopt.dtype = "uint8"}) -> (tensor<2xi8> {mlopt.dtype = "uint8"}) {
// CHECK:         %y = scf.if %condition -> (tensor<2xi8>) {
// CHECK:           scf.yield %z : tensor<2xi8>
// CHECK:           scf.yield %x : tensor<2xi8>
func.func @branches(%c: tensor<i1>, %x: tensor<2xui8>) -> tensor<2xui8> {
  %condition = tensor.extract %c[] : tensor<i1>
  %y = scf.if %condition -> (tensor<2xui8>) {
    %z = graph.add %x, %x : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
    scf.yield %z : tensor<2xui8>
  } else {
    scf.yield %x : tensor<2xui8>
  }
  func.return %y : tensor<2xui8>
}
