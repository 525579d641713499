"""SSA dominance and the rules of operations: where an error is and what it says, in MLIR's words if it has some."""

from __future__ import annotations

import pytest
from xdsl.dialects.arith import NegfOp

from mlopt.diagnostics import Place, VerifyFailure
from mlopt.ir import make_context, parse_module, print_module, verify_module
from tests.mlir_opt import check_with_mlir_opt


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


def test_unregistered_operations_are_bound_by_no_trait() -> None:
    """One may stand anywhere in a block, end it, and use values from outside in its regions, as in mlir-opt."""
    check(
        """
func.func @f(%a: i32) {
  "x.first"() : () -> ()
  "x.region"() ({
    "x.use"(%a) : (i32) -> ()
    "x.last"() : () -> ()
  }) : () -> ()
  func.return
}
func.func @g() {
  "x.end"() : () -> ()
}"""
    )


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


GENERIC = """
func.func @f(%x: memref<4xindex>) {{
  linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]}}
      outs(%x : memref<4xindex>) {{
  ^bb0(%a: index):
    %i = linalg.index {dim} : index
    linalg.yield %i : index
  }}
  func.return
}}
"""


def test_positions_of_loops_that_are_there() -> None:
    check(GENERIC.format(dim=0))
    for dim in (1, -1):
        assert f"expected a dimension from 0 to 0, found {dim}" in fault(GENERIC.format(dim=dim)).message


GLOBAL = """
memref.global "private" constant @c : memref<2xf32> = dense<1.0>
func.func @f() {{
  %c = memref.get_global @{name} : {type}
  func.return
}}
"""


def test_globals_have_the_type_that_is_read() -> None:
    check(GLOBAL.format(name="c", type="memref<2xf32>"))
    for type in ("memref<2xi32>", "memref<3xf32>", "memref<2xf32, strided<[1], offset: 1>>"):
        assert "expected the type of @c" in fault(GLOBAL.format(name="c", type=type)).message
    assert "there is no memref.global @f" in fault(GLOBAL.format(name="f", type="memref<2xf32>")).message
    assert "there is no memref.global @d" in fault(GLOBAL.format(name="d", type="memref<2xf32>")).message


@pytest.mark.parametrize(
    ("view", "result", "fits"),
    [
        ("subview %x[1, 2] [2, 2] [1, 2]", "memref<2x2xf32, strided<[6, 2], offset: 8>>", True),
        ("subview %x[0, 2] [1, 3] [1, 1]", "memref<3xf32, strided<[1], offset: 2>>", True),
        ("subview %x[%i, 0] [1, 6] [1, 1]", "memref<6xf32, strided<[1], offset: ?>>", True),
        ("subview %x[1, 2] [2, 2] [1, 2]", "memref<2x2xf32>", False),
        ("subview %x[1, 2] [2, 2] [1, 2]", "memref<2x2xf32, strided<[6, 1], offset: 8>>", False),
        ("subview %x[1, 2] [2, 2] [1, 2]", "memref<2x2xf32, strided<[6, 2], offset: 7>>", False),
        ("subview %x[1, 2] [2, 2] [1, 2]", "memref<2x3xf32, strided<[6, 2], offset: 8>>", False),
        ("subview %x[0, 2] [2, 3] [1, 1]", "memref<3xf32, strided<[1], offset: 2>>", False),
        ("subview %x[%i, 0] [1, 6] [1, 1]", "memref<6xf32, strided<[1]>>", False),
        ("reinterpret_cast %x to offset: [0], sizes: [24], strides: [1]", "memref<24xf32>", True),
        ("reinterpret_cast %x to offset: [0], sizes: [2, 3], strides: [3, 1]", "memref<2x3xf32>", True),
        ("reinterpret_cast %x to offset: [0], sizes: [2, 3], strides: [1, 2]", "memref<2x3xf32>", False),
        ("reinterpret_cast %x to offset: [4], sizes: [2], strides: [1]", "memref<2xf32>", False),
    ],
)
def test_views_have_the_layout_of_their_type(view: str, result: str, fits: bool) -> None:
    """As `mlir-opt` has it: the type of a view says where its elements are."""
    text = f"%v = memref.{view} : memref<4x6xf32> to {result}"
    text = f"func.func @f(%x: memref<4x6xf32>, %i: index) {{\n  {text}\n  func.return\n}}"
    if fits:
        check(text)
        check_with_mlir_opt(text)
    else:
        assert (
            "expected a result of sizes" in fault(text).message
            or "result type with size" in fault(text).message
        )


