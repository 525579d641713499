// RUN: mlopt-opt %s --pass-pipeline='builtin.module( fixpoint { limit=3 } ( cse , func.func( canonicalize ) ) , dce )' --dump-pass-pipeline 2>&1 | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(fixpoint(canonicalize,cse))' --mlir-print-ir-after-all 2>&1 | filecheck %s --check-prefix=ROUNDS
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(fixpoint(canonicalize,cse))' --mlir-pass-statistics -o %t 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(fixpoint{limit=1}(canonicalize,cse,canonicalize))' -o %t 2>&1 | filecheck %s --allow-empty --check-prefix=QUIET
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(fixpoint{limit=1}(canonicalize,cse))' -o %t 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not mlopt-opt %s --pass-pipeline='builtin.module(fixpoint{limit=none}(cse))' 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(fixpoint(canonicalize,cse))' --validate -o %t 2>&1 | filecheck %s --allow-empty --check-prefix=QUIET

// CHECK:      Pass Manager with 2 passes:
// CHECK-NEXT: builtin.module(
// CHECK-NEXT:   fixpoint{limit=3}(
// CHECK-NEXT:     cse,
// CHECK-NEXT:     func.func(
// CHECK-NEXT:       canonicalize
// CHECK-NEXT:     )
// CHECK-NEXT:   ),
// CHECK-NEXT:   dce
// CHECK-NEXT: )

// The sums are equal once the reshapes are; what the first run of canonicalize leaves is merged, and a second finds nothing.
// ROUNDS:     IR Dump After Canonicalizer (canonicalize)
// ROUNDS:     IR Dump After CSE (cse)
// ROUNDS:     IR Dump After Canonicalizer (canonicalize)
// ROUNDS-NOT: IR Dump

// STATISTICS:      'fixpoint' Pipeline
// STATISTICS-NEXT:   Canonicalizer
// STATISTICS-NEXT:     (S) {{[0-9]+}} rewrites
// STATISTICS-NEXT:     (S) 2 pattern MergeReshapes
// STATISTICS-NEXT:     (S) {{[0-9]+}} pattern erase-dead
// STATISTICS-NEXT:   CSE
// STATISTICS-NEXT:     (S) 2 ops-merged
// STATISTICS-NEXT:     (S) 2 pattern merge-equal

// QUIET-NOT: warning

// LIMIT: warning: fixpoint stopped after 1 round, in the last of which 'canonicalize', 'cse' changed something

// WRONG: <pass-pipeline>:1:25: error: fixpoint: option 'limit' expects a whole number from 1 to 999999999, found 'none'

func.func @main(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  %a = graph.reshape %x : tensor<2x6xf32> to tensor<12xf32>
  %b = graph.reshape %a : tensor<12xf32> to tensor<4x3xf32>
  %c = graph.reshape %x : tensor<2x6xf32> to tensor<6x2xf32>
  %d = graph.reshape %c : tensor<6x2xf32> to tensor<4x3xf32>
  %e = graph.exp %b : tensor<4x3xf32>
  %f = graph.exp %d : tensor<4x3xf32>
  %g = graph.mul %e, %f : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %g : tensor<4x3xf32>
}
