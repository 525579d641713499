// RUN: mlopt-opt %s --split-input-file --fuse-rotary --dce --mlir-pass-statistics 2>&1 | filecheck %s
// RUN: mlopt-opt %s --split-input-file --fuse-rotary --remarks --verify-diagnostics

// The angles of a pair are one: half of the cosines and sines is computed.
// CHECK-LABEL: @rotated_sum
// CHECK-NEXT:    %cos = graph.cos %angles : tensor<3x2xf32>
// CHECK-NEXT:    %sin = graph.sin %angles : tensor<3x2xf32>
// CHECK-NEXT:    %y = graph.rotary_embedding %x, %cos, %sin : (tensor<2x3x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:    func.return %y
func.func @rotated_sum(%x: tensor<2x3x4xf32>, %angles: tensor<3x2xf32>) -> tensor<2x3x4xf32> {
  %twice = graph.concat %angles, %angles axis = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %cos = graph.cos %twice : tensor<3x4xf32>
  %sin = graph.sin %twice : tensor<3x4xf32>
  %0 = graph.mul %x, %cos : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %1 = graph.slice %x starts = [0, 0, 0] stops = [2, 3, 2] : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
  %2 = graph.slice %x starts = [0, 0, 2] stops = [2, 3, 4] : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
  %3 = graph.neg %2 : tensor<2x3x2xf32>
  %4 = graph.concat %3, %1 axis = 2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %5 = graph.mul %4, %sin : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  // expected-remark @below {{[fuse-rotary] fused 'slice', 'slice', 'neg', 'concat', 'mul', 'mul', 'add' into 'rotary_embedding'}}
  %y = graph.add %0, %5 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: @neighbours
// CHECK-NEXT:    %y = graph.rotary_embedding %x, %cos, %sin interleaved :
// CHECK-NEXT:    func.return %y
func.func @neighbours(%x: tensor<3x4xf32>, %cos: tensor<3x2xf32>, %sin: tensor<2xf32>) -> tensor<3x4xf32> {
  %a = graph.slice %x starts = [0, 0] stops = [3, 4] steps = [1, 2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %b = graph.slice %x starts = [0, 1] stops = [3, 4] steps = [1, 2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %0 = graph.mul %a, %cos : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %1 = graph.mul %b, %sin : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %2 = graph.sub %0, %1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %3 = graph.mul %sin, %a : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %4 = graph.mul %b, %cos : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %5 = graph.add %3, %4 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %6 = graph.reshape %2 : tensor<3x2xf32> to tensor<3x2x1xf32>
  %7 = graph.reshape %5 : tensor<3x2xf32> to tensor<3x2x1xf32>
  %8 = graph.concat %6, %7 axis = 2 : (tensor<3x2x1xf32>, tensor<3x2x1xf32>) -> tensor<3x2x2xf32>
  // expected-remark @below {{into 'rotary_embedding'}}
  %y = graph.reshape %8 : tensor<3x2x2xf32> to tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @unequal_tables
// CHECK-NOT:     graph.rotary_embedding
func.func @unequal_tables(%x: tensor<3x4xf32>, %cos: tensor<3x4xf32>, %sin: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = graph.mul %x, %cos : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %1, %2 = graph.split %x axis = 1 : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  %3 = graph.neg %2 : tensor<3x2xf32>
  %4 = graph.concat %3, %1 axis = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %5 = graph.mul %4, %sin : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  // expected-remark @below {{not fused: the cosines of the two numbers of a pair are not known to be equal}}
  %y = graph.add %0, %5 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @output
// CHECK-NOT:     graph.rotary_embedding
func.func @output(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %table = graph.constant dense<[1.0, 2.0, 1.0, 2.0]> : tensor<4xf32>
  %0 = graph.mul %x, %table : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %1, %2 = graph.split %x axis = 1 : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  %3 = graph.neg %2 : tensor<3x2xf32>
  %4 = graph.concat %3, %1 axis = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32> loc("turned")
  %5 = graph.mul %4, %table : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  // expected-remark @below {{not fused: the result of 'concat' (turned) is also a graph output}}
  %y = graph.add %0, %5 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %y, %4 : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// Integers are not turned.
// CHECK-LABEL: @integers
// CHECK-NOT:     graph.rotary_embedding
func.func @integers(%x: tensor<3x4xi32>) -> tensor<3x4xi32> {
  %table = graph.constant dense<[1, 2, 1, 2]> : tensor<4xi32>
  %0 = graph.mul %x, %table : (tensor<3x4xi32>, tensor<4xi32>) -> tensor<3x4xi32>
  %1, %2 = graph.split %x axis = 1 : (tensor<3x4xi32>) -> (tensor<3x2xi32>, tensor<3x2xi32>)
  %3 = graph.neg %2 : tensor<3x2xi32>
  %4 = graph.concat %3, %1 axis = 1 : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x4xi32>
  %5 = graph.mul %4, %table : (tensor<3x4xi32>, tensor<4xi32>) -> tensor<3x4xi32>
  %y = graph.add %0, %5 : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi32>
  func.return %y : tensor<3x4xi32>
}

// CHECK: (S) 1 rotary-embeddings-fused
