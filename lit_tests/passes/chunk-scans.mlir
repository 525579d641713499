// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,chunk-scans{growth=0})' | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,chunk-scans{growth=0})' --remarks=passed 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,chunk-scans{growth=-1})' 2>&1 | filecheck %s --check-prefix=GROWTH

// The product of all steps is the largest tensor. Step by step it takes an eighth. What the loop collects lies in what
// the product is made from: each step is read before it is written.

// REMARK: 'matmul' for 1 of 8 steps at a time; what the loop collects is written over what it is made from
// GROWTH: pass 'chunk-scans': option 'growth' expects a number of at least 0, found '-1'

// CHECK:       %e = kernel.launch @exp
// CHECK:       scf.for {{.*}} iter_args(%a = %z, %[[ALL:.*]] = %e)
// CHECK:         %[[PART:.*]] = tensor.extract_slice %[[ALL]][%{{.*}}, 0] [1, 4] [1, 1] : tensor<8x4xf32> to tensor<1x4xf32>
// CHECK:         %[[G:.*]] = kernel.launch @matmul ins(%[[PART]], %w : tensor<1x4xf32>, tensor<4x64xf32>)
// CHECK:         scf.for {{.*}} = %[[ALL]])
// CHECK:           tensor.extract_slice %[[G]][%{{.*}}, 0] [1, 64] [1, 1] : tensor<1x64xf32> to tensor<64xf32>
// CHECK:           tensor.insert_slice
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>, %u: tensor<4x2xf32>) -> tensor<8x2xf32> {
  %e = graph.exp %x : tensor<8x4xf32>
  %g = graph.matmul %e, %w : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
  %z = graph.constant dense<0.0> : tensor<4xf32>
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c8 = arith.constant 8 : i64
  %whole = tensor.empty() : tensor<8x4xf32>
  %s, %all = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %z, %so_far = %whole) -> (tensor<4xf32>, tensor<8x4xf32>) : i64 {
    %p = tensor.from_elements %i : tensor<i64>
    %t = graph.gather %g, %p axis = 0 : (tensor<8x64xf32>, tensor<i64>) -> tensor<64xf32>
    %m = graph.matmul %t, %v : (tensor<64xf32>, tensor<64x4xf32>) -> tensor<4xf32>
    %n = graph.add %a, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %o = arith.index_cast %i : i64 to index
    %put = tensor.insert_slice %n into %so_far[%o, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<8x4xf32>
    scf.yield %n, %put : tensor<4xf32>, tensor<8x4xf32>
  }
  %y = graph.matmul %all, %u : (tensor<8x4xf32>, tensor<4x2xf32>) -> tensor<8x2xf32>
  func.return %y : tensor<8x2xf32>
}
