// An ONNX Loop with a carried tensor, as it stands at the kernel level: at most `trips` times
// acc = 0.5 * acc + x, while the largest element of acc stays below `limit`.
func.func @main(%x: tensor<3x5xf32> {mlopt.name = "x"}, %trips: tensor<i64> {mlopt.name = "trips"},
                %limit: tensor<f32> {mlopt.name = "limit"}) -> (tensor<3x5xf32> {mlopt.name = "acc"}, tensor<i64> {mlopt.name = "count"}) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %true = arith.constant true
  %max_trips = tensor.extract %trips[] : tensor<i64>
  %last, %keep, %acc = scf.while (%i = %zero, %go = %true, %a = %x) : (i64, i1, tensor<3x5xf32>) -> (i64, i1, tensor<3x5xf32>) {
    %more = arith.cmpi slt, %i, %max_trips : i64
    %continue = arith.andi %more, %go : i1
    scf.condition(%continue) %i, %go, %a : i64, i1, tensor<3x5xf32>
  } do {
  ^bb0(%i: i64, %go: i1, %a: tensor<3x5xf32>):
    %e0 = tensor.empty() : tensor<3x5xf32>
    %next = kernel.launch @step ins(%a, %x : tensor<3x5xf32>, tensor<3x5xf32>) outs(%e0 : tensor<3x5xf32>) {
    ^bb0(%A: tensor<3x5xf32>, %X: tensor<3x5xf32>, %O: tensor<3x5xf32>):
      %half = arith.constant 5.000000e-01 : f32
      %0 = kernel.map bounds [m = 3, n = 5] ins(%A[m, n], %X[m, n] : tensor<3x5xf32>, tensor<3x5xf32>) outs(%O[m, n] : tensor<3x5xf32>) {
      ^bb0(%p: f32, %q: f32, %o: f32):
        %1 = arith.mulf %p, %half : f32
        %2 = arith.addf %1, %q : f32
        kernel.yield %2 : f32
      }
      kernel.yield %0 : tensor<3x5xf32>
    } -> tensor<3x5xf32>
    %e1 = tensor.empty() : tensor<i1>
    %below = kernel.launch @max_below ins(%next, %limit : tensor<3x5xf32>, tensor<f32>) outs(%e1 : tensor<i1>) {
    ^bb0(%A: tensor<3x5xf32>, %L: tensor<f32>, %O: tensor<i1>):
      %ninf = arith.constant 0xFF800000 : f32
      %e2 = tensor.empty() : tensor<f32>
      %0 = kernel.fill %ninf : f32 outs(%e2 : tensor<f32>)
      %1 = kernel.reduce bounds [m = 3, n = 5] ins(%A[m, n] : tensor<3x5xf32>) outs(%0[] : tensor<f32>) {
      ^bb0(%p: f32, %o: f32):
        %2 = arith.maximumf %o, %p : f32
        kernel.yield %2 : f32
      }
      %3 = kernel.map bounds [] ins(%1[], %L[] : tensor<f32>, tensor<f32>) outs(%O[] : tensor<i1>) {
      ^bb0(%p: f32, %l: f32, %o: i1):
        %4 = arith.cmpf olt, %p, %l : f32
        kernel.yield %4 : i1
      }
      kernel.yield %3 : tensor<i1>
    } -> tensor<i1>
    %go_on = tensor.extract %below[] : tensor<i1>
    %j = arith.addi %i, %one : i64
    scf.yield %j, %go_on, %next : i64, i1, tensor<3x5xf32>
  }
  %e3 = tensor.empty() : tensor<i64>
  %count = kernel.fill %last : i64 outs(%e3 : tensor<i64>)
  return %acc, %count : tensor<3x5xf32>, tensor<i64>
}
