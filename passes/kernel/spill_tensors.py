"""Spilling tensors of a block: copies to the second memory space after a use, and back right before the next one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from xdsl.ir import Block, Operation, OpResult, SSAValue

from mlopt.dialects.kernel import CopyOp, ReshapeOp
from mlopt.ir.memory_spaces import ARENA_SPACE, SPILL_SPACE
from mlopt.ir.names import set_name
from mlopt.memory.spilling import Gap, idle_gaps
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.run_again import use_from


class Spilled(NamedTuple):
    """A tensor that was spilled, the last op that uses it before, and those that it is back for."""

    tensor: OpResult
    after: Operation
    before: tuple[Operation, ...]


def gaps_of(steps: BlockSteps) -> tuple[list[Gap], list[OpResult]]:
    """What may be spilled in a block: gaps in which a value holds one tensor that is used later on.

    Beside them these tensors, by the `contents` of the gaps. Left out are gaps over which there is more than one in a
    storage, or a view other than a reshape.
    """
    gaps: list[Gap] = []
    contents: dict[OpResult, int] = {}
    for index, (value, tensors) in enumerate(zip(steps.graph.values, steps.tensors(), strict=True)):
        for after, before in idle_gaps(value.steps) if value.size else ():
            tensor = _only_tensor_over(steps, tensors, after, before)
            if tensor is not None:
                held_since = None if _source(tensor) is None else steps.step_at(tensor.op)
                number = contents.setdefault(tensor, len(contents))
                gaps.append(Gap(index, number, after, before, held_since))
    return gaps, list(contents)


def spill(steps: BlockSteps, gaps: Sequence[Gap], tensors: Sequence[OpResult]) -> list[Spilled]:
    """Put the copies for some of the gaps into the block; the steps are out of date then.

    What is in the second memory already is not copied there again.
    """
    spilled: list[Spilled] = []
    backs: list[CopyOp] = []
    by_contents = sorted(gaps, key=lambda gap: (gap.contents, gap.after))
    for number, group in groupby(by_contents, lambda gap: gap.contents):
        tensor, own = tensors[number], list(group)
        after, users = steps.ops[own[0].after], tuple(steps.ops[gap.before] for gap in own)
        spilled.append(Spilled(tensor, after, users))
        there = _source(tensor)
        if there is None:
            there = _insert_copy(tensor, tensor, SPILL_SPACE, "spilled", after.next_op).result
        now: SSAValue = tensor
        for user in users:
            backs.append(_insert_copy(there, tensor, ARENA_SPACE, "back", user))
            use_from(user, {now: backs[-1].result})
            now = backs[-1].result
    for back in backs:
        _use_what_is_there(back)
    if spilled:
        block = steps.ops[0].parent
        assert block is not None
        _erase_unused_reshapes(block)
    return spilled


def _insert_copy(
    source: SSAValue, tensor: OpResult, space: int, suffix: str, before: Operation | None
) -> CopyOp:
    assert before is not None and before.parent is not None
    copy = CopyOp(source, space)
    copy.location = tensor.op.location
    set_name(copy.result, f"{tensor.name_hint or 'v'}_{suffix}")
    before.parent.insert_op_before(copy, before)
    return copy


def _source(tensor: OpResult) -> SSAValue | None:
    """The copy in the second memory that a tensor was copied back from."""
    if not isinstance(tensor.op, CopyOp):
        return None
    there = tensor.op.source.owner
    return there.result if isinstance(there, CopyOp) and there.memory_space == SPILL_SPACE else None


def _use_what_is_there(back: CopyOp) -> None:
    """What is copied out once more later on is there already."""
    for use in list(back.result.uses):
        again = use.operation
        if isinstance(again, CopyOp) and again.memory_space == SPILL_SPACE:
            again.result.replace_all_uses_with(back.source)
            again.detach()
            again.erase()


def _erase_unused_reshapes(block: Block) -> None:
    for op in reversed(list(block.ops)):
        if isinstance(op, ReshapeOp) and op.result.first_use is None:
            op.detach()
            op.erase()


# What a storage holds over a gap


def _only_tensor_over(
    steps: BlockSteps, tensors: Sequence[SSAValue], after: int, before: int
) -> OpResult | None:
    """The one of the tensors of a storage that is there after a step and used from another one on, if there is one."""
    found: list[OpResult] = []
    for tensor in tensors:
        assert isinstance(tensor, OpResult)
        step = steps.step_at(tensor.op)
        if step is None and isinstance(tensor.op, ReshapeOp):
            continue  # stands for what it is a reshape of
        is_there = step is None or step <= after
        if is_there and _last_user(steps, tensor) >= before:
            found.append(tensor)
    return found[0] if len(found) == 1 and steps.step_at(found[0].op) is not None else None


def _last_user(steps: BlockSteps, tensor: SSAValue) -> int:
    """The last step that uses a tensor or a reshape of it; -1 for none."""
    last = -1
    for use in tensor.uses:
        op = steps.in_block(use.operation)
        step = steps.step_at(op)
        if step is not None:
            last = max(last, step)
        elif isinstance(op, ReshapeOp):
            last = max(last, _last_user(steps, op.result))
    return last
