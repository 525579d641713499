// RUN: mlopt-opt %s --split-input-file --place-donated --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --place-donated --remarks --verify-diagnostics -o %t

// The argument becomes the whole, and the launch only writes what is new: the old row stays where it is. What reads the
// input reads the part.
// CHECK-LABEL: func.func @main(%past: tensor<3x2xf32> {mlopt.name = "past", mlopt.donated = {output = "present"}, mlopt.input_part = {axis = 0 : i64, offset = 0 : i64, size = 2 : i64}}
// CHECK-SAME: -> (tensor<3x2xf32> {mlopt.name = "present"}, tensor<2x2xf32> {mlopt.name = "y"})
// CHECK: %present = kernel.launch @concat ins(%new : tensor<1x2xf32>) outs(%past : tensor<3x2xf32>) {
// CHECK: kernel.map bounds [d0 = 1, d1 = 2] ins(%b[d0, d1] : tensor<1x2xf32>) outs(%O[d0 + 2, d1] : tensor<3x2xf32>) {
// CHECK-NOT: kernel.map
// CHECK: kernel.launch @double ins(%present : tensor<3x2xf32>)
// CHECK: kernel.map bounds [d0 = 2, d1 = 2] ins(%{{.*}}[d0, d1] : tensor<3x2xf32>)
func.func @main(%past: tensor<2x2xf32> {mlopt.name = "past", mlopt.donated = {output = "present"}}, %new: tensor<1x2xf32> {mlopt.name = "new"})
    -> (tensor<3x2xf32> {mlopt.name = "present"}, tensor<2x2xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<3x2xf32>
  // expected-remark@below {{placed: input "past" is a part of the memory of output "present", and is not copied there}}
  %present = kernel.launch @concat ins(%past, %new : tensor<2x2xf32>, tensor<1x2xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%a: tensor<2x2xf32>, %b: tensor<1x2xf32>, %O: tensor<3x2xf32>):
    %0 = kernel.map bounds [d0 = 2, d1 = 2] ins(%a[d0, d1] : tensor<2x2xf32>) outs(%O[d0, d1] : tensor<3x2xf32>) {
    ^bb0(%s: f32, %t: f32):
      kernel.yield %s : f32
    }
    %1 = kernel.map bounds [d0 = 1, d1 = 2] ins(%b[d0, d1] : tensor<1x2xf32>) outs(%0[d0 + 2, d1] : tensor<3x2xf32>) {
    ^bb0(%s: f32, %t: f32):
      kernel.yield %s : f32
    }
    kernel.yield %1 : tensor<3x2xf32>
  } -> tensor<3x2xf32>
  %f = tensor.empty() : tensor<2x2xf32>
  %y = kernel.launch @double ins(%past : tensor<2x2xf32>) outs(%f : tensor<2x2xf32>) {
  ^bb0(%a: tensor<2x2xf32>, %O: tensor<2x2xf32>):
    %0 = kernel.map bounds [d0 = 2, d1 = 2] ins(%a[d0, d1] : tensor<2x2xf32>) outs(%O[d0, d1] : tensor<2x2xf32>) {
    ^bb0(%s: f32, %t: f32):
      %2 = arith.addf %s, %s : f32
      kernel.yield %2 : f32
    }
    kernel.yield %0 : tensor<2x2xf32>
  } -> tensor<2x2xf32>
  func.return %present, %y : tensor<3x2xf32>, tensor<2x2xf32>
}

// -----

// With a capacity the whole is longer than the output, along the axis that grows.
// CHECK-LABEL: func.func @main(%past: tensor<2x8xf32>
// CHECK-SAME: mlopt.input_part = {axis = 1 : i64, offset = 1 : i64, size = 2 : i64}
// CHECK-SAME: -> (tensor<2x8xf32> {mlopt.name = "present", mlopt.output_part = {axis = 1 : i64, offset = 0 : i64, size = 3 : i64}})
// CHECK: %present = kernel.launch @concat ins(%new : tensor<2x1xf32>) outs(%past : tensor<2x8xf32>) {
// CHECK: kernel.map bounds [d0 = 2, d1 = 1] ins(%b[d0, d1] : tensor<2x1xf32>) outs(%O[d0, d1] : tensor<2x8xf32>) {
// CHECK: func.return %present : tensor<2x8xf32>
func.func @main(%past: tensor<2x2xf32> {mlopt.name = "past", mlopt.donated = {output = "present", capacity = 8 : i64}}, %new: tensor<2x1xf32> {mlopt.name = "new"})
    -> (tensor<2x3xf32> {mlopt.name = "present"}) {
  %e = tensor.empty() : tensor<2x3xf32>
  // expected-remark@below {{placed: input "past" is a part of the memory of output "present", and is not copied there}}
  %present = kernel.launch @concat ins(%past, %new : tensor<2x2xf32>, tensor<2x1xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%a: tensor<2x2xf32>, %b: tensor<2x1xf32>, %O: tensor<2x3xf32>):
    %0 = kernel.map bounds [d0 = 2, d1 = 2] ins(%a[d0, d1] : tensor<2x2xf32>) outs(%O[d0, d1 + 1] : tensor<2x3xf32>) {
    ^bb0(%s: f32, %t: f32):
      kernel.yield %s : f32
    }
    %1 = kernel.map bounds [d0 = 2, d1 = 1] ins(%b[d0, d1] : tensor<2x1xf32>) outs(%0[d0, d1] : tensor<2x3xf32>) {
    ^bb0(%s: f32, %t: f32):
      kernel.yield %s : f32
    }
    kernel.yield %1 : tensor<2x3xf32>
  } -> tensor<2x3xf32>
  func.return %present : tensor<2x3xf32>
}

// -----

// Nothing is placed in what is not donated, and nothing that is returned too.
// CHECK-LABEL: func.func @main(%past: tensor<2xf32> {mlopt.name = "past", mlopt.donated = {}}, %kept: tensor<2xf32> {mlopt.name = "kept"})
// CHECK: tensor.empty
// expected-remark@below {{not placed: input "past", donated: it is also a function result, not with index maps}}
func.func @main(%past: tensor<2xf32> {mlopt.name = "past", mlopt.donated = {}}, %kept: tensor<2xf32> {mlopt.name = "kept"})
    -> (tensor<4xf32> {mlopt.name = "present"}, tensor<2xf32> {mlopt.name = "same"}) {
  %e = tensor.empty() : tensor<4xf32>
  %present = kernel.launch @concat ins(%past, %kept : tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>, %O: tensor<4xf32>):
    %0 = kernel.map bounds [d0 = 2] ins(%a[d0] : tensor<2xf32>) outs(%O[d0] : tensor<4xf32>) {
    ^bb0(%s: f32, %t: f32):
      kernel.yield %s : f32
    }
    %1 = kernel.map bounds [d0 = 2] ins(%b[d0] : tensor<2xf32>) outs(%0[d0 + 2] : tensor<4xf32>) {
    ^bb0(%s: f32, %t: f32):
      kernel.yield %s : f32
    }
    kernel.yield %1 : tensor<4xf32>
  } -> tensor<4xf32>
  func.return %present, %past : tensor<4xf32>, tensor<2xf32>
}

// CHECK: (S) 1 inputs-placed
// CHECK: (S) 1 near-misses
