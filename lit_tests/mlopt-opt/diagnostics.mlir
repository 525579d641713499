// RUN: mlopt-opt %s --split-input-file --verify-diagnostics
// RUN: not mlopt-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK:      diagnostics.mlir:10:8: error: operand #0 (%a) does not dominate this use
// CHECK-NEXT: {{^  }}%b = arith.addi %a, %a : i32
// CHECK-NEXT: {{^       \^$}}
// CHECK-NEXT: diagnostics.mlir:12:8: note: operand defined here (op in the same block)
func.func @use_before_definition() {
  // expected-error @below {{operand #0 (%a) does not dominate this use}}
  %b = arith.addi %a, %a : i32
  // expected-note @below {{operand defined here (op in the same block)}}
  %a = arith.constant 1 : i32
  func.return
}

// -----

func.func @undeclared() {
  // expected-error @+1 {{use of undeclared SSA value name %nope}}
  %b = arith.addi %nope, %nope : i32
  func.return
}

// -----

func.func @outer(%x: i32) {
  func.func @inner() -> i32 {
    func.return %x : i32
    // expected-error @above {{using value defined outside the region}}
    // expected-note @-3 {{required by region isolation constraints}}
  }
  func.return
}

// -----

"arith.addi"() : () -> () // expected-error-re {{'arith.addi' op {{.*}} 2 operands}}

// -----

foo.bar // expected-error {{dialect 'foo' of operation 'foo.bar' is not registered}}
