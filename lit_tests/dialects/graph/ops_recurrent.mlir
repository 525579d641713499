// RUN: mlopt-opt %s | mlopt-opt | filecheck %s

// CHECK-LABEL: @lstm(
// CHECK-NEXT: %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "bidirectional" : (tensor<9x2x4xf32>, tensor<2x12x4xf32>, tensor<2x12x3xf32>, tensor<2x24xf32>, tensor<2x2x3xf32>, tensor<2x2x3xf32>) -> (tensor<9x2x2x3xf32>, tensor<2x2x3xf32>, tensor<2x2x3xf32>)
func.func @lstm(%x: tensor<9x2x4xf32>, %w: tensor<2x12x4xf32>, %r: tensor<2x12x3xf32>, %b: tensor<2x24xf32>, %h0: tensor<2x2x3xf32>, %c0: tensor<2x2x3xf32>) {
  %y, %h, %c = graph.lstm %x, %w, %r, %b, %h0, %c0 direction = "bidirectional" : (tensor<9x2x4xf32>, tensor<2x12x4xf32>, tensor<2x12x3xf32>, tensor<2x24xf32>, tensor<2x2x3xf32>, tensor<2x2x3xf32>) -> (tensor<9x2x2x3xf32>, tensor<2x2x3xf32>, tensor<2x2x3xf32>)
  func.return
}
