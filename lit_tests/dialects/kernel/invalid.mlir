// RUN: mlopt-opt %s --split-input-file --verify-diagnostics

// Every message of the kernel dialect's verifiers and parsers.

// The text of bounds and accesses.

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{dimension 'i' is named twice}}
  %y = kernel.map bounds [i = 4, i = 2] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{'j' is not a dimension of the bounds}}
  %y = kernel.map bounds [i = 4] ins(%x[j] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

// The iteration space and its accesses.

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{1 bounds but 2 dimension names}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4>, dim_names = ["i", "j"], indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], pads = [unit],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{two dimensions have the same name}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4, 1>, dim_names = ["i", "i"], indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>], pads = [unit],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{bounds must not be negative, found [-4]}}
  %y = kernel.map bounds [i = -4] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{'kernel.map' needs at least one out}}
  kernel.map bounds [i = 4] ins(%x[i] : tensor<4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{2 operands but 1 index maps}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4>, dim_names = ["i"], indexing_maps = [affine_map<(d0) -> (d0)>], pads = [unit],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{1 ins but 0 pads}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4>, dim_names = ["i"], indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], pads = [],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{index map (d0) -> ((d0 mod 2)) is not linear in the iteration dimensions}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4>, dim_names = ["i"], indexing_maps = [affine_map<(d0) -> (d0 mod 2)>, affine_map<(d0) -> (d0)>], pads = [unit],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{index map of ins 0 has 2 dimensions, the bounds have 1}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4>, dim_names = ["i"], indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0) -> (d0)>], pads = [unit],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{outs 0 of type tensor<4xf32> has 1 axes but is indexed by 2}}
  %y = kernel.map bounds [i = 4] ins(%x[i] : tensor<4xf32>) outs(%e[i, 0] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4x4xf32>) {
  // expected-error @below {{outs 0: an out must be indexed by at most one dimension per axis, each dimension once}}
  %y = kernel.map bounds [i = 4] ins(%x[i] : tensor<4xf32>) outs(%e[i, i] : tensor<4x4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{outs 0: an out must be indexed by at most one dimension per axis, each dimension once}}
  %y = kernel.map bounds [i = 2, j = 2] ins(%x[i] : tensor<4xf32>) outs(%e[2 * i + j] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{ins 0: pad value 0 : i32 is no number of element type f32}}
  %y = kernel.map bounds [i = 4] ins(%x[i + 1] pad 0 : i32 : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{ins 0: axis 0 of size 4 is accessed from 1 to 4, which is out of bounds}}
  %y = kernel.map bounds [i = 4] ins(%x[i + 1] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{outs 0: axis 0 of size 4 is accessed from -1 to 2, which is out of bounds}}
  %y = kernel.map bounds [i = 4] ins(%x[i] : tensor<4xf32>) outs(%e[2 - i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{'kernel.map' results must have the types of the outs}}
  %y = "kernel.map"(%x, %e) <{bounds = array<i64: 4>, dim_names = ["i"], indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], pads = [unit],
    operandSegmentSizes = array<i32: 1, 1>}> ({
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi32>
  func.return
}

// -----

// Bodies.

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{body arguments must be the elements of ins and outs (f32, f32), found (f32)}}
  %y = kernel.map bounds [i = 4] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{the body must end with kernel.yield of f32}}
  %y = kernel.map bounds [i = 4] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a, %a : f32, f32
  }
  func.return
}

// -----

// Kinds of structured ops.

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{outs 0 of a map must use every dimension, but does not use j (a reduction is a kernel.reduce)}}
  %y = kernel.map bounds [i = 4, j = 2] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{a reduce needs a dimension that no out uses (otherwise it is a kernel.map)}}
  %y = kernel.reduce bounds [i = 4] ins(%x[i] : tensor<4xf32>) outs(%e[i] : tensor<4xf32>) {
  ^bb0(%a: f32, %old: f32):
    kernel.yield %a : f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4x4xf32>, %e: tensor<4xf32>) {
  // expected-error @below {{all outs of a reduce must use the same dimensions}}
  %y, %z = kernel.reduce bounds [i = 4, j = 4, k = 2] ins(%x[i, j] : tensor<4x4xf32>) outs(%e[i], %e[j] : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    kernel.yield %a, %a : f32, f32
  }
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<f32>) {
  // expected-error @below {{a contract has two ins and one out, found 1 and 1}}
  %y = kernel.contract bounds [k = 4] ins(%x[k] : tensor<4xf32>) outs(%e[] : tensor<f32>)
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>, %e: tensor<f16>) {
  // expected-error @below {{a contract of f32 and f32 can't accumulate in f16}}
  %y = kernel.contract bounds [k = 4] ins(%x[k], %x[k] : tensor<4xf32>, tensor<4xf32>) outs(%e[] : tensor<f16>)
  func.return
}

