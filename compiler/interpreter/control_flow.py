"""`scf.for`, `scf.if` and `scf.while` in plans: unrolled where the trips are known and few, else steps of their own.

To know which memory a branch or a body yields, it is tried first (`Memory.dry`). What is inside a block that is only
tried is tried once, so that nested loops and branches take no exponential time.

A scalar carried around a loop lives in a cell. A memref that a loop carries needs nothing as long as every iteration
passes on the same memory; where it changes (two buffers that swap), a slot points to the current one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.interpreter.descriptors import Descriptor
from mlopt.interpreter.plan import For, If, MoveSlots, PlanBuilder, While
from mlopt.interpreter.views import Region, Slot, View
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.locations import place_of_op

if TYPE_CHECKING:
    from mlopt.interpreter.translate import Frame, Value

UNROLLED_OPS = 4096
"""A loop is unrolled when that makes at most so many operations."""


class Carried(NamedTuple):
    """Where values that pass from one block to another are kept: a cell, a slot's view, or memory that stays."""

    values: tuple[Value, ...]
    types: tuple[Attribute, ...]

    @staticmethod
    def make(
        frame: Frame, values: Sequence[Value], types: Sequence[Attribute], moving: Sequence[bool]
    ) -> Carried:
        """Cells for scalars, slots for the memrefs that are `moving`; `values` are what they may hold."""
        origins = frozenset[Region]().union(
            *(v.view.region.roots for v in values if isinstance(v, Descriptor))
        )
        made: list[Value] = []
        for value, type_, moves in zip(values, types, moving, strict=True):
            if not isinstance(value, Descriptor):
                made.append(frame.builder.memory.cell(to_numpy_dtype(type_)))
            elif moves:
                view = value.view
                writable = all(region.writable for region in origins)
                slot = Slot("carried buffer", view.region.nbytes, writable=writable, origins=origins)
                made.append(Descriptor(View(slot, 0, view.shape, view.strides, view.dtype), 0))
            else:
                made.append(value)
        return Carried(tuple(made), tuple(types))

    def store(self, frame: Frame, op: Operation, builder: PlanBuilder, values: Sequence[Value]) -> None:
        """Emit the steps that put `values` here, all at once."""
        moves: list[tuple[Slot, View]] = []
        scalars: list[tuple[View, View]] = []
        for held, value, type_ in zip(self.values, values, self.types, strict=True):
            if isinstance(held, Descriptor):
                assert isinstance(value, Descriptor)
                if isinstance(held.view.region, Slot) and held != value:
                    if (held.view.shape, held.view.strides) != (value.view.shape, value.view.strides):
                        raise UnsupportedError(
                            f"'{op.name}' carries a buffer whose strides change", place=place_of_op(op)
                        )
                    moves.append((held.view.region, value.view))
            else:
                assert isinstance(held, View) and not isinstance(value, Descriptor)
                scalars.append((held, frame.cell_of(value, type_)))
        if moves:
            builder.step(MoveSlots(tuple(moves)))
        # Several scalars may read each other's cells, so that all are read before any is written.
        pairs = [(held, value) for held, value in scalars if held != value]
        if len(pairs) > 1:
            copies = [builder.memory.cell(value.dtype) for _, value in pairs]
            for copy, (_, value) in zip(copies, pairs, strict=True):
                builder.call(np.copyto, copy, value)
            pairs = [(held, copy) for (held, _), copy in zip(pairs, copies, strict=True)]
        for held, value in pairs:
            builder.call(np.copyto, held, value)


def _moving(first: Sequence[Value], *others: Sequence[Value]) -> list[bool]:
    """Which memrefs are not the same memory in all the lists."""
    return [any(other[i] != value for other in others) for i, value in enumerate(first)]


def _dry_run(frame: Frame, block: Block, values: Sequence[Value]) -> list[Value]:
    """What a block would yield with its arguments bound to `values`; nothing is emitted."""
    with frame.builder.memory.dry():
        return _run(frame, block, values)


def _run(frame: Frame, block: Block, values: Sequence[Value]) -> list[Value]:
    frame.values.update(zip(block.args, values, strict=True))
    return frame.run_block(block)


def _nested(frame: Frame, emit: Callable[[PlanBuilder], None]) -> PlanBuilder:
    """A plan of its own, made by `emit` with the frame's steps going there."""
    outer = frame.builder
    frame.builder = outer.nested()
    try:
        emit(frame.builder)
        return frame.builder
    finally:
        frame.builder = outer


