// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the graph verifiers.

func.func @main(%x: tensor<?x3xf32>) {
  // expected-error @below {{expected a static shape, found tensor<?x3xf32>}}
  %y = graph.relu %x : tensor<?x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi1>) {
  // expected-error @below {{expected floating-point or signed integer elements for the operand, found tensor<3xi1>}}
  %y = graph.relu %x : tensor<3xi1>
  func.return
}

// -----

func.func @main(%x: tensor<3xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the operand, found tensor<3xi32>}}
  %y = graph.erf %x : tensor<3xi32>
  func.return
}

// -----

func.func @main(%x: tensor<3xsi8>) {
  // expected-error @below {{expected floating-point or integer elements for the operand, found tensor<3xsi8>}}
  %y = graph.abs %x : tensor<3xsi8>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected integer or i1 elements for the operand, found tensor<3xf32>}}
  %y = graph.not %x : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected approximate = "none" or "tanh", found "quick"}}
  %y = graph.gelu %x approximate = "quick" : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the operand, found tensor<3xi32>}}
  %y = graph.is_nan %x : (tensor<3xi32>) -> tensor<3xi1>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected result type tensor<3xi1>, found tensor<3xf32>}}
  %y = graph.is_nan %x : (tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  // expected-error @below {{expected shapes that broadcast to one shape, found [2, 3] and [2]}}
  %y = graph.add %a, %b : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>, %b: tensor<3xf16>) {
  // expected-error @below {{expected f32 elements for the right operand, found tensor<3xf16>}}
  %y = graph.add %a, %b : (tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x1xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{expected result type tensor<2x3xf32>, found tensor<2x1xf32>}}
  %y = graph.add %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>) {
  // expected-error @below {{expected integer or i1 elements for the left operand, found tensor<3xf32>}}
  %y = graph.and %a, %a : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>) {
  // expected-error @below {{expected 'saturate' only to floats of 8 bits or fewer, found it to tensor<3xf16>}}
  %y = graph.cast %a saturate : tensor<3xf32> to tensor<3xf16>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>) {
  // expected-error @below {{expected a round_mode to tensor<3xf8E8M0FNU>, "up", "down" or "nearest", found none}}
  %y = graph.cast %a : tensor<3xf32> to tensor<3xf8E8M0FNU>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>) {
  // expected-error @below {{expected a round_mode to tensor<3xf8E8M0FNU>, "up", "down" or "nearest", found "even"}}
  %y = graph.cast %a round_mode = "even" : tensor<3xf32> to tensor<3xf8E8M0FNU>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>) {
  // expected-error @below {{expected a round_mode only to f8E8M0FNU, found it to tensor<3xi4>}}
  %y = graph.cast %a round_mode = "up" : tensor<3xf32> to tensor<3xi4>
  func.return
}

// -----

func.func @main(%a: tensor<3xi3>) {
  // expected-error @below {{expected integer, i1 or floating-point elements for the operand, found tensor<3xi3>}}
  %y = graph.cast %a : tensor<3xi3> to tensor<3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>) {
  // expected-error @below {{expected integer, i1 or floating-point elements for the result, found tensor<3xcomplex<f32>>}}
  %y = graph.cast %a : tensor<3xf32> to tensor<3xcomplex<f32>>
  func.return
}

// -----

