"""Quick verification says what xDSL's own does: nothing on sound operations, the same sentence on broken ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, f32, i32
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, OpDef

import mlopt
from mlopt.ir import make_context, parse_module, xdsl_verification
from mlopt.ir.xdsl_verification import Plan
from tests.small_models import classifier

CONTROL_FLOW = """
func.func @f(%x: f32, %b: i1, %m: memref<4xf32>, %i: index) -> f32 {
  cf.cond_br %b, ^yes, ^no
^yes:
  %0 = scf.if %b -> (f32) { scf.yield %x : f32 } else { scf.yield %x : f32 }
  %s = memref.subview %m[0] [2] [1] : memref<4xf32> to memref<2xf32, strided<[1]>>
  cf.br ^end(%0 : f32)
^no:
  %1 = scf.for %k = %i to %i step %i iter_args(%a = %x) -> (f32) { scf.yield %a : f32 }
  %2 = arith.addf %1, %x : f32
  cf.br ^end(%2 : f32)
^end(%r: f32):
  func.return %r : f32
}
"""


@pytest.fixture(scope="module")
def modules() -> list[ModuleOp]:
    """Every level of a small model, and the control flow that it does not have."""
    model = mlopt.compile(classifier(), inputs={"x": np.zeros((3, 8), np.float32)})
    return [*model.compilation.levels.values(), parse_module(CONTROL_FLOW, make_context())]


def test_sound_operations_are_left_to_nobody(modules: list[ModuleOp]) -> None:
    """The quick questions suffice for every operation; else they would be asked in vain."""
    left = [op.name for op in _defined(modules) if not Plan.of(op.get_irdl_definition()).verify(op)]
    assert left == []


def _drop_operand(op: Operation) -> None:
    op.operands = op.operands[:-1]


def _double_operand(op: Operation) -> None:
    op.operands = [*op.operands, *op.operands[-1:]]


def _operand_of_another_type(op: Operation) -> None:
    if op.operands:
        op.operands = [Block(arg_types=[i32]).args[0], *op.operands[1:]]


def _drop_properties(op: Operation) -> None:
    op.properties.clear()


def _strange_properties(op: Operation) -> None:
    op.properties.update(dict.fromkeys(op.properties, StringAttr("strange")))


def _unknown_property(op: Operation) -> None:
    op.properties["unknown"] = StringAttr("strange")


def _wrong_segments(op: Operation) -> None:
    for name, sizes in op.properties.items():
        if name.endswith("SegmentSizes") and isinstance(sizes, DenseArrayBase):
            op.properties[name] = DenseArrayBase.from_list(i32, [-1] * len(sizes))


def _more_regions(op: Operation) -> None:
    op.add_region(Region())


def _more_blocks(op: Operation) -> None:
    for region in op.regions:
        region.add_block(Block(arg_types=[f32]))


def _no_blocks(op: Operation) -> None:
    for region in op.regions:
        while region.blocks:
            region.detach_block(0)


def _no_parent(op: Operation) -> None:
    """As the last but one operation of a block of another parent."""
    op.detach()
    Region(Block([op, ModuleOp([])]))


def _something_from_outside(op: Operation) -> None:
    value = Block(arg_types=[f32]).args[0]
    for region in op.regions:
        for block in region.blocks:
            for inside in block.ops:
                inside.operands = [*inside.operands, value]


@pytest.mark.parametrize(
    "breaks",
    [
        _drop_operand,
        _double_operand,
        _operand_of_another_type,
        _drop_properties,
        _strange_properties,
        _unknown_property,
        _wrong_segments,
        _more_regions,
        _more_blocks,
        _no_blocks,
        _no_parent,
        _something_from_outside,
    ],
)
def test_broken_operations_are_what_xdsl_says(
    modules: list[ModuleOp], breaks: Callable[[Operation], None]
) -> None:
    """What xDSL says of the same operation without the quick questions, one of each kind in each module."""
    messages: list[str | None] = []
    for original in modules:
        first = {op.name: index for index, op in reversed(list(enumerate(original.walk())))}
        for index in sorted(first.values())[1:]:
            op = list(original.clone().walk())[index]
            assert isinstance(op, IRDLOperation)
            breaks(op)
            definition = op.get_irdl_definition()
            expected = _message(VERIFY_OF_XDSL, definition, op)
            messages.append(_message(OpDef.verify, definition, op))
            assert (op.name, messages[-1]) == (op.name, expected)
    assert any(message is not None for message in messages)


VERIFY_OF_XDSL = xdsl_verification._verify_definition  # pyright: ignore[reportPrivateUsage] - what it replaces


def _message(verify: Callable[[OpDef, Operation], None], definition: OpDef, op: Operation) -> str | None:
    try:
        verify(definition, op)
    except (
        Exception
    ) as error:  # xDSL trips over some operations, which `mlopt.ir.verifier` makes a sentence of
        return f"{type(error).__name__}: {error}"
    return None


def _defined(modules: list[ModuleOp]) -> Iterator[IRDLOperation]:
    for module in modules:
        for op in module.walk():
            if isinstance(op, IRDLOperation):
                yield op
