"""Tidying one launch after a merge: maps become one, transposes become index maps, what is dead or double goes.

Run to a fixpoint: each step removes an op, an operand or a transposed read, so it ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from mlopt.dialects.kernel import ContractOp, IndexOp, LaunchOp, MapOp, ReduceOp, StructuredOp
from mlopt.ir.effects import is_dead
from mlopt.passes.kernel.align_layouts import align_layout, build_in_part, drop_copy
from mlopt.passes.kernel.inline_maps import inline_producer
from mlopt.passes.kernel.launches import drop_in, drop_read, reads_of


def simplify_launch(launch: LaunchOp) -> bool:
    """Simplify the body and the operands of a launch whose body holds structured ops and scalars only."""
    changed = merge_equal_ins(launch)
    again = True
    while again:
        step, again = _simplify_body(launch.body)
        changed |= step
    return drop_unused_ins(launch) or changed


def _simplify_body(block: Block) -> tuple[bool, bool]:
    """Go through a body once; returns whether anything changed, and whether that can let more change."""
    changed = merge_constants(block)
    realigned = False
    for op in list(block.ops):
        if op.parent is not block or not isinstance(op, StructuredOp):
            continue
        changed |= merge_equal_reads(op)
        if _inline_producers(op):
            changed = True
            merge_equal_reads(op)
        if not isinstance(op, ContractOp):
            changed |= merge_constants(op.body)
        if isinstance(op, MapOp):
            realigned |= align_layout(op)
            realigned |= drop_copy(op) or build_in_part(op)
    erased, dropped = erase_dead_ops(block)
    return changed or realigned or erased, realigned or dropped


def _inline_producers(op: StructuredOp) -> bool:
    changed = False
    index, count = 0, len(op.ins)
    while index < count:
        # What the launch is given is computed elsewhere.
        if isinstance(op.operands[index], OpResult) and inline_producer(op, index):
            changed, count = True, len(op.ins)
        else:
            index += 1
    return changed


def merge_equal_reads(op: StructuredOp) -> bool:
    """Let the body of a map or reduce take elements that it reads twice only once."""
    if not isinstance(op, MapOp | ReduceOp) or _all_differ(op.ins):
        return False
    changed = False
    seen: dict[Hashable, int] = {}
    index = 0
    for read in reads_of(op):
        key = (read.value, read.access.without_unit_dims(op.extents), read.pad)
        first = seen.setdefault(key, index)
        if first != index:
            drop_read(op, index, op.body.args[first])
            changed = True
        else:
            index += 1
    return changed


def _all_differ(values: Sequence[SSAValue]) -> bool:
    return len(set(values)) == len(values)


def drop_unused_reads(op: StructuredOp) -> bool:
    """Drop what a map or reduce reads but its body does not use."""
    if not isinstance(op, MapOp | ReduceOp):
        return False
    unused = [index for index in range(len(op.ins)) if op.body.args[index].first_use is None]
    for index in reversed(unused):
        drop_read(op, index)
    return bool(unused)


def merge_constants(block: Block) -> bool:
    """Keep the first of equal constants (bit for bit: 0.0 is not -0.0) and of equal positions of a block."""
    changed = False
    seen: dict[tuple[type[Operation], Attribute], SSAValue] = {}
    for op in list(block.ops):
        if isinstance(op, arith.ConstantOp | IndexOp):
            value = op.value if isinstance(op, arith.ConstantOp) else op.dim
            first = seen.setdefault((type(op), value), op.result)
            if first is not op.result:
                op.result.replace_all_uses_with(first)
                block.erase_op(op)
                changed = True
    return changed


def erase_dead_ops(block: Block) -> tuple[bool, bool]:
    """Erase, last first, every dead op of a block and of the bodies in it.

    Returns whether anything was erased, and whether an op reads less than before because of it.
    """
    erased = dropped = False
    for op in reversed(list(block.ops)):
        if is_dead(op):
            block.erase_op(op)
            erased = True
            continue
        for nested in chain.from_iterable(region.blocks for region in op.regions):
            erased |= erase_dead_ops(nested)[0]
        if isinstance(op, StructuredOp):
            dropped |= drop_unused_reads(op)
    return erased or dropped, dropped


def merge_equal_ins(launch: LaunchOp) -> bool:
    """Pass a value that is among the `ins` of a launch twice only once."""
    changed = False
    seen: dict[SSAValue, int] = {}
    index = 0
    for value in tuple(launch.ins):
        first = seen.setdefault(value, index)
        if first != index:
            drop_in(launch, index, launch.body.args[first])
            changed = True
        else:
            index += 1
    return changed


def drop_unused_ins(launch: LaunchOp) -> bool:
    """Drop the `ins` of a launch that its body does not use."""
    unused = [index for index in range(len(launch.ins)) if launch.body.args[index].first_use is None]
    for index in reversed(unused):
        drop_in(launch, index)
    return bool(unused)
