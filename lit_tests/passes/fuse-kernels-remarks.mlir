// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fuse-kernels{max-ops=20})' --remarks --verify-diagnostics

func.func @returned(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // expected-remark @below {{not fused: 'matmul' with 'exp': its result '%m' is also a function result}}
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.exp %m : tensor<4x6xf32>
  func.return %m, %y : tensor<4x6xf32>, tensor<4x6xf32>
}

func.func @two_readers(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<6x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  // expected-remark @below {{not fused: 'matmul' with 'exp': its result '%m' is also read by 'matmul'}}
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.exp %m : tensor<4x6xf32>
  %z = graph.matmul %m, %v : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  func.return %y, %z : tensor<4x6xf32>, tensor<4x6xf32>
}

func.func @broadcast(%x: tensor<1x8xf32>, %w: tensor<8x6xf32>, %b: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-remark @below {{not fused: 'matmul' with 'add': its result is broadcast by 'add'}}
  %m = graph.matmul %x, %w : (tensor<1x8xf32>, tensor<8x6xf32>) -> tensor<1x6xf32>
  %y = graph.add %m, %b : (tensor<1x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

func.func @in_part(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<2x6xf32> {
  // expected-remark @below {{not fused: 'matmul' with 'exp': its result is not read element by element by 'exp'}}
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // expected-remark @below {{fused 'slice' into the index maps of 'exp'}}
  %s = graph.slice %m starts = [0, 0] stops = [2, 6] : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %y = graph.exp %s : tensor<2x6xf32>
  func.return %y : tensor<2x6xf32>
}

func.func @two_orders(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  // expected-remark @below {{not fused: 'matmul' with 'add': its result is read in two orders by 'add'}}
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // expected-remark @below {{fused 'transpose' into the index maps of 'add'}}
  %t = graph.transpose %m perm = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = graph.add %m, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

func.func @piece(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<4x2xf32>) -> tensor<4x8xf32> {
  // expected-remark @below {{not fused: 'matmul' with 'concat': 'concat' puts its result together from several}}
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.concat %m, %b axis = 1 : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

func.func @two_products(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %v: tensor<8x6xf32>) -> tensor<4x6xf32> {
  // expected-remark @below {{not fused: 'matmul' with 'matmul_add': the launch would have two contractions}}
  %a = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %b = graph.matmul %x, %v : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // expected-remark @below {{fused 'matmul' with 'add'}}
  %y = graph.add %a, %b : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

func.func @other_rows(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // expected-remark @below {{not fused: 'reduce_sum' with 'reduce_max_expand': 'reduce_max_expand' reduces other rows}}
  %a = graph.reduce_sum %x axes = [1] keepdims : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %b = graph.reduce_max %a axes = [0, 1] : (tensor<4x1xf32>) -> tensor<f32>
  // expected-remark @below {{fused 'reduce_max' with 'expand'}}
  %y = graph.expand %b : tensor<f32> to tensor<8xf32>
  func.return %y : tensor<8xf32>
}

func.func @too_large(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-remark @below {{not fused: 'softmax' with 'softmax': the launch would have 39 ops, more than max-ops = 20}}
  %a = graph.softmax %x axis = 1 : tensor<4x8xf32>
  %y = graph.softmax %a axis = 1 : tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

func.func @halves(%x: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // expected-remark @below {{fused 'exp' with each reader of a part: 'split', 'split'}}
  %e = graph.exp %x : tensor<4x8xf32>
  %a, %b = graph.split %e axis = 1 : (tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  func.return %a, %b : tensor<4x4xf32>, tensor<4x4xf32>
}
