"""The pass `plan-workspaces`: scratch memory of functions becomes an argument that the caller provides.

A function gets one `memref<Nxi8> {mlopt.workspace}` argument for what it allocates itself (packed by lifetime) and,
after that, what the target's engine needs beside: at least its minimum, at most what it prefers, and in between what is
free below the peak of `@main`'s tensors, so that a faster kernel costs no memory. Beyond that the arena may grow by a
limited share, if the engine's model of time says that it is worth it. The declaration of a run-time function gets a
workspace for the scratch that the target says this function needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    FunctionType,
    MemRefType,
    ModuleOp,
    UnitAttr,
    i8,
)
from xdsl.ir import BlockArgument, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from mlopt.diagnostics import PassFailure
from mlopt.ir.context import CompilerContext, ScratchNeed, Target
from mlopt.ir.functions import only_block
from mlopt.ir.imported import imported_max_live
from mlopt.ir.locations import place_of_op
from mlopt.ir.waves import wave_of
from mlopt.memory import Buffer, align_up, plan
from mlopt.passes.memref.allocations import no_allocation_but_in
from mlopt.passes.memref.liveness import WORKSPACE, Liveness
from mlopt.passes.memref.views import insert_argument, place_in
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import MEMREF_LEVEL

DEFAULT_ALIGNMENT = 64
"""Bytes; what is planned for without a target."""

_RUNTIME = "mlopt.runtime"
"""Attribute of a declaration: the run-time function that it stands for."""

DEFAULT_GROWTH = 32
"""Percent."""

_STEPS = 4
"""In how many steps workspaces give back what they took of the slack, if they fragment the arena."""

_GROWTH_STEPS = 2
"""How many sizes of the arena, beside the least, are looked at."""

_LEAST_GAIN = 0.5
"""Percent of the time of all calls that every percent by which the arena grows must save."""


@dataclass(frozen=True)
class PlanWorkspacesPass(Pass):
    """Give every function that needs scratch memory a workspace argument, and every call a buffer for it.

    1. Allocations in a function become views of its workspace at constant offsets, packed by lifetime.
    2. The target's engine gets scratch behind them, sized by the slack under the peak of `@main`'s tensors.
    3. Workspaces grow together, by a part of `growth`, where the modelled time that all calls save by it is worth it,
       but not beyond what the model took as it was imported. What takes more than that with workspaces of a reasonable
       size gets smaller ones, down to the least with which functions can run.

    Options: `growth`: by how many percent, at most, scratch may make the arena larger than it must be; `budget`: the
    bytes that the arena may have, if they are enough for what functions need at least.
    """

    name = "plan-workspaces"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = MEMREF_LEVEL
    ensures: ClassVar = (*MEMREF_LEVEL, no_allocation_but_in("main"))

    growth: int = DEFAULT_GROWTH
    budget: int | None = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        if self.growth < 0:
            raise PassFailure(f"the growth of the arena can't be negative, found {self.growth}")
        functions = {
            f.sym_name.data: f
            for f in op.ops
            if isinstance(f, func.FuncOp) and (not f.is_declaration or _RUNTIME in f.attributes)
        }
        main = functions.pop("main", None)
        if main is None:
            raise PassFailure("the module has no function '@main'", place=place_of_op(op))
        alignment = DEFAULT_ALIGNMENT if ctx.target is None else ctx.target.alignment
        needs: dict[str, ScratchNeed] = {}
        for name, function in functions.items():
            if not _has_workspace(function):
                needs[name] = workspace_need(function, ctx.target, alignment)
        waves = any(wave_of(inner) is not None for inner in only_block(main).ops)
        as_imported = None if waves else imported_max_live(op)  # which ran one after the other
        chosen = _Sizes(main, needs, alignment, self.budget, as_imported)
        sizes = chosen.choose(self.growth)
        if self.budget is not None:
            free = _Sizes(main, needs, alignment, None, as_imported).choose(self.growth)
            ctx.remark(
                self.name,
                "analysis",
                f"within {self.budget} bytes, calls take {chosen.time(sizes) / 1000:.0f} us as modelled, "
                f"with workspaces of any size {chosen.time(free) / 1000:.0f} us",
                main,
            )
        for name, size in sizes.items():
            if size:
                if functions[name].is_declaration:
                    _declare_workspace(functions[name], size)
                else:
                    _set_workspace(functions[name], size)
                ctx.remark(self.name, "analysis", _described(name, size, needs[name]), functions[name])
        changed = _provide(main, sizes)
        ctx.count(self.name, "functions-with-workspace", sum(1 for size in sizes.values() if size))
        ctx.count(self.name, "largest-workspace-bytes", max(sizes.values(), default=0))
        return changed


def _described(name: str, size: int, need: ScratchNeed) -> str:
    text = f"'@{name}' works in {size} bytes"
    if size < need.minimum:
        text += f", and would be much faster in {need.minimum}"
    elif need.minimum < need.preferred:
        text += f", between the {need.minimum} that it needs and the {need.preferred} that it could use"
    return text


def _has_workspace(function: func.FuncOp) -> bool:
    return WORKSPACE in function.attributes or any(
        WORKSPACE in attributes.data for attributes in function.arg_attrs or ()
    )


def workspace_need(function: func.FuncOp, target: Target | None, alignment: int) -> ScratchNeed:
    """What the function needs in all; its own allocations become views of a new workspace argument."""
    buffers = [] if function.is_declaration else Liveness(function).buffers(alignment)
    packed = plan([buffer for _, buffer in buffers])
    own = align_up(max(1, packed.height), alignment) if buffers else 0  # what is empty has a place too
    if buffers:
        workspace = _set_workspace(function, own)
        place_in(function, workspace, [(alloc, packed.offsets[buffer.id]) for alloc, buffer in buffers])
    scratch = ScratchNeed(0, 0) if target is None else target.scratch_need(function)
    minimum = align_up(scratch.minimum, alignment)
    time = scratch.nanoseconds
    return ScratchNeed(
        own + minimum,
        own + max(minimum, align_up(scratch.preferred, alignment)),
        None if time is None else lambda nbytes: time(nbytes - own),
        lambda: own + align_up(scratch.least, alignment),
    )


def _declare_workspace(declaration: func.FuncOp, size: int) -> None:
    """Give a function without a body a workspace of `size` bytes as its last argument."""
    inputs = [*declaration.function_type.inputs, MemRefType(i8, [size])]
    declaration.function_type = FunctionType.from_lists(inputs, [])
    declaration.attributes[WORKSPACE] = UnitAttr()


def _set_workspace(function: func.FuncOp, size: int) -> BlockArgument:
    """The workspace argument, of `size` bytes: made if it is not there, else resized."""
    type = MemRefType(i8, [size])
    if _has_workspace(function):
        workspace = function.body.block.args[-1]
        Rewriter.replace_value_with_new_type(workspace, type)
        function.update_function_type()
        return function.body.block.args[-1]
    return insert_argument(function, len(function.body.block.args), type, "ws", {WORKSPACE: UnitAttr()})


class _Sizes:
    """How large workspaces may be. `@main` and what its functions need do not change meanwhile."""

    def __init__(
        self,
        main: func.FuncOp,
        needs: Mapping[str, ScratchNeed],
        alignment: int,
        budget: int | None,
        as_imported: int | None,
    ):
        liveness = Liveness(main)
        self._needs = needs
        self._budget = budget
        self._alignment = alignment
        self._tensors = [buffer for _, buffer in liveness.buffers(alignment)]
        self._live = _live_bytes(self._tensors, liveness.moments)
        self._calls = [
            (op.callee.string_value(), liveness.moment(op))
            for op in main.walk()
            if isinstance(op, func.CallOp) and op.callee.string_value() in needs
        ]
        self._limit = as_imported if budget is None else budget
        self._least = {name: need.minimum for name, need in needs.items()}
        self._together = Counter(moment for _, moment in self._calls)
        if self._limit is not None and self._height(self._least) > self._limit:
            self._least = self._scarce(self._limit)
        self._taken = list(self._live)
        for name, moment in self._calls:
            self._taken[moment] += self._least[name]
        self._peak = max(self._taken, default=0)
        self._goal = self._height(self._least)

    def _scarce(self, limit: int) -> dict[str, int]:
        """Less than functions should have at least, where the arena would be larger than `limit` otherwise."""
        sizes = dict(self._least)
        for name, moment in self._calls:
            share = (limit - self._live[moment]) // self._together[moment]
            free = share // self._alignment * self._alignment
            if free < sizes[name]:
                sizes[name] = max(free, self._needs[name].least)
        if self._height(sizes) > limit:
            fewest = {name: self._needs[name].least for name in sizes}
            if self._height(fewest) < self._height(sizes):
                return fewest
        return sizes

    def choose(self, growth: int) -> dict[str, int]:
        """What fits below the peak, or below a peak up to `growth` percent higher where that is worth it.

        Of all steps of growth the one is taken that saves the most time over the least that it must save.
        """
        best = self._below(0.0)
        if all(
            need.nanoseconds is None or best[name] >= need.preferred for name, need in self._needs.items()
        ):
            return best
        before = self.time(best)
        least = _LEAST_GAIN if self._budget is None else 0.0  # within a budget, memory costs nothing
        most = 0.0
        for step in range(1, _GROWTH_STEPS + 1):
            percent = growth * step / _GROWTH_STEPS
            sizes = self._below(percent / 100)
            gain = 100 * (1 - self.time(sizes) / before) - least * percent if before else 0.0
            if gain > most:
                best, most = sizes, gain
        return best

    def _below(self, growth: float) -> dict[str, int]:
        """The size of each function's workspace: what it may grow to without raising the peak, or the arena, more."""
        peak, goal = (self._within_limit(least, growth) for least in (self._peak, self._goal))
        grown = {name: need.preferred for name, need in self._needs.items()}
        for name, moment in self._calls:
            slack = (peak - self._taken[moment]) // self._together[moment]  # the same for all of a wave
            free = self._least[name] + slack // self._alignment * self._alignment
            grown[name] = max(self._least[name], min(grown[name], free))
        for step in range(_STEPS, 0, -1):
            sizes = {name: self._between(name, grown[name], step) for name in self._needs}
            if self._height(sizes) <= goal:
                return sizes
        return self._least

    def _within_limit(self, nbytes: int, growth: float) -> int:
        """So many bytes, grown by a part, but not beyond a budget, or what the model took as it was imported."""
        grown = int(nbytes * (1 + growth))
        return grown if self._limit is None else max(nbytes, min(grown, self._limit))

    def _between(self, name: str, most: int, step: int) -> int:
        least = self._least[name]
        return least + (most - least) * step // (_STEPS * self._alignment) * self._alignment

    def _height(self, sizes: Mapping[str, int]) -> int:
        return plan([*self._tensors, *_workspaces(self._calls, sizes, self._alignment)]).height

    def time(self, sizes: Mapping[str, int]) -> float:
        """Nanoseconds of all calls, of functions whose time is known."""
        times = {
            name: need.nanoseconds(sizes[name])
            for name, need in self._needs.items()
            if need.nanoseconds is not None
        }
        return sum(times.get(name, 0.0) for name, _ in self._calls)


