"""`eliminate-transposes`: operations run with their dimensions in the order that takes the fewest transposes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, Operation
from xdsl.utils.worklist import Worklist

from mlopt.diagnostics import counted
from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import nodes_text
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.axis_orders import (
    inverse,
)
from mlopt.passes.graph.canonicalization import DropIdentityMovement, MergeTransposes, TransposeOfOnes
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.order_regions import OpSequence, OrderRegion, RegionRewriting
from mlopt.passes.graph.reported import Reported
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


@dataclass(frozen=True)
class EliminateTransposesPass(Pass):
    """Let operations run in another order of dimensions where that needs fewer transposes.

    1. Transposes of transposes are merged, one that undoes the other goes, one that moves no data becomes a reshape.
    2. Operations that can run in any order (elementwise, along axes, reductions, slices, pads, concats, reshapes that
       keep dimensions together, products and windows as far as their dimensions allow) and that hang together are
       looked at as a whole: a minimum cut says which of them run in the order of a transpose's operand, so that the
       fewest transposes stand at the borders. That sinks transposes, hoists them, and merges them into reductions,
       softmax, concats, products and convolutions, around values that are used several times too.

    Constants are rewritten, if they are small or used only there. Nothing is done that does not lower the number of
    transposes, and nothing that makes them move more bytes: that number falls with every change, so the pass ends.
    Sums over other orders of dimensions may round otherwise. Remarks: what went, and where transposes meet that stay.
    """

    name = "eliminate-transposes"
    requires: ClassVar = GRAPH_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "reorder-region": "Operations that hang together run in the order of dimensions with the fewest transposes."
    }

    regions: bool = True
    """Whether operations are put into another order (2.)."""

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        message = "a transpose is merged into what is before it, or is a reshape"
        patterns = [DropIdentityMovement(), MergeTransposes(), TransposeOfOnes()]
        merging = Reported(ctx, self.name, "transposes-merged", message, [graph.TransposeOp], patterns)
        changed = rewrite_greedily(op, [merging], dce=True).changed
        return (self.regions and _Eliminator(ctx).run(op)) or changed


class _Eliminator:
    """Looks at the region around each transpose, once for each of its sides, and again after a change at it."""

    def __init__(self, ctx: CompilerContext):
        self.ctx = ctx
        self.worklist: Worklist[graph.TransposeOp] = Worklist()
        self.seen: set[tuple[graph.TransposeOp, bool]] = set()
        self.sequence = OpSequence()

    def run(self, root: Operation) -> bool:
        for op in root.walk():
            self.sequence.append(op)
        for op in root.walk(reverse=True):
            if isinstance(op, graph.TransposeOp):
                self.worklist.push(op)
        changed = False
        while self.worklist:
            transpose = self.worklist.pop()
            for below in (True, False):
                if transpose.parent is not None and (transpose, below) not in self.seen:
                    changed |= self._visit(transpose, below)
        return changed

    def _visit(self, transpose: graph.TransposeOp, below: bool) -> bool:
        self.seen.add((transpose, below))
        perm = transpose.permutation
        seed, order = (transpose.result, perm) if below else (transpose.input, inverse(perm))
        region = None if is_constant(transpose.input) else OrderRegion.around(seed, order, self.ctx)
        if region is None:
            return False
        self.seen.update((source, True) for source in region.sources)
        self.seen.update((sink, False) for sink in region.sinks)
        if len(region.sources) + len(region.sinks) < 2 and not region.absorbs():
            return False
        chosen, saved, why = _Choice(region).choose()
        if not chosen:
            self.ctx.count(EliminateTransposesPass.name, "regions-kept")
            self.ctx.remark(EliminateTransposesPass.name, "missed", f"not removed: {why}", transpose)
            return False
        if not may_rewrite("reorder-region", transpose):
            return False
        self.ctx.count(EliminateTransposesPass.name, "regions-reordered")
        self.ctx.count(EliminateTransposesPass.name, "transposes-removed", saved)
        self.ctx.remark(
            EliminateTransposesPass.name,
            "passed",
            f"{counted(saved, 'transpose')} fewer: {counted(len(chosen), 'operation runs', 'operations run')} "
            "in another order of dimensions",
            transpose,
        )
        for new in RegionRewriting(region, chosen, self.sequence).run():
            self.worklist.push(new)
        return True


@dataclass
class _Choice:
    """Which operations of a region to run in the new order so that the fewest transposes are left."""

    region: OrderRegion

    def choose(self) -> tuple[frozenset[Operation], int, str]:
        """The operations to run in the new order, how many transposes that saves, and if none why."""
        scale = 1 + 4 * sum(edge.bytes for edge in self.region.edges)
        chosen = self.region.cut(lambda edge, form: scale + edge.bytes)

        def after(owner: Operation | bool) -> bool:
            return owner if isinstance(owner, bool) else owner in chosen

        def before(owner: Operation | bool) -> bool:
            return owner is True

        saved = self._count(before) - self._count(after)
        if saved <= 0:
            return frozenset(), 0, self._border_text()
        if self._count(after, in_bytes=True) > self._count(before, in_bytes=True):
            return frozenset(), 0, f"with {counted(saved, 'transpose')} fewer, more bytes would be moved"
        return chosen, saved, ""

    def _count(self, form: Callable[[Operation | bool], bool], *, in_bytes: bool = False) -> int:
        return sum(len(edge.transposes(form)) * (edge.bytes if in_bytes else 1) for edge in self.region.edges)

    def _border_text(self) -> str:
        """Which values would have to be transposed instead."""
        count = len(self.region.sources) + len(self.region.sinks)
        here = "1 transpose stands here" if count == 1 else f"{count} transposes meet here"
        for edge in self.region.edges:
            owner = edge.value.owner
            if edge.own is False and not isinstance(owner, Block):
                name = f"'{owner.name.removeprefix('graph.')}'{nodes_text(owner.location)}"
                return f"{here}, but the result of {name} has one order"
        return f"{here}, but as many would be needed elsewhere"