func.func @main(%c: tensor<3xi8>, %a: tensor<3xf32>) {
  // expected-error @below {{expected i1 elements for the condition, found tensor<3xi8>}}
  %y = graph.where %c, %a, %a : (tensor<3xi8>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%c: tensor<3xi1>, %a: tensor<3xf32>, %b: tensor<3xf64>) {
  // expected-error @below {{expected f32 elements for the false value, found tensor<3xf64>}}
  %y = graph.where %c, %a, %b : (tensor<3xi1>, tensor<3xf32>, tensor<3xf64>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %lo: tensor<1xf32>) {
  // expected-error @below {{expected shape [] for a bound, found tensor<1xf32>}}
  %y = graph.clip %x min(%lo : tensor<1xf32>) : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %lo: tensor<f64>) {
  // expected-error @below {{expected f32 elements for a bound, found tensor<f64>}}
  %y = graph.clip %x max(%lo : tensor<f64>) : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // expected-error @below {{expected shape [3] for the result, found tensor<4xi32>}}
  %y = graph.cast %x : tensor<3xf32> to tensor<4xi32>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected dense<...> or #mlopt.weight<"...">, found}}
  %y = graph.constant 1.0 : f32 : tensor<f32>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected delta of the type of start, i64, found i32}}
  %y = graph.range start = 0 : i64 delta = 1 : i32 length = 3 : tensor<3xi64>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected a length of 0 or more, found -1}}
  %y = graph.range start = 0 : i64 delta = 1 : i64 length = -1 : tensor<3xi64>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected a number, found "a"}}
  %y = graph.range start = "a" delta = 1 : i64 length = 1 : tensor<1xi64>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected 0 <= start <= end <= 2, found start 2 and end 1}}
  %y = graph.shape %x start = 2 end = 1 : (tensor<2x3xf32>) -> tensor<1xi64>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<4x2xf32>) {
  // expected-error @below {{expected equal inner dimensions, found tensor<2x3xf32> and tensor<4x2xf32>}}
  %y = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<f32>, %b: tensor<3xf32>) {
  // expected-error @below {{expected rank 1 or more for the left operand, found tensor<f32>}}
  %y = graph.matmul %a, %b : (tensor<f32>, tensor<3xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @main(%a: tensor<2x2x3xf32>, %b: tensor<3x3x2xf32>) {
  // expected-error @below {{expected shapes that broadcast to one shape, found [2] and [3]}}
  %y = graph.matmul %a, %b : (tensor<2x2x3xf32>, tensor<3x3x2xf32>) -> tensor<2x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4xf32>, %w: tensor<2x4xf32>) {
  // expected-error @below {{expected an input of rank 3 to 5, found tensor<1x4xf32>}}
  %y = graph.conv %x, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<2x4x3x3xf32>) {
  // expected-error @below {{expected a weight of the input's rank 3, found tensor<2x4x3x3xf32>}}
  %y = graph.conv %x, %w : (tensor<1x4x5xf32>, tensor<2x4x3x3xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<2x4x3xf32>) {
  // expected-error @below {{expected 2 groups to divide 2 features, and 4 channels into groups of 4}}
  %y = graph.conv %x, %w group = 2 : (tensor<1x4x5xf32>, tensor<2x4x3xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<2x4x3xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{expected shape [2] for the bias, found tensor<4xf32>}}
  %y = graph.conv %x, %w, %b : (tensor<1x4x5xf32>, tensor<2x4x3xf32>, tensor<4xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<2x4x3xf32>) {
  // expected-error @below {{expected 1 strides of 1 or more, found [0]}}
  %y = graph.conv %x, %w strides = [0] : (tensor<1x4x5xf32>, tensor<2x4x3xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<2x4x3xf32>) {
  // expected-error @below {{expected 2 pads of 0 or more, found [1]}}
  %y = graph.conv %x, %w pads = [1] : (tensor<1x4x5xf32>, tensor<2x4x3xf32>) -> tensor<1x2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x2xf32>, %w: tensor<2x4x3xf32>) {
  // expected-error @below {{expected spatial sizes of at least the window's extent [3] with padding, found [2]}}
  %y = graph.conv %x, %w : (tensor<1x4x2xf32>, tensor<2x4x3xf32>) -> tensor<1x2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x2xf32>, %w: tensor<2x4x0xf32>) {
  // expected-error @below {{expected a kernel of 1 or more in each dimension, found [0]}}
  %y = graph.conv %x, %w : (tensor<1x4x2xf32>, tensor<2x4x0xf32>) -> tensor<1x2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>) {
  // expected-error @below {{expected a kernel of rank 1, found [2, 2]}}
  %y = graph.max_pool %x kernel = [2, 2] : (tensor<1x4x5xf32>) -> tensor<1x4x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>) {
  // expected-error @below {{expected pads below the window's extent [2], found [2, 0]}}
  %y = graph.max_pool %x kernel = [2] pads = [2, 0] : (tensor<1x4x5xf32>) -> tensor<1x4x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the input, found tensor<1x4x5xi32>}}
  %y = graph.average_pool %x kernel = [2] : (tensor<1x4x5xi32>) -> tensor<1x4x4xi32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x5xf32>, %p: tensor<4xf32>, %q: tensor<5xf32>) {
  // expected-error @below {{expected shape [4] for the mean, found tensor<5xf32>}}
  %y = graph.batch_norm %x, %p, %p, %q, %p epsilon = 1.000000e-05 : (tensor<1x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4xf32>) -> tensor<1x4x5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected rank 2 or more for the input, found tensor<4xf32>}}
  %y = graph.batch_norm %x, %x, %x, %x, %x epsilon = 1.000000e-05 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [2, 3] for the scale, found tensor<2xf32>}}
  %y = graph.layer_norm %x, %s axis = 1 epsilon = 1.000000e-05 : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{expected an axis in [0, 2), found 2}}
  %y = graph.rms_norm %x, %s axis = 2 epsilon = 1.000000e-05 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected an axis in [0, 2), found -1}}
  %y = graph.softmax %x axis = -1 : tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected ascending axes without repetition, found [1, 0]}}
  %y = graph.reduce_sum %x axes = [1, 0] : (tensor<2x3xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xi1>) {
  // expected-error @below {{expected floating-point or integer elements for the operand, found tensor<2x3xi1>}}
  %y = graph.reduce_max %x axes = [1] : (tensor<2x3xi1>) -> tensor<2xi1>
  func.return
}

// -----

