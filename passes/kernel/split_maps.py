"""Maps that several launches read parts of: each of these may evaluate its part itself, where that is not more work.

A split of a map is then no movement: each half is computed where it is wanted, and the whole is nowhere.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, OpResult, SSAValue

from mlopt.dialects.kernel import NO_PAD, ConstantOp, LaunchOp, MapOp, ReduceOp, YieldOp
from mlopt.passes.kernel.fusion_groups import Merge, judge_part
from mlopt.passes.kernel.inline_maps import writes_anew
from mlopt.passes.kernel.launches import (
    empty_like,
    is_empty,
    is_overwritten,
    only_map,
    structured_reads,
)
from mlopt.passes.kernel.live_bytes import byte_size


def find_split(launch: LaunchOp, max_ops: int) -> list[Merge] | None:
    """How a launch, a map of one result, can be merged into each of several others, which then evaluate parts of it.

    None if it can't: something else uses the result, or one of them could not evaluate its part within what reads it;
    all of them together would evaluate more than the map has elements; or what the map reads, which lives on until the
    last of them, takes more bytes than its result, which would not be there.
    """
    op = only_map(launch)
    if op is None or not _can_be_evaluated_elsewhere(launch, op):
        return None
    result = launch.res[0]
    merges: list[Merge] = []
    evaluated = 0
    for use in result.uses:
        user = use.operation
        if not isinstance(user, LaunchOp) or user.parent is not launch.parent or use.index >= len(user.ins):
            return None
        reads = structured_reads(user.body.args[use.index])
        merge = judge_part(launch, user, max_ops)
        if reads is None or len(reads) != 1 or merge is None or any(user is m.consumer for m in merges):
            return None
        reader, index = reads[0]
        if not isinstance(reader, MapOp | ReduceOp) or reader.pads.data[index] != NO_PAD:
            return None
        evaluated += prod(reader.extents)
        merges.append(merge)
    if len(merges) < 2 or evaluated > prod(op.extents):
        return None
    kept = sum(byte_size(value) for value in set(launch.ins) if not _is_elsewhere(value))
    return merges if kept <= byte_size(result) else None


def _can_be_evaluated_elsewhere(launch: LaunchOp, op: MapOp) -> bool:
    """Whether `op`, the only map of a launch, says for each element of a new tensor how it is computed."""
    return (
        not op.is_movement  # which is index maps of its readers, if they can have it
        and is_empty(launch.outs[0])
        and not any(is_overwritten(value) for value in launch.ins)
        and writes_anew(op)
        and not any(
            isinstance(operand.type, TensorType)
            for inner in op.body.ops
            if not isinstance(inner, YieldOp)
            for operand in inner.operands
        )
    )


def _is_elsewhere(value: SSAValue) -> bool:
    """Whether a tensor lives on whoever reads it."""
    return isinstance(value.owner, Block | ConstantOp)


def copy_for(launch: LaunchOp, user: LaunchOp) -> LaunchOp:
    """A second launch that does the same, whose result `user` takes instead."""
    block = user.parent
    assert block is not None
    out = empty_like(launch.outs[0])
    out.location = launch.location
    copy = launch.clone({launch.outs[0]: out.tensor})
    block.insert_ops_before([out, copy], user)
    result: OpResult = launch.res[0]
    result.replace_uses_with_if(copy.res[0], lambda use: use.operation is user)
    return copy
