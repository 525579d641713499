// RUN: not mlopt-opt %s --cse --plan-workspaces --mlir-print-ir-after-failure 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(func.func(cse,dce))' --mlir-print-ir-before=dce --mlir-print-ir-after=cse -o %t 2>&1 | filecheck %s --check-prefix=NAMED
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(func.func(cse,dce),cse)' --mlir-print-ir-after-all --mlir-print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGED
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(func.func(cse))' --mlir-print-ir-after-all --mlir-print-ir-module-scope -o %t 2>&1 | filecheck %s --check-prefix=SCOPE
// RUN: mlopt-opt %s --cse --mlir-print-ir-after-all --mlir-elide-elementsattrs-if-larger=2 -o %t 2>&1 | filecheck %s --check-prefix=ELIDED
// RUN: mlopt-opt %s --cse --mlir-print-ir-after-all --mlir-print-op-generic --mlir-print-debuginfo -o %t 2>&1 | filecheck %s --check-prefix=GENERIC
// RUN: mlopt-opt --show-dialects | filecheck %s --check-prefix=DIALECTS

// What a failed pass left, and nothing of passes that went well.
// FAILURE-NOT: IR Dump After CSE
// FAILURE:     // -----// IR Dump After PlanWorkspaces Failed (plan-workspaces) //----- //
// FAILURE:     %c = arith.muli %a, %a : i32
// FAILURE:     error: the module has no function '@main'

// NAMED:      // -----// IR Dump After CSE (cse) //----- //
// NAMED-NEXT: func.func @f
// NAMED:      // -----// IR Dump Before DCE (dce) //----- //
// NAMED-NEXT: func.func @f
// NAMED:      // -----// IR Dump After CSE (cse) //----- //
// NAMED-NEXT: func.func @g
// NAMED-NOT:  // -----// IR Dump After DCE

// Only @f has something to merge.
// CHANGED:      // -----// IR Dump After CSE (cse) //----- //
// CHANGED-NEXT: func.func @f
// CHANGED-NOT:  // -----// IR Dump

// SCOPE:      // -----// IR Dump After CSE (cse) ('func.func' operation: @f) //----- //
// SCOPE-NEXT: builtin.module {
// SCOPE:      // -----// IR Dump After CSE (cse) ('func.func' operation: @g) //----- //
// SCOPE-NEXT: builtin.module {

// ELIDED: %c = arith.muli %a, %a : i32
// ELIDED: %w = arith.constant dense_resource<__elided__> : tensor<3xf32>

// GENERIC: "arith.muli"(%a, %a) {{.*}} loc("product")

// DIALECTS: Available Dialects: arith,builtin,cf,complex,func,graph,kernel,linalg,math,memref,mlopt,scf,tensor

func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  %c = arith.muli %a, %b : i32 loc("product")
  func.return %c : i32
}
func.func @g() -> tensor<3xf32> {
  %w = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  func.return %w : tensor<3xf32>
}
