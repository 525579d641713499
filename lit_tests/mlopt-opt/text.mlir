// RUN: mlopt-opt %s | filecheck %s
// RUN: mlopt-opt %s | mlopt-opt - | filecheck %s
// RUN: mlopt-opt %s --mlir-elide-elementsattrs-if-larger=4 | filecheck %s --check-prefix=ELIDE
// RUN: mlopt-opt %s --mlir-print-op-generic | mlopt-opt | filecheck %s
// RUN: mlopt-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=DEBUG

// CHECK:       %mask = arith.constant dense<[0xFF800000, 0.000000e+00, -0.000000e+00, 0x4B800000, 0x7FC00000]> : tensor<5xf32>
// CHECK-NEXT:  %half = arith.constant dense<[0xFC00, 6.550400e+04]> : tensor<2xf16>
// CHECK-NEXT:  %bits = arith.constant dense<"0x55555555555555555555555555555555"> : tensor<128xi1>
// CHECK-NEXT:  %splat = arith.constant dense<0x7F800000> : tensor<8xf32>
// CHECK-NEXT:  %big = arith.constant dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>
// CHECK-NEXT:  %resource = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>

// ELIDE:       %mask = arith.constant dense_resource<__elided__> : tensor<5xf32>
// ELIDE-NEXT:  %half = arith.constant dense<[0xFC00, 6.550400e+04]> : tensor<2xf16>
// ELIDE-NEXT:  %bits = arith.constant dense_resource<__elided__> : tensor<128xi1>
// ELIDE-NEXT:  %splat = arith.constant dense<0x7F800000> : tensor<8xf32>

// DEBUG:       tensor<5xf32> loc("mask")
// DEBUG-NEXT:  tensor<2xf16> loc("{{.*}}text.mlir":23:9)

%mask = arith.constant dense<[0xFF800000, 0.0, -0.0, 16777216.0, 0x7FC00000]> : tensor<5xf32> loc("mask")
%half = arith.constant dense<[0xFC00, 65504.0]> : tensor<2xf16>
%bits = arith.constant dense<"0x55555555555555555555555555555555"> : tensor<128xi1>
%splat = arith.constant dense<0x7F800000> : tensor<8xf32>
%big = arith.constant dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>
%resource = arith.constant dense_resource<w> : tensor<2xf32>

{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}
