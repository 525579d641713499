// RUN: mlopt-opt %s --fold-batch-norm --remarks --verify-diagnostics

func.func @conv(%x: tensor<1x1x4xf32>, %v: tensor<1x1x1xf32>, %s: tensor<1xf32>) -> (tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>) {
  %w = graph.constant dense<2.0> : tensor<1x1x1xf32>
  %one = graph.constant dense<1.0> : tensor<1xf32>
  %zero = graph.constant dense<0.0> : tensor<1xf32>
  %0 = graph.conv %x, %w : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32> loc("stem")
  // expected-remark @below {{[fold-batch-norm] folded 'batch_norm' into 'conv' (stem)}}
  %a = graph.batch_norm %0, %one, %zero, %zero, %one epsilon = 0.0 : (tensor<1x1x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4xf32>

  %1 = graph.conv %a, %w : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32> loc("twice")
  // expected-remark @+2 {{folded 'batch_norm' into a multiplication and an addition}}
  // expected-remark @below {{not folded into what is before it: the result of 'conv' (twice) is also a graph output}}
  %b = graph.batch_norm %1, %one, %zero, %zero, %one epsilon = 0.0 : (tensor<1x1x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4xf32>

  %2 = graph.conv %a, %v : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
  // expected-remark @+2 {{folded 'batch_norm' into a multiplication and an addition}}
  // expected-remark @below {{not folded into what is before it: the weight of 'conv' is not constant}}
  %c = graph.batch_norm %2, %one, %zero, %zero, %one epsilon = 0.0 : (tensor<1x1x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4xf32>

  // expected-remark @below {{not folded: its scale is not constant}}
  %d = graph.batch_norm %x, %s, %zero, %zero, %one epsilon = 0.0 : (tensor<1x1x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4xf32>
  // expected-remark @below {{not folded: a parameter of the result would not be finite}}
  %e = graph.batch_norm %x, %one, %zero, %zero, %zero epsilon = 0.0 : (tensor<1x1x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4xf32>
  func.return %1, %b, %c, %d, %e : tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>, tensor<1x1x4xf32>
}

func.func @matmul(%x: tensor<2x2x2xf32>, %y: tensor<2x2xf32>) -> (tensor<2x2x2xf32>, tensor<2x2xf32>) {
  %w = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %one = graph.constant dense<1.0> : tensor<2xf32>
  %zero = graph.constant dense<0.0> : tensor<2xf32>
  %0 = graph.matmul %x, %w : (tensor<2x2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x2xf32>
  // expected-remark @+2 {{folded 'batch_norm' into a multiplication and an addition}}
  // expected-remark @below {{not folded into what is before it: dimension 1 is not what the weight of 'matmul' brings in}}
  %a = graph.batch_norm %0, %one, %zero, %zero, %one epsilon = 0.0 : (tensor<2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
  %1 = graph.matmul %y, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = graph.add %1, %one : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  // expected-remark @below {{folded 'batch_norm' into 'matmul'}}
  %b = graph.batch_norm %2, %one, %zero, %zero, %one epsilon = 0.0 : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  func.return %a, %b : tensor<2x2x2xf32>, tensor<2x2xf32>
}
