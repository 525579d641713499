"""`dce`: erase what nothing uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from xdsl.ir import Operation, OpResult, Region
from xdsl.utils.worklist import Worklist

from mlopt.diagnostics import counted
from mlopt.ir.context import CompilerContext
from mlopt.ir.dominance import reachable_blocks
from mlopt.ir.effects import is_dead
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.ir.rewriting import DRIVER_REWRITES, ERASE_DEAD
from mlopt.passes.common.unread import branch_taken, inline_branch, keep_results, results_read
from mlopt.passmanager.base import Pass

TAKE_BRANCH = "take-branch"
DROP_UNREAD = "drop-unread"
ERASE_UNREACHABLE = "erase-unreachable"


class DCEPass(Pass):
    """Erase operations without effects whose results are not used, and what is never run.

    1. An operation goes if it only reads memory, or allocates memory that nothing else sees, and no result is used.
    2. A block that no branch reaches goes. An `scf.if` with a constant condition becomes the branch that is taken.
    3. Results of `scf.if` and `scf.for` that nothing reads go, with what computes only them; a loop goes on carrying
       what others, or the effects of its body, need.

    Kept: whatever writes or frees memory, calls, symbols, terminators, and operations of unknown effects.
    """

    name = "dce"
    anchor = None
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = {
        ERASE_DEAD: DRIVER_REWRITES[ERASE_DEAD],
        ERASE_UNREACHABLE: "A block that no branch reaches is erased.",
        TAKE_BRANCH: "An scf.if with a constant condition is the branch that is taken.",
        DROP_UNREAD: "Results of scf.if and scf.for that nothing reads are dropped.",
    }

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        branches = _take_branches(op, ctx)
        blocks = _erase_unreachable_blocks(op, ctx)
        ops = erase_dead_ops(op, ctx)
        unread = 0
        while dropped := _drop_unread(op, ctx):
            # What computed them may have been all that read results of branches and loops inside, or before.
            unread += dropped
            ops += erase_dead_ops(op, ctx)
        ctx.count(self.name, "ops-erased", ops)
        ctx.count(self.name, "blocks-erased", blocks)
        ctx.count(self.name, "branches-taken", branches)
        ctx.count(self.name, "results-dropped", unread)
        return ops + blocks + branches + unread > 0


def _take_branches(root: Operation, ctx: CompilerContext) -> int:
    """Replace branches by what is run of them; returns how many."""
    taken = 0
    gone: set[Operation] = set()
    for op in list(root.walk()):
        region = None if op is root or op in gone else branch_taken(op)
        if region is None or not may_rewrite(TAKE_BRANCH, op):
            continue
        gone.update(inner for other in op.regions if other is not region for inner in other.walk())
        ctx.remark(DCEPass.name, "passed", f"took the only branch of '{op.name}' that is ever run", op)
        inline_branch(op, region)
        taken += 1
    return taken


def _drop_unread(root: Operation, ctx: CompilerContext) -> int:
    """Drop results of branches and loops that nothing reads; returns how many."""
    dropped = 0
    for op in list(root.walk()):
        kept = None if op is root else results_read(op)
        if kept is None or not may_rewrite(DROP_UNREAD, op):
            continue
        unread = len(op.results) - len(kept)
        what = f"dropped {unread} of {counted(len(op.results), 'result')} of '{op.name}': nothing reads them"
        ctx.remark(DCEPass.name, "passed", what, op)
        keep_results(op, kept)
        dropped += unread
    return dropped


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


def _erase_unreachable_blocks(root: Operation, ctx: CompilerContext) -> int:
    """Erase the blocks inside `root` that no branch reaches; returns how many, those inside of them aside."""
    erased = 0
    gone: set[Region] = set()
    for op in list(root.walk()):
        for region in op.regions:
            if len(region.blocks) < 2 or region in gone:
                continue
            reachable = reachable_blocks(region)
            for block in [block for block in region.blocks if block not in reachable]:
                if not may_rewrite(ERASE_UNREACHABLE, op):
                    continue
                gone.update(inner for nested in block.walk() for inner in nested.regions)
                ctx.remark(DCEPass.name, "passed", "erased a block that no branch reaches", op)
                region.erase_block(block, safe_erase=False)
                erased += 1
    return erased
