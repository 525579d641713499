"""How a tensor is divided among ways, and what an operation needs of its operands to compute one way's part alone.

`needs(op, results, ways)` goes from results to operands: given how each result is divided, how must each operand be?
Every way then runs the operation as it is on its parts (`local`), and no way needs anything of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_int, ints_attr, rank_of, shape_of, tensor_type, with_shape
from mlopt.passes.graph.axis_orders import reshape_groups
from mlopt.passes.graph.constants import is_constant
from mlopt.passes.graph.fusion import described

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


MAX_SEGMENTS = 64
"""More pieces than that are not worth cutting: what one weight holds are a few."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """A tensor divided along `axis`.

    The axis is made of segments, one after the other, and every way has its share of each: with segments (4, 8) and two
    ways, way 0 has the elements 0, 1 and 4 to 7. More than one segment is for what is stored as one: the columns of
    query, key and value in one weight.
    """

    axis: int
    segments: tuple[int, ...]

    @staticmethod
    def of(shape: Sequence[int], axis: int) -> Sharding:
        """The whole axis in one segment."""
        return Sharding(axis, (shape[axis],))

    @property
    def is_plain(self) -> bool:
        """Do the parts, one after the other, make the whole?"""
        return len(self.segments) == 1

    def along(self, axis: int) -> Sharding:
        """The same segments along another axis."""
        return Sharding(axis, self.segments)

    def is_possible(self, ways: int) -> bool:
        """Can each way have the same share, and something?"""
        return all(size > 0 and size % ways == 0 for size in self.segments)

    def local(self, shape: Sequence[int], ways: int) -> tuple[int, ...]:
        """The shape of the part of one way."""
        return tuple(size // ways if axis == self.axis else size for axis, size in enumerate(shape))

    def ranges(self, way: int, ways: int) -> list[tuple[int, int]]:
        """What of the axis a way has: `(start, stop)` for each segment."""
        starts = accumulate(self.segments, initial=0)
        shares = ((start, size // ways) for start, size in zip(starts, self.segments, strict=False))
        return [(start + way * share, start + (way + 1) * share) for start, share in shares]

    def part(self, array: Array, way: int, ways: int) -> Array:
        """The part of a way of an array: a view if it is in one piece."""
        before = (slice(None),) * self.axis
        parts = [array[(*before, slice(start, stop))] for start, stop in self.ranges(way, ways)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, self.axis)


Needs: TypeAlias = Sequence[Sharding | None]
"""How each operand must be divided; None for one that every way needs whole."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why an operation that could be divided in principle is not: `its 6 heads are not divisible by 4 ways`."""

    reason: str


def needs(op: Operation, results: Sequence[Sharding | None], ways: int) -> Needs | Obstacle | None:
    """What each way needs of the operands to compute its part of the results; None if it needs all of them.

    A result that nothing wants divided has None; it is then divided as the others are (see `divided_results`).
    """
    for kind in type(op).__mro__:
        if (rule := _RULES.get(kind)) is not None:
            return rule(op, divided_results(op, results), ways)
    return None


def divided_results(op: Operation, results: Sequence[Sharding | None]) -> list[Sharding]:
    """How every result is divided, those too that nothing asks to be: along the axis of the first that is asked for."""
    axis = next(sharding.axis for sharding in results if sharding is not None)
    return [
        Sharding.of(shape_of(result), axis) if sharding is None else sharding
        for result, sharding in zip(op.results, results, strict=True)
    ]


def is_column_product(op: Operation) -> bool:
    """Is it a product whose columns come from a constant weight, the second operand?"""
    return isinstance(op, graph.LinearOp | graph.MatMulOp) and _is_weight(op)


def local(
    op: Operation, operands: Sequence[SSAValue], results: Sequence[Sharding | None], ways: int
) -> Operation:
    """The operation on the parts of one way, without location."""
    shardings = divided_results(op, results)
    types: list[Attribute] = [
        with_shape(tensor_type(result.type), sharding.local(shape_of(result), ways))
        for result, sharding in zip(op.results, shardings, strict=True)
    ]
    properties = dict(op.properties)
    if isinstance(op, graph.SliceOp):
        stops = [stop for _, stop, _ in op.ranges]
        properties["stops"] = ints_attr(shardings[0].local(stops, ways))
    return type(op).create(
        operands=operands, properties=properties, attributes=op.attributes, result_types=types
    )


