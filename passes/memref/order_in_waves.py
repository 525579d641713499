"""The pass `order-in-waves`: launches that do not depend on each other may run at the same time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue

from mlopt.diagnostics import PassFailure
from mlopt.ir.context import CompilerContext
from mlopt.ir.effects import aliases_of, effects_of, is_buffer
from mlopt.ir.functions import find_main, only_block
from mlopt.ir.locations import place_of_op
from mlopt.ir.waves import WAVE
from mlopt.passes.memref.accesses import written_arguments
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import MEMREF_LEVEL


@dataclass(frozen=True)
class OrderInWavesPass(Pass):
    """Put calls and copies of `@main` that are independent of each other into waves (`mlopt.wave`).

    Two of them are independent if neither reads or writes what the other one writes, as whole buffers, views and
    updates in place included. The order of the program is kept as far as waves allow: of what can run next, the first
    ones run together. All else (loops, branches, fills, assertions) runs alone.

    Runs before workspaces and places are assigned: what is live in a wave is live in all of it, so that launches of one
    wave share no bytes, in whatever order they run.

    Options: `width`: how many may run at the same time, at least 2.
    """

    name = "order-in-waves"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = MEMREF_LEVEL
    ensures: ClassVar = MEMREF_LEVEL

    width: int = 2

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        if self.width < 2:
            raise PassFailure(f"the width of waves must be at least 2, found {self.width}")
        main = find_main(op)
        if main is None:
            raise PassFailure("the module has no function '@main'", place=place_of_op(op))
        if any(
            isinstance(user, memref.ViewOp) for argument in main.body.block.args for user in _users(argument)
        ):
            raise PassFailure(
                "buffers have their places already: waves must be known before 'assign-buffers'",
                place=place_of_op(main),
            )
        block = only_block(main)
        steps = _Steps(block, written_arguments(op))
        waves = list(steps.waves(self.width))
        if all(len(wave) == 1 for wave in waves):
            return False
        _reorder(block, waves)
        together = [wave for wave in waves if len(wave) > 1]
        for number, wave in enumerate(together):
            for step in wave:
                step.attributes[WAVE] = IntegerAttr(number, i64)
        ctx.remark(
            self.name,
            "analysis",
            f"{sum(map(len, together))} of {sum(map(len, waves))} steps may run at the same time as another, in "
            f"{len(together)} wave{'s' * (len(together) != 1)}",
            main,
        )
        ctx.count(self.name, "waves", len(together))
        ctx.count(self.name, "launches-in-waves", sum(map(len, together)))
        return True


def _users(value: SSAValue) -> Iterator[Operation]:
    return (use.operation for use in value.uses)


class _Steps:
    """The operations of a block that do something, and what each must come after."""

    def __init__(self, block: Block, written: Mapping[str, frozenset[int]]):
        self._written = written
        self._classes = _alias_classes(block)
        self._steps = [op for op in block.ops if _is_step(op) and op is not block.last_op]
        self._position = {op: i for i, op in enumerate(self._steps)}
        self._after: list[set[int]] = [set() for _ in self._steps]
        self._values: dict[Operation, frozenset[int]] = {}
        self._depend(block)

    def waves(self, width: int) -> Iterator[list[Operation]]:
        """The steps in order, up to `width` at a time."""
        waiting = [len(after) for after in self._after]
        before: list[list[int]] = [[] for _ in self._steps]
        for step, after in enumerate(self._after):
            for other in after:
                before[other].append(step)
        ready = [step for step, count in enumerate(waiting) if not count]
        while ready:
            wave = [heapq.heappop(ready)]
            kept: list[int] = []
            while ready and len(wave) < width and _may_share(self._steps[wave[0]]):
                step = heapq.heappop(ready)
                (wave if _may_share(self._steps[step]) else kept).append(step)
            for step in kept:
                heapq.heappush(ready, step)
            for step in wave:
                for later in before[step]:
                    waiting[later] -= 1
                    if not waiting[later]:
                        heapq.heappush(ready, later)
            yield [self._steps[step] for step in wave]

    def _depend(self, block: Block) -> None:
        writers: dict[SSAValue, list[int]] = {}
        readers: dict[SSAValue, list[int]] = {}
        barrier = -1
        for op in block.ops:
            step = self._position.get(op)
            values = self._value_dependences(op)
            if step is None:
                self._values[op] = values
                continue
            self._values[op] = frozenset((step,))
            after = self._after[step]
            after |= values
            if barrier >= 0:
                after.add(barrier)
            accesses = self._accesses(op)
            if accesses is None:
                after |= set(range(barrier + 1, step))
                barrier = step
                writers.clear()
                readers.clear()
                continue
            for buffer, writes in accesses.items():
                after.update(writers.get(buffer, ()))
                if writes:
                    after.update(readers.pop(buffer, ()))
                    writers[buffer] = [step]
                else:
                    readers.setdefault(buffer, []).append(step)

    def _value_dependences(self, op: Operation) -> frozenset[int]:
        """The steps whose results an operation needs, directly or through others."""
        found = frozenset[int]()
        for inner in op.walk():
            for operand in inner.operands:
                owner = operand.owner
                if isinstance(owner, Operation):
                    found |= self._values.get(owner, frozenset())
        return found

    def _accesses(self, op: Operation) -> dict[SSAValue, bool] | None:
        """The classes of buffers that an operation touches, and whether it writes them; None if it may do anything."""
        written: Sequence[SSAValue | None]
        if isinstance(op, func.CallOp):
            positions = self._written.get(op.callee.string_value())
            written = [v for i, v in enumerate(op.operands) if positions is None or i in positions]
        else:
            effects = effects_of(op)
            if effects.unknown or effects.stops or effects.frees:
                return None
            written = effects.writes
        found = {
            self._classes[operand]: False
            for inner in op.walk()
            for operand in inner.operands
            if operand in self._classes
        }
        for value in written:
            if value is None:
                return None
            if value in self._classes:
                found[self._classes[value]] = True
        return found


def _is_step(op: Operation) -> bool:
    effects = effects_of(op)
    return bool(effects.touches_memory or effects.stops or op.regions)


def _may_share(op: Operation) -> bool:
    """Whether an operation may run at the same time as others."""
    return isinstance(op, func.CallOp | memref.CopyOp)


def _alias_classes(block: Block) -> dict[SSAValue, SSAValue]:
    """Each buffer in a block → one that stands for all that may be the same memory, or a part of it."""
    parents: dict[SSAValue, SSAValue] = {}

    def find(value: SSAValue) -> SSAValue:
        while parents[value] is not value:
            parents[value] = parents[parents[value]]
            value = parents[value]
        return value

    def unite(one: SSAValue, other: SSAValue) -> None:
        parents[find(one)] = find(other)

    inside = [inner for op in block.ops for inner in op.walk()]
    blocks = [block, *(b for op in inside for region in op.regions for b in region.blocks)]
    values = [*(v for op in inside for v in op.results), *(v for b in blocks for v in b.args)]
    parents.update((value, value) for value in values if is_buffer(value))
    globals_: dict[str, SSAValue] = {}
    for op in inside:
        if isinstance(op, memref.GetGlobalOp):
            unite(op.memref, globals_.setdefault(op.name_.string_value(), op.memref))
        for source, other in aliases_of(op):
            if source in parents and other in parents:
                unite(source, other)
    return {value: find(value) for value in parents}


def _reorder(block: Block, waves: Sequence[Sequence[Operation]]) -> None:
    """Put the steps in order, each wave behind all that makes its operands, which stays close to its first use."""
    last = block.last_op
    assert last is not None
    order: dict[Operation, None] = {}

    def define(op: Operation) -> None:
        for inner in op.walk():
            for operand in inner.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is block and owner not in order:
                    define(owner)
                    order[owner] = None

    for wave in waves:
        for step in wave:
            define(step)
        order.update(dict.fromkeys(wave))
    rest = [op for op in block.ops if op not in order and op is not last]  # what nobody uses
    for op in (*order, *rest):
        op.detach()
        block.insert_op_before(op, last)
