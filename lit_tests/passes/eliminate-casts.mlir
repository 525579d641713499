// RUN: mlopt-opt %s --split-input-file --eliminate-casts --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --eliminate-casts --remarks --verify-diagnostics

// CHECK-LABEL: @exact
// CHECK-NEXT:    %b1 = graph.cast %b : tensor<4xi64> to tensor<4xi8>
// CHECK-NEXT:    func.return %a, %b1, %c
func.func @exact(%a: tensor<4xf32>, %b: tensor<4xi64>, %c: tensor<4xi16>) -> (tensor<4xf32>, tensor<4xi8>, tensor<4xi16>) {
  %a0 = graph.cast %a : tensor<4xf32> to tensor<4xf64>
  // expected-remark @below {{two casts are one}}
  %a1 = graph.cast %a0 : tensor<4xf64> to tensor<4xf32>
  %b0 = graph.cast %b : tensor<4xi64> to tensor<4xi32>
  // expected-remark @below {{two casts are one}}
  %b1 = graph.cast %b0 : tensor<4xi32> to tensor<4xi8>
  %c0 = graph.cast %c : tensor<4xi16> to tensor<4xf32>
  // expected-remark @below {{two casts are one}}
  %c1 = graph.cast %c0 : tensor<4xf32> to tensor<4xi16>
  func.return %a1, %b1, %c1 : tensor<4xf32>, tensor<4xi8>, tensor<4xi16>
}

// -----

// CHECK-LABEL: @rounding
// CHECK-COUNT-4: graph.cast
func.func @rounding(%a: tensor<4xf64>, %b: tensor<4xi64>) -> (tensor<4xf64>, tensor<4xi64>) {
  %a0 = graph.cast %a : tensor<4xf64> to tensor<4xf32>
  // expected-remark @below {{not merged: f64 to f32 to f64 is not f64 to f64 for every value}}
  %a1 = graph.cast %a0 : tensor<4xf32> to tensor<4xf64>
  %b0 = graph.cast %b : tensor<4xi64> to tensor<4xf32>
  // expected-remark @below {{not merged: i64 to f32 to i64 is not i64 to i64 for every value}}
  %b1 = graph.cast %b0 : tensor<4xf32> to tensor<4xi64>
  func.return %a1, %b1 : tensor<4xf64>, tensor<4xi64>
}

// -----

// CHECK-LABEL: @across
// CHECK-NEXT:    %r = graph.reshape %x : tensor<2x3xf16> to tensor<6xf16>
// CHECK-NEXT:    %s = graph.slice %r {{.*}} -> tensor<2xf16>
// CHECK-NEXT:    func.return %s
func.func @across(%x: tensor<2x3xf16>) -> tensor<2xf16> {
  %c = graph.cast %x : tensor<2x3xf16> to tensor<2x3xf32>
  %r = graph.reshape %c : tensor<2x3xf32> to tensor<6xf32>
  %s = graph.slice %r starts = [1] stops = [3] : (tensor<6xf32>) -> tensor<2xf32>
  // expected-remark @below {{two casts are one}}
  %y = graph.cast %s : tensor<2xf32> to tensor<2xf16>
  func.return %y : tensor<2xf16>
}

// -----

// CHECK-LABEL: @across_shared
// CHECK-COUNT-2: graph.cast
func.func @across_shared(%x: tensor<2x3xf16>) -> (tensor<6xf16>, tensor<6xf32>) {
  %c = graph.cast %x : tensor<2x3xf16> to tensor<2x3xf32>
  %r = graph.reshape %c : tensor<2x3xf32> to tensor<6xf32>
  // expected-remark @below {{not merged: what stands between the two casts is used elsewhere too}}
  %y = graph.cast %r : tensor<6xf32> to tensor<6xf16>
  func.return %y, %r : tensor<6xf16>, tensor<6xf32>
}

// CHECK: (S) 1 casts-merged
