"""Tables of cosines and sines that hold each number twice, and the half of them that is enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.names import copy_name
from mlopt.passes.graph.constants import constant_of, make_constant, name_of

MAX_DEPTH = 16
"""More steps than lie between a concat of a value with itself and a table."""

_PER_ELEMENT = (graph.UnaryOp, graph.CastOp, graph.BinaryOp)


class Tables:
    """Finds the halves of tables, and makes them; what is made of one constant is one constant."""

    def __init__(self, ctx: CompilerContext):
        self.ctx = ctx
        self._halves: dict[tuple[Attribute, bool], graph.ConstantOp] = {}

    def has_half(self, table: SSAValue, size: int, *, interleaved: bool) -> bool:
        """Is the table known to have the same number for both numbers of a pair, along a last dimension of `size`?

        Numbers that are one for the whole last dimension are, too.
        """
        level, seen = [table], {table}
        for _ in range(MAX_DEPTH):
            below: list[SSAValue] = []
            for value in level:
                operands = self._computed_from(value, size, interleaved=interleaved)
                if operands is None:
                    return False
                below += (operand for operand in dict.fromkeys(operands) if operand not in seen)
                seen.update(below)
            if not below:
                return True
            level = below
        return False

    def _computed_from(self, table: SSAValue, size: int, *, interleaved: bool) -> Sequence[SSAValue] | None:
        """What must have halves for the table to have them: nothing if it is known; None if it is not known."""
        shape, op = shape_of(table), table.owner
        if not shape or shape[-1] == 1:
            return ()
        if shape[-1] != size:
            return None
        match op:
            case graph.ConstantOp():
                array = constant_of(op, self.ctx)
                return () if array is not None and _is_doubled(array, interleaved=interleaved) else None
            case graph.ConcatOp():
                return () if _is_doubling(op) and not interleaved else None
            case graph.ReshapeOp() if interleaved and _doubled_pairs(op) is not None:
                return ()
            case graph.ReshapeOp() if shape_of(op.input)[-1:] == (size,):
                return (op.input,)
            case graph.TransposeOp() if op.permutation[-1] == rank_of(table) - 1:
                return (op.input,)
            case graph.ExpandOp():
                return (op.input,)
            case graph.GatherOp() if op.axis.value.data < rank_of(op.input) - 1:
                return (op.input,)
            case Operation() if isinstance(op, _PER_ELEMENT):
                return op.operands
            case _:
                return None

    def half(self, table: SSAValue, new: list[Operation], *, interleaved: bool) -> SSAValue:
        """The numbers of the table, one per pair, for a table that has a half; what makes them is added to `new`.

        Where it is the same for all but the last two dimensions it has only these.
        """
        half = self._half(table, new, {}, interleaved=interleaved)
        shape = shape_of(half)
        if len(shape) > 2 and all(size == 1 for size in shape[:-2]):
            half = _added(graph.ReshapeOp(half, shape[-2:]), new)
        return half

    def _half(
        self, table: SSAValue, new: list[Operation], known: dict[SSAValue, SSAValue], *, interleaved: bool
    ) -> SSAValue:
        """The half of a table, which is made once: `known` are those that were made for others."""
        if table not in known:
            known[table] = self._made_half(table, new, known, interleaved=interleaved)
        return known[table]

    def _made_half(
        self, table: SSAValue, new: list[Operation], known: dict[SSAValue, SSAValue], *, interleaved: bool
    ) -> SSAValue:
        shape, op = shape_of(table), table.owner
        if not shape or shape[-1] == 1:
            return table
        match op:
            case graph.ConstantOp():
                return _added(self._constant(table, op, interleaved=interleaved), new)
            case graph.ConcatOp():
                return op.inputs[0]
            case graph.ReshapeOp() if interleaved and (pairs := _doubled_pairs(op)) is not None:
                return _added(graph.ReshapeOp(pairs, (*shape[:-1], shape[-1] // 2)), new)
            case graph.ReshapeOp():
                inner = self._half(op.input, new, known, interleaved=interleaved)
                made: Operation = graph.ReshapeOp(inner, (*shape[:-1], shape[-1] // 2))
            case graph.ExpandOp():
                inner = self._half(op.input, new, known, interleaved=interleaved)
                made = graph.ExpandOp(inner, (*shape[:-1], shape[-1] // 2))
            case _:
                assert isinstance(op, Operation)
                kept = op.operands[1:] if isinstance(op, graph.GatherOp) else ()
                halves = [
                    self._half(operand, new, known, interleaved=interleaved)
                    for operand in op.operands[: len(op.operands) - len(kept)]
                ]
                type_ = TensorType(tensor_type(table.type).element_type, (*shape[:-1], shape[-1] // 2))
                made = type(op).create(
                    operands=[*halves, *kept],
                    properties=op.properties,
                    attributes=op.attributes,
                    result_types=[type_],
                )
        made.location = op.location
        copy_name(table, made.results[0])
        return _added(made, new)

    def _constant(self, table: SSAValue, op: graph.ConstantOp, *, interleaved: bool) -> graph.ConstantOp:
        key = op.value, interleaved
        if key not in self._halves:
            array = constant_of(op, self.ctx)
            assert array is not None
            half = array[..., ::2] if interleaved else array[..., : array.shape[-1] // 2]
            self._halves[key] = make_constant(half, self.ctx, name_of(table, "table"))
        known = self._halves[key]
        made = graph.ConstantOp(known.value, tensor_type(known.result.type))
        copy_name(table, made.result)
        return made


def _added(op: Operation, new: list[Operation]) -> SSAValue:
    new.append(op)
    return op.results[0]


def _is_doubled(array: np.ndarray, *, interleaved: bool) -> bool:
    size = array.shape[-1]
    halves = (
        (array[..., ::2], array[..., 1::2])
        if interleaved
        else (array[..., : size // 2], array[..., size // 2 :])
    )
    return size % 2 == 0 and np.array_equal(*halves, equal_nan=True)


def _is_doubling(op: graph.ConcatOp) -> bool:
    """Is it a value with itself behind it, along the last dimension?"""
    inputs = list(op.inputs)
    return len(inputs) == 2 and inputs[0] == inputs[1] and op.axis.value.data == rank_of(op.result) - 1


def _doubled_pairs(op: graph.ReshapeOp) -> SSAValue | None:
    """`[..., h, 1]` that is expanded, or put beside itself, to `[..., h, 2]` and reshaped to `[..., 2 h]` here."""
    shape = shape_of(op.result)
    apart = (*shape[:-1], shape[-1] // 2, 2)
    if shape_of(op.input) != apart:
        return None
    match op.input.owner:
        case graph.ExpandOp() as expand if shape_of(expand.input) == (*apart[:-1], 1):
            return expand.input
        case graph.ConcatOp() as concat if _is_doubling(concat):
            return concat.inputs[0]
        case _:
            return None
