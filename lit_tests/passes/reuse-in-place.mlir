// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,fuse-kernels,reuse-in-place)' | filecheck %s
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,reuse-in-place)' | filecheck %s --check-prefix=APART
// RUN: mlopt-opt %s --pass-pipeline='builtin.module(convert-graph-to-kernel,reuse-in-place)' --remarks -o %t 2>&1 | filecheck %s --check-prefix=REMARK

// In a launch: the product is built in the result, and the map behind it overwrites it.
// CHECK-LABEL: func.func @in_launch
// CHECK: kernel.launch @matmul_add ins(%x, %w, %b : {{.*}}) outs(%[[e:.*]] : tensor<4x6xf32>) {
// CHECK: ^bb0(%{{.*}}, %[[b:.*]]: tensor<6xf32>, %[[O:.*]]: tensor<4x6xf32>):
// CHECK-NOT: tensor.empty
// CHECK: %[[z:.*]] = kernel.fill %{{.*}} : f32 outs(%[[O]] : tensor<4x6xf32>)
// CHECK-NEXT: %m = kernel.contract bounds [m = 4, n = 6, k = 8] ins({{.*}}) outs(%[[z]][m, n] : tensor<4x6xf32>)
// CHECK-NEXT: %[[y:.*]] = kernel.map bounds [d0 = 4, d1 = 6] ins(%[[b]][d1] : tensor<6xf32>) outs(%m[d0, d1] : tensor<4x6xf32>) {
// CHECK-NEXT: ^bb0(%[[p:.*]]: f32, %[[old:.*]]: f32):
// CHECK-NEXT: arith.addf %[[old]], %[[p]] : f32
// CHECK: kernel.yield %[[y]] : tensor<4x6xf32>
func.func @in_launch(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.add %m, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

// Between launches: the softmax overwrites the scores, which it reads whole rows of before it writes any.
// CHECK-LABEL: func.func @between_launches
// CHECK: %m = kernel.launch @matmul
// CHECK: %y = kernel.launch @softmax outs(%m : tensor<4x6xf32>) {
// CHECK: ^bb0(%O: tensor<4x6xf32>):
// CHECK: kernel.reduce bounds [{{.*}}] ins(%O[
// APART: %y = kernel.launch @softmax outs(%m : tensor<4x6xf32>) {
func.func @between_launches(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %m = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %y = graph.softmax %m axis = 1 : tensor<4x6xf32>
  func.return %y : tensor<4x6xf32>
}

// A view of it is read later: not in place (APART; fused, there is one launch only).
// CHECK-LABEL: func.func @alias
// CHECK: kernel.launch @exp_neg_add
// APART-LABEL: func.func @alias
// APART: %b = kernel.launch @neg ins(%a : tensor<2x3xf32>)
// APART: %y = kernel.launch @add ins(%c : tensor<6xf32>) outs(%f : tensor<6xf32>)
func.func @alias(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %a = graph.exp %x : tensor<2x3xf32>
  %f = graph.reshape %a : tensor<2x3xf32> to tensor<6xf32>
  %b = graph.neg %a : tensor<2x3xf32>
  %c = graph.reshape %b : tensor<2x3xf32> to tensor<6xf32>
  %y = graph.add %f, %c : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  func.return %y : tensor<6xf32>
}

// What a loop carries is updated in place in its body.
// CHECK-LABEL: func.func @loop
// CHECK: scf.for %{{.*}} iter_args(%b = %x)
// CHECK-NEXT: kernel.launch @add ins(%x : tensor<4xf32>) outs(%b : tensor<4xf32>) {
func.func @loop(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%b = %x) -> (tensor<4xf32>) {
    %d = graph.add %b, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %d : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// A donated input is overwritten, if the result is not returned as another output than the one it is donated to.
// CHECK-LABEL: func.func @donated
// CHECK: %a = kernel.launch @exp outs(%x : tensor<4xf32>) {
// CHECK: kernel.launch @tanh ins(%z : tensor<4xf32>) outs(%{{.*}} : tensor<4xf32>) {
func.func @donated(%x: tensor<4xf32> {mlopt.name = "x", mlopt.donated = {output = "a"}}, %z: tensor<4xf32> {mlopt.name = "z", mlopt.donated = {output = "a"}})
    -> (tensor<4xf32> {mlopt.name = "a"}, tensor<4xf32> {mlopt.name = "b"}) {
  %a = graph.exp %x : tensor<4xf32>
  %b = graph.tanh %z : tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// REMARK: reuse-in-place.mlir:18:8: remark: [reuse-in-place] reused in place: 'add' overwrites '%m'
// REMARK: reuse-in-place.mlir:31:8: remark: [reuse-in-place] reused in place: 'softmax' overwrites '%m'
// REMARK: reuse-in-place.mlir:42:8: remark: [reuse-in-place] not reused in place: '%x' by 'exp': it is an argument of the function
// REMARK: reuse-in-place.mlir:44:8: remark: [reuse-in-place] not reused in place: '%a' by 'neg': it, or what shares its memory, is also read by 'add'
// REMARK: reuse-in-place.mlir:46:8: remark: [reuse-in-place] reused in place: 'add' overwrites '%f'
// REMARK: reuse-in-place.mlir:58:10: remark: [reuse-in-place] reused in place: 'add' overwrites '%b'
// REMARK: reuse-in-place.mlir:70:8: remark: [reuse-in-place] reused in place: 'exp' overwrites '%x'
// REMARK: reuse-in-place.mlir:71:8: remark: [reuse-in-place] not reused in place: '%z' by 'tanh': "z" is donated to "a", and it would be "b"
