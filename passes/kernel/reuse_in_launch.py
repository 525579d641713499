"""In place inside a launch: maps overwrite what they read last, and chains are built in the launch's own outs.

So a launch needs memory of its own only for intermediates that really live beside its results.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, SSAValue

from mlopt.diagnostics import counted
from mlopt.dialects.kernel import NO_PAD, LaunchOp, MapOp
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewrite_limit import may_rewrite, rewrote
from mlopt.passes.kernel.launches import (
    Read,
    chain_of,
    drop_read,
    erase_if_unused,
    is_destination_use,
    is_empty,
    reads_of,
    shape_of,
)
from mlopt.passes.kernel.liveness import BlockLiveness

_NAME = "reuse-in-launch"

REUSE_IN_LAUNCH = {_NAME: "Inside a launch, maps overwrite what dies there, and results are built in place."}
"""What `reuse_in_launch` is counted and switched off by in the passes that call it."""


def reuse_in_launch(launch: LaunchOp, ctx: CompilerContext, pass_name: str) -> bool:
    """Update in place inside a launch where that is proved, and say so; returns whether anything changed."""
    if not may_rewrite(_NAME, launch, certain=False):
        return False
    maps, built = _reuse_in_launch(launch)
    if not maps and not built:
        return False
    rewrote(_NAME)
    ctx.count(pass_name, "maps-in-place", maps)
    done: list[str] = []
    if maps:
        done.append(f"{counted(maps, 'map')} {'overwrites' if maps == 1 else 'overwrite'} what dies there")
    if built:
        done.append(f"{counted(built, 'result')} {'is' if built == 1 else 'are'} built in place")
    message = f"reused in place in '{launch.kernel_name.data}': {' and '.join(done)}"
    ctx.remark(pass_name, "passed", message, launch.location)
    return True


def _reuse_in_launch(launch: LaunchOp) -> tuple[int, int]:
    """How many more maps overwrite what they read, and how many results are now built in their outs that were not."""
    maps = 0
    pending = [launch.body]
    while pending:
        block = pending.pop()
        maps += _reuse_in_block(block)
        for op in block.ops:
            if isinstance(op, scf.ForOp | scf.WhileOp | scf.IfOp):
                pending.extend(nested for region in op.regions for nested in region.blocks)
    built = 0
    for value, argument in zip(launch.yielded, launch.out_args, strict=True):
        built += chain_of(value)[-1] is not argument and _build_in(value, argument, launch.body)
    return maps, built


def _reuse_in_block(block: Block) -> int:
    maps = 0
    liveness = BlockLiveness(block)
    for op in block.ops:
        if isinstance(op, MapOp):
            for position in range(len(op.outs)):
                maps += _reuse_read(op, position, liveness)
    return maps


def _reuse_read(op: MapOp, position: int, liveness: BlockLiveness) -> bool:
    """Let out `position` of a map overwrite a tensor that the map reads, if one dies there."""
    out = op.outs[position]
    argument = op.body.args[len(op.ins) + position]
    if argument.first_use is not None or not _is_fresh(out, op.parent):
        return False
    if not op.out_accesses[position].covers(shape_of(out), op.extents):
        return False
    for index, read in enumerate(reads_of(op)):
        if is_empty(read.value):  # it has no contents: there is nothing to keep in place
            continue
        if read.value.type == out.type and _dies_in(op, index, read, position, liveness):
            if not is_empty(out) and not _build_in(read.value, out, op.parent, uses=1):
                continue
            liveness.unite(read.value, op.res[position])
            drop_read(op, index, argument)
            op.operands[len(op.ins) + position] = read.value
            erase_if_unused(out)
            return True
    return False


def _is_fresh(out: SSAValue, block: Block | None) -> bool:
    """Whether a destination has no contents yet: uninitialised, or an out of the launch that only this op takes."""
    if is_empty(out):
        return True
    return _is_out_argument(out) and out.owner is block and out.uses.get_length() == 1


def _is_out_argument(value: SSAValue) -> bool:
    if not isinstance(value, BlockArgument):
        return False
    launch = value.block.parent_op()
    return isinstance(launch, LaunchOp) and value.index >= len(launch.ins)


def _dies_in(op: MapOp, index: int, read: Read, position: int, liveness: BlockLiveness) -> bool:
    """Whether `op` may overwrite what it reads at `index` with its out `position`.

    It may if the tensor lives in memory of this block, nothing uses it or an alias later, and this op uses it only
    here, element by element at the place that it writes.
    """
    chain = chain_of(read.value)
    if not _may_overwrite(chain[-1], op.parent):
        return False
    if any(_owner_block(value) is not op.parent for value in chain):
        return False
    if any(_destination_uses(value) > 1 for value in chain) or _destination_uses(read.value) > 0:
        return False
    now = liveness.position(op)
    if liveness.last_use(read.value) != now:
        return False
    if any(use.operation is not op or use.index != index for use in liveness.uses_at(read.value, now)):
        return False
    written = op.out_accesses[position].without_unit_dims(op.extents)
    return read.pad == NO_PAD and read.access.without_unit_dims(op.extents) == written


def _may_overwrite(root: SSAValue, block: Block | None) -> bool:
    """Whether the root of a chain is memory of this block: uninitialised, an out of the launch, carried by a loop."""
    if is_empty(root) or _is_out_argument(root):
        return True
    return isinstance(root, BlockArgument) and root.block is block and is_carried(root)


def is_carried(argument: BlockArgument) -> bool:
    """Whether a block argument is carried by a loop, which overwrites it anyway from one iteration to the next.

    One that starts as the same tensor as another does not count: they are not distinct before the first iteration.
    """
    loop = argument.block.parent_op()
    if isinstance(loop, scf.ForOp):
        inits: Iterable[SSAValue] = loop.iter_args
        init = loop.iter_args[argument.index - 1] if argument.index else None
    elif isinstance(loop, scf.WhileOp) and argument.block is loop.before_region.block:
        inits, init = loop.arguments, loop.arguments[argument.index]
    elif isinstance(loop, scf.WhileOp):
        condition = loop.before_region.block.last_op
        assert condition is not None
        inits = condition.operands[1:]
        init = condition.operands[argument.index + 1]
    else:
        return False
    return sum(other is init for other in inits) == 1


def _destination_uses(value: SSAValue) -> int:
    return sum(is_destination_use(use.operation, use.index) for use in value.uses)


def _owner_block(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def _build_in(value: SSAValue, out: SSAValue, block: Block | None, uses: int = 0) -> bool:
    """Root the chain of `value` in `out`, an argument of the launch, instead of an uninitialised tensor.

    Fails if the chain is rooted elsewhere, in another block, or if `out` has more uses than `uses`, those that the
    caller is about to remove.
    """
    root = chain_of(value)[-1]
    if root is out:
        return True
    if (
        not is_empty(root)
        or root.type != out.type
        or _owner_block(root) is not block
        or out.owner is not block
    ):
        return False
    if out.uses.get_length() > uses or _destination_uses(root) > 1:
        return False
    root.replace_all_uses_with(out)
    erase_if_unused(root)
    return True
