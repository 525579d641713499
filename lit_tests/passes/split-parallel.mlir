// RUN: mlopt-opt %s --split-input-file --split-parallel | filecheck %s
// RUN: mlopt-opt %s --split-input-file --split-parallel | mlopt-opt - --split-input-file --mlir-print-op-generic | mlopt-opt - --split-input-file --split-parallel | filecheck %s
// RUN: mlopt-opt %s --split-input-file --split-parallel --mlir-pass-statistics 2>&1 >%t | filecheck %s --check-prefix=STATISTICS
// RUN: mlopt-opt %s --split-input-file --split-parallel --remarks=passed,missed --verify-diagnostics
// RUN: mlopt-opt %s --split-input-file --split-parallel --remarks=analysis 2>&1 >%t | filecheck %s --check-prefix=HELD
// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(split-parallel{columns=true})' | filecheck %s --check-prefix=COLUMNS
// RUN: mlopt-opt %s --split-input-file --pass-pipeline='builtin.module(split-parallel{gather-outputs=false})' | filecheck %s --check-prefix=APART
// RUN: mlopt-opt %s --split-input-file --split-parallel --disable-pattern split-pair | filecheck %s --check-prefix=OFF

// The first weight is split by columns with its bias, the second by rows. What comes after the sum is there once.
// CHECK-LABEL: @pair
// CHECK-DAG:     %[[UP0:.*]] = graph.constant {mlopt.way = 0 : i64} dense<{{\[\[}}1.000000e+00, 2.000000e+00]]>
// CHECK-DAG:     %[[BIAS0:.*]] = graph.constant {mlopt.way = 0 : i64} dense<[1.000000e+01, 2.000000e+01]>
// CHECK:         %[[H0:.*]] = graph.linear %x, %[[UP0]], %[[BIAS0]] activation = <relu> {mlopt.way = 0 : i64} : (tensor<3x1xf32>, tensor<1x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %[[DOWN0:.*]] = graph.constant {mlopt.way = 0 : i64} dense<{{\[\[}}5.000000e+00], [6.000000e+00]]>
// CHECK-NEXT:    %[[P0:.*]] = graph.matmul %[[H0]], %[[DOWN0]] {mlopt.way = 0 : i64} : (tensor<3x2xf32>, tensor<2x1xf32>) -> tensor<3x1xf32>
// CHECK-DAG:     %[[UP1:.*]] = graph.constant {mlopt.way = 1 : i64} dense<{{\[\[}}3.000000e+00, 4.000000e+00]]>
// CHECK-DAG:     %[[BIAS1:.*]] = graph.constant {mlopt.way = 1 : i64} dense<[3.000000e+01, 4.000000e+01]>
// CHECK:         %[[H1:.*]] = graph.linear %x, %[[UP1]], %[[BIAS1]] activation = <relu> {mlopt.way = 1 : i64}
// CHECK-NEXT:    %[[DOWN1:.*]] = graph.constant {mlopt.way = 1 : i64} dense<{{\[\[}}7.000000e+00], [8.000000e+00]]>
// CHECK-NEXT:    %[[P1:.*]] = graph.matmul %[[H1]], %[[DOWN1]] {mlopt.way = 1 : i64}
// CHECK-NEXT:    %[[SUM:.*]] = graph.all_reduce %[[P0]], %[[P1]] : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
// CHECK-NEXT:    %[[BIASED:.*]] = graph.add %[[SUM]], %b
// CHECK-NEXT:    %[[Y:.*]] = graph.add %[[BIASED]], %r
// CHECK-NEXT:    %[[Z:.*]] = graph.relu %[[Y]]
// CHECK-NEXT:    func.return %[[Z]]
// HELD: each of 2 ways holds 24 bytes of constants of its own, 0 that all have, and at most 36 of results at once; the whole held 48 and 60
// OFF-LABEL: @pair
// OFF-NOT:     graph.all_reduce
func.func @pair(%x: tensor<3x1xf32>, %r: tensor<3x1xf32>, %b: tensor<1xf32>) -> tensor<3x1xf32> {
  %up = graph.constant dense<[[1.0, 2.0, 3.0, 4.0]]> : tensor<1x4xf32>
  %bias = graph.constant dense<[10.0, 20.0, 30.0, 40.0]> : tensor<4xf32>
  %down = graph.constant dense<[[5.0], [6.0], [7.0], [8.0]]> : tensor<4x1xf32>
  %h = graph.linear %x, %up, %bias activation = <relu> : (tensor<3x1xf32>, tensor<1x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  // expected-remark @below {{split 'linear', 'linear' in 2 ways: 24 bytes of weights each, 1 all_reduce}}
  %y = graph.linear %h, %down, %b residual(%r : tensor<3x1xf32>) activation = <relu> : (tensor<3x4xf32>, tensor<4x1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// -----

// By heads: each way has one of the query, and of key and value. The mask is for both.
// CHECK-LABEL: @heads
// CHECK:         graph.attention {{.*}} mask %m {mlopt.way = 0 : i64} : (tensor<1x3x2xf32>, tensor<1x3x2xf32>, tensor<1x3x2xf32>, tensor<3x3xf32>) -> tensor<1x3x2xf32>
// CHECK:         graph.attention {{.*}} mask %m {mlopt.way = 1 : i64}
// CHECK:         graph.all_reduce
func.func @heads(%x: tensor<3x2xf32>, %k: tensor<2x3x2xf32>, %m: tensor<3x3xf32>) -> tensor<3x1xf32> {
  %wq = graph.constant dense<1.0> : tensor<2x4xf32>
  %wo = graph.constant dense<1.0> : tensor<4x1xf32>
  %q0 = graph.matmul %x, %wq : (tensor<3x2xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %q1 = graph.reshape %q0 : tensor<3x4xf32> to tensor<3x2x2xf32>
  %q = graph.transpose %q1 perm = [1, 0, 2] : (tensor<3x2x2xf32>) -> tensor<2x3x2xf32>
  %a = graph.attention %q, %k, %k mask %m : (tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xf32>, tensor<3x3xf32>) -> tensor<2x3x2xf32>
  %t = graph.transpose %a perm = [1, 0, 2] : (tensor<2x3x2xf32>) -> tensor<3x2x2xf32>
  %o = graph.reshape %t : tensor<3x2x2xf32> to tensor<3x4xf32>
  // expected-remark @below {{split 'matmul', 'matmul' in 2 ways: 24 bytes of weights each, 1 all_reduce}}
  %y = graph.matmul %o, %wo : (tensor<3x4xf32>, tensor<4x1xf32>) -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// -----

// Three heads.
// CHECK-LABEL: @three_heads
// CHECK-NOT:     mlopt.way
func.func @three_heads(%x: tensor<3x2xf32>, %k: tensor<3x3x2xf32>) -> tensor<3x1xf32> {
  %wq = graph.constant dense<1.0> : tensor<2x6xf32>
  %wo = graph.constant dense<1.0> : tensor<6x1xf32>
  // expected-remark @below {{not split: nothing before it is split by columns}}
  %q0 = graph.matmul %x, %wq : (tensor<3x2xf32>, tensor<2x6xf32>) -> tensor<3x6xf32>
  %q1 = graph.reshape %q0 : tensor<3x6xf32> to tensor<3x3x2xf32>
  %q = graph.transpose %q1 perm = [1, 0, 2] : (tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  %a = graph.attention %q, %k, %k : (tensor<3x3x2xf32>, tensor<3x3x2xf32>, tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  %t = graph.transpose %a perm = [1, 0, 2] : (tensor<3x3x2xf32>) -> tensor<3x3x2xf32>
  %o = graph.reshape %t : tensor<3x3x2xf32> to tensor<3x6xf32>
  // expected-remark @below {{not split: the 3 heads of 'attention' are not divisible by 2 ways}}
  %y = graph.matmul %o, %wo : (tensor<3x6xf32>, tensor<6x1xf32>) -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// -----

// What is an output too is gathered, unless that is not wanted.
// CHECK-LABEL: @output
// CHECK:         %[[H:.*]] = graph.all_gather %{{.*}}, %{{.*}} axis = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
// CHECK-NEXT:    %[[Y:.*]] = graph.all_reduce
// CHECK-NEXT:    func.return %[[Y]], %[[H]]
// APART-LABEL: @output
// APART-NOT:     mlopt.way
func.func @output(%x: tensor<3x1xf32>) -> (tensor<3x1xf32>, tensor<3x4xf32>) {
  %up = graph.constant dense<1.0> : tensor<1x4xf32>
  %down = graph.constant dense<1.0> : tensor<4x1xf32>
  %h = graph.matmul %x, %up : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  // expected-remark @below {{in 2 ways: 16 bytes of weights each, 1 all_reduce and 1 all_gather}}
  %y = graph.matmul %h, %down : (tensor<3x4xf32>, tensor<4x1xf32>) -> tensor<3x1xf32>
  func.return %y, %h : tensor<3x1xf32>, tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @used_elsewhere
// CHECK-NOT:     mlopt.way
func.func @used_elsewhere(%x: tensor<3x2xf32>) -> (tensor<3x1xf32>, tensor<3x4xf32>) {
  %up = graph.constant dense<1.0> : tensor<2x4xf32>
  %down = graph.constant dense<1.0> : tensor<4x1xf32>
  // expected-remark @below {{not split: nothing before it is split by columns}}
  %h = graph.matmul %x, %up : (tensor<3x2xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  // expected-remark @below {{not split: the result of 'matmul' is also used by 'neg'}}
  %y = graph.matmul %h, %down : (tensor<3x4xf32>, tensor<4x1xf32>) -> tensor<3x1xf32>
  %n = graph.neg %h : tensor<3x4xf32>
  func.return %y, %n : tensor<3x1xf32>, tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @variable_weight
// CHECK-NOT:     mlopt.way
func.func @variable_weight(%x: tensor<3x1xf32>, %up: tensor<1x4xf32>) -> tensor<3x1xf32> {
  %down = graph.constant dense<1.0> : tensor<4x1xf32>
  %h = graph.matmul %x, %up : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  // expected-remark @below {{not split: the weight of 'matmul' is not constant}}
  %y = graph.matmul %h, %down : (tensor<3x4xf32>, tensor<4x1xf32>) -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// -----

// Three rows. The columns of the second weight could be split, if columns alone are wanted.
// CHECK-LABEL: @odd
// CHECK-NOT:     mlopt.way
// COLUMNS-LABEL: @odd
// COLUMNS:         graph.matmul %{{.*}}, %{{.*}} {mlopt.way = 0 : i64} : (tensor<3x3xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
// COLUMNS:         graph.matmul %{{.*}}, %{{.*}} {mlopt.way = 1 : i64}
// COLUMNS-NEXT:    graph.all_gather %{{.*}}, %{{.*}} axis = 1 : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
func.func @odd(%x: tensor<3x1xf32>) -> tensor<3x2xf32> {
  %up = graph.constant dense<1.0> : tensor<1x3xf32>
  %down = graph.constant dense<1.0> : tensor<3x2xf32>
  // expected-remark @below {{not split: the rows of the weight of 'matmul', 1, are not divisible by 2 ways}}
  %h = graph.matmul %x, %up : (tensor<3x1xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  // expected-remark @below {{not split: the rows of the weight of 'matmul', 3, are not divisible by 2 ways}}
  %y = graph.matmul %h, %down : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// STATISTICS:      (S) 1 all-gathers
// STATISTICS-NEXT: (S) 1 all-reduces
// STATISTICS-NEXT: (S) 1 pairs-split
// STATISTICS-NEXT: (S) 2 products-split