@pytest.mark.parametrize(
    ("slice", "fits"),
    [
        ("extract_slice %x[0, 1, 2] [1, 2, 1] [1, 1, 1] : tensor<1x4x6xf32> to tensor<1x2x1xf32>", True),
        ("extract_slice %x[0, 1, 2] [1, 2, 1] [1, 1, 1] : tensor<1x4x6xf32> to tensor<1x2xf32>", True),
        ("extract_slice %x[0, 1, 2] [1, 2, 1] [1, 1, 1] : tensor<1x4x6xf32> to tensor<2xf32>", True),
        ("extract_slice %x[0, 1, 2] [1, 2, 2] [1, 1, 1] : tensor<1x4x6xf32> to tensor<2x1x2xf32>", False),
        ("extract_slice %x[0, 1, 2] [1, 2, 2] [1, 1, 1] : tensor<1x4x6xf32> to tensor<4xf32>", False),
        ("extract_slice %x[0, 1, 2] [1, 2, 2] [1, 1, 1] : tensor<1x4x6xf32> to tensor<2x2xi32>", False),
        ("extract_slice %x[0, 1] [2, 2] [1, 1] : tensor<1x4x6xf32> to tensor<2x2xf32>", False),
        (
            "insert_slice %p into %x[0, 1, 2] [1, 2, 2] [1, 1, 1] : tensor<2x2xf32> into tensor<1x4x6xf32>",
            True,
        ),
        (
            "insert_slice %p into %x[0, 1, 2] [1, 2, 3] [1, 1, 1] : tensor<2x2xf32> into tensor<1x4x6xf32>",
            False,
        ),
    ],
)
def test_slices_leave_axes_of_one_element_out_and_move_none(slice: str, fits: bool) -> None:
    """As `mlir-opt` has it."""
    text = "func.func @f(%x: tensor<1x4x6xf32>, %p: tensor<2x2xf32>) {\n  %v = tensor.SLICE\n  func.return\n}"
    text = text.replace("SLICE", slice)
    if fits:
        check(text)
        check_with_mlir_opt(text)
    else:
        assert "expected a" in fault(text).message or "expected 3 sizes" in fault(text).message


IF = """
func.func @f(%c: i1, %x: f32) -> f32 {{
  %y = scf.if %c -> (f32) {{
    {then}
  }} {other}
  func.return %y : f32
}}
"""


def test_both_regions_of_an_if_yield_its_results() -> None:
    check(IF.format(then="scf.yield %x : f32", other="else { scf.yield %x : f32 }"))
    message = fault(IF.format(then="scf.yield %x : f32", other="else {}")).message
    assert "expected both regions to yield (f32), found a scf.yield of ()" in message
    message = fault(IF.format(then="scf.yield %c : i1", other="else { scf.yield %x : f32 }")).message
    assert "found a scf.yield of (i1)" in message
    assert "expected an else region" in fault(IF.format(then="scf.yield %x : f32", other="")).message


def test_an_index_has_64_bits() -> None:
    for number in (2**63 - 1, -(2**63)):
        check(f"%a = arith.constant {number} : index")
    for number in (2**63, -(2**63) - 1, 10**30):
        assert f"as an index, found {number}" in fault(f"%a = arith.constant {number} : index").message


@pytest.mark.parametrize("index", [0, 1])
def test_an_operation_that_stands_nowhere_uses_no_value(index: int) -> None:
    """What a pass makes and leaves out is not printed, but would keep an operand from being erased."""
    text = "func.func @f(%x: i32) {\n  %a = arith.constant 1 : i32\n  func.return\n}"
    module = parse_module(text, make_context(), "x.mlir")
    (function,) = module.ops
    (block,) = function.regions[0].blocks
    value, owner, line = [
        (block.args[0], "func.func", 1),
        (next(iter(block.ops)).results[0], "arith.constant", 2),
    ][index]
    left_out = NegfOp(value)
    with pytest.raises(VerifyFailure) as failure:
        verify_module(module)
    assert failure.value.message == f"a value of '{owner}' is used by a 'arith.negf' that stands nowhere"
    assert failure.value.place is not None and failure.value.place.line == line
    left_out.erase()
    verify_module(module)


def test_verification_takes_linear_time() -> None:
    """Ten thousand operations in one chain: a quadratic check would take minutes."""
    lines = ["func.func @f(%v0: f32) -> f32 {"]
    lines += [f"  %v{i + 1} = arith.addf %v{i}, %v0 : f32" for i in range(10_000)]
    lines += ["  func.return %v10000 : f32", "}"]
    module = parse_module("\n".join(lines), make_context())
    verify_module(module)
    assert print_module(module).count("arith.addf") == 10_000
