"""Turning allocations into views of one byte buffer at constant offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, IntegerAttr, MemRefType, UnitAttr
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.ir.functions import only_block
from mlopt.passes.memref.liveness import WORKSPACE


def place_in(function: func.FuncOp, base: SSAValue, allocs: Iterable[tuple[memref.AllocOp, int]]) -> None:
    """Replace each allocation by a `memref.view` of `base`, a buffer of bytes, at its offset; erase unused ones."""
    placed = list(allocs)
    offsets = _constants_at_top(function, {offset for _, offset in placed})
    for alloc, offset in placed:
        type = alloc.memref.type
        assert isinstance(type, MemRefType)
        view = memref.ViewOp(base, offsets[offset], [], type)
        view.location = alloc.location
        if WORKSPACE in alloc.attributes:
            view.attributes[WORKSPACE] = UnitAttr()
        view.result.name_hint = alloc.memref.name_hint
        Rewriter.replace_op(alloc, view)
    for op in list(function.walk()):
        if isinstance(op, memref.AllocOp) and not op.memref.first_use:
            Rewriter.erase_op(op)


def insert_argument(
    function: func.FuncOp, position: int, type: Attribute, name: str, attributes: Mapping[str, Attribute]
) -> BlockArgument:
    """Give a function another argument with a name and attributes; its calls are not touched."""
    present = function.arg_attrs
    dictionaries = (
        list(present) if present is not None else [DictionaryAttr({}) for _ in function.function_type.inputs]
    )
    dictionaries.insert(position, DictionaryAttr(dict(attributes)))
    argument = function.body.block.insert_arg(type, position)
    argument.name_hint = name
    argument.location = function.location
    function.arg_attrs = ArrayAttr(dictionaries)
    function.update_function_type()
    return argument


def _constants_at_top(function: func.FuncOp, values: Iterable[int]) -> dict[int, SSAValue]:
    """Index constants at the top of the function, in ascending order; those of its body are moved there."""
    block = only_block(function)
    present: dict[int, arith.ConstantOp] = {}
    for op in block.ops:
        if (
            isinstance(op, arith.ConstantOp)
            and isinstance(op.value, IntegerAttr)
            and op.result.type == IndexType()
        ):
            present.setdefault(op.value.value.data, op)
    constants: dict[int, SSAValue] = {}
    for value in sorted(values, reverse=True):
        op = present.get(value)
        if op is None:
            op = arith.ConstantOp(IntegerAttr(value, IndexType()))
            op.location = function.location
            op.result.name_hint = f"c{value}"
        else:
            op.detach()
        Rewriter.insert_op(op, InsertPoint.at_start(block))
        constants[value] = op.result
    return constants
