"""The pass `assign-buffers`: every buffer of `@main` gets its place in one arena, of its memory space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, UnitAttr, i8, i64
from xdsl.ir import Attribute, Operation

from mlopt.diagnostics import Diagnostic, PassFailure, Severity
from mlopt.ir.context import CompilerContext
from mlopt.ir.functions import find_main
from mlopt.ir.locations import nodes_text, place_of_op
from mlopt.ir.memory_spaces import ARENA_NAMES, ARENA_SPACE, SPILL_SPACE, arena_name, space_attr
from mlopt.memory import GAP, PROVED, Buffer, Plan, plan, status_of
from mlopt.passes.memref.allocations import no_allocation_but_in
from mlopt.passes.memref.liveness import WORKSPACE, Liveness
from mlopt.passes.memref.verify_plan import ARENA, SMALLEST, verify_plan
from mlopt.passes.memref.views import insert_argument, place_in
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import MEMREF_LEVEL

_NODES_FOR_BUDGET = 100
"""How much longer than `nodes` to search for a plan that keeps to a budget."""


@dataclass(frozen=True)
class AssignBuffersPass(Pass):
    """Place the buffers of `@main`, workspaces included, in the arena, its new first argument.

    What is allocated in another memory space lies in an arena of that space, the argument after that. Buffers that
    never live at the same time may share bytes. Each `memref.alloc` becomes a `memref.view` of its arena at a constant
    offset; types, strides and the order of ops stay as they are. What came out is verified from the IR alone, by code
    that shares nothing with the planner. An arena above the most bytes live at one moment that the search proved to be
    the smallest has that size as `mlopt.smallest`.

    Options: `strategy`: `aggressive` (any reuse, the best of several greedy plans), `conservative` (only buffers of
    exactly the same size share), `none` (every buffer has its own space); `alignment` of every offset in bytes;
    `nodes`: how far to search for a smaller plan where the `aggressive` one is above its lower bound (0: not at all);
    `budget`: the bytes that the arena may have: searched for harder, and an error where it is not reached; `spill`:
    likewise those of the arena of memory space 1, to which `fit-memory` spills.
    """

    name = "assign-buffers"
    anchor: ClassVar[str | None] = "builtin.module"
    requires: ClassVar = MEMREF_LEVEL
    ensures: ClassVar = (*MEMREF_LEVEL, no_allocation_but_in())

    strategy: Literal["none", "conservative", "aggressive"] = "aggressive"
    alignment: int = 64
    nodes: int = 1000
    budget: int | None = None
    spill: int | None = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        assert isinstance(op, ModuleOp)
        if self.alignment < 1:
            raise PassFailure(f"the alignment of buffers must be at least 1 byte, found {self.alignment}")
        main = find_main(op)
        if main is None:
            raise PassFailure("the module has no function '@main'", place=place_of_op(op))
        changed = not _has_arena(main)
        if changed:
            self._assign(ctx, main)
        verify_plan(op, self.alignment)
        return changed

    def _assign(self, ctx: CompilerContext, main: func.FuncOp) -> None:
        liveness = Liveness(main)
        spaces = list(dict.fromkeys([ARENA_SPACE, *liveness.spaces]))
        allocations = {space: liveness.buffers(self.alignment, space) for space in spaces}
        for position, (space, buffers) in enumerate(allocations.items()):
            self._assign_space(ctx, main, position, space, buffers)

    def _assign_space(
        self,
        ctx: CompilerContext,
        main: func.FuncOp,
        position: int,
        space: int,
        buffers: Sequence[tuple[memref.AllocOp, Buffer]],
    ) -> None:
        budget = {ARENA_SPACE: self.budget, SPILL_SPACE: self.spill}.get(space)
        result, bound = self._plan([buffer for _, buffer in buffers], budget)
        if budget is not None and result.height > budget:
            self._refuse(space, budget, result, buffers)
        type_ = MemRefType(i8, [result.height], memory_space=space_attr(space))
        name = ARENA_NAMES.get(space, f"space{space}")
        attributes: dict[str, Attribute] = {ARENA: UnitAttr()}
        status = status_of(result.height, result.lower_bound, bound)
        if status == PROVED:
            attributes[SMALLEST] = IntegerAttr(bound, i64)
        arena = insert_argument(main, position, type_, name, attributes)
        place_in(main, arena, [(alloc, result.offsets[buffer.id]) for alloc, buffer in buffers])
        together = sum(buffer.footprint for _, buffer in buffers)
        ctx.remark(
            self.name,
            "analysis",
            f"{arena_name(space)} of {result.height} bytes holds {len(buffers)} buffer{'s' * (len(buffers) != 1)} of "
            f"together {together}, {result.lower_bound} live at once: {status}",
            main,
        )
        of_space = "" if space == ARENA_SPACE else f"-in-space-{space}"
        ctx.count(self.name, f"buffers{of_space}", len(buffers))
        ctx.count(self.name, f"arena-bytes{of_space}", result.height)
        ctx.count(self.name, f"max-live-bytes{of_space}", result.lower_bound)

    def _plan(self, buffers: Sequence[Buffer], budget: int | None) -> tuple[Plan, int]:
        """The plan, and the bytes that no plan can be below."""
        result = plan(buffers, self.strategy)
        if self.strategy == "aggressive" and result.status == GAP and self.nodes > 0:
            from mlopt.memory.search import search  # most models don't need it

            found = search(buffers, nodes=self.nodes, start=result)
            if budget is not None and found.bound <= budget < found.plan.height:
                nodes = _NODES_FOR_BUDGET * self.nodes
                found = search(buffers, nodes=nodes, start=found.plan, target=budget)
            return found.plan, found.bound
        return result, result.lower_bound

    def _refuse(
        self, space: int, budget: int, result: Plan, buffers: Sequence[tuple[memref.AllocOp, Buffer]]
    ) -> None:
        """Raise `PassFailure` that says what does not fit together, if that is known."""
        from mlopt.memory.explanation import explain

        why = explain([buffer for _, buffer in buffers], budget, nodes=self.nodes)
        allocs = {buffer.id: alloc for alloc, buffer in buffers}
        notes = [
            Diagnostic(
                Severity.NOTE,
                f"{buffer.footprint} bytes of {'a workspace' if WORKSPACE in alloc.attributes else 'a tensor'}"
                f"{nodes_text(alloc.location)}",
                place_of_op(alloc),
            )
            for buffer in (why.buffers if why else ())
            for alloc in (allocs[buffer.id],)
        ]
        message = (
            f"{arena_name(space)} of {result.height} bytes does not fit into the budget of {budget}; "
            f"{result.lower_bound} are live at once"
        )
        raise PassFailure(
            f"{message}, and these do not fit together" if notes else message, notes=tuple(notes)
        )


def _has_arena(main: func.FuncOp) -> bool:
    return main.arg_attrs is not None and any(ARENA in attributes.data for attributes in main.arg_attrs)
