// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// CHECK-LABEL: @plain(
// CHECK-NEXT: %y = graph.attention %q, %k, %v : (tensor<3x8xf16>, tensor<5x8xf16>, tensor<5x2xf16>) -> tensor<3x2xf16>
func.func @plain(%q: tensor<3x8xf16>, %k: tensor<5x8xf16>, %v: tensor<5x2xf16>) {
  %y = graph.attention %q, %k, %v : (tensor<3x8xf16>, tensor<5x8xf16>, tensor<5x2xf16>) -> tensor<3x2xf16>
  func.return
}

// CHECK-LABEL: @grouped(
// CHECK-NEXT: %y = graph.attention %q, %k, %v scale = 1.250000e-01 score_scale = 5.000000e-01 causal : (tensor<2x6x3x8xf32>, tensor<1x2x5x8xf32>, tensor<2x2x5x4xf32>) -> tensor<2x6x3x4xf32>
func.func @grouped(%q: tensor<2x6x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<2x2x5x4xf32>) {
  %y = graph.attention %q, %k, %v scale = 0.125 score_scale = 0.5 causal : (tensor<2x6x3x8xf32>, tensor<1x2x5x8xf32>, tensor<2x2x5x4xf32>) -> tensor<2x6x3x4xf32>
  func.return
}

// CHECK-LABEL: @masked(
// CHECK-NEXT: %y = graph.attention %q, %k, %v mask %m, %b scale = 5.000000e-01 fill = -1.000000e+04 nan_to_zero : (tensor<6x3x8xf32>, tensor<6x5x8xf32>, tensor<6x5x4xf32>, tensor<3x5xf32>, tensor<6x1x5xi1>) -> tensor<6x3x4xf32>
func.func @masked(%q: tensor<6x3x8xf32>, %k: tensor<6x5x8xf32>, %v: tensor<6x5x4xf32>, %m: tensor<3x5xf32>, %b: tensor<6x1x5xi1>) {
  %y = graph.attention %q, %k, %v mask %m, %b scale = 0.5 fill = -10000.0 nan_to_zero : (tensor<6x3x8xf32>, tensor<6x5x8xf32>, tensor<6x5x4xf32>, tensor<3x5xf32>, tensor<6x1x5xi1>) -> tensor<6x3x4xf32>
  func.return
}