def _workspaces(calls: Sequence[tuple[str, int]], sizes: Mapping[str, int], alignment: int) -> list[Buffer]:
    return [
        Buffer(f"workspace {i}", moment, moment + 1, sizes[name], alignment)
        for i, (name, moment) in enumerate(calls)
    ]


def _live_bytes(buffers: Sequence[Buffer], moments: int) -> list[int]:
    """The bytes that are live at each moment."""
    changes = [0] * (moments + 1)
    for buffer in buffers:
        changes[buffer.lower] += buffer.footprint
        changes[buffer.upper] -= buffer.footprint
    live: list[int] = []
    total = 0
    for change in changes[:moments]:
        total += change
        live.append(total)
    return live


def _provide(main: func.FuncOp, sizes: Mapping[str, int]) -> bool:
    """Pass a workspace to every call of a function that takes one; returns whether there was any."""
    changed = False
    for call in list(main.walk()):
        if not isinstance(call, func.CallOp):
            continue
        size = sizes.get(call.callee.string_value(), 0)
        if not size:
            continue
        alloc = memref.AllocOp([], [], MemRefType(i8, [size]))
        alloc.attributes[WORKSPACE] = UnitAttr()
        alloc.location = call.location
        alloc.memref.name_hint = "ws"
        Rewriter.insert_op(alloc, InsertPoint.before(call))
        call.operands = [*call.operands, alloc.memref]
        changed = True
    return changed
