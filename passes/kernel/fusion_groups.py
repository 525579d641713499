"""Which launches may be merged, and why not.

A launch is merged into the only launch that uses its results, at the place of that one: so nothing can stand between
the two that needs the one and is needed by the other, and no order of the other ops is broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, OpResult, SSAValue, Use
from xdsl.traits import IsTerminator

from mlopt.dialects.kernel import (
    NO_PAD,
    Access,
    ContractOp,
    LaunchOp,
    MapOp,
    ReduceOp,
    StructuredOp,
    YieldOp,
)
from mlopt.passes.kernel.hoist_maps import Hoist
from mlopt.passes.kernel.inline_maps import compose_read, keeps_unit_stride
from mlopt.passes.kernel.launches import (
    Kind,
    count_ops,
    is_empty,
    kind_of,
    only_map,
    read_of,
    shape_of,
    structured_reads,
)
from mlopt.passes.kernel.selections import as_selection, uses_once


class Rule(Enum):
    """Why two launches are merged; the value is the statistic that counts it."""

    CHAIN = "map-chains-fused"
    """Maps behind maps."""
    EPILOGUE = "epilogues-fused"
    """Maps behind the launch that computes what they read."""
    PROLOGUE = "prologues-fused"
    """Maps in front of the launch that reads what they compute."""
    ROWS = "row-kernels-fused"
    """Reductions of rows with what follows on the same rows."""


class Merge(NamedTuple):
    """`producer` may be merged into `consumer` by `rule`."""

    producer: LaunchOp
    consumer: LaunchOp
    rule: Rule


class NearMiss(NamedTuple):
    """`producer` is of a kind that could be merged into `consumer`; `reason` completes "not fused: ..."."""

    producer: LaunchOp
    consumer: LaunchOp
    reason: str


def as_movement(launch: LaunchOp) -> MapOp | None:
    """The map of a launch that only moves elements and writes all of its result, else None."""
    op = only_map(launch)
    if op is None or not op.is_movement or len(launch.ins) != 1:
        return None
    return op if op.out_accesses[0].covers(shape_of(op.res[0]), op.extents) else None


def movement_obstacle(launch: LaunchOp, movement: MapOp) -> Operation | None:
    """The first user of a movement that can't read the movement's source itself, or None if all can."""
    for use in launch.res[0].uses:
        if launch.parent is None or not can_absorb(use, movement, launch.parent):
            return use.operation
    return None


def can_absorb(use: Use, movement: MapOp, block: Block) -> bool:
    """Whether what uses the result of a movement is a launch of `block` that can read the movement's source itself."""
    user = use.operation
    if not isinstance(user, LaunchOp) or user.parent is not block or use.index >= len(user.ins):
        return False
    reads = structured_reads(user.body.args[use.index])
    if reads is None or kind_of(user) is Kind.OPAQUE:
        return False
    for op, index in reads:
        read = compose_read(movement, read_of(op, index), op.extents)
        if read is None or not keeps_unit_stride(op, index, read.access):
            return False
    return True


def producers_of(launch: LaunchOp) -> Iterator[LaunchOp]:
    """The launches of the same block whose results are among the `ins`, each once, in order of the operands."""
    seen: set[Operation] = set()
    for value in launch.ins:
        if (
            isinstance(value, OpResult)
            and isinstance(value.op, LaunchOp)
            and value.op.parent is launch.parent
        ):
            if value.op not in seen:
                yield value.op
            seen.add(value.op)


def judge(producer: LaunchOp, consumer: LaunchOp, max_ops: int) -> Merge | NearMiss | None:
    """Whether `producer` may be merged into `consumer`, which uses a result of it.

    None if the two are of kinds that are never merged.
    """
    kinds = kind_of(producer), kind_of(consumer)
    readers = _readers(producer, consumer)
    rule = None if readers is None else _rule(*kinds, readers) or _selection_rule(producer, readers)
    if readers is None or rule is None:
        return None
    obstacle = (
        _use_obstacle(producer, consumer)
        or _kind_obstacle(*kinds, producer, consumer)
        or _read_obstacle(kinds[0], readers, consumer)
        or _size_obstacle(producer, consumer, max_ops)
    )
    if obstacle is not None:
        return NearMiss(producer, consumer, obstacle)
    return Merge(producer, consumer, rule)


def judge_part(producer: LaunchOp, consumer: LaunchOp, max_ops: int) -> Merge | None:
    """Whether a launch of maps, of which `consumer` reads a part, could be merged into it if no other used it."""
    readers = _readers(producer, consumer)
    kind = kind_of(producer)
    if readers is None or kind is not Kind.POINTWISE:
        return None
    rule = _rule(kind, kind_of(consumer), readers)
    too_large = _size_obstacle(producer, consumer, max_ops) is not None
    return None if rule is None or too_large else Merge(producer, consumer, rule)


def rule_above(found: Hoist, max_ops: int) -> Rule | None:
    """The rule by which a map that could move above a reshape could be merged there with what is reshaped, if any."""
    producer = found.producer
    kind = kind_of(producer)
    if (
        kind is Kind.OPAQUE
        or not all(is_empty(out) for out in producer.outs)
        or _size_obstacle(producer, found.launch, max_ops) is not None
    ):
        return None
    return _rule(kind, Kind.POINTWISE, ())


def _readers(producer: LaunchOp, consumer: LaunchOp) -> list[tuple[StructuredOp, int]] | None:
    """The structured ops in the consumer that read results of the producer; None if it uses them otherwise too."""
    readers: list[tuple[StructuredOp, int]] = []
    for index, value in enumerate(consumer.ins):
        if value.owner is producer:
            reads = structured_reads(consumer.body.args[index])
            if reads is None:
                return None
            readers.extend(reads)
    return readers