func.func @main(%x: tensor<2x0xf32>) {
  // expected-error @below {{expected at least one element along axis 1, found tensor<2x0xf32>}}
  %y = graph.arg_max %x axis = 1 : (tensor<2x0xf32>) -> tensor<2xi64>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected a result of 6 elements, found tensor<7xf32>}}
  %y = graph.reshape %x : tensor<2x3xf32> to tensor<7xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected f32 elements for the result, found tensor<6xf16>}}
  %y = graph.reshape %x : tensor<2x3xf32> to tensor<6xf16>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected a permutation of 2 axes, found [0, 0]}}
  %y = graph.transpose %x perm = [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error @below {{expected operand 1 to be like tensor<2x3xf32> but for axis 0, found tensor<2x4xf32>}}
  %y = graph.concat %a, %b axis = 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // expected-error @below {{expected f32 elements for operand 1, found tensor<2xf64>}}
  %y = graph.concat %a, %b axis = 0 : (tensor<2xf32>, tensor<2xf64>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected at least one operand, found none}}
  %y = graph.concat axis = 0 : () -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4x3xf32>) {
  // expected-error @below {{expected results of 4 in all along axis 0, found [1, 2]}}
  %a, %b = graph.split %x axis = 0 : (tensor<4x3xf32>) -> (tensor<1x3xf32>, tensor<2x3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<4x3xf32>) {
  // expected-error @below {{expected results of the sizes of tensor<4x3xf32> but for axis 0, found tensor<2x2xf32>}}
  %a, %b = graph.split %x axis = 0 : (tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<2x2xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<4x3xf32>) {
  // expected-error @below {{expected 2 starts, stops and steps, found 1, 1 and 2}}
  %y = graph.slice %x starts = [0] stops = [1] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected start and stop in [0, 4] and a step other than 0 for size 4, found start 0, stop 5, step 1}}
  %y = graph.slice %x starts = [0] stops = [5] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{expected start and stop in [-1, 3] and a step other than 0 for size 4, found start 4, stop -1, step -1}}
  %y = graph.slice %x starts = [4] stops = [-1] steps = [-1] : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [2, 1, 3] for the operand, found tensor<2x3xf32>}}
  %y = graph.expand %x : tensor<2x3xf32> to tensor<2x1x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{expected 1 numbers for low and high, found 2 and 1}}
  %y = graph.pad %x low = [1, 1] high = [0] value = 0.000000e+00 : f32 : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{expected a value of type f32, found 0 : i32}}
  %y = graph.pad %x low = [1] high = [0] value = 0 : i32 : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // expected-error @below {{expected a result of sizes 0 or more, found [-1]}}
  %y = graph.pad %x low = [-1] high = [-2] value = 0.000000e+00 : f32 : (tensor<2xf32>) -> tensor<0xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>, %i: tensor<1xi8>) {
  // expected-error @below {{expected i32 or i64 elements for the indices, found tensor<1xi8>}}
  %y = graph.gather %x, %i axis = 0 : (tensor<2xf32>, tensor<1xi8>) -> tensor<1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<3x1xi64>) {
  // expected-error @below {{expected indices within tensor<2x3xf32> but for axis 1, found tensor<3x1xi64>}}
  %y = graph.gather_elements %x, %i axis = 1 : (tensor<2x3xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<5x3xi64>) {
  // expected-error @below {{expected index tuples of}}
  %y = graph.gather_nd %x, %i : (tensor<2x3xf32>, tensor<5x3xi64>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<1x1xi64>) {
  // expected-error @below {{expected 1 equal batch dimensions, found tensor<2x3xf32> and tensor<1x1xi64>}}
  %y = graph.gather_nd %x, %i batch_dims = 1 : (tensor<2x3xf32>, tensor<1x1xi64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %i: tensor<2xi64>) {
  // expected-error @below {{expected batch_dims in [0, 1), found 1}}
  %y = graph.gather_nd %x, %i batch_dims = 1 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the operand, found tensor<3xi32>}}
  %y = graph.swish %x alpha = 1.0 : tensor<3xi32>
  func.return
}

// -----

func.func @main(%x: tensor<7xf32>, %c: tensor<3xf32>) {
  // expected-error @below {{expected an even last dimension, found tensor<7xf32>}}
  %y = graph.rotary_embedding %x, %c, %c : (tensor<7xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<7xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8xf32>, %c: tensor<4xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{expected a shape that broadcasts to [4] for the operand sin, found tensor<8xf32>}}
  %y = graph.rotary_embedding %x, %c, %s : (tensor<8xf32>, tensor<4xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<8xi32>, %c: tensor<4xi32>) {
  // expected-error @below {{expected floating-point elements (f16, bf16, f32, f64) for the input, found tensor<8xi32>}}
  %y = graph.rotary_embedding %x, %c, %c : (tensor<8xi32>, tensor<4xi32>, tensor<4xi32>) -> tensor<8xi32>
  func.return
}

// -----

func.func @main(%x: tensor<f32>) {
  // expected-error @below {{rank}}
  %y = graph.rotary_embedding %x, %x, %x : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

func.func @main(%x: tensor<8xf32>, %c: tensor<4xf16>) {
  // expected-error @below {{the operand cos}}
  %y = graph.rotary_embedding %x, %c, %c : (tensor<8xf32>, tensor<4xf16>, tensor<4xf16>) -> tensor<8xf32>
  func.return
}
