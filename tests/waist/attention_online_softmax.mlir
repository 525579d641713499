// Attention of 7 queries over 12 keys, tiled over blocks of 4 keys with an online softmax: m (row maxima), l (row
// sums) and acc (weighted values) are carried from block to block and rescaled when the maximum grows.
func.func @main(%q: tensor<7x6xf32> {mlopt.name = "q"}, %k: tensor<12x6xf32> {mlopt.name = "k"},
                %v: tensor<12x5xf32> {mlopt.name = "v"}) -> (tensor<7x5xf32> {mlopt.name = "y"}) {
  %e = tensor.empty() : tensor<7x5xf32>
  %y = kernel.launch @attention ins(%q, %k, %v : tensor<7x6xf32>, tensor<12x6xf32>, tensor<12x5xf32>) outs(%e : tensor<7x5xf32>) {
  ^bb0(%Q: tensor<7x6xf32>, %K: tensor<12x6xf32>, %V: tensor<12x5xf32>, %O: tensor<7x5xf32>):
    %zero = arith.constant 0.000000e+00 : f32
    %ninf = arith.constant 0xFF800000 : f32
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c12 = arith.constant 12 : index
    %em = tensor.empty() : tensor<7xf32>
    %m0 = kernel.fill %ninf : f32 outs(%em : tensor<7xf32>)
    %el = tensor.empty() : tensor<7xf32>
    %l0 = kernel.fill %zero : f32 outs(%el : tensor<7xf32>)
    %a0 = kernel.fill %zero : f32 outs(%O : tensor<7x5xf32>)
    %m, %l, %acc = scf.for %j = %c0 to %c12 step %c4 iter_args(%mi = %m0, %li = %l0, %ai = %a0) -> (tensor<7xf32>, tensor<7xf32>, tensor<7x5xf32>) {
      %Kj = tensor.extract_slice %K[%j, 0] [4, 6] [1, 1] : tensor<12x6xf32> to tensor<4x6xf32>
      %Vj = tensor.extract_slice %V[%j, 0] [4, 5] [1, 1] : tensor<12x5xf32> to tensor<4x5xf32>
      %es = tensor.empty() : tensor<7x4xf32>
      %s0 = kernel.fill %zero : f32 outs(%es : tensor<7x4xf32>)
      %s = kernel.contract bounds [i = 7, t = 4, d = 6] ins(%Q[i, d], %Kj[t, d] : tensor<7x6xf32>, tensor<4x6xf32>) outs(%s0[i, t] : tensor<7x4xf32>)
      %en = tensor.empty() : tensor<7xf32>
      %copy = kernel.map bounds [i = 7] ins(%mi[i] : tensor<7xf32>) outs(%en[i] : tensor<7xf32>) {
      ^bb0(%a: f32, %o: f32):
        kernel.yield %a : f32
      }
      %mn = kernel.reduce bounds [i = 7, t = 4] ins(%s[i, t] : tensor<7x4xf32>) outs(%copy[i] : tensor<7xf32>) {
      ^bb0(%a: f32, %o: f32):
        %r = arith.maximumf %o, %a : f32
        kernel.yield %r : f32
      }
      %p = kernel.map bounds [i = 7, t = 4] ins(%mn[i] : tensor<7xf32>) outs(%s[i, t] : tensor<7x4xf32>) {
      ^bb0(%a: f32, %o: f32):
        %d = arith.subf %o, %a : f32
        %r = math.exp %d : f32
        kernel.yield %r : f32
      }
      %ec = tensor.empty() : tensor<7xf32>
      %scale = kernel.map bounds [i = 7] ins(%mi[i], %mn[i] : tensor<7xf32>, tensor<7xf32>) outs(%ec[i] : tensor<7xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %d = arith.subf %a, %b : f32
        %r = math.exp %d : f32
        kernel.yield %r : f32
      }
      %ls = kernel.map bounds [i = 7] ins(%scale[i] : tensor<7xf32>) outs(%li[i] : tensor<7xf32>) {
      ^bb0(%a: f32, %o: f32):
        %r = arith.mulf %o, %a : f32
        kernel.yield %r : f32
      }
      %ln = kernel.reduce bounds [i = 7, t = 4] ins(%p[i, t] : tensor<7x4xf32>) outs(%ls[i] : tensor<7xf32>) {
      ^bb0(%a: f32, %o: f32):
        %r = arith.addf %o, %a : f32
        kernel.yield %r : f32
      }
      %as = kernel.map bounds [i = 7, d = 5] ins(%scale[i] : tensor<7xf32>) outs(%ai[i, d] : tensor<7x5xf32>) {
      ^bb0(%a: f32, %o: f32):
        %r = arith.mulf %o, %a : f32
        kernel.yield %r : f32
      }
      %an = kernel.contract bounds [i = 7, d = 5, t = 4] ins(%p[i, t], %Vj[t, d] : tensor<7x4xf32>, tensor<4x5xf32>) outs(%as[i, d] : tensor<7x5xf32>)
      scf.yield %mn, %ln, %an : tensor<7xf32>, tensor<7xf32>, tensor<7x5xf32>
    }
    %y = kernel.map bounds [i = 7, d = 5] ins(%l[i] : tensor<7xf32>) outs(%acc[i, d] : tensor<7x5xf32>) {
    ^bb0(%a: f32, %o: f32):
      %r = arith.divf %o, %a : f32
      kernel.yield %r : f32
    }
    kernel.yield %y : tensor<7x5xf32>
  } -> tensor<7x5xf32>
  return %y : tensor<7x5xf32>
}
