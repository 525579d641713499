"""Branches that are never taken, and what branches and loops compute but nothing reads."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from mlopt.ir.effects import effects_of
from mlopt.ir.names import copy_name


def branch_taken(op: Operation) -> Region | None:
    """The only region of an `scf.if` that is ever run, empty if that is no region; None if it may be either."""
    if not isinstance(op, scf.IfOp) or not isinstance(constant := op.cond.owner, arith.ConstantOp):
        return None
    if not isinstance(value := constant.value, IntegerAttr):
        return None
    return op.true_region if value.value.data else op.false_region


def inline_branch(op: Operation, region: Region) -> None:
    """Put what stands in a region of `op`, which is run once, in the place of `op`."""
    block = region.blocks.first
    if block is None:
        Rewriter.erase_op(op)
        return
    terminator = block.last_op
    assert terminator is not None
    results = list(terminator.operands)
    Rewriter.erase_op(terminator)
    Rewriter.inline_block(block, InsertPoint.before(op))
    for old, new in zip(op.results, results, strict=True):
        copy_name(old, new)
    Rewriter.replace_op(op, [], results)


def results_read(op: Operation) -> list[int] | None:
    """Which results of an `scf.if` or `scf.for` are read; None if all are, or `op` is neither.

    A loop carries what the results that are read, or the effects of its body, need.
    """
    match op:
        case scf.IfOp():
            read = [index for index, result in enumerate(op.results) if result.first_use is not None]
        case scf.ForOp():
            read = _needed(op)
        case _:
            return None
    return None if len(read) == len(op.results) else read


def keep_results(op: Operation, kept: Sequence[int]) -> None:
    """Replace an `scf.if` or `scf.for` by one with some of its results; what computed the others has no uses then."""
    assert isinstance(op, scf.IfOp | scf.ForOp)
    for region in op.regions:
        if region.blocks:
            _shorten_yield(region.block, kept)
    if isinstance(op, scf.ForOp):
        _drop_arguments(op, kept)
        starts = [op.iter_args[index] for index in kept]
        new = scf.ForOp(op.lb, op.ub, op.step, starts, op.detach_region(op.body))
    else:
        types = [op.results[index].type for index in kept]
        new = scf.IfOp(op.cond, types, op.detach_region(0), op.detach_region(0))
    new.attributes.update(op.attributes)
    new.location = op.location
    replacements: list[SSAValue | None] = [None] * len(op.results)
    for index, result in zip(kept, new.results, strict=True):
        copy_name(op.results[index], result)
        replacements[index] = result
    Rewriter.replace_op(op, new, replacements)


def _needed(op: scf.ForOp) -> list[int]:
    """Which of the values that a loop carries are read after it, or by what its body needs for its effects."""
    block = op.body.block
    carried: dict[SSAValue, int] = {argument: index for index, argument in enumerate(block.args[1:])}
    terminator = block.last_op
    assert terminator is not None
    needed: set[int] = set()
    seen: set[Operation] = set()
    pending: list[SSAValue] = []

    def need(index: int) -> None:
        if index not in needed:
            needed.add(index)
            pending.append(terminator.operands[index])

    for index, result in enumerate(op.results):
        if result.first_use is not None:
            need(index)
    for inner in block.ops:
        if inner is not terminator and _does_more(inner):
            seen.add(inner)
            pending += _operands(inner)
    while pending:
        value = pending.pop()
        if value in carried:
            need(carried[value])
        elif isinstance(value, OpResult) and value.op not in seen and value.op.parent is block:
            seen.add(value.op)
            pending += _operands(value.op)
    return sorted(needed)


def _does_more(op: Operation) -> bool:
    """Does an operation do anything beside giving its results?"""
    effects = effects_of(op)
    return effects.changes_memory or effects.stops or op.has_trait(IsTerminator, value_if_unregistered=True)


def _operands(op: Operation) -> list[SSAValue]:
    return [operand for inner in op.walk() for operand in inner.operands]


def _shorten_yield(block: Block, kept: Sequence[int]) -> None:
    old = block.last_op
    assert isinstance(old, scf.YieldOp)
    new = scf.YieldOp(*(old.operands[index] for index in kept))
    new.location = old.location
    Rewriter.replace_op(old, new, [])


def _drop_arguments(op: scf.ForOp, kept: Sequence[int]) -> None:
    """Erase the body's arguments that are not carried any more; what still uses them is dead, and takes the start."""
    arguments = list(op.body.block.args[1:])
    for index, argument in enumerate(arguments):
        if index not in kept:
            argument.replace_all_uses_with(op.iter_args[index])
            op.body.block.erase_arg(argument)
