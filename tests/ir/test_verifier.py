"""SSA dominance and the rules of operations: where an error is and what it says, in MLIR's words if it has some."""

from __future__ import annotations

import pytest

from mlopt.diagnostics import Place, VerifyFailure
from mlopt.ir import make_context, parse_module, print_module, verify_module


def check(text: str) -> None:
    verify_module(parse_module(text, make_context(allow_unregistered=True), "x.mlir"))


def fault(text: str) -> VerifyFailure:
    with pytest.raises(VerifyFailure) as failure:
        check(text)
    assert "\n" not in failure.value.message
    return failure.value


def test_use_before_definition_in_a_block() -> None:
    error = fault(
        "func.func @f() {\n  %b = arith.addi %a, %a : i32\n  %a = arith.constant 1 : i32\n  func.return\n}"
    )
    assert error.message == "operand #0 (%a) does not dominate this use"
    assert error.place == Place("x.mlir", 2, 8)
    assert error.notes[0].message == "operand defined here (op in the same block)"
    assert error.notes[0].place == Place("x.mlir", 3, 8)


def test_an_operation_does_not_dominate_itself() -> None:
    fault("func.func @f() {\n  %a = arith.addi %a, %a : i32\n  func.return\n}")


DIAMOND = """
func.func @f(%c: i1, %x: i32) -> i32 {{
  cf.cond_br %c, ^a, ^b
^a:
  %u = arith.addi %x, %x : i32
  cf.br ^c(%u : i32)
^b:
  %v = arith.addi %{b}, %x : i32
  cf.br ^c(%v : i32)
^c(%p: i32):
  %w = arith.addi %{c}, %x : i32
  func.return %w : i32
}}
"""


def test_dominance_across_blocks() -> None:
    check(DIAMOND.format(b="x", c="p"))
    assert fault(DIAMOND.format(b="u", c="p")).message == "operand #0 (%u) does not dominate this use"
    assert fault(DIAMOND.format(b="x", c="u")).message == "operand #0 (%u) does not dominate this use"
    assert fault(DIAMOND.format(b="p", c="p")).notes[0].message == "operand defined as a block argument here"


def test_a_loop_of_blocks() -> None:
    loop = """
    func.func @f(%c: i1, %x: i32) {{
      cf.br ^head(%x : i32)
    ^head(%i: i32):
      %n = arith.addi %i, %x : i32
      cf.cond_br %c, ^head({0} : i32), ^out
    ^out:
      %m = arith.addi %n, %x : i32
      func.return
    }}
    """
    check(loop.format("%n"))
    fault(loop.format("%m"))


def test_an_unreachable_block_is_not_held_to_dominance() -> None:
    check(
        """
        func.func @f(%x: i32) {
          func.return
        ^dead:
          %b = arith.addi %a, %x : i32
          cf.br ^dead2
        ^dead2:
          %a = arith.addi %x, %x : i32
          cf.br ^dead
        }"""
    )


def test_nested_regions_see_what_dominates_them_and_nothing_of_their_insides() -> None:
    text = """
    func.func @f(%c: i1, %x: i32) {{
      {0}
      scf.if %c {{
        %in = arith.addi %x, %late : i32
      }}
      {1}
      func.return
    }}
    """
    late = "%late = arith.constant 1 : i32"
    check(text.format(late, ""))
    assert fault(text.format("", late)).message == "operand #1 (%late) does not dominate this use"


def test_a_value_from_inside_a_region_is_not_visible_outside() -> None:
    text = """
    func.func @f(%c: i1) {
      scf.if %c {
        %in = arith.constant 1 : i32
      }
      %b = arith.addi %in, %in : i32
      func.return
    }"""
    with pytest.raises(Exception, match="undeclared SSA value name %in"):
        check(text)


def test_isolated_regions_use_nothing_from_outside() -> None:
    error = fault(
        "%a = arith.constant 1 : i32\nfunc.func @f() {\n  %b = arith.addi %a, %a : i32\n  func.return\n}"
    )
    assert error.message == "'arith.addi' op using value defined outside the region"
    assert error.notes[0].message == "required by region isolation constraints"
    assert error.notes[0].place == Place("x.mlir", 2, 1)


def test_the_body_of_a_module_is_held_to_dominance() -> None:
    fault("%b = arith.addi %a, %a : i32\n%a = arith.constant 1 : i32")


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ('\n%a = "arith.addi"() : () -> i32', "'arith.addi' op Expected 2 operands, but got 0", 2),
        ("func.func @f() -> i32 {\n  func.return\n}", "'func.return' op ", 2),
        ("func.func @f() {\n  %a = arith.constant 1 : i32\n}", "'arith.constant' op ends a block", 2),
        ("func.func @f() {\n  func.return\n  func.return\n}", "must be the last operation in its block", 2),
        ("func.func @f() {\n  func.call @g() : () -> ()\n  func.return\n}", "'func.call' op ", 2),
    ],
)
def test_rules_of_operations(text: str, message: str, line: int) -> None:
    error = fault(text)
    assert message in error.message
    assert error.place is not None and error.place.line == line


def test_verification_takes_linear_time() -> None:
    """Ten thousand operations in one chain: a quadratic check would take minutes."""
    lines = ["func.func @f(%v0: f32) -> f32 {"]
    lines += [f"  %v{i + 1} = arith.addf %v{i}, %v0 : f32" for i in range(10_000)]
    lines += ["  func.return %v10000 : f32", "}"]
    module = parse_module("\n".join(lines), make_context())
    verify_module(module)
    assert print_module(module).count("arith.addf") == 10_000
