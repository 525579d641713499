// RUN: python -c "import numpy; numpy.savez('%t.npz', x=numpy.array([[[-1.0, 2.0]], [[0.0, 4.1]]], 'f'), c=[True, True])"
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(quantize{calibration=%t.npz})' --validate | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(quantize{calibration=%t.npz},fuse-quantized)' --validate | filecheck %s --check-prefix=INTEGERS
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(quantize{calibration=%t.npz})' --remarks 2>&1 | filecheck %s --check-prefix=REMARK

// x is quantized once, outside of the loop (255 steps of 0.02), and so is each weight; the loop starts from x itself.
// h is x and then 2 x: 255 steps of 0.04; the sum, which the next trip gets, is that of h itself. No sample enters the
// else branch: %e stays float, and so does what it takes.
// CHECK-LABEL: @main
// CHECK:         %scale = graph.constant dense<2.000000e-02> : tensor<f32>
// CHECK-NEXT:    %zero_point = graph.constant dense<-78> : tensor<i8>
// CHECK-NEXT:    graph.quantize %x, %scale, %zero_point
// CHECK-NEXT:    [[X:%.*]] = graph.dequantize {{%.*}}, %scale, %zero_point
// CHECK-COUNT-3: graph.dequantize {{%.*}} : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:    scf.for {{.*}} iter_args(%h = %x, %s = %x)
// CHECK-NEXT:      %scale_1 = graph.constant dense<4.000000e-02> : tensor<f32>
// CHECK-NEXT:      %zero_point_1 = graph.constant dense<-78> : tensor<i8>
// CHECK-NEXT:      graph.quantize %h, %scale_1, %zero_point_1
// CHECK-NEXT:      [[H:%.*]] = graph.dequantize {{%.*}}, %scale_1, %zero_point_1
// CHECK-NEXT:      %p = graph.matmul [[H]], {{%[0-9]+}}
// CHECK:           graph.quantize %p
// CHECK-NEXT:      [[P:%.*]] = graph.dequantize
// CHECK-NEXT:      %q = graph.matmul [[X]], {{%[0-9]+}}
// CHECK:           scf.if
// CHECK-NEXT:        %t = graph.matmul [[P]], {{%[0-9]+}}
// CHECK:             %e = graph.matmul %q, %w
// CHECK:           %d = graph.add %h, %h
// CHECK-NEXT:      scf.yield %d, %p

// INTEGERS-LABEL: @main
// INTEGERS-NOT:   graph.matmul
// INTEGERS:       scf.for
// INTEGERS-COUNT-3: graph.integer_matmul
// INTEGERS:       %e = graph.matmul

// REMARK-DAG: 50:12: remark: [quantize] stays float: no sample reaches it
func.func @main(%x: tensor<1x2xf32> {mlopt.name = "x"}, %c: tensor<i1> {mlopt.name = "c"}) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = graph.constant dense<[[1.0, 4.0], [2.0, -2.0]]> : tensor<2x2xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %0:2 = scf.for %i = %zero to %two step %one iter_args(%h = %x, %s = %x) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
    %p = graph.matmul %h, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %q = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %goes = tensor.extract %c[] : tensor<i1>
    %r = scf.if %goes -> (tensor<1x2xf32>) {
      %t = graph.matmul %p, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
      scf.yield %t : tensor<1x2xf32>
    } else {
      %e = graph.matmul %q, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
      scf.yield %e : tensor<1x2xf32>
    }
    %d = graph.add %h, %h : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    scf.yield %d, %p : tensor<1x2xf32>, tensor<1x2xf32>
  }
  func.return %0#0, %0#1 : tensor<1x2xf32>, tensor<1x2xf32>
}
