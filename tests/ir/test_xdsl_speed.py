"""What replaces slow spots of xDSL does the same: formats that are read late, counts of operands, text that is kept."""

from __future__ import annotations

from io import StringIO

import pytest
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
