// RUN: mlopt-opt %s --split-input-file --fuse-attention --canonicalize --dce --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-attention --remarks --verify-diagnostics

// The form of torch exports: the root of the scale on both sides, a mask, and rows of NaN made 0.
// CHECK-LABEL: @torch
// CHECK-NEXT:    %y = graph.attention %q, %k, %v mask %m scale = 2.500000e-01 nan_to_zero :
// CHECK-NEXT:    func.return %y
func.func @torch(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>, %v: tensor<2x4x5x6xf32>, %m: tensor<2x1x3x5xf32>) -> tensor<2x4x3x6xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %t = graph.transpose %k perm = [0, 1, 3, 2] : (tensor<2x4x5x8xf32>) -> tensor<2x4x8x5xf32>
  %a = graph.mul %q, %half : (tensor<2x4x3x8xf32>, tensor<f32>) -> tensor<2x4x3x8xf32>
  %b = graph.mul %t, %half : (tensor<2x4x8x5xf32>, tensor<f32>) -> tensor<2x4x8x5xf32>
  %s = graph.matmul %a, %b : (tensor<2x4x3x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x3x5xf32>
  %masked = graph.add %s, %m : (tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32>) -> tensor<2x4x3x5xf32>
  %w = graph.softmax %masked axis = 3 : tensor<2x4x3x5xf32>
  %n = graph.is_nan %w : (tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xi1>
  %c = graph.where %n, %zero, %w : (tensor<2x4x3x5xi1>, tensor<f32>, tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  // expected-remark @below {{[fuse-attention] fused 'mul', 'mul', 'matmul', 'add', 'softmax', 'is_nan', 'where', 'matmul' into 'attention'}}
  %y = graph.matmul %c, %v : (tensor<2x4x3x5xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return %y : tensor<2x4x3x6xf32>
}

// -----

// Heads of the query in groups: keys and values are read before they are repeated. The scale is a division of the scores.
// CHECK-LABEL: @grouped
// CHECK:         graph.attention %q, %k, %v score_scale = 2.500000e-01 : (tensor<2x4x3x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x6xf32>) ->
func.func @grouped(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x6xf32>) -> tensor<2x4x3x6xf32> {
  %four = graph.constant dense<4.0> : tensor<f32>
  %k0 = graph.reshape %k : tensor<2x2x5x8xf32> to tensor<2x2x1x5x8xf32>
  %k1 = graph.expand %k0 : tensor<2x2x1x5x8xf32> to tensor<2x2x2x5x8xf32>
  %k2 = graph.reshape %k1 : tensor<2x2x2x5x8xf32> to tensor<2x4x5x8xf32>
  %v0 = graph.reshape %v : tensor<2x2x5x6xf32> to tensor<2x2x1x5x6xf32>
  %v1 = graph.expand %v0 : tensor<2x2x1x5x6xf32> to tensor<2x2x2x5x6xf32>
  %v2 = graph.reshape %v1 : tensor<2x2x2x5x6xf32> to tensor<2x4x5x6xf32>
  %t = graph.transpose %k2 perm = [0, 1, 3, 2] : (tensor<2x4x5x8xf32>) -> tensor<2x4x8x5xf32>
  %s = graph.matmul %q, %t : (tensor<2x4x3x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x3x5xf32>
  %d = graph.div %s, %four : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<2x4x3x5xf32>
  %w = graph.softmax %d axis = 3 : tensor<2x4x3x5xf32>
  // expected-remark @below {{fused 'matmul', 'div', 'softmax', 'matmul' into 'attention'}}
  %y = graph.matmul %w, %v2 : (tensor<2x4x3x5xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x3x6xf32>
  func.return %y : tensor<2x4x3x6xf32>
}

// -----

// A mask is causal if its values are: -inf above the diagonal, 0 elsewhere.
// CHECK-LABEL: @causal
// CHECK-NEXT:    %y = graph.attention %q, %k, %v causal :
func.func @causal(%q: tensor<2x2xf32>, %k: tensor<2x2xf32>, %v: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %m = graph.constant dense<[[0.0, 0xFF800000], [0.0, 0.0]]> : tensor<2x2xf32>
  %t = graph.transpose %k perm = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = graph.matmul %q, %t : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %a = graph.add %s, %m : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %w = graph.softmax %a axis = 1 : tensor<2x2xf32>
  // expected-remark @below {{fused 'matmul', 'add', 'softmax', 'matmul' into 'attention'}}
  %y = graph.matmul %w, %v : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// Windows: the batch is split for a mask, and merged again. Where a mask is true, the scores are hidden.
// CHECK-LABEL: @windows
// CHECK:         [[Q:%.*]] = graph.reshape %q : tensor<6x4x3x8xf32> to tensor<2x3x4x3x8xf32>
// CHECK:         [[S:%.*]] = graph.not %hidden
// CHECK-NEXT:    [[Y:%.*]] = graph.attention [[Q]], {{%.*}}, {{%.*}} mask %bias, [[S]] fill = -1.000000e+02 :
// CHECK-NEXT:    graph.reshape [[Y]] : tensor<2x3x4x3x6xf32> to tensor<6x4x3x6xf32>
func.func @windows(%q: tensor<6x4x3x8xf32>, %k: tensor<6x4x8x5xf32>, %v: tensor<6x4x5x6xf32>, %bias: tensor<4x3x5xf32>, %hidden: tensor<3x1x3x5xi1>) -> tensor<6x4x3x6xf32> {
  %c = graph.constant dense<-100.0> : tensor<f32>
  %s = graph.matmul %q, %k : (tensor<6x4x3x8xf32>, tensor<6x4x8x5xf32>) -> tensor<6x4x3x5xf32>
  %b = graph.add %bias, %s : (tensor<4x3x5xf32>, tensor<6x4x3x5xf32>) -> tensor<6x4x3x5xf32>
  %r = graph.reshape %b : tensor<6x4x3x5xf32> to tensor<2x3x4x3x5xf32>
  %m = graph.where %hidden, %c, %r : (tensor<3x1x3x5xi1>, tensor<f32>, tensor<2x3x4x3x5xf32>) -> tensor<2x3x4x3x5xf32>
  %u = graph.reshape %m : tensor<2x3x4x3x5xf32> to tensor<6x4x3x5xf32>
  %w = graph.softmax %u axis = 3 : tensor<6x4x3x5xf32>
  // expected-remark @below {{fused 'matmul', 'add', 'reshape', 'where', 'reshape', 'softmax', 'matmul' into 'attention'}}
  %y = graph.matmul %w, %v : (tensor<6x4x3x5xf32>, tensor<6x4x5x6xf32>) -> tensor<6x4x3x6xf32>
  func.return %y : tensor<6x4x3x6xf32>
}

// -----

// Near misses.
// CHECK-LABEL: @near
// CHECK-NOT:     graph.attention
func.func @near(%q: tensor<4x3x8xf32>, %k: tensor<4x8x5xf32>, %v: tensor<4x5x6xf32>, %m: tensor<3x5xf32>, %v2: tensor<2x1x5x6xf32>) -> (tensor<4x3x6xf32>, tensor<4x3x5xf32>, tensor<4x3x6xf32>, tensor<4x3x6xf32>, tensor<4x3x6xf32>, tensor<2x4x3x6xf32>, tensor<4x3x6xf32>) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %two = graph.constant dense<[1.0, 1.0, 1.0, 1.0, 2.0]> : tensor<5xf32>

  %s0 = graph.matmul %q, %k : (tensor<4x3x8xf32>, tensor<4x8x5xf32>) -> tensor<4x3x5xf32> loc("scores")
  %w0 = graph.softmax %s0 axis = 2 : tensor<4x3x5xf32>
  // expected-remark @below {{not fused: the result of 'matmul' (scores) is also a graph output}}
  %y0 = graph.matmul %w0, %v : (tensor<4x3x5xf32>, tensor<4x5x6xf32>) -> tensor<4x3x6xf32>

  %s1 = graph.matmul %q, %k : (tensor<4x3x8xf32>, tensor<4x8x5xf32>) -> tensor<4x3x5xf32>
  %w1 = graph.softmax %s1 axis = 1 : tensor<4x3x5xf32>
  // expected-remark @below {{not fused: the softmax is not along the keys}}
  %y1 = graph.matmul %w1, %v : (tensor<4x3x5xf32>, tensor<4x5x6xf32>) -> tensor<4x3x6xf32>

  %s2 = graph.matmul %q, %k : (tensor<4x3x8xf32>, tensor<4x8x5xf32>) -> tensor<4x3x5xf32>
  %a2 = graph.mul %s2, %two : (tensor<4x3x5xf32>, tensor<5xf32>) -> tensor<4x3x5xf32>
  %w2 = graph.softmax %a2 axis = 2 : tensor<4x3x5xf32>
  // expected-remark @below {{not fused: the scores are multiplied by more than one number}}
  %y2 = graph.matmul %w2, %v : (tensor<4x3x5xf32>, tensor<4x5x6xf32>) -> tensor<4x3x6xf32>

  %s3 = graph.matmul %q, %k : (tensor<4x3x8xf32>, tensor<4x8x5xf32>) -> tensor<4x3x5xf32>
  %a3 = graph.add %s3, %m : (tensor<4x3x5xf32>, tensor<3x5xf32>) -> tensor<4x3x5xf32>
  %b3 = graph.mul %a3, %half : (tensor<4x3x5xf32>, tensor<f32>) -> tensor<4x3x5xf32>
  %w3 = graph.softmax %b3 axis = 2 : tensor<4x3x5xf32>
  // expected-remark @below {{not fused: the scores are multiplied behind a mask}}
  %y3 = graph.matmul %w3, %v : (tensor<4x3x5xf32>, tensor<4x5x6xf32>) -> tensor<4x3x6xf32>

  %s4 = graph.matmul %q, %k : (tensor<4x3x8xf32>, tensor<4x8x5xf32>) -> tensor<4x3x5xf32>
  %w4 = graph.softmax %s4 axis = 2 : tensor<4x3x5xf32>
  // expected-remark @below {{not fused: the value has more batches than the scores}}
  %y4 = graph.matmul %w4, %v2 : (tensor<4x3x5xf32>, tensor<2x1x5x6xf32>) -> tensor<2x4x3x6xf32>

  // Without a product before the softmax there is nothing to say.
  %w5 = graph.softmax %y0 axis = 2 : tensor<4x3x6xf32>
  func.return %y0, %s0, %y1, %y2, %y3, %y4, %w5 : tensor<4x3x6xf32>, tensor<4x3x5xf32>, tensor<4x3x6xf32>, tensor<4x3x6xf32>, tensor<4x3x6xf32>, tensor<2x4x3x6xf32>, tensor<4x3x6xf32>
}

// CHECK: (S) 1 attentions-fused
