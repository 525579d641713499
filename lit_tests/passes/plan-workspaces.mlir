// RUN: mlopt-opt %s --plan-workspaces | filecheck %s

// `%a` and `%c` never live at the same time and share the first bytes of the workspace. Every call passes one.

// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %t = memref.alloc() : memref<16xf32>
// CHECK-NEXT:    %ws = memref.alloc() {mlopt.workspace} : memref<128xi8>
// CHECK-NEXT:    func.call @reverse_thrice(%x, %t, %ws)
// CHECK-NEXT:    %ws_1 = memref.alloc() {mlopt.workspace} : memref<128xi8>
// CHECK-NEXT:    func.call @reverse_thrice(%t, %y, %ws_1)
// CHECK-NEXT:    func.call @copy(%x, %t)
// CHECK:       func.func private @reverse_thrice(%X: memref<16xf32>, %O: memref<16xf32>, %ws: memref<128xi8> {mlopt.workspace}) {
// CHECK:         %a = memref.view %ws[%[[FIRST:.*]]][] : memref<128xi8> to memref<16xf32>
// CHECK:         %b = memref.view %ws[%[[SECOND:.*]]][] : memref<128xi8> to memref<16xf32>
// CHECK:         %c = memref.view %ws[%[[FIRST]]][] : memref<128xi8> to memref<16xf32>
// CHECK:       func.func private @copy(%X: memref<16xf32>, %O: memref<16xf32>) {
func.func @main(%x: memref<16xf32> {mlopt.input = "x"}, %y: memref<16xf32> {mlopt.output = "y"}) {
  %t = memref.alloc() : memref<16xf32>
  func.call @reverse_thrice(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @reverse_thrice(%t, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @copy(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @reverse_thrice(%X: memref<16xf32>, %O: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  memref.copy %X, %a : memref<16xf32> to memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  memref.copy %a, %b : memref<16xf32> to memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  memref.copy %b, %c : memref<16xf32> to memref<16xf32>
  memref.copy %c, %O : memref<16xf32> to memref<16xf32>
  func.return
}
func.func private @copy(%X: memref<16xf32>, %O: memref<16xf32>) {
  memref.copy %X, %O : memref<16xf32> to memref<16xf32>
  func.return
}