def translate_for(frame: Frame, op: scf.ForOp) -> None:
    """Unroll a loop of known trips, or emit a `For` step."""
    block = op.body.block
    bounds = [frame.index(value) for value in (op.lb, op.ub, op.step)]
    initial = [frame.values[value] for value in op.iter_args]
    known = [bound for bound in bounds if isinstance(bound, int)]
    if len(known) == len(bounds) and known[2] > 0:
        trips = range(known[0], known[1], known[2])
        if len(trips) * sum(1 for _ in op.walk()) <= UNROLLED_OPS:
            values = list(initial)
            for position in trips:
                values = _run(frame, block, [position, *values])
            frame.values.update(zip(op.results, values, strict=True))
            return
    variable = frame.builder.memory.cell(to_numpy_dtype(block.args[0].type))
    types = [value.type for value in op.iter_args]
    carried = Carried.make(frame, initial, types, [False] * len(initial))
    yielded = _dry_run(frame, block, [variable, *carried.values])
    carried = _carry(frame, types, initial, yielded)
    if frame.builder.memory.trying:
        frame.values.update(zip(op.results, carried.values, strict=True))
        return
    carried.store(frame, op, frame.builder, initial)

    def body(builder: PlanBuilder) -> None:
        values = _run(frame, block, [variable, *carried.values])
        carried.store(frame, op, builder, values)

    plan = _nested(frame, body).plan
    if not frame.builder.memory.measuring:
        array = frame.builder.memory.array
        low, high, step = (array(bound) if isinstance(bound, View) else bound for bound in bounds)
        frame.builder.step(For(array(variable), low, high, step, plan, place_of_op(op)))
    frame.values.update(zip(op.results, carried.values, strict=True))


def translate_if(frame: Frame, op: scf.IfOp) -> None:
    """Take the known branch, or emit an `If` step."""
    condition = frame.scalar(op.cond)
    branches = [region.block if region.blocks else None for region in (op.true_region, op.false_region)]
    if not isinstance(condition, View):
        block = branches[0 if condition else 1]
        results = [] if block is None else _run(frame, block, [])
        frame.values.update(zip(op.results, results, strict=True))
        return
    types = [result.type for result in op.results]
    carried = Carried((), ())
    if types:
        possible = [_dry_run(frame, block, []) if block is not None else [] for block in branches]
        carried = _carry(frame, types, *possible)
    if frame.builder.memory.trying:
        frame.values.update(zip(op.results, carried.values, strict=True))
        return

    def branch(block: Block | None) -> Callable[[PlanBuilder], None]:
        def emit(builder: PlanBuilder) -> None:
            if block is not None:
                carried.store(frame, op, builder, _run(frame, block, []))

        return emit

    then, otherwise = (_nested(frame, branch(block)).plan for block in branches)
    if not frame.builder.memory.measuring:
        frame.builder.step(If(frame.builder.memory.array(condition), then, otherwise))
    frame.values.update(zip(op.results, carried.values, strict=True))


def translate_while(frame: Frame, op: scf.WhileOp) -> None:
    """Emit a `While` step."""
    before, after = op.before_region.block, op.after_region.block
    initial = [frame.values[value] for value in op.arguments]
    types = [value.type for value in op.arguments]
    cells = Carried.make(frame, initial, types, [False] * len(initial))
    _, *passed = _dry_run(frame, before, cells.values)
    returned = _dry_run(frame, after, passed)
    _, *again = _dry_run(frame, before, returned)
    arguments = _carry(frame, types, initial, returned)
    results = _carry(frame, [result.type for result in op.results], passed, again)
    if frame.builder.memory.trying:
        frame.values.update(zip(op.results, results.values, strict=True))
        return
    arguments.store(frame, op, frame.builder, initial)
    condition = frame.builder.memory.cell(np.dtype(np.bool_))

    def emit_before(builder: PlanBuilder) -> None:
        holds, *values = _run(frame, before, arguments.values)
        assert not isinstance(holds, Descriptor)
        results.store(frame, op, builder, values)
        builder.call(np.copyto, condition, frame.cell_of(holds, _condition_type(op)))

    def emit_after(builder: PlanBuilder) -> None:
        arguments.store(frame, op, builder, _run(frame, after, results.values))

    first, second = _nested(frame, emit_before).plan, _nested(frame, emit_after).plan
    if not frame.builder.memory.measuring:
        frame.builder.step(While(first, frame.builder.memory.array(condition), second))
    frame.values.update(zip(op.results, results.values, strict=True))


def _carry(frame: Frame, types: Sequence[Attribute], *lists: Sequence[Value]) -> Carried:
    """Places for values of these types that may come from any of the lists."""
    moving = _moving(*lists) * len(lists)
    flat = [value for values in lists for value in values]
    every = Carried.make(frame, flat, [*types] * len(lists), moving)
    return Carried(every.values[: len(types)], tuple(types))


def _condition_type(op: scf.WhileOp) -> Attribute:
    terminator = op.before_region.block.last_op
    assert isinstance(terminator, scf.ConditionOp)
    value: SSAValue = terminator.condition
    return value.type
