// RUN: mlopt-opt %s --convert-kernel-to-memref | filecheck %s --check-prefix=MEMREF
// RUN: mlopt-opt %s --convert-kernel-to-memref --plan-workspaces --assign-buffers | filecheck %s --check-prefix=PLAN

// A call becomes one of a declaration that says what is written; calls with other parameters need another one. Data that
// die are overwritten in place. Each call gets the scratch that its function wants.

// MEMREF-LABEL: func.func @main(
// MEMREF: memref.copy %x, %y : memref<4x3xf32> to memref<4x3xf32>
// MEMREF-NEXT: func.call @mlopt_rt_scatter_elements(%i, %u, %y) : (memref<2x3xi64>, memref<2x3xf32>, memref<4x3xf32>) -> ()
// MEMREF-NEXT: func.call @mlopt_rt_scatter_elements_1(%i, %u, %y) : (memref<2x3xi64>, memref<2x3xf32>, memref<4x3xf32>) -> ()
// MEMREF-NEXT: func.call @mlopt_rt_scatter_elements(%i, %u, %y) : (memref<2x3xi64>, memref<2x3xf32>, memref<4x3xf32>) -> ()
// MEMREF-NEXT: func.return
// MEMREF: func.func private @mlopt_rt_scatter_elements(memref<2x3xi64>, memref<2x3xf32>, memref<4x3xf32>) -> () attributes {mlopt.runtime = "mlopt_rt_scatter_elements", mlopt.written = array<i64: 2>, mlopt.parameters = {axis = 0 : i64, reduction = "add"}}
// MEMREF: func.func private @mlopt_rt_scatter_elements_1(memref<2x3xi64>, memref<2x3xf32>, memref<4x3xf32>) -> () attributes {mlopt.runtime = "mlopt_rt_scatter_elements", mlopt.written = array<i64: 2>, mlopt.parameters = {axis = 0 : i64, reduction = "none"}}

// PLAN-LABEL: func.func @main(%arena: memref<192xi8> {mlopt.arena},
// PLAN-COUNT-3: memref.view %arena[%c0][] {mlopt.workspace} : memref<192xi8> to memref<192xi8>
// PLAN: func.func private @mlopt_rt_scatter_elements(memref<2x3xi64>, memref<2x3xf32>, memref<4x3xf32>, memref<192xi8>) -> ()
// PLAN-SAME: mlopt.workspace}
func.func @main(%x: tensor<4x3xf32> {mlopt.name = "x"}, %i: tensor<2x3xi64> {mlopt.name = "i"},
                %u: tensor<2x3xf32> {mlopt.name = "u"}) -> (tensor<4x3xf32> {mlopt.name = "y"}) {
  %a = kernel.call @mlopt_rt_scatter_elements ins(%i, %u : tensor<2x3xi64>, tensor<2x3xf32>) outs(%x : tensor<4x3xf32>)
    attributes {axis = 0 : i64, reduction = "add"} -> tensor<4x3xf32>
  %b = kernel.call @mlopt_rt_scatter_elements ins(%i, %u : tensor<2x3xi64>, tensor<2x3xf32>) outs(%a : tensor<4x3xf32>)
    attributes {axis = 0 : i64, reduction = "none"} -> tensor<4x3xf32>
  %y = kernel.call @mlopt_rt_scatter_elements ins(%i, %u : tensor<2x3xi64>, tensor<2x3xf32>) outs(%b : tensor<4x3xf32>)
    attributes {axis = 0 : i64, reduction = "add"} -> tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}
