// RUN: mlopt-opt %s --canonicalize | filecheck %s

// CHECK-LABEL: @identity_movements
// CHECK-NEXT: func.return %x, %x, %x, %x, %x, %x :
func.func @identity_movements(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = graph.reshape %x : tensor<2x3xf32> to tensor<2x3xf32>
  %1 = graph.transpose %x perm = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = graph.cast %x : tensor<2x3xf32> to tensor<2x3xf32>
  %3 = graph.slice %x starts = [0, 0] stops = [2, 3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = graph.expand %x : tensor<2x3xf32> to tensor<2x3xf32>
  %5 = graph.pad %x low = [0, 0] high = [0, 0] value = 0.000000e+00 : f32 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// A transpose, a reversal or a shift keeps the type of a square, but not its elements.
// CHECK-LABEL: @same_type_is_not_identity
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.slice
// CHECK-NEXT: graph.pad
func.func @same_type_is_not_identity(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %0 = graph.transpose %x perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = graph.slice %x starts = [1, 0] stops = [-1, 2] steps = [-1, 1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = graph.pad %x low = [1, 0] high = [-1, 0] value = 0.000000e+00 : f32 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %0, %1, %2 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: @merged_transposes
// CHECK-NEXT: %y = graph.transpose %x perm = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT: func.return %x, %y
func.func @merged_transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<4x2x3xf32>) {
  %t = graph.transpose %x perm = [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %back = graph.transpose %t perm = [0, 2, 1] : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  %y = graph.transpose %t perm = [1, 0, 2] : (tensor<2x4x3xf32>) -> tensor<4x2x3xf32>
  func.return %back, %y : tensor<2x3x4xf32>, tensor<4x2x3xf32>
}

// The inner transpose has other uses: it stays (and they still see it).
// CHECK-LABEL: @transpose_with_other_uses
// CHECK-NEXT: %t = graph.transpose
// CHECK-NEXT: %r = graph.relu %t
// CHECK-NEXT: func.return %x, %r, %t
func.func @transpose_with_other_uses(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %t = graph.transpose %x perm = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %back = graph.transpose %t perm = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %r = graph.relu %t : tensor<3x2xf32>
  func.return %back, %r, %t : tensor<2x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

// CHECK-LABEL: @transpose_of_ones
// CHECK-NEXT: %y = graph.reshape %x : tensor<1x3x1x4xf32> to tensor<3x1x4x1xf32>
func.func @transpose_of_ones(%x: tensor<1x3x1x4xf32>) -> tensor<3x1x4x1xf32> {
  %y = graph.transpose %x perm = [1, 0, 3, 2] : (tensor<1x3x1x4xf32>) -> tensor<3x1x4x1xf32>
  func.return %y : tensor<3x1x4x1xf32>
}

// CHECK-LABEL: @merged_reshapes
// CHECK-NEXT: %y = graph.reshape %x : tensor<0x6x2xf32> to tensor<0x0x3xf32>
// CHECK-NEXT: %z = graph.expand %e : tensor<1xf32> to tensor<2x3xf32>
func.func @merged_reshapes(%x: tensor<0x6x2xf32>, %e: tensor<1xf32>) -> (tensor<0x0x3xf32>, tensor<2x3xf32>) {
  %0 = graph.reshape %x : tensor<0x6x2xf32> to tensor<3x2x0xf32>
  %y = graph.reshape %0 : tensor<3x2x0xf32> to tensor<0x0x3xf32>
  %1 = graph.expand %e : tensor<1xf32> to tensor<2x1xf32>
  %z = graph.expand %1 : tensor<2x1xf32> to tensor<2x3xf32>
  func.return %y, %z : tensor<0x0x3xf32>, tensor<2x3xf32>
}

// A cast that keeps every value goes; one that loses some stays.
// CHECK-LABEL: @casts
// CHECK-NEXT: %v1 = graph.cast %a : tensor<2xf32> to tensor<2xi32>
// CHECK-NEXT: %v2 = graph.cast %v1 : tensor<2xi32> to tensor<2xf32>
// CHECK-NEXT: %v3 = graph.cast %c : tensor<2xi64> to tensor<2xf32>
// CHECK-NEXT: %v4 = graph.cast %v3 : tensor<2xf32> to tensor<2xi64>
// CHECK-NEXT: %v5 = graph.cast %d : tensor<2xi8> to tensor<2xf32>
// CHECK-NEXT: func.return %b, %v2, %v4, %v5
func.func @casts(%a: tensor<2xf32>, %b: tensor<2xf16>, %c: tensor<2xi64>, %d: tensor<2xi8>) -> (tensor<2xf16>, tensor<2xf32>, tensor<2xi64>, tensor<2xf32>) {
  %v0 = graph.cast %b : tensor<2xf16> to tensor<2xf32>
  %half = graph.cast %v0 : tensor<2xf32> to tensor<2xf16>
  %v1 = graph.cast %a : tensor<2xf32> to tensor<2xi32>
  %v2 = graph.cast %v1 : tensor<2xi32> to tensor<2xf32>
  %v3 = graph.cast %c : tensor<2xi64> to tensor<2xf32>
  %v4 = graph.cast %v3 : tensor<2xf32> to tensor<2xi64>
  %wide = graph.cast %d : tensor<2xi8> to tensor<2xi32>
  %v5 = graph.cast %wide : tensor<2xi32> to tensor<2xf32>
  func.return %half, %v2, %v4, %v5 : tensor<2xf16>, tensor<2xf32>, tensor<2xi64>, tensor<2xf32>
}

// CHECK-LABEL: @concat_and_split
// CHECK-NEXT: %y = graph.concat %x, %x axis = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
// CHECK-NEXT: func.return %x, %x, %y
func.func @concat_and_split(%x: tensor<2xf32>, %empty: tensor<0xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<4xf32>) {
  %0 = graph.concat %empty, %x axis = 0 : (tensor<0xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = graph.split %x axis = 0 : (tensor<2xf32>) -> tensor<2xf32>
  %y = graph.concat %x, %empty, %x axis = 0 : (tensor<2xf32>, tensor<0xf32>, tensor<2xf32>) -> tensor<4xf32>
  func.return %0, %1, %y : tensor<2xf32>, tensor<2xf32>, tensor<4xf32>
}

// CHECK-LABEL: @neutral_operands
// CHECK-NEXT: func.return %x, %x, %x, %x, %i, %b, %b :
func.func @neutral_operands(%x: tensor<2xf32>, %i: tensor<2xi32>, %b: tensor<2xi1>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi1>, tensor<2xi1>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<1xf32>
  %minus_zero = graph.constant dense<-0.0> : tensor<2xf32>
  %int_zero = graph.constant dense<0> : tensor<i32>
  %true = graph.constant dense<true> : tensor<2xi1>
  %false = graph.constant dense<false> : tensor<i1>
  %0 = graph.mul %one, %x : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = graph.div %x, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = graph.sub %x, %zero : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  %3 = graph.add %x, %minus_zero : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = graph.add %int_zero, %i : (tensor<i32>, tensor<2xi32>) -> tensor<2xi32>
  %5 = graph.and %b, %true : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %6 = graph.or %false, %b : (tensor<i1>, tensor<2xi1>) -> tensor<2xi1>
  func.return %0, %1, %2, %3, %4, %5, %6 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi32>, tensor<2xi1>, tensor<2xi1>
}

// x + 0.0 and x - -0.0 turn -0.0 into 0.0; x * 0 and x - x hide NaN and inf; 1 / x is no x.
// CHECK-LABEL: @not_neutral
// CHECK: graph.add %x, %zero
// CHECK-NEXT: graph.sub %x, %minus_zero
// CHECK-NEXT: graph.mul %x, %zero
// CHECK-NEXT: graph.sub %x, %x
// CHECK-NEXT: graph.div %one, %x
// CHECK-NEXT: graph.sub %zero, %x
func.func @not_neutral(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %minus_zero = graph.constant dense<-0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %0 = graph.add %x, %zero : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = graph.sub %x, %minus_zero : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %2 = graph.mul %x, %zero : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = graph.sub %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = graph.div %one, %x : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  %5 = graph.sub %zero, %x : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %0, %1, %2, %3, %4, %5 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: @unread_results
// CHECK-NEXT: %b = graph.slice %x starts = [0, 2] stops = [1, 5] : (tensor<1x6xf32>) -> tensor<1x3xf32>
// CHECK-NEXT: %p = graph.max_pool %i kernel = [2]
// CHECK-NEXT: func.return %b, %p
func.func @unread_results(%x: tensor<1x6xf32>, %i: tensor<1x1x4xf32>) -> (tensor<1x3xf32>, tensor<1x1x3xf32>) {
  %a, %b, %c = graph.split %x axis = 1 : (tensor<1x6xf32>) -> (tensor<1x2xf32>, tensor<1x3xf32>, tensor<1x1xf32>)
  %p, %q = graph.max_pool_with_indices %i kernel = [2] : (tensor<1x1x4xf32>) -> (tensor<1x1x3xf32>, tensor<1x1x3xi64>)
  func.return %b, %p : tensor<1x3xf32>, tensor<1x1x3xf32>
}

// CHECK-LABEL: @integers_alone
// CHECK-NEXT: %[[C:.*]] = graph.constant dense<0> : tensor<i32>
// CHECK-NEXT: %[[Z:.*]] = graph.expand %[[C]] : tensor<i32> to tensor<2xi32>
// CHECK-NEXT: func.return %[[Z]], %i, %i
func.func @integers_alone(%i: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) {
  %lowest = graph.constant dense<-2147483648> : tensor<i32>
  %zero = graph.constant dense<0> : tensor<1xi32>
  %0 = graph.sub %i, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %1 = graph.max %lowest, %i : (tensor<i32>, tensor<2xi32>) -> tensor<2xi32>
  %2 = graph.xor %i, %zero : (tensor<2xi32>, tensor<1xi32>) -> tensor<2xi32>
  func.return %0, %1, %2 : tensor<2xi32>, tensor<2xi32>, tensor<2xi32>
}

// A neutral operand may still enlarge the result.
// CHECK-LABEL: @neutral_but_larger
// CHECK-NEXT: graph.expand %x : tensor<2xf32> to tensor<3x2xf32>
func.func @neutral_but_larger(%x: tensor<2xf32>) -> tensor<3x2xf32> {
  %ones = graph.constant dense<1.0> : tensor<3x1xf32>
  %y = graph.mul %x, %ones : (tensor<2xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// What torch writes for the keys of attention.
// CHECK-LABEL: @transpose_between_reshapes
// CHECK-NEXT: %y = graph.transpose %x perm = [0, 1, 3, 2] : (tensor<2x3x4x5xf32>) -> tensor<2x3x5x4xf32>
// CHECK-NEXT: func.return %y
func.func @transpose_between_reshapes(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x5x4xf32> {
  %a = graph.reshape %x : tensor<2x3x4x5xf32> to tensor<6x4x5xf32>
  %b = graph.transpose %a perm = [0, 2, 1] : (tensor<6x4x5xf32>) -> tensor<6x5x4xf32>
  %y = graph.reshape %b : tensor<6x5x4xf32> to tensor<2x3x5x4xf32>
  func.return %y : tensor<2x3x5x4xf32>
}

// Where the last reshape splits otherwise (3 x 2 for 2 x 3), the first one does. Here that one does not merge (4 x 6 to 8 x 3), and 6 x 4 is
// no split of the transposed 3 x 8: all three stay.
// CHECK-LABEL: @transpose_between_other_reshapes
// CHECK-NEXT: %y = graph.reshape %x : tensor<2x3x4xf32> to tensor<3x2x4xf32>
// CHECK-NEXT: %y_1 = graph.transpose %y perm = [2, 0, 1]
// CHECK-NEXT: graph.reshape %z
// CHECK-NEXT: graph.transpose
// CHECK-NEXT: graph.reshape
// CHECK-NEXT: func.return
func.func @transpose_between_other_reshapes(%x: tensor<2x3x4xf32>, %z: tensor<4x6xf32>) -> (tensor<4x3x2xf32>, tensor<6x4xf32>) {
  %a = graph.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  %b = graph.transpose %a perm = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %y = graph.reshape %b : tensor<4x6xf32> to tensor<4x3x2xf32>
  %c = graph.reshape %z : tensor<4x6xf32> to tensor<8x3xf32>
  %d = graph.transpose %c perm = [1, 0] : (tensor<8x3xf32>) -> tensor<3x8xf32>
  %e = graph.reshape %d : tensor<3x8xf32> to tensor<6x4xf32>
  func.return %y, %e : tensor<4x3x2xf32>, tensor<6x4xf32>
}

// An attention mask is computed once per row and broadcast where it is added.
// CHECK-LABEL: @expand_sinks
// CHECK: %w = graph.where %m, %zero, %low : (tensor<2x1x1x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x4xf32>
// CHECK-NEXT: %y = graph.add %s, %w : (tensor<2x2x4x4xf32>, tensor<2x1x1x4xf32>) -> tensor<2x2x4x4xf32>
// CHECK-NEXT: func.return %y
func.func @expand_sinks(%m: tensor<2x1x1x4xi1>, %s: tensor<2x2x4x4xf32>) -> tensor<2x2x4x4xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %low = graph.constant dense<0xFF800000> : tensor<f32>
  %e = graph.expand %m : tensor<2x1x1x4xi1> to tensor<2x1x4x4xi1>
  %w = graph.where %e, %zero, %low : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  %y = graph.add %s, %w : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  func.return %y : tensor<2x2x4x4xf32>
}

// CHECK-LABEL: @where
// CHECK: %v1 = graph.expand %b : tensor<2xf32> to tensor<3x2xf32>
// CHECK-NEXT: %v3 = graph.where %mixed, %a, %b
// CHECK-NEXT: func.return %a, %v1, %a, %v3
func.func @where(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xi1>) -> (tensor<2xf32>, tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %true = graph.constant dense<true> : tensor<1xi1>
  %false = graph.constant dense<false> : tensor<3x1xi1>
  %mixed = graph.constant dense<[true, false]> : tensor<2xi1>
  %v0 = graph.where %true, %a, %b : (tensor<1xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %v1 = graph.where %false, %a, %b : (tensor<3x1xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %v2 = graph.where %c, %a, %a : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %v3 = graph.where %mixed, %a, %b : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %v0, %v1, %v2, %v3 : tensor<2xf32>, tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: @unary_pairs_and_empty_work
// CHECK-NEXT: %r = graph.relu %x
// CHECK-NEXT: func.return %r, %x, %b, %x, %x
func.func @unary_pairs_and_empty_work(%x: tensor<2xf32>, %b: tensor<2xi1>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) {
  %r = graph.relu %x : tensor<2xf32>
  %0 = graph.relu %r : tensor<2xf32>
  %n = graph.neg %x : tensor<2xf32>
  %1 = graph.neg %n : tensor<2xf32>
  %m = graph.not %b : tensor<2xi1>
  %2 = graph.not %m : tensor<2xi1>
  %3 = graph.clip %x : tensor<2xf32>
  %4 = graph.reduce_sum %x axes = [] keepdims : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0, %1, %2, %3, %4 : tensor<2xf32>, tensor<2xf32>, tensor<2xi1>, tensor<2xf32>, tensor<2xf32>
}

// Whether a softmax is NaN depends on its input (a row of -inf), so this stays.
// CHECK-LABEL: @masked_softmax
// CHECK: graph.softmax
// CHECK-NEXT: graph.is_nan
// CHECK-NEXT: graph.where
func.func @masked_softmax(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %s = graph.softmax %x axis = 1 : tensor<2x4xf32>
  %n = graph.is_nan %s : (tensor<2x4xf32>) -> tensor<2x4xi1>
  %y = graph.where %n, %zero, %s : (tensor<2x4xi1>, tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// Saturation changes infinities, so that a cast with it stays although the type does.
// CHECK-LABEL: @saturating_casts
// CHECK-NEXT: %y = graph.cast %x saturate : tensor<2xf8E5M2> to tensor<2xf8E5M2>
// CHECK-NEXT: %s = graph.cast %h saturate round_mode = "down" : tensor<2xf16> to tensor<2xf8E8M0FNU>
// CHECK-NEXT: func.return
func.func @saturating_casts(%x: tensor<2xf8E5M2>, %h: tensor<2xf16>) -> (tensor<2xf8E5M2>, tensor<2xf8E8M0FNU>) {
  %y = graph.cast %x saturate : tensor<2xf8E5M2> to tensor<2xf8E5M2>
  %w = graph.cast %h : tensor<2xf16> to tensor<2xf32>
  %s = graph.cast %w saturate round_mode = "down" : tensor<2xf32> to tensor<2xf8E8M0FNU>
  func.return %y, %s : tensor<2xf8E5M2>, tensor<2xf8E8M0FNU>
}
