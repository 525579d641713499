"""Branches and loops: `scf.if` as If, `scf.for` and `scf.while` as Loop.

Their graphs see the values around them, as regions do. What a counted loop collects, one slice a trip, is a scan output
of the Loop where it fills a whole tensor; any other slice is put into what the loop carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, i1, i64
from xdsl.ir import Block, SSAValue
from xdsl.utils.hints import isa

from mlopt.export.builder import Builder, Typed, Value, element_of, shape_of
from mlopt.export.registry import exports


@exports(scf.IfOp)
def if_(builder: Builder, op: scf.IfOp) -> None:
    if not op.results:
        return

    def branch(name: str, block: Block):
        return builder.subgraph(name, [], lambda: builder.block(block))

    graphs = {
        "then_branch": branch("then", op.true_region.block),
        "else_branch": branch("else", op.false_region.block),
    }
    builder.control("If", [op.cond], op.results, graphs)


@exports(scf.ForOp)
def for_(builder: Builder, op: scf.ForOp) -> None:
    """A Loop of a number of trips, which the position is computed from unless it is the same."""
    if not op.results:
        return
    block = op.body.block
    carried = block.args[1:]
    collected = _collected(op)
    kept = [index for index in range(len(carried)) if index not in collected]
    trip, going = builder.named("trip", i64), builder.named("going", i1)
    inputs = [_argument(builder, carried[index]) for index in kept]

    def body() -> Sequence[SSAValue | Typed]:
        builder.values[block.args[0]] = _position(builder, op, trip)
        values = builder.block(block, [entry.insert for entry in collected.values()])
        slices = [entry.slice(builder) for entry in collected.values()]
        return [(going, ()), *(values[index] for index in kept), *slices]

    graph = builder.subgraph("body", [(trip, ()), (going, ()), *inputs], body)
    wholes = {
        index: builder.named(
            f"{op.results[index].name_hint or 'value'}_slices", element_of(entry.insert.dest)
        )
        for index, entry in collected.items()
    }
    operands = [_trips(builder, op), builder.scalar(True, i1), *(op.iter_args[index] for index in kept)]
    results = [*(op.results[index] for index in kept), *wholes.values()]
    builder.control("Loop", operands, results, {"body": graph})
    for index, entry in collected.items():
        entry.put(builder, wholes[index], op.results[index])


@exports(scf.WhileOp)
def while_(builder: Builder, op: scf.WhileOp) -> None:
    """The condition is computed in front of the Loop, and again at the end of its body."""
    if not op.results:
        return
    before, after = op.before_region.block, op.after_region.block

    def test(values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        builder.values.update(
            (argument, builder.value(value)) for argument, value in zip(before.args, values, strict=True)
        )
        return builder.block(before)

    def body() -> Sequence[SSAValue]:
        return test(builder.block(after))

    first = [builder.value(value) for value in test(op.arguments)]
    trip, going = builder.named("trip", i64), builder.named("going", i1)
    inputs = [_argument(builder, argument) for argument in after.args]
    graph = builder.subgraph("body", [(trip, ()), (going, ()), *inputs], body)
    most = builder.scalar(np.iinfo(np.int64).max, i64)
    builder.control("Loop", [most, *first], op.results, {"body": graph})


def _argument(builder: Builder, argument: SSAValue) -> Typed:
    """An argument of a region, as an input of a graph."""
    value = builder.named(argument.name_hint or "value", element_of(argument))
    builder.values[argument] = value
    return value, shape_of(argument)


def _trips(builder: Builder, op: scf.ForOp) -> Value:
    """How many trips a loop makes."""
    first, last, step = (builder.cast(value, i64) for value in (op.lb, op.ub, op.step))
    known = [_number(value) for value in (op.lb, op.ub, op.step)]
    if isa(known, list[int]):
        return builder.scalar(len(range(*known)), i64)
    way = last if known[0] == 0 else builder.part("Sub", [last, first])
    if known[2] != 1:
        way = builder.part("Add", [way, builder.part("Sub", [step, builder.scalar(1, i64)])])
        way = builder.part("Div", [way, step])
    return builder.part("Max", [way, builder.scalar(0, i64)])


def _position(builder: Builder, op: scf.ForOp, trip: Value) -> Value:
    """What a loop counts, from the number of the trip."""
    position = trip
    if _number(op.step) != 1:
        position = builder.part("Mul", [position, builder.cast(op.step, i64)])
    if _number(op.lb) != 0:
        position = builder.part("Add", [position, builder.cast(op.lb, i64)])
    return builder.cast(position, element_of(op.body.block.args[0]))


def _number(value: SSAValue) -> int | None:
    """A constant scalar."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