# The rules


def _broadcast(op: Operation, sharding: Sharding, operands: Sequence[SSAValue] | None = None) -> Needs:
    """Of operands that broadcast to the result: the same part, unless they stretch along the axis."""
    result = shape_of(op.results[0])
    wanted: list[Sharding | None] = []
    for operand in op.operands if operands is None else operands:
        shape = shape_of(operand)
        axis = sharding.axis - len(result) + len(shape)
        is_stretched = axis < 0 or shape[axis] != result[sharding.axis]
        wanted.append(None if is_stretched else sharding.along(axis))
    return wanted


def _elementwise(op: Operation, results: Sequence[Sharding], ways: int) -> Needs:
    return _broadcast(op, results[0])


def _rotary(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | None:
    """Pairs stay together, along the last dimension."""
    return None if results[0].axis == rank_of(op.results[0]) - 1 else _broadcast(op, results[0])


def _along_axis(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | None:
    """All of the operation's own axis is needed."""
    return None if results[0].axis == get_int(op.properties, "axis") else _broadcast(op, results[0])


def _row_norm(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | None:
    """All of the rows is needed."""
    return None if results[0].axis >= get_int(op.properties, "axis") else _broadcast(op, results[0])


def _concat(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | None:
    """Each operand, divided along another axis."""
    (sharding,) = results
    return None if sharding.axis == get_int(op.properties, "axis") else [sharding] * len(op.operands)


def _slice(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | None:
    """An axis that is whole."""
    assert isinstance(op, graph.SliceOp)
    (sharding,) = results
    is_whole = op.ranges[sharding.axis] == (0, shape_of(op.input)[sharding.axis], 1)
    return [sharding] if is_whole else None


def _split(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | Obstacle | None:
    """Along its own axis: the segments of all parts; along another one: the same of all."""
    assert isinstance(op, graph.SplitOp)
    axis = results[0].axis
    if any(sharding.axis != axis for sharding in results):
        return None
    if axis != op.axis.value.data:
        return [results[0]] if len(set(results)) == 1 else None
    whole = Sharding(axis, tuple(size for sharding in results for size in sharding.segments))
    return [whole] if whole.is_possible(ways) else _not_divisible(op, whole.segments, ways)


def _transpose(op: Operation, results: Sequence[Sharding], ways: int) -> Needs:
    assert isinstance(op, graph.TransposeOp)
    return [results[0].along(op.permutation[results[0].axis])]


def _reshape(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | Obstacle | None:
    """Within a group of dimensions that become others, the part must be whole rows of one dimension of the operand.

    The dimensions before the divided one run through its segments again and again: before them in the operand stand
    fewer dimensions, or as many, and the rest of the repetitions is in the segments.
    """
    (sharding,) = results
    source, target = shape_of(op.operands[0]), shape_of(op.results[0])
    group = next((group for group in reshape_groups(source, target) or () if sharding.axis in group[1]), None)
    if group is None:
        return None
    repeated = prod(target[axis] for axis in group[1] if axis < sharding.axis)
    own = sharding.segments
    if len(set(own)) == 1:
        repeated, own = repeated * len(own), own[:1]
    inner = prod(target[axis] for axis in group[1] if axis > sharding.axis)
    befores = accumulate((source[axis] for axis in group[0]), lambda a, b: a * b, initial=1)
    fitting = [
        (before, axis)
        for before, axis in zip(befores, group[0], strict=False)
        if repeated % before == 0 and source[axis] != 1
    ]
    if not fitting:
        return None
    before, axis = fitting[-1]
    after = prod(source[other] for other in group[0] if other > axis)
    if any(size * inner % after for size in own):
        return _not_divisible(op, (source[axis],), ways)
    segments = tuple(size * inner // after for size in own) * (repeated // before)
    if len(segments) > MAX_SEGMENTS:
        return None
    wanted = Sharding(axis, segments)
    return [wanted] if wanted.is_possible(ways) else _not_divisible(op, segments, ways)


def _product(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | Obstacle | None:
    """Along the columns those of the right factor, else the same of the left one, and of the right one if it has it."""
    assert isinstance(op, graph.LinearOp | graph.MatMulOp)
    (sharding,) = results
    left, right, *addends = op.operands
    rank = rank_of(op.results[0])
    if rank_of(left) < 2 or rank_of(right) < 2:
        return None
    if sharding.axis < rank - 1:
        rows = (
            [sharding.along(rank_of(left) - 2)] if sharding.axis == rank - 2 else _batch(sharding, left, rank)
        )
        columns = [None] if sharding.axis == rank - 2 else _batch(sharding, right, rank)
        return [*rows, *columns, *_broadcast(op, sharding, addends)]
    if rank_of(right) == 2 and not _is_weight(op):
        return Obstacle(f"the weight of {described(op)} is not constant")
    if not sharding.is_possible(ways):
        return _not_divisible(op, sharding.segments, ways)
    return [None, sharding.along(rank_of(right) - 1), *_broadcast(op, sharding, addends)]


def _batch(sharding: Sharding, factor: SSAValue, rank: int) -> Needs:
    """Of a factor of a product divided along a dimension of the batch."""
    axis = sharding.axis - rank + rank_of(factor)
    return [None if axis < 0 or shape_of(factor)[axis] == 1 else sharding.along(axis)]


def _is_weight(op: Operation) -> bool:
    return is_constant(op.operands[1]) and rank_of(op.operands[1]) >= 2


def _attention(op: Operation, results: Sequence[Sharding], ways: int) -> Needs | Obstacle | None:
    """By heads: each way has as many of the query, and those of key and value that they read. One head is for all."""
    assert isinstance(op, graph.AttentionOp)
    (sharding,) = results
    rank = rank_of(op.result)
    if rank < 3 or sharding.axis != rank - 3 or not sharding.is_plain:
        return None
    heads, key_heads = shape_of(op.query)[-3], shape_of(op.key)[-3]
    if heads % ways:
        return Obstacle(f"the {heads} heads of {described(op)} are not divisible by {ways} ways")
    if key_heads != 1 and key_heads % ways:
        return Obstacle(
            f"the {key_heads} heads of the key of {described(op)} are not divisible by {ways} ways"
        )
    keys = None if key_heads == 1 else Sharding(sharding.axis, (key_heads,))
    masks: list[Sharding | None] = []
    for mask in op.masks:
        axis = rank_of(mask) - 3
        masks.append(None if axis < 0 or shape_of(mask)[axis] == 1 else sharding.along(axis))
    return [sharding, keys, keys, *masks]


def _not_divisible(op: Operation, segments: Sequence[int], ways: int) -> Obstacle:
    """A dimension that ends up in no equal parts: the heads, where they become one dimension after attention."""
    before = op.operands[0].owner
    while isinstance(before, graph.TransposeOp):
        before = before.input.owner
    if isinstance(before, graph.AttentionOp) and (heads := shape_of(before.result)[-3]) in segments:
        return Obstacle(f"the {heads} heads of {described(before)} are not divisible by {ways} ways")
    size = next((size for size in segments if size % ways), sum(segments))
    return Obstacle(f"a dimension of {size} of {described(op)} is not divisible by {ways} ways")


_Rule: TypeAlias = Callable[[Operation, Sequence[Sharding], int], "Needs | Obstacle | None"]

_RULES: Mapping[type, _Rule] = {
    graph.UnaryOp: _elementwise,
    graph.PredicateOp: _elementwise,
    graph.BinaryOp: _elementwise,
    graph.WhereOp: _elementwise,
    graph.ClipOp: _elementwise,
    graph.CastOp: _elementwise,
    graph.ExpandOp: _elementwise,
    graph.RotaryEmbeddingOp: _rotary,
    graph.SoftmaxBase: _along_axis,
    graph.LayerNormOp: _row_norm,
    graph.RmsNormOp: _row_norm,
    graph.ConcatOp: _concat,
    graph.SplitOp: _split,
    graph.SliceOp: _slice,
    graph.TransposeOp: _transpose,
    graph.ReshapeOp: _reshape,
    graph.MatMulOp: _product,
    graph.LinearOp: _product,
    graph.AttentionOp: _attention,
}
"""Kinds of operations → what they need. Operations of other kinds need all of their operands."""
