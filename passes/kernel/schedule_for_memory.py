"""`schedule-for-memory`: the steps of a block in the order in which the fewest bytes are live at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, Operation

from mlopt.diagnostics import PassFailure
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.memory import PROVED
from mlopt.memory.scheduling import Schedule, schedule
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.launches import blocks_with_launches
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import KERNEL_LEVEL

_ALIGNMENT = 64
"""Bytes; what is counted with without a target."""


@dataclass(frozen=True)
class ScheduleForMemoryPass(Pass):
    """Reorder the launches of each block so that fewer bytes are live at once.

    Moved: launches, calls and loops of one block, if that makes the block's peak smaller, and only where it does; what
    costs nothing (constants, uninitialised tensors, views, scalars) goes with what needs it.
    Not moved: anything across what has effects or may stop the run; what reads a tensor, across its update in place.
    The peak counts tensors and temporaries of launches, as they stand; with it comes a lower bound on all orders.

    Option: `nodes`: how many steps the search may try in each block, before it goes on with a beam.
    """

    name = "schedule-for-memory"
    requires: ClassVar = KERNEL_LEVEL
    ensures: ClassVar = KERNEL_LEVEL
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = {
        "order-block": "The steps of a block in an order of smaller peak."
    }

    nodes: int = 100_000

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        if self.nodes < 0:
            raise PassFailure(f"the nodes of a search can't be negative, found {self.nodes}")
        changed = False
        # Inner blocks first: what they need at once is the workspace of the op around them.
        for block in reversed(list(blocks_with_launches(op))):
            changed |= self._order(ctx, block)
        return changed

    def _order(self, ctx: CompilerContext, block: Block) -> bool:
        steps = BlockSteps(block, _ALIGNMENT if ctx.target is None else ctx.target.alignment)
        found = schedule(steps.graph, nodes=self.nodes)
        owner = block.parent_op()
        assert owner is not None
        ctx.count(self.name, "blocks-proved" if found.status == PROVED else "blocks-open")
        ctx.count(self.name, "nodes", found.nodes)
        if found.peak < found.source_peak and may_rewrite("order-block", owner):
            ctx.remark(
                self.name,
                "passed",
                f"ordered for memory: {found.source_peak} bytes live at once become {found.peak}, {_limit(found)}",
                steps.first_moved(found.order),
            )
            ctx.count(self.name, "blocks-ordered")
            ctx.count(self.name, "bytes-saved", found.source_peak - found.peak)
            steps.reorder(found.order)
            return True
        ctx.remark(
            self.name,
            "analysis",
            f"{found.source_peak} bytes live at once in the order as it is, {_limit(found)}",
            owner,
        )
        return False


def _limit(found: Schedule) -> str:
    return f"no order takes less than {found.bound}: {found.status}"
