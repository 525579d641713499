// RUN: mlopt-opt %s --split-input-file --place-outputs --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --place-outputs --remarks --verify-diagnostics -o %t

// The input is read for the last time before the output is first written: both are one argument.
// CHECK-LABEL: func.func @main(%x: memref<4xf32> {mlopt.input = "x", mlopt.donated = {}, mlopt.output = "y", mlopt.output_index = 1 : i64}, %t: memref<4xf32> {mlopt.output = "t"})
// CHECK-NEXT: memref.copy %x, %t
// CHECK-NEXT: memref.copy %t, %x
// expected-remark@below {{input "x" is donated: in it is output "y"}}
func.func @main(%x: memref<4xf32> {mlopt.input = "x", mlopt.donated = {}}, %t: memref<4xf32> {mlopt.output = "t"}, %y: memref<4xf32> {mlopt.output = "y"}) {
  memref.copy %x, %t : memref<4xf32> to memref<4xf32>
  memref.copy %t, %y : memref<4xf32> to memref<4xf32>
  func.return
}

// -----

// It is read again, in another trip of the loop.
// CHECK-LABEL: func.func @main(%x: memref<4xf32> {mlopt.input = "x", mlopt.donated = {output = "y"}}, %t: memref<4xf32> {mlopt.output = "t"}, %y: memref<4xf32> {mlopt.output = "y"})
// expected-remark@below {{input "x" is donated, not used: output "y" can't lie in it: the input is still used by 'memref.copy' when that is written}}
func.func @main(%x: memref<4xf32> {mlopt.input = "x", mlopt.donated = {output = "y"}}, %t: memref<4xf32> {mlopt.output = "t"}, %y: memref<4xf32> {mlopt.output = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    memref.copy %x, %t : memref<4xf32> to memref<4xf32>
    memref.copy %t, %y : memref<4xf32> to memref<4xf32>
  }
  func.return
}

// -----

// It is donated to an output of another type.
// CHECK-LABEL: func.func @main(%x: memref<4xf32> {mlopt.input = "x", mlopt.donated = {}}
// expected-remark@below {{input "x" is donated, not used: no output that it is donated to has its type and size}}
func.func @main(%x: memref<4xf32> {mlopt.input = "x", mlopt.donated = {}}, %y: memref<4xi32> {mlopt.output = "y"}) {
  func.return
}

// CHECK: (S) 1 outputs-placed
// CHECK: (S) 1 near-misses
