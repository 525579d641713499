// RUN: mlopt-opt %s | mlopt-opt | filecheck %s
// RUN: mlopt-opt %s --mlir-print-op-generic | mlopt-opt | filecheck %s

// CHECK-LABEL: @halves(
// CHECK-NEXT: %y = graph.rotary_embedding %x, %c, %s : (tensor<2x3x8xf32>, tensor<3x4xf32>, tensor<2x1x1xf32>) -> tensor<2x3x8xf32>
func.func @halves(%x: tensor<2x3x8xf32>, %c: tensor<3x4xf32>, %s: tensor<2x1x1xf32>) {
  %y = graph.rotary_embedding %x, %c, %s : (tensor<2x3x8xf32>, tensor<3x4xf32>, tensor<2x1x1xf32>) -> tensor<2x3x8xf32>
  func.return
}

// CHECK-LABEL: @neighbours(
// CHECK-NEXT: %y = graph.rotary_embedding %x, %c, %c interleaved : (tensor<8xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<8xf16>
func.func @neighbours(%x: tensor<8xf16>, %c: tensor<4xf16>) {
  %y = graph.rotary_embedding %x, %c, %c interleaved : (tensor<8xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<8xf16>
  func.return
}