def _rule(producer: Kind, consumer: Kind, readers: Sequence[tuple[StructuredOp, int]]) -> Rule | None:
    """The rule that the kinds of two launches ask for, if any.

    A launch has at most one contraction, and no reduction beside it; a contraction never evaluates a map itself,
    which would be repeated for every product (but see `_selection_rule`).
    """
    if Kind.OPAQUE in (producer, consumer) or any(isinstance(op, ContractOp) for op, _ in readers):
        return None
    match producer, consumer:
        case Kind.POINTWISE, Kind.POINTWISE:
            return Rule.CHAIN
        case Kind.POINTWISE, _:
            return Rule.PROLOGUE
        case Kind.CONTRACT | Kind.ROWS, Kind.POINTWISE:
            return Rule.EPILOGUE
        case Kind.ROWS, Kind.ROWS:
            return Rule.ROWS
        case Kind.CONTRACT, Kind.CONTRACT if all(isinstance(op, MapOp) for op, _ in readers):
            return Rule.EPILOGUE
        case _:
            return None


def _selection_rule(producer: LaunchOp, readers: Sequence[tuple[StructuredOp, int]]) -> Rule | None:
    """The rule for rows that are copied for a contraction: it may load them itself, if it uses each element once."""
    if as_selection(producer) is None or len(readers) != 1:
        return None
    ((reader, index),) = readers
    return Rule.PROLOGUE if isinstance(reader, ContractOp) and uses_once(reader, index) else None


def _use_obstacle(producer: LaunchOp, consumer: LaunchOp) -> str | None:
    """What else uses the results of the producer, or keeps them out of the consumer."""
    if not all(is_empty(out) for out in producer.outs):
        return "it updates a tensor in place"
    for result in producer.res:
        for use in result.uses:
            if use.operation is consumer and use.index < len(consumer.ins):
                continue
            name = f" '%{result.name_hint}'" if result.name_hint else ""
            return f"its result{name} is {describe_use(use.operation, consumer)}"
    return None


def _kind_obstacle(kind: Kind, consumer_kind: Kind, producer: LaunchOp, consumer: LaunchOp) -> str | None:
    """Why two launches that have something to merge are too much for one kernel."""
    if kind is Kind.CONTRACT and consumer_kind is Kind.CONTRACT:
        return "the launch would have two contractions"
    rows = _row_shapes(producer) | _row_shapes(consumer)
    if kind is Kind.ROWS and consumer_kind is Kind.ROWS and len(rows) > 1:
        return f"'{consumer.kernel_name.data}' reduces other rows"
    return None


def _read_obstacle(kind: Kind, readers: Sequence[tuple[StructuredOp, int]], consumer: LaunchOp) -> str | None:
    """What is wrong with how the consumer reads the results of a producer of that kind."""
    if kind is Kind.POINTWISE:
        return None
    name = consumer.kernel_name.data
    accesses: set[Access] = set()
    for op, index in readers:
        read = read_of(op, index)
        shape = shape_of(read.value)
        if read.pad != NO_PAD or not read.access.is_injective or not read.access.covers(shape, op.extents):
            return f"its result is not read element by element by '{name}'"
        accesses.add(read.access.without_unit_dims(op.extents))
        if kind is Kind.CONTRACT and not read.access.is_permutation(shape, op.extents):
            return f"its result is broadcast by '{name}'"
        if kind is Kind.CONTRACT and not _writes_all(op):
            return f"'{name}' puts its result together from several"
    if kind is Kind.CONTRACT and len(accesses) > 1:
        return f"its result is read in two orders by '{name}'"
    return None


def _writes_all(op: StructuredOp) -> bool:
    """Whether an op writes all of its outs, so that it makes no piece of a concatenation."""
    return all(
        access.covers(shape_of(out), op.extents) for access, out in zip(op.out_accesses, op.outs, strict=True)
    )


def _row_shapes(launch: LaunchOp) -> set[tuple[int, tuple[int, ...]]]:
    """The rank and the reduced axes of what each reduction of a launch reads."""
    found: set[tuple[int, tuple[int, ...]]] = set()
    for op in launch.body.ops:
        if isinstance(op, ReduceOp):
            reduced = frozenset(op.reduction_dims)
            rows = op.in_accesses[0].rows if op.ins else ()
            found.add(
                (len(rows), tuple(axis for axis, row in enumerate(rows) if reduced.intersection(row.dims)))
            )
    return found


def _size_obstacle(producer: LaunchOp, consumer: LaunchOp, max_ops: int) -> str | None:
    total = count_ops(producer) + count_ops(consumer) - 1  # one of the two terminators goes
    return None if total <= max_ops else f"the launch would have {total} ops, more than max-ops = {max_ops}"


def describe_use(user: Operation, consumer: LaunchOp | None = None) -> str:
    """What a use does, to complete "its result is ..."."""
    if isinstance(user, ReturnOp):
        return "also a function result"
    if consumer is not None and user is consumer:
        return f"also updated in place by '{consumer.kernel_name.data}'"
    if isinstance(user, LaunchOp):
        return f"also read by '{user.kernel_name.data}'"
    if user.has_trait(IsTerminator) and not isinstance(user, YieldOp):
        return "also a result of the enclosing region"
    return f"also used by '{user.name}'"


def name_of(value: SSAValue) -> str:
    """A value as the text shows it; one without a name as what it is the result of."""
    if value.name_hint:
        return f"'%{value.name_hint}'"
    if isinstance(value.owner, LaunchOp):
        return f"the result of '{value.owner.kernel_name.data}'"
    return "a value without a name"
