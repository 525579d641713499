// RUN: python -c "import numpy; numpy.savez('%t.npz', x=numpy.array([[[-1.0, 2.0]], [[0.0, 4.1]]], 'f'))"
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(quantize{calibration=%t.npz})' --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(quantize{calibration=%t.npz})' --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(quantize{calibration=%t.npz keep-last})' --remarks 2>&1 | filecheck %s --check-prefix=KEPT

// Two samples of x: from -1 to 4.1, 255 steps of 0.02; -1 is -128, so 0 is -78. Weights: 2 and 4 are the largest of
// their columns. The second product has two variable factors, and stays float.
// REMARK-DAG: remark: [quantize] quantized 'matmul': SQNR
// REMARK-DAG: remark: [quantize] stays float: 'kinds' has no product
// KEPT-NOT: quantized 'matmul'
// KEPT: stays float: it is the first or the last of its kind, and 'keep-first' or 'keep-last' is set
// CHECK-LABEL: @main
// CHECK:         %scale = graph.constant dense<2.000000e-02> : tensor<f32>
// CHECK-NEXT:    %zero_point = graph.constant dense<-78> : tensor<i8>
// CHECK-NEXT:    graph.quantize %x, %scale, %zero_point : (tensor<1x2xf32>, tensor<f32>, tensor<i8>) -> tensor<1x2xi8>
// CHECK-NEXT:    graph.dequantize {{%.*}}, %scale, %zero_point
// CHECK:         graph.constant dense<{{\[\[}}64, 127], [127, -64]]> : tensor<2x2xi8>
// CHECK-NEXT:    graph.constant dense<[0.0157480314, 0.0314960629]> : tensor<2xf32>
// CHECK-NEXT:    graph.dequantize
// CHECK-NEXT:    %y = graph.matmul
func.func @main(%x: tensor<1x2xf32> {mlopt.name = "x"}) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0, 4.0], [2.0, -2.0]]> : tensor<2x2xf32>
  %t = graph.transpose %x perm = [1, 0] : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %z = graph.matmul %x, %t : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %u = graph.matmul %y, %t : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  %r = graph.add %u, %z : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  func.return %r : tensor<1x1xf32>
}

// CHECK: (S) 1 operators-quantized
