// RUN: mlopt-opt %s --pass-pipeline='builtin.module( func.func(cse, canonicalize{max-rewrites=100}) , dce)' --dump-pass-pipeline --mlir-print-ir-after-all 2>&1 | filecheck %s
// RUN: mlopt-opt %s -cse --dce --mlir-print-ir-before-all --mlir-print-ir-module-scope 2>&1 | filecheck %s --check-prefix=FLAGS
// RUN: mlopt-opt %s --cse --dce --mlir-print-ir-after-all --mlir-print-ir-after-change 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: rm -rf %t && mlopt-opt %s --pass-pipeline='builtin.module(func.func(cse,dce),cse)' --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t -o %t.mlir
// RUN: ls %t/builtin_module_no-symbol-name %t/builtin_module_no-symbol-name/func_func_f | filecheck %s --check-prefix=TREE
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(func.func(cse),dce)' --mlir-timing --mlir-pass-statistics -o %t.mlir 2>&1 | filecheck %s --check-prefix=REPORT

// CHECK:      Pass Manager with 2 passes:
// CHECK-NEXT: builtin.module(
// CHECK-NEXT:   func.func(
// CHECK-NEXT:     cse,
// CHECK-NEXT:     canonicalize{max-rewrites=100}
// CHECK-NEXT:   ),
// CHECK-NEXT:   dce
// CHECK-NEXT: )
// CHECK:      // -----// IR Dump After CSE (cse) //----- //
// CHECK-NEXT: func.func @f
// CHECK:      // -----// IR Dump After Canonicalizer (canonicalize) //----- //
// CHECK-NEXT: func.func @f
// CHECK:      // -----// IR Dump After DCE (dce) //----- //
// CHECK-NEXT: builtin.module {

// FLAGS:      // -----// IR Dump Before CSE (cse) ('builtin.module' operation) //----- //
// FLAGS:      // -----// IR Dump Before DCE (dce) ('builtin.module' operation) //----- //

// CHANGE:     IR Dump After CSE (cse)
// CHANGE-NOT: IR Dump After DCE

// TREE:       1_cse.mlir
// TREE-NEXT:  func_func_f
// TREE:       0_0_cse.mlir
// TREE-NEXT:  0_1_dce.mlir

// REPORT:      ... Pass statistics report ...
// REPORT:      'func.func' Pipeline
// REPORT-NEXT:   CSE
// REPORT-NEXT:     (S) 1 ops-merged
// REPORT-NEXT:     (S) 1 pattern merge-equal
// REPORT-NEXT: DCE
// REPORT:      ... Execution time report ...
// REPORT:      Total Execution Time: {{[0-9.]+}} seconds
// REPORT:      Parser
// REPORT-NEXT: 'func.func' Pipeline
// REPORT-NEXT:   CSE
// REPORT-NEXT: DCE
// REPORT-NEXT: Output
// REPORT-NEXT: Rest
// REPORT-NEXT: {{\(100.0%\)}}  Total

func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  %c = arith.muli %a, %b : i32
  func.return %c : i32
}
