// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fuse-kernels)' | filecheck %s

// Bias and activation become one map behind the product, in the same launch.
// CHECK-LABEL: func.func @epilogue
// CHECK: %y = kernel.launch @matmul_add_relu ins(%x, %w, %b : tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>)
// CHECK: %m = kernel.contract bounds [m = 4, n = 6, k = 8]
// CHECK-NEXT: kernel.map bounds [d0 = 4, d1 = 6] ins(%m[d0, d1], %rhs_1[d1] : tensor<4x6xf32>, tensor<6xf32>) outs(%O[d0, d1] : tensor<4x6xf32>) {
// CHECK-NEXT: ^bb0(%[[p:.*]]: f32, %[[q:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[s:.*]] = arith.addf %[[p]], %[[q]] : f32
// CHECK: %[[r:.*]] = arith.maximumf %[[s]], %{{.*}} : f32
// CHECK-NEXT: kernel.yield %[[r]] : f32
// CHECK-NOT: kernel.launch
func.func @epilogue(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %s = graph.add %m, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %y = graph.relu %s : tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

// Transposes in front of a product and behind it are index maps of the product.
// CHECK-LABEL: func.func @transposes
// CHECK: kernel.launch @matmul_transpose ins(%x, %w : tensor<2x8x4xf32>, tensor<8x6xf32>)
// CHECK: kernel.contract bounds [b0 = 2, m = 4, n = 6, k = 8] ins(%{{.*}}[b0, k, m], %{{.*}}[k, n] : tensor<2x8x4xf32>, tensor<8x6xf32>) outs(%{{.*}}[m, b0, n] : tensor<4x2x6xf32>)
// CHECK-NOT: kernel.map
func.func @transposes(%x: tensor<2x8x4xf32>, %w: tensor<8x6xf32>) -> tensor<4x2x6xf32> {
  %t = graph.transpose %x perm = [0, 2, 1] : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
  %m = graph.matmul %t, %w : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
  %y = graph.transpose %m perm = [1, 0, 2] : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
  func.return %y : tensor<4x2x6xf32>
}

// A transpose that leaves a product nothing with unit stride is carried out.
// CHECK-LABEL: func.func @no_unit_stride
// CHECK: kernel.launch @transpose
// CHECK: kernel.launch @matmul
// CHECK: kernel.contract bounds [b0 = 2, m = 4, n = 6, k = 8] ins(%{{.*}}[b0, m, k],
func.func @no_unit_stride(%x: tensor<4x8x2xf32>, %w: tensor<2x8x6xf32>) -> tensor<2x4x6xf32> {
  %t = graph.transpose %x perm = [2, 0, 1] : (tensor<4x8x2xf32>) -> tensor<2x4x8xf32>
  %y = graph.matmul %t, %w : (tensor<2x4x8xf32>, tensor<2x8x6xf32>) -> tensor<2x4x6xf32>
  func.return %y : tensor<2x4x6xf32>
}

// A pad of zeros becomes a padded read of the convolution, a slice an offset, a broadcast a missing dimension.
// CHECK-LABEL: func.func @other_movements
// CHECK: kernel.launch @conv_add
// CHECK: kernel.contract bounds [{{.*}}] ins(%{{.*}}[n, {{.*}}, oh + kh - 1, ow + kw - 1] pad 0.000000e+00 : f32,
// CHECK: kernel.map bounds [d0 = 1, d1 = 2, d2 = 4, d3 = 4] ins(%{{.*}}[d0, d1, d2, d3], %{{.*}}[d1 + 1, 0, 0] :
// CHECK-NOT: kernel.launch
func.func @other_movements(%x: tensor<1x2x4x4xf32>, %w: tensor<2x2x3x3xf32>, %b: tensor<3x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %p = graph.pad %x low = [0, 0, 1, 1] high = [0, 0, 1, 1] value = 0.0 : f32 : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x6xf32>
  %c = graph.conv %p, %w : (tensor<1x2x6x6xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  %s = graph.slice %b starts = [1, 0, 0] stops = [3, 1, 1] : (tensor<3x1x1xf32>) -> tensor<2x1x1xf32>
  %e = graph.expand %s : tensor<2x1x1xf32> to tensor<2x4x4xf32>
  %y = graph.add %c, %e : (tensor<1x2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// Lookups and their sum in front of a layer norm are the first map of its launch.
// CHECK-LABEL: func.func @prologue
// CHECK: kernel.launch @gather_add_layer_norm
// CHECK: kernel.map
// CHECK: tensor.extract
// CHECK: arith.addf
// CHECK: kernel.reduce
// CHECK-NOT: kernel.launch
func.func @prologue(%t: tensor<9x6xf32>, %p: tensor<5x6xf32>, %i: tensor<2x5xi64>, %g: tensor<6xf32>) -> tensor<2x5x6xf32> {
  %e = graph.gather %t, %i axis = 0 : (tensor<9x6xf32>, tensor<2x5xi64>) -> tensor<2x5x6xf32>
  %s = graph.add %e, %p : (tensor<2x5x6xf32>, tensor<5x6xf32>) -> tensor<2x5x6xf32>
  %y = graph.layer_norm %s, %g axis = 2 epsilon = 1.0e-5 : (tensor<2x5x6xf32>, tensor<6xf32>) -> tensor<2x5x6xf32>
  func.return %y : tensor<2x5x6xf32>
}

// The scale of the queries moves above transpose and reshape, into the projection; the transpose into the scores.
// CHECK-LABEL: func.func @hoisted_scale
// CHECK: %q = kernel.launch @matmul_mul
// CHECK: %h = kernel.reshape %q : tensor<2x5x8xf32> to tensor<2x5x4x2xf32>
// CHECK: %y = kernel.launch @matmul ins(%h, %k :
// CHECK: kernel.contract bounds [b0 = 2, b1 = 4, m = 5, n = 5, k = 2] ins(%{{.*}}[b0, m, b1, k], %{{.*}}[b0, b1, k, n] :
// CHECK-NOT: kernel.launch
func.func @hoisted_scale(%x: tensor<2x5x8xf32>, %w: tensor<8x8xf32>, %k: tensor<2x4x2x5xf32>) -> tensor<2x4x5x5xf32> {
  %c = graph.constant dense<0.5> : tensor<f32>
  %m = graph.matmul %x, %w : (tensor<2x5x8xf32>, tensor<8x8xf32>) -> tensor<2x5x8xf32>
  %h = graph.reshape %m : tensor<2x5x8xf32> to tensor<2x5x4x2xf32>
  %t = graph.transpose %h perm = [0, 2, 1, 3] : (tensor<2x5x4x2xf32>) -> tensor<2x4x5x2xf32>
  %q = graph.mul %t, %c : (tensor<2x4x5x2xf32>, tensor<f32>) -> tensor<2x4x5x2xf32>
  %y = graph.matmul %q, %k : (tensor<2x4x5x2xf32>, tensor<2x4x2x5xf32>) -> tensor<2x4x5x5xf32>
  func.return %y : tensor<2x4x5x5xf32>
}

// Nothing is merged into a product that it would be computed again for, and no product takes a softmax in.
// CHECK-LABEL: func.func @apart
// CHECK: kernel.launch @exp
// CHECK: kernel.launch @matmul
// CHECK: kernel.launch @softmax
func.func @apart(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %e = graph.exp %x : tensor<4x8xf32>
  %m = graph.matmul %e, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.softmax %m axis = 1 : tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

// A loop in a launch is left alone, with what is around it; launches in a loop are merged with each other.
// CHECK-LABEL: func.func @loops
// CHECK: kernel.launch @neg
// CHECK: scf.for
// CHECK: kernel.launch @exp_neg
// CHECK-NOT: kernel.launch
func.func @loops(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = graph.neg %x : tensor<4xf32>
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%b = %a) -> (tensor<4xf32>) {
    %c = graph.exp %b : tensor<4xf32>
    %d = graph.neg %c : tensor<4xf32>
    scf.yield %d : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// Rows that are copied for one product each are loaded by the product itself: no copy of them is made.
// CHECK-LABEL: func.func @selected_matrices
// CHECK: kernel.launch @gather_matmul ins(%w, %i, %x : tensor<4x3x5xf32>, tensor<7xi64>, tensor<7x5x1xf32>)
// CHECK: kernel.reduce bounds [b0 = 7, m = 3, n = 1, k = 5] ins(%{{.*}}[b0], %{{.*}}[b0, k, n] : tensor<7xi64>, tensor<7x5x1xf32>) outs(%{{.*}}[b0, m, n] : tensor<7x3x1xf32>) {
// CHECK: %[[e:.*]] = tensor.extract %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : tensor<4x3x5xf32>
// CHECK-NEXT: %[[p:.*]] = arith.mulf %[[e]], %{{.*}} : f32
// CHECK-NEXT: arith.addf %{{.*}}, %[[p]] : f32
// CHECK-NOT: kernel.launch
func.func @selected_matrices(%w: tensor<4x3x5xf32>, %i: tensor<7xi64>, %x: tensor<7x5x1xf32>) -> tensor<7x3x1xf32> {
  %s = graph.gather %w, %i axis = 0 : (tensor<4x3x5xf32>, tensor<7xi64>) -> tensor<7x3x5xf32>
  %y = graph.matmul %s, %x : (tensor<7x3x5xf32>, tensor<7x5x1xf32>) -> tensor<7x3x1xf32>
  func.return %y : tensor<7x3x1xf32>
}

// Two columns would load every element twice.
// CHECK-LABEL: func.func @selected_for_two_columns
// CHECK: kernel.launch @gather
// CHECK: kernel.launch @matmul
// CHECK: kernel.contract
func.func @selected_for_two_columns(%w: tensor<4x3x5xf32>, %i: tensor<7xi64>, %x: tensor<7x5x2xf32>) -> tensor<7x3x2xf32> {
  %s = graph.gather %w, %i axis = 0 : (tensor<4x3x5xf32>, tensor<7xi64>) -> tensor<7x3x5xf32>
  %y = graph.matmul %s, %x : (tensor<7x3x5xf32>, tensor<7x5x2xf32>) -> tensor<7x3x2xf32>
  func.return %y : tensor<7x3x2xf32>
}

// Elements that do not lie in rows are copied first: a product would not find them side by side.
// CHECK-LABEL: func.func @selected_columns
// CHECK: kernel.launch @gather
// CHECK: kernel.launch @matmul
func.func @selected_columns(%w: tensor<3x4xf32>, %i: tensor<7xi64>, %x: tensor<7x1xf32>) -> tensor<3x1xf32> {
  %s = graph.gather %w, %i axis = 1 : (tensor<3x4xf32>, tensor<7xi64>) -> tensor<3x7xf32>
  %y = graph.matmul %s, %x : (tensor<3x7xf32>, tensor<7x1xf32>) -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// Halves of a map are computed where they are wanted: it is nowhere as a whole.
// CHECK-LABEL: func.func @halves
// CHECK: kernel.launch @exp_split ins(%x : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x4xf32>) {
// CHECK: kernel.map bounds [d0 = 4, d1 = 4] ins(%{{.*}}[d0, d1] : tensor<4x8xf32>)
// CHECK: kernel.launch @exp_split ins(%x : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x4xf32>) {
// CHECK: kernel.map bounds [d0 = 4, d1 = 4] ins(%{{.*}}[d0, d1 + 4] : tensor<4x8xf32>)
// CHECK-NOT: kernel.launch
func.func @halves(%x: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %e = graph.exp %x : tensor<4x8xf32>
  %a, %b = graph.split %e axis = 1 : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  func.return %a, %b : tensor<4x4xf32>, tensor<4x4xf32>
}

// Parts that overlap would be computed twice.
// CHECK-LABEL: func.func @more_than_halves
// CHECK: kernel.launch @exp
// CHECK: kernel.launch @slice
// CHECK: kernel.launch @slice
func.func @more_than_halves(%x: tensor<8xf32>) -> (tensor<5xf32>, tensor<4xf32>) {
  %e = graph.exp %x : tensor<8xf32>
  %a = graph.slice %e starts = [0] stops = [5] : (tensor<8xf32>) -> tensor<5xf32>
  %b = graph.slice %e starts = [4] stops = [8] : (tensor<8xf32>) -> tensor<4xf32>
  func.return %a, %b : tensor<5xf32>, tensor<4xf32>
}

// Concatenations of concatenations put each part where the last one has it; what is put together on the way is nowhere.
// CHECK-LABEL: func.func @concat_of_concats
// CHECK: kernel.launch @concat ins(%a, %b, %c : tensor<2x3xf32>, tensor<1x3xf32>, tensor<3x2xf32>) outs(%{{.*}} : tensor<3x5xf32>) {
// CHECK-NEXT: ^bb0(
// CHECK-NEXT: %[[A:.*]] = kernel.map bounds [d0 = 2, d1 = 3] ins(%{{.*}}[d0, d1] : tensor<2x3xf32>) outs(%{{.*}}[d0, d1] : tensor<3x5xf32>)
// CHECK: %[[B:.*]] = kernel.map bounds [d0 = 1, d1 = 3] ins(%{{.*}}[d0, d1] : tensor<1x3xf32>) outs(%[[A]][d0 + 2, d1] : tensor<3x5xf32>)
// CHECK: kernel.map bounds [d0 = 3, d1 = 2] ins(%{{.*}}[d0, d1] : tensor<3x2xf32>) outs(%[[B]][d0, d1 + 3] : tensor<3x5xf32>)
// CHECK-NOT: kernel.map
func.func @concat_of_concats(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>, %c: tensor<3x2xf32>) -> tensor<3x5xf32> {
  %i = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  %y = graph.concat %i, %c axis = 1 : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x5xf32>
  func.return %y : tensor<3x5xf32>
}

// What is read elsewhere too is put together by itself.
// CHECK-LABEL: func.func @inner_concat_read_twice
// CHECK: kernel.launch @concat
// CHECK: kernel.launch @concat
// CHECK: kernel.launch @softmax
func.func @inner_concat_read_twice(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>, %c: tensor<3x2xf32>) -> (tensor<3x5xf32>, tensor<3x3xf32>) {
  %i = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  %y = graph.concat %i, %c axis = 1 : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x5xf32>
  %s = graph.softmax %i axis = 1 : tensor<3x3xf32>
  func.return %y, %s : tensor<3x5xf32>, tensor<3x3xf32>
}