// -----

func.func @main(%x: tensor<4xi32>, %e: tensor<f32>) {
  // expected-error @below {{a contract of i32 and i32 can't accumulate in f32}}
  %y = kernel.contract bounds [k = 4] ins(%x[k], %x[k] : tensor<4xi32>, tensor<4xi32>) outs(%e[] : tensor<f32>)
  func.return
}

// -----

func.func @main(%x: tensor<4xi8>, %w: tensor<4xf16>, %e: tensor<i32>) {
  // expected-error @below {{a contract of i8 and f16 can't accumulate in i32}}
  %y = kernel.contract bounds [k = 4] ins(%x[k], %w[k] : tensor<4xi8>, tensor<4xf16>) outs(%e[] : tensor<i32>)
  func.return
}

// -----

// fill

func.func @main(%z: f32, %e: tensor<4xi32>) {
  // expected-error @below {{a tensor of i32 can't be filled with a value of type f32}}
  %y = kernel.fill %z : f32 outs(%e : tensor<4xi32>)
  func.return
}

// -----

func.func @main(%z: f32, %e: tensor<4xf32>) {
  // expected-error @below {{the result must have the type of the out}}
  %y = "kernel.fill"(%z, %e) : (f32, tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%z: f32, %e: tensor<4xf32>) {
  // expected-error @below {{a fill has one out, found 2}}
  %y = kernel.fill %z : f32 outs(%e, %e : tensor<4xf32>, tensor<4xf32>)
  func.return
}

// -----

// copy

func.func @copy_space(%x: tensor<4xf32>) {
  // expected-error @below {{a memory space can't be negative, found -1}}
  %y = kernel.copy %x to -1 : tensor<4xf32>
  func.return
}

// -----

func.func @copy_use(%x: tensor<4xf32>) {
  // expected-error @below {{what lies in memory space 1 is used by copies alone, found 'kernel.reshape'}}
  %y = kernel.copy %x to 1 : tensor<4xf32>
  %z = kernel.reshape %y : tensor<4xf32> to tensor<2x2xf32>
  func.return
}

// -----

func.func @copy_type(%x: tensor<4xf32>) {
  // expected-error @below {{a copy has the type of what it copies, found tensor<4xf32> and tensor<5xf32>}}
  %y = "kernel.copy"(%x) <{space = 1 : i64}> : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

// reshape

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{a reshape keeps the element type, found f32 and i32}}
  %y = kernel.reshape %x : tensor<4xf32> to tensor<2x2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{a reshape keeps the number of elements, found 4 and 5}}
  %y = kernel.reshape %x : tensor<4xf32> to tensor<5xf32>
  func.return
}

// -----

// launch and call

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{the results of 'f' must have the types of its outs}}
  %y = kernel.launch @f outs(%x : tensor<4xf32>) {
  ^bb0(%O: tensor<4xf32>):
    kernel.yield %O : tensor<4xf32>
  } -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{the region of launch 'f' must take the ins and outs (tensor<4xf32>, tensor<4xf32>), found (tensor<4xf32>)}}
  %y = kernel.launch @f ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%O: tensor<4xf32>):
    kernel.yield %O : tensor<4xf32>
  } -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{the region of launch 'f' must yield tensor<4xf32>}}
  %y = kernel.launch @f outs(%x : tensor<4xf32>) {
  ^bb0(%O: tensor<4xf32>):
    kernel.yield
  } -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{the results of 'mlopt_rt_sort' must have the types of its outs}}
  %y = kernel.call @mlopt_rt_sort outs(%x : tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // expected-error @below {{a run-time function is named mlopt_rt_..., found 'sort'}}
  %y = kernel.call @sort outs(%x : tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// constant and index

func.func @main() {
  // expected-error @below {{a constant of type tensor<2xi64> can't be of type tensor<3xi64>}}
  %y = "kernel.constant"() {value = dense<1> : tensor<2xi64>} : () -> tensor<3xi64>
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{expected dense<...> or #mlopt.weight<...>, found "text"}}
  %y = kernel.constant "text"
  func.return
}

// -----

func.func @main() {
  // expected-error @below {{kernel.index stands only in the body of a structured op}}
  %y = kernel.index 0
  func.return
}

// -----

func.func @main(%e: tensor<4xindex>) {
  %y = kernel.map bounds [i = 4] outs(%e[i] : tensor<4xindex>) {
  ^bb0(%old: index):
    // expected-error @below {{dimension 1 is none of the 1 of the iteration space}}
    %i = kernel.index 1
    kernel.yield %i : index
  }
  func.return
}