@dataclass(frozen=True, slots=True)
class _Collected:
    """What each trip puts at its position on an axis, from the first on, or `backwards` from the last."""

    insert: tensor.InsertSliceOp
    axis: int
    backwards: bool

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of the tensor that is filled."""
        return shape_of(self.insert.dest)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what a trip gives, without the axis."""
        return (*self.whole[: self.axis], *self.whole[self.axis + 1 :])

    def slice(self, builder: Builder) -> Typed:
        """What a trip gives."""
        part = self.insert.source
        value = builder.value(part)
        if shape_of(part) != self.shape:
            value = builder.part("Reshape", [value, builder.ints(self.shape)])
        return value, self.shape

    def put(self, builder: Builder, slices: Value, result: SSAValue) -> None:
        """Give the result of the loop: the slices of all trips, which are one after the other on the first axis."""
        if self.backwards:
            ends = (builder.ints([number]) for number in (-1, np.iinfo(np.int64).min, 0, -1))
            slices = builder.part("Slice", [slices, *ends])
        others = range(1, len(self.whole))
        order = [*others[: self.axis], 0, *others[self.axis :]]
        builder.result(result, "Transpose", [slices], {"perm": order})


def _collected(op: scf.ForOp) -> dict[int, _Collected]:
    """Which of the tensors that a loop carries are only filled by it, by their positions."""
    bounds = [_number(value) for value in (op.lb, op.ub, op.step)]
    if bounds[0] != 0 or bounds[2] != 1 or not bounds[1]:
        return {}
    found = ((index, _collection(op, index, bounds[1])) for index in range(len(op.iter_args)))
    return {index: entry for index, entry in found if entry is not None}


def _collection(op: scf.ForOp, index: int, trips: int) -> _Collected | None:
    block = op.body.block
    argument, terminator = block.args[1 + index], block.last_op
    written = terminator.operands[index] if terminator is not None else argument
    insert = written.owner
    if (
        not isinstance(insert, tensor.InsertSliceOp)
        or insert.parent is not block
        or insert.dest is not argument
    ):
        return None
    if not argument.has_one_use() or not written.has_one_use():
        return None
    whole, offsets = shape_of(argument), insert.static_offsets.get_values()
    if any(step != 1 for step in insert.static_strides.get_values()) or len(insert.offsets) != 1:
        return None
    axis = offsets.index(DYNAMIC_INDEX)
    one_slice = tuple(1 if at == axis else size for at, size in enumerate(whole))
    if insert.static_sizes.get_values() != one_slice or whole[axis] != trips:
        return None
    backwards = _is_backwards(insert.offsets[0], block.args[0], trips)
    return None if backwards is None else _Collected(insert, axis, backwards)


def _is_backwards(offset: SSAValue, position: SSAValue, trips: int) -> bool | None:
    """Whether an offset is the position counted from the end; None if it is neither that nor the position."""
    while isinstance(offset.owner, arith.IndexCastOp):
        offset = offset.owner.input
    if offset is position:
        return False
    if isinstance(offset.owner, arith.SubiOp) and offset.owner.rhs is position:
        return True if _number(offset.owner.lhs) == trips - 1 else None
    return None
