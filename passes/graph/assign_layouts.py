"""`assign-layouts`: which operations on images run with their channels last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from mlopt.diagnostics import counted
from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.dialects.graph.channels_last import channels_first
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passes.graph.axis_orders import Reordering, inverse, moves_data
from mlopt.passes.graph.channels_last import channels_last_of
from mlopt.passes.graph.fusion import described
from mlopt.passes.graph.layout_costs import MODELS, CostModel, ModelName
from mlopt.passes.graph.order_regions import Edge, OpSequence, OrderRegion, RegionRewriting
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

_IMAGE_OPS = (graph.ConvOp, graph.MaxPoolOp, graph.AveragePoolOp, graph.ResizeOp)


@dataclass(frozen=True)
class AssignLayoutsPass(Pass):
    """Give every operation on images the layout, channels first or last, with which the whole costs least.

    1. Convolutions and pools become `graph.channels_last_...`, other operations run with their dimensions in another
       order; transposes stand where the layout changes. Weights that are constants are rewritten.
    2. What hangs together is decided as a whole, by a minimum cut over what each operation costs in either layout and
       what the conversions cost: exact for two layouts.

    `target` is the cost model: `numpy` was measured on the engine, for f32; `channels-last` stands for hardware that
    prefers that. Not converted: a region that would gain less than `min_gain` of its cost; operations that have one
    layout only (transposed and integer convolutions, group norms, products), around which conversions stand. Sums
    over other orders of dimensions may round otherwise. Nothing else at the graph level knows channels-last
    convolutions, so this pass comes last. Remarks: each region and what is predicted for it, each conversion.
    """

    name = "assign-layouts"
    requires: ClassVar = GRAPH_LEVEL
    rewrites: ClassVar[Mapping[str, str]] = {
        "channels-last": "A region of operations on images runs with its channels last."
    }

    target: ModelName = "numpy"
    min_gain: float = 0.06
    """The least part of the cost of a region that has to be saved."""

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return _Assignment(ctx, MODELS[self.target], self.min_gain).run(op)


class _Plan(NamedTuple):
    """The operations of a region to run channels last; nanoseconds as it is and as it would be."""

    chosen: frozenset[Operation]
    before: int
    after: int


class _Assignment:
    """Decides region by region; each operation is in one at most."""

    def __init__(self, ctx: CompilerContext, model: CostModel, min_gain: float):
        self.ctx = ctx
        self.model = model
        self.min_gain = min_gain
        self.seen: set[Operation] = set()
        self.sequence = OpSequence()

    def run(self, root: Operation) -> bool:
        images: list[Operation] = []
        for op in root.walk():
            self.sequence.append(op)
            if isinstance(op, _IMAGE_OPS):
                images.append(op)
        changed = False
        for op in images:
            if op not in self.seen:
                changed |= self._visit(op)
        return changed

    def _visit(self, op: Operation) -> bool:
        order = channels_first(rank_of(op.results[0]))
        region = OrderRegion.around(op.results[0], order, self.ctx, self._reordering_of, self.seen)
        self.seen.add(op)
        if region is None:
            return False
        self.seen.update(region.orders)
        plan = best_plan(region, self.model)
        gain = plan.before - plan.after
        facts = {"operations": len(plan.chosen), "before_us": _us(plan.before), "after_us": _us(plan.after)}
        if not plan.chosen or gain < self.min_gain * plan.before:
            self.ctx.count(AssignLayoutsPass.name, "regions-kept")
            why = (
                f"{_us(plan.after)} instead of {_us(plan.before)} us"
                if plan.chosen
                else "nothing would be gained"
            )
            count = counted(len(region.orders), "operation")
            self.ctx.remark(
                AssignLayoutsPass.name, "missed", f"channels stay first in {count}: {why}", op, args=facts
            )
            return False
        if not may_rewrite("channels-last", op):
            return False
        self.ctx.count(AssignLayoutsPass.name, "regions-converted")
        self.ctx.count(AssignLayoutsPass.name, "operations-converted", len(plan.chosen))
        message = (
            f"{len(plan.chosen)} of {counted(len(region.orders), 'operation')} run channels last: "
            f"{_us(plan.after)} instead of {_us(plan.before)} us by the cost model"
        )
        self.ctx.remark(AssignLayoutsPass.name, "passed", message, op, args=facts)
        for transpose in RegionRewriting(region, plan.chosen, self.sequence).run():
            self.ctx.count(AssignLayoutsPass.name, "conversions")
            self.ctx.remark(AssignLayoutsPass.name, "analysis", _conversion_text(transpose), transpose)
        return True

    def _reordering_of(self, op: Operation) -> Reordering | None:
        """How an operation runs channels last, if the model knows what that costs."""
        return channels_last_of(op) if op.results and self.model.knows(op) else None


def best_plan(region: OrderRegion, model: CostModel) -> _Plan:
    """The operations of a region that run channels last where all costs least by the model."""

    def move_cost(edge: Edge, to_last: bool) -> int:
        """Nothing where no element moves: that is a reshape."""
        return model.of_conversion(edge.value, to_last=to_last) if _moves(region, edge.value) else 0

    def total(chosen: frozenset[Operation]) -> int:
        def is_last(owner: Operation | bool) -> bool:
            return owner if isinstance(owner, bool) else owner in chosen

        ops = sum(model.of(op)[op in chosen] for op in region.orders)
        return ops + sum(move_cost(edge, form) for edge in region.edges for form in edge.transposes(is_last))

    chosen = region.cut(move_cost, model.of)
    return _Plan(chosen, total(frozenset()), total(chosen))


def _moves(region: OrderRegion, value: SSAValue) -> bool:
    order = region.order.get(value)
    return order is None or moves_data(shape_of(value), inverse(order))


def _conversion_text(transpose: graph.TransposeOp) -> str:
    """Between what a conversion stands."""
    source = transpose.input.owner
    name = transpose.input.name_hint
    if isinstance(source, Block):
        made = "an argument" if name is None else f"argument '{name}'"
    else:
        made = f"the result of {described(source)}"
    users = list(dict.fromkeys(use.operation for use in transpose.result.uses))
    first = described(users[0]) + (f" and {len(users) - 1} more" if len(users) > 1 else "")
    return f"conversion of {made} for {first}"


def _us(nanoseconds: int) -> float:
    """Microseconds, rounded for the reader."""
    return round(nanoseconds / 1000, 1)
