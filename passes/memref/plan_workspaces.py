"""The pass `plan-workspaces`: scratch memory of functions becomes an argument that the caller provides.

A function gets one `memref<Nxi8> {mlopt.workspace}` argument for what it allocates itself (packed by lifetime) and,
after that, what the target's engine needs beside: at least its minimum, at most what it prefers, and in between what is
free below the peak of `@main`'s tensors, so that a faster kernel never costs memory. The declaration of a run-time
function gets one for the scratch that the target says this function needs.
"""

from __future__ import annotations

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
from mlopt.ir.locations import place_of_op
from mlopt.memory import Buffer, align_up, plan
from mlopt.passes.memref.liveness import WORKSPACE, Liveness
from mlopt.passes.memref.views import insert_argument, place_in
from mlopt.passmanager.base import Pass

DEFAULT_ALIGNMENT = 64
"""Bytes; what is planned for without a target."""

_RUNTIME = "mlopt.runtime"
"""Attribute of a declaration: the run-time function that it stands for."""

_STEPS = 4
"""In how many steps workspaces give back what they took of the slack, if they fragment the arena."""


@dataclass(frozen=True)
class PlanWorkspacesPass(Pass):
    """Give every function that needs scratch memory a workspace argument, and every call a buffer for it.

    1. Allocations in a function become views of its workspace at constant offsets, packed by lifetime.
    2. The target's engine gets scratch behind them, sized by the slack under the peak of `@main`'s tensors.
    """

    name = "plan-workspaces"
    anchor: ClassVar[str | None] = "builtin.module"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
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
                needs[name] = _need(function, ctx.target, alignment)
        sizes = _sizes(main, needs, alignment)
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
    if need.minimum < need.preferred:
        text += f", between the {need.minimum} that it needs and the {need.preferred} that it could use"
    return text


def _has_workspace(function: func.FuncOp) -> bool:
    return WORKSPACE in function.attributes or any(
        WORKSPACE in attributes.data for attributes in function.arg_attrs or ()
    )


def _need(function: func.FuncOp, target: Target | None, alignment: int) -> ScratchNeed:
    """What the function needs in all; its own allocations become views of a new workspace argument."""
    buffers = [] if function.is_declaration else Liveness(function).buffers(alignment)
    packed = plan([buffer for _, buffer in buffers])
    own = align_up(packed.height, alignment)
    if buffers:
        workspace = _set_workspace(function, own)
        place_in(function, workspace, [(alloc, packed.offsets[buffer.id]) for alloc, buffer in buffers])
    scratch = ScratchNeed(0, 0) if target is None else target.scratch_need(function)
    minimum = align_up(scratch.minimum, alignment)
    return ScratchNeed(own + minimum, own + max(minimum, align_up(scratch.preferred, alignment)))


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


def _sizes(main: func.FuncOp, needs: Mapping[str, ScratchNeed], alignment: int) -> dict[str, int]:
    """The size of each function's workspace: what it may grow to without raising the peak, or the arena."""
    liveness = Liveness(main)
    tensors = [buffer for _, buffer in liveness.buffers(alignment)]
    live = _live_bytes(tensors, liveness.moments)
    calls = [
        (op.callee.string_value(), liveness.moment(op))
        for op in main.walk()
        if isinstance(op, func.CallOp) and op.callee.string_value() in needs
    ]
    peak = max([*live, *(live[moment] + needs[name].minimum for name, moment in calls)], default=0)
    grown = {name: need.preferred for name, need in needs.items()}
    for name, moment in calls:
        grown[name] = min(grown[name], (peak - live[moment]) // alignment * alignment)
    least = {name: need.minimum for name, need in needs.items()}
    goal = plan([*tensors, *_workspaces(calls, least, alignment)]).height
    for step in range(_STEPS, 0, -1):
        sizes = {
            name: least[name] + (grown[name] - least[name]) * step // (_STEPS * alignment) * alignment
            for name in needs
        }
        if plan([*tensors, *_workspaces(calls, sizes, alignment)]).height <= goal:
            return sizes
    return least


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
