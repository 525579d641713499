// RUN: mlopt-opt %s --split-input-file --eliminate-slices --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --eliminate-slices --remarks --verify-diagnostics

// [2:8] and then [-1:-4:-2] of 0..9: 7 and 5.
// CHECK-LABEL: @slice_of_slice
// CHECK-NEXT:    %y = graph.slice %x starts = [7] stops = [4] steps = [-2] : (tensor<10xf32>) -> tensor<2xf32>
func.func @slice_of_slice(%x: tensor<10xf32>) -> tensor<2xf32> {
  %s = graph.slice %x starts = [2] stops = [8] : (tensor<10xf32>) -> tensor<6xf32>
  // expected-remark @below {{a slice of a slice is one slice}}
  %y = graph.slice %s starts = [5] stops = [2] steps = [-2] : (tensor<6xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----

// CHECK-LABEL: @swapped_halves
// CHECK-NEXT:    %z = graph.concat %b, %a axis = 0
// CHECK-NEXT:    func.return %z
func.func @swapped_halves(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<5xf32> {
  %c = graph.concat %a, %b axis = 0 : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  // expected-remark @below {{a slice of a concat reads its operand}}
  %x = graph.slice %c starts = [2] stops = [5] : (tensor<5xf32>) -> tensor<3xf32>
  // expected-remark @below {{a slice of a concat reads its operand}}
  %y = graph.slice %c starts = [0] stops = [2] : (tensor<5xf32>) -> tensor<2xf32>
  %z = graph.concat %x, %y axis = 0 : (tensor<3xf32>, tensor<2xf32>) -> tensor<5xf32>
  func.return %z : tensor<5xf32>
}

// -----

// CHECK-LABEL: @neighbours
// CHECK-NEXT:    func.return %x
func.func @neighbours(%x: tensor<6xf32>) -> tensor<6xf32> {
  %a, %b = graph.split %x axis = 0 : (tensor<6xf32>) -> (tensor<2xf32>, tensor<4xf32>)
  // expected-remark @below {{neighbours are cut out in one}}
  %y = graph.concat %a, %b axis = 0 : (tensor<2xf32>, tensor<4xf32>) -> tensor<6xf32>
  func.return %y : tensor<6xf32>
}

// -----

// CHECK-LABEL: @pads
// CHECK-NEXT:    %y = graph.pad %x low = [0] high = [1] value = 1.000000e+00 : f32 : (tensor<3xf32>) -> tensor<4xf32>
func.func @pads(%x: tensor<3xf32>) -> tensor<4xf32> {
  %p = graph.pad %x low = [2] high = [2] value = 1.0 : f32 : (tensor<3xf32>) -> tensor<7xf32>
  // expected-remark @below {{a slice of a pad takes less padding}}
  %y = graph.slice %p starts = [2] stops = [6] : (tensor<7xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// Another use of the inner concat: to copy its elements twice is no gain.
// CHECK-LABEL: @shared
// CHECK-COUNT-2: graph.concat
func.func @shared(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<5xf32>, tensor<7xf32>) {
  %c = graph.concat %a, %b axis = 0 : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  // expected-remark @below {{not merged: the concat that it takes is used elsewhere too}}
  %y = graph.concat %c, %a axis = 0 : (tensor<5xf32>, tensor<2xf32>) -> tensor<7xf32>
  func.return %c, %y : tensor<5xf32>, tensor<7xf32>
}

// CHECK-DAG: (S) 1 slices-merged
// CHECK-DAG: (S) 1 neighbours-joined
// CHECK-DAG: (S) 1 pads-read-through
