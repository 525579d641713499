"""What replaces slow spots of xDSL does the same: formats that are read late, counts of operands, text that is kept."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.dialects import arith
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.printer import Printer

from mlopt.diagnostics import VerifyFailure
from mlopt.ir import make_context, parse_module, print_module, verify_module
from mlopt.ir.printer import MloptPrinter
from mlopt.ir.registration import DIALECTS
from mlopt.ir.xdsl_speed import DeferredFormat


@pytest.mark.parametrize("name", DIALECTS)
def test_every_format_can_be_read(name: str) -> None:
    """A faulty one would be noticed only when its operation is first printed."""
    for op in make_context().get_dialect(name).operations:
        definition = op.get_irdl_definition() if issubclass(op, IRDLOperation) else None
        if definition is not None and definition.assembly_format is not None:
            program = FormatProgram.from_str(definition.assembly_format, definition)
            assert isinstance(program, DeferredFormat)
            assert program.stmts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"arith.addf"(%x) : (f32) -> f32', "'arith.addf' op Expected 2 operands, but got 1"),
        (
            '"arith.addf"(%x, %x) : (f32, f32) -> ()',
            "'arith.addf' op Expected 1 result, but got 0",
        ),
        (
            '"arith.addf"(%x, %i) : (f32, i32) -> f32',
            "operand 'rhs' at position 1 does not verify",
        ),
        ('"arith.addf"(%x, %x) ({}) : (f32, f32) -> f32', "Expected 0 regions, but got 1"),
        (
            '"memref.alloc"() <{operandSegmentSizes = array<i32: 1, 0>}> : () -> memref<2xf32>',
            "operand count (0) does not match with the total size (1)",
        ),
        (
            '"memref.alloc"() <{operandSegmentSizes = array<i32: 0>}> : () -> memref<2xf32>',
            "expected 2 values",
        ),
    ],
)
def test_what_is_wrong_is_said_by_xdsl(text: str, message: str) -> None:
    module = parse_module(f"func.func @f(%x: f32, %i: i32) {{\n{text}\nfunc.return\n}}", make_context())
    with pytest.raises(VerifyFailure) as failure:
        verify_module(module)
    assert message in failure.value.message


@pytest.mark.parametrize("text", ["", "fc1/MatMul", 'a"b', "a\\b", "tab\t", "line\nline", "\x7f", "ä", "~ }"])
def test_string_literals(text: str) -> None:
    streams = StringIO(), StringIO()
    MloptPrinter(streams[0]).print_string_literal(text)
    Printer(streams[1]).print_string_literal(text)
    assert streams[0].getvalue() == streams[1].getvalue()


def test_a_location_inside_another_has_its_own_text() -> None:
    """Whichever of the two is printed first."""
    lines = ['  %0 = arith.constant 1 : i32 loc("a")', '  %1 = arith.constant 1 : i32 loc(fused["b", "a"])']
    for order in (lines, lines[::-1]):
        body = "\n".join(order) + '\n  %2 = arith.constant 1 : i32 loc("b"("a"))'
        printed = print_module(
            parse_module(f"builtin.module {{\n{body}\n}} loc(unknown)", make_context()), debuginfo=True
        )
        assert [line.partition(" loc(")[2] for line in printed.splitlines()[1:4]] == [
            line.partition(" loc(")[2] for line in body.splitlines()
        ]


NESTED = """
func.func @f(%c: i1) {
  scf.if %c {
    %0 = arith.constant 1 : i32
    scf.if %c { %1 = arith.constant 2 : i32 } else { %2 = arith.constant 3 : i32 }
  } else {
    %3 = arith.constant 4 : i32
  }
  cf.cond_br %c, ^a, ^b
^a:
  %4 = arith.constant 5 : i32
  func.return
^b:
  func.return
}
"""


def _recursive_walk(op: Operation, *, reverse: bool, region_first: bool) -> list[Operation]:
    """The order as xDSL defines it."""
    found: list[Operation] = []
    for region in reversed(op.regions) if reverse else op.regions:
        for block in reversed(region.blocks) if reverse else region.blocks:
            for child in reversed(block.ops) if reverse else block.ops:
                found += _recursive_walk(child, reverse=reverse, region_first=region_first)
    return [*found, op] if region_first else [op, *found]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("region_first", [False, True])
def test_walks_are_in_order(reverse: bool, region_first: bool) -> None:
    module = parse_module(NESTED, make_context())
    walked = list(module.walk(reverse=reverse, region_first=region_first))
    assert len(walked) == 16
    assert walked == _recursive_walk(module, reverse=reverse, region_first=region_first)


def test_an_operation_may_be_erased_while_it_is_walked_over() -> None:
    module = parse_module(NESTED, make_context())
    erased = 0
    for op in module.walk():
        if op.name == "arith.constant":
            op.detach()
            op.erase()
            erased += 1
    assert erased == 5
    assert not [op for op in module.walk() if op.name == "arith.constant"]


def test_what_an_operation_gets_while_it_is_visited_is_visited() -> None:
    module = parse_module(NESTED, make_context())
    visited: list[str] = []
    for op in module.walk():
        visited.append(op.name)
        if op.name == "scf.if" and len(visited) == 3:
            block = op.regions[0].block
            assert block.first_op is not None
            block.insert_ops_before([arith.ConstantOp.from_int_and_width(6, 32)], block.first_op)
    assert visited.count("arith.constant") == 6


def test_operations_of_a_block_begin_where_they_were_asked_for() -> None:
    """xDSL takes the first operation when the iteration is made, not when it is begun."""
    block = parse_module(
        "%0 = arith.constant 1 : i32\n%1 = arith.constant 2 : i32", make_context()
    ).body.block
    iteration = iter(block.ops)
    first, last = block.ops
    first.detach()
    assert list(iteration) == [first]
    assert list(block.ops) == [last]
