"""Turning allocations into views of one byte buffer at constant offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.passes.memref.liveness import WORKSPACE


def place_in(
    function: func.FuncOp,
    base: SSAValue,
    allocs: Iterable[tuple[memref.AllocOp, int]],
) -> None:
    """Replace each allocation by a `memref.view` of `base`, a buffer of bytes, at its offset."""
    offsets: dict[int, SSAValue] = {}
    for alloc, offset in allocs:
        if offset not in offsets:
            offsets[offset] = _constant_at_top(function, offset, offsets)
        type = alloc.memref.type
        assert isinstance(type, memref.MemRefType)
        view = memref.ViewOp(base, offsets[offset], [], type)
        view.location = alloc.location
        if WORKSPACE in alloc.attributes:
            view.attributes[WORKSPACE] = UnitAttr()
        view.result.name_hint = alloc.memref.name_hint
        Rewriter.replace_op(alloc, view)


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


def _constant_at_top(function: func.FuncOp, value: int, earlier: Mapping[int, SSAValue]) -> SSAValue:
    """An index constant at the top of the function, after those made before it."""
    op = arith.ConstantOp(IntegerAttr(value, IndexType()))
    op.location = function.location
    op.result.name_hint = f"c{value}"
    last = next(reversed(earlier.values()), None)
    if last is None:
        Rewriter.insert_op(op, InsertPoint.at_start(function.body.block))
    else:
        assert not isinstance(last, BlockArgument)
        Rewriter.insert_op(op, InsertPoint.after(last.owner))  # pyright: ignore[reportArgumentType] (an op's result)
    return op.result
