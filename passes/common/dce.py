"""`dce`: erase what nothing uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation, OpResult, Region
from xdsl.utils.worklist import Worklist

from mlopt.ir.context import CompilerContext
from mlopt.ir.dominance import reachable_blocks
from mlopt.ir.effects import is_dead
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewriting import DRIVER_REWRITES, ERASE_DEAD
from mlopt.passmanager.base import Pass


@dataclass(frozen=True)
class DCEPass(Pass):
    """Erase operations without effects whose results are not used, and blocks that no branch reaches.

    An operation goes if it only reads memory, or allocates memory that nothing else sees, and no result is used.
    Kept: whatever writes or frees memory, calls, symbols, terminators, and operations of unknown effects.
    """

    name = "dce"
    anchor = None
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = {ERASE_DEAD: DRIVER_REWRITES[ERASE_DEAD]}

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        blocks = sum(_erase_unreachable_blocks(region, ctx) for region in _regions(op))
        ops = erase_dead_ops(op, ctx)
        ctx.count(self.name, "ops-erased", ops)
        ctx.count(self.name, "blocks-erased", blocks)
        return ops + blocks > 0


def erase_dead_ops(root: Operation, ctx: CompilerContext) -> int:
    """Erase the dead operations inside `root`, in time linear in their number; returns how many went."""
    worklist: Worklist[Operation] = Worklist()
    for op in root.walk():
        if op is not root:
            worklist.push(op)
    erased = 0
    while worklist:
        op = worklist.pop()
        if not is_dead(op) or not may_rewrite(ERASE_DEAD, op):
            continue
        inside = list(op.walk())
        for nested in inside:
            worklist.remove(nested)
        producers = dict.fromkeys(
            operand.op for nested in inside for operand in nested.operands if isinstance(operand, OpResult)
        )
        ctx.remark(DCEPass.name, "passed", f"erased '{op.name}': nothing uses it", op)
        block = op.parent
        assert block is not None
        block.erase_op(op)
        erased += len(inside)
        gone = set(inside)
        for producer in producers:
            if producer not in gone and producer is not root:
                worklist.push(producer)
    return erased


def _regions(op: Operation) -> list[Region]:
    return [region for nested in op.walk() for region in nested.regions]


def _erase_unreachable_blocks(region: Region, ctx: CompilerContext) -> int:
    if len(region.blocks) < 2:
        return 0
    reachable = reachable_blocks(region)
    dead = [block for block in region.blocks if block not in reachable]
    for block in dead:
        if (around := region.parent_op()) is not None:
            ctx.remark(DCEPass.name, "passed", "erased a block that no branch reaches", around)
        region.erase_block(block, safe_erase=False)
    return len(dead)
