// RUN: mlopt-opt %s --fold-constants=max-growth=0 --remarks=missed --verify-diagnostics
// RUN: mlopt-opt %s --fold-constants=max-growth=1 --remarks=missed -o %t 2>&1 | filecheck %s

// A result of up to 64 KiB is folded anyway. With a greater limit only the division is left.
// CHECK-NOT: concat
// CHECK: remark: [fold-constants] not folded: 'div': it divides an integer by zero
// CHECK-NOT: concat
func.func @f(%i: tensor<i32>) -> (tensor<128x256xf32>, tensor<i32>) {
  %c = graph.constant dense<1.0> : tensor<64x1xf32>
  %e = graph.expand %c : tensor<64x1xf32> to tensor<64x256xf32>
  // expected-remark @below {{not folded: 'concat': its result of 131072 bytes is above the limit of 65536}}
  %f = graph.concat %e, %e axis = 0 : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<128x256xf32>
  %seven = graph.constant dense<7> : tensor<i32>
  %zero = graph.constant dense<0> : tensor<i32>
  // expected-remark @below {{[fold-constants] not folded: 'div': it divides an integer by zero}}
  %d = graph.div %seven, %zero : (tensor<i32>, tensor<i32>) -> tensor<i32>
  func.return %f, %d : tensor<128x256xf32>, tensor<i32>
}
