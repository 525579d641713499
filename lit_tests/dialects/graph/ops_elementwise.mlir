// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt --mlir-print-op-generic %s | mlopt-opt - | filecheck %s

// The elementwise operations print as they are read, also through the generic form.

// CHECK-LABEL: @abs(
// CHECK-NEXT: %y = graph.abs %x : tensor<2x3xf32>
func.func @abs(%x: tensor<2x3xf32>) {
  %y = graph.abs %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @add(
// CHECK-NEXT: %y = graph.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @add(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @and(
// CHECK-NEXT: %y = graph.and %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
func.func @and(%a: tensor<2x3xi1>, %b: tensor<3xi1>) {
  %y = graph.and %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @cast(
// CHECK-NEXT: %y = graph.cast %x : tensor<2x3xf32> to tensor<2x3xi32>
func.func @cast(%x: tensor<2x3xf32>) {
  %y = graph.cast %x : tensor<2x3xf32> to tensor<2x3xi32>
  func.return
}

// CHECK-LABEL: @ceil(
// CHECK-NEXT: %y = graph.ceil %x : tensor<2x3xf32>
func.func @ceil(%x: tensor<2x3xf32>) {
  %y = graph.ceil %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @clip(
// CHECK-NEXT: %y = graph.clip %x min(%lo : tensor<f32>) max(%hi : tensor<f32>) : tensor<2x3xf32>
func.func @clip(%x: tensor<2x3xf32>, %lo: tensor<f32>, %hi: tensor<f32>) {
  %y = graph.clip %x min(%lo : tensor<f32>) max(%hi : tensor<f32>) : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @clip_6(
// CHECK-NEXT: %y = graph.clip %x max(%hi : tensor<bf16>) : tensor<4xbf16>
func.func @clip_6(%x: tensor<4xbf16>, %hi: tensor<bf16>) {
  %y = graph.clip %x max(%hi : tensor<bf16>) : tensor<4xbf16>
  func.return
}

// CHECK-LABEL: @clip_7(
// CHECK-NEXT: %y = graph.clip %x : tensor<4xui8>
func.func @clip_7(%x: tensor<4xui8>) {
  %y = graph.clip %x : tensor<4xui8>
  func.return
}

// CHECK-LABEL: @cos(
// CHECK-NEXT: %y = graph.cos %x : tensor<2x3xf32>
func.func @cos(%x: tensor<2x3xf32>) {
  %y = graph.cos %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @div(
// CHECK-NEXT: %y = graph.div %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @div(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.div %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @equal(
// CHECK-NEXT: %y = graph.equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
func.func @equal(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @erf(
// CHECK-NEXT: %y = graph.erf %x : tensor<2x3xf32>
func.func @erf(%x: tensor<2x3xf32>) {
  %y = graph.erf %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @exp(
// CHECK-NEXT: %y = graph.exp %x : tensor<2x3xf32>
func.func @exp(%x: tensor<2x3xf32>) {
  %y = graph.exp %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @floor(
// CHECK-NEXT: %y = graph.floor %x : tensor<2x3xf32>
func.func @floor(%x: tensor<2x3xf32>) {
  %y = graph.floor %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @gelu(
// CHECK-NEXT: %y = graph.gelu %x approximate = "tanh" : tensor<2x3xf32>
func.func @gelu(%x: tensor<2x3xf32>) {
  %y = graph.gelu %x approximate = "tanh" : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @gelu_15(
// CHECK-NEXT: %y = graph.gelu %x : tensor<f32>
func.func @gelu_15(%x: tensor<f32>) {
  %y = graph.gelu %x : tensor<f32>
  func.return
}

// CHECK-LABEL: @greater_equal(
// CHECK-NEXT: %y = graph.greater_equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
func.func @greater_equal(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.greater_equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @greater(
// CHECK-NEXT: %y = graph.greater %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
func.func @greater(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.greater %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @hard_sigmoid(
// CHECK-NEXT: %y = graph.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<2x3xf32>
func.func @hard_sigmoid(%x: tensor<2x3xf32>) {
  %y = graph.hard_sigmoid %x alpha = 2.000000e-01 beta = 5.000000e-01 : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @hard_swish(
// CHECK-NEXT: %y = graph.hard_swish %x : tensor<2x3xf32>
func.func @hard_swish(%x: tensor<2x3xf32>) {
  %y = graph.hard_swish %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @is_inf(
// CHECK-NEXT: %y = graph.is_inf %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
func.func @is_inf(%x: tensor<2x3xf32>) {
  %y = graph.is_inf %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @is_nan(
// CHECK-NEXT: %y = graph.is_nan %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
func.func @is_nan(%x: tensor<2x3xf32>) {
  %y = graph.is_nan %x : (tensor<2x3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @swish(
// CHECK-NEXT: %y = graph.swish %x alpha = 1.702000e+00 : tensor<2x3xf32>
func.func @swish(%x: tensor<2x3xf32>) {
  %y = graph.swish %x alpha = 1.702 : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @leaky_relu(
// CHECK-NEXT: %y = graph.leaky_relu %x alpha = 1.000000e-02 : tensor<2x3xf32>
func.func @leaky_relu(%x: tensor<2x3xf32>) {
  %y = graph.leaky_relu %x alpha = 1.000000e-02 : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @less_equal(
// CHECK-NEXT: %y = graph.less_equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
func.func @less_equal(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.less_equal %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @less(
// CHECK-NEXT: %y = graph.less %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
func.func @less(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.less %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @log(
// CHECK-NEXT: %y = graph.log %x : tensor<2x3xf32>
func.func @log(%x: tensor<2x3xf32>) {
  %y = graph.log %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @max(
// CHECK-NEXT: %y = graph.max %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @max(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.max %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @min(
// CHECK-NEXT: %y = graph.min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @min(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.min %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @mod(
// CHECK-NEXT: %y = graph.mod %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
func.func @mod(%a: tensor<4xi64>, %b: tensor<4xi64>) {
  %y = graph.mod %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  func.return
}

// CHECK-LABEL: @mod_29(
// CHECK-NEXT: %z = graph.mod %c, %d fmod : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func @mod_29(%c: tensor<4xf32>, %d: tensor<4xf32>) {
  %z = graph.mod %c, %d fmod : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// CHECK-LABEL: @mul(
// CHECK-NEXT: %y = graph.mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @mul(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.mul %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @neg(
// CHECK-NEXT: %y = graph.neg %x : tensor<2x3xf32>
func.func @neg(%x: tensor<2x3xf32>) {
  %y = graph.neg %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @not(
// CHECK-NEXT: %y = graph.not %x : tensor<2x3xi1>
func.func @not(%x: tensor<2x3xi1>) {
  %y = graph.not %x : tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @or(
// CHECK-NEXT: %y = graph.or %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
func.func @or(%a: tensor<2x3xi1>, %b: tensor<3xi1>) {
  %y = graph.or %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @pow(
// CHECK-NEXT: %y = graph.pow %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
func.func @pow(%a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = graph.pow %a, %b : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @reciprocal(
// CHECK-NEXT: %y = graph.reciprocal %x : tensor<2x3xf32>
func.func @reciprocal(%x: tensor<2x3xf32>) {
  %y = graph.reciprocal %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @relu(
// CHECK-NEXT: %y = graph.relu %x : tensor<2x3xf32>
func.func @relu(%x: tensor<2x3xf32>) {
  %y = graph.relu %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @round(
// CHECK-NEXT: %y = graph.round %x : tensor<2x3xf32>
func.func @round(%x: tensor<2x3xf32>) {
  %y = graph.round %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @sigmoid(
// CHECK-NEXT: %y = graph.sigmoid %x : tensor<2x3xf32>
func.func @sigmoid(%x: tensor<2x3xf32>) {
  %y = graph.sigmoid %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @sign(
// CHECK-NEXT: %y = graph.sign %x : tensor<2x3xf32>
func.func @sign(%x: tensor<2x3xf32>) {
  %y = graph.sign %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @sin(
// CHECK-NEXT: %y = graph.sin %x : tensor<2x3xf32>
func.func @sin(%x: tensor<2x3xf32>) {
  %y = graph.sin %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @sqrt(
// CHECK-NEXT: %y = graph.sqrt %x : tensor<2x3xf32>
func.func @sqrt(%x: tensor<2x3xf32>) {
  %y = graph.sqrt %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @sub(
// CHECK-NEXT: %y = graph.sub %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
func.func @sub(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  %y = graph.sub %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @tanh(
// CHECK-NEXT: %y = graph.tanh %x : tensor<2x3xf32>
func.func @tanh(%x: tensor<2x3xf32>) {
  %y = graph.tanh %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @where(
// CHECK-NEXT: %y = graph.where %c, %a, %b : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
func.func @where(%c: tensor<2x1xi1>, %a: tensor<2x3xf32>, %b: tensor<f32>) {
  %y = graph.where %c, %a, %b : (tensor<2x1xi1>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: @xor(
// CHECK-NEXT: %y = graph.xor %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
func.func @xor(%a: tensor<2x3xi1>, %b: tensor<3xi1>) {
  %y = graph.xor %a, %b : (tensor<2x3xi1>, tensor<3xi1>) -> tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: @narrow_types(
// CHECK-NEXT: %0 = graph.cast %x : tensor<2xf32> to tensor<2xi4>
// CHECK-NEXT: %1 = graph.cast %0 : tensor<2xi4> to tensor<2xui2>
// CHECK-NEXT: %2 = graph.cast %x saturate round_mode = "down" : tensor<2xf32> to tensor<2xf8E8M0FNU>
// CHECK-NEXT: %3 = graph.cast %x round_mode = "nearest" : tensor<2xf32> to tensor<2xf8E8M0FNU>
// CHECK-NEXT: %4 = graph.constant dense<[-8, 7, -1]> : tensor<3xi4>
// CHECK-NEXT: %5 = graph.constant dense<[15, 0]> : tensor<2xui4>
// CHECK-NEXT: %6 = graph.constant dense<1> : tensor<4xi2>
func.func @narrow_types(%x: tensor<2xf32>) {
  %0 = graph.cast %x : tensor<2xf32> to tensor<2xi4>
  %1 = graph.cast %0 : tensor<2xi4> to tensor<2xui2>
  %2 = graph.cast %x saturate round_mode = "down" : tensor<2xf32> to tensor<2xf8E8M0FNU>
  %3 = graph.cast %x round_mode = "nearest" : tensor<2xf32> to tensor<2xf8E8M0FNU>
  %4 = graph.constant dense<"0xF807FF"> : tensor<3xi4>
  %5 = graph.constant dense<[15, 0]> : tensor<2xui4>
  %6 = graph.constant dense<1> : tensor<4xi2>
  func.return
}
