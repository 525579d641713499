"""Import of operators that give as many elements as the data has of some kind: NonZero, Compress, Unique,
suppression.

Their results are bounded (see `bounded`): of the largest size there can be, with the extent beside them. What
follows from constants alone is computed at import, and has a size like any other value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of
from mlopt.frontend.onnx.bounded import (
    Results,
    alike,
    bounds_of,
    carries,
    leading,
    masked,
    only,
    positions,
    refusal,
)
from mlopt.frontend.onnx.extents import Sizes, elements, interval
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction, importer


@importer("NonZero", since=9)
def nonzero(node: Node) -> SSAValue:
    """A column of coordinates for each element that is not zero."""
    x = node.operand(0)
    known = node.constant_value(x)
    if known is not None:
        positions = np.argwhere(known).T
        return node.constant(np.ascontiguousarray(positions, np.int64))
    op = node.add(graph.NonZeroOp(x))
    return node.bounded(op.indices, 1, op.count)


@carries("NonZero")
def _nonzero(node: Node, function: ImportFunction) -> Results:
    """What is behind the extent is zero."""
    value, bound = only(node, 0)
    return function(node.with_operands({0: masked(node, value, bound.axis, bound.extent, 0)}))


@importer("Compress", since=9)
def compress(node: Node) -> SSAValue:
    """The slices along `axis`, or the elements, where a condition holds, which may be shorter: a gather."""
    x, axis = _slices(node)
    condition = node.operand(1)
    if len(shape_of(condition)) != 1:
        raise node.error(f"expected a vector as the condition, found {node.type_of(1)}")
    size = min(shape_of(x)[axis], shape_of(condition)[0])
    condition = leading(node, condition, 0, size)
    known = node.constant_value(condition)
    if known is not None:
        return node.add(graph.GatherOp(x, node.constant(np.flatnonzero(known)), axis)).result
    op = node.add(graph.NonZeroOp(condition))
    positions = node.add(graph.ReshapeOp(op.indices, [size])).result
    return node.bounded(node.add(graph.GatherOp(x, positions, axis)).result, axis, op.count)


def _slices(node: Node) -> tuple[SSAValue, int]:
    """What is selected from, and along which axis."""
    x, shape = node.operand(0), node.shape_of(0)
    if node.has("axis"):
        return x, normalize_axis(node.integer("axis"), len(shape))
    return node.add(graph.ReshapeOp(x, [prod(shape)])).result, 0


@carries("Compress")
def _compress(node: Node, function: ImportFunction) -> Results:
    """A bounded condition; and data that are bounded by the same extent, along the axis that is selected from."""
    condition, bound = node.operand(1), node.bound_of(node.operand(1))
    of_data = node.bound_of(node.operand(0))
    if bound is None:
        raise refusal(node, "and the condition's has not")
    if of_data is None:
        return function(node.with_operands({1: masked(node, condition, 0, bound.extent, 0)}))
    rank = len(node.shape_of(0))
    if of_data.axis != node.integer("axis", 0) % rank or (rank > 1 and not node.has("axis")):
        raise refusal(node, "along which nothing is selected")
    operands, extent = alike(
        node, [(0, node.operand(0), of_data.axis, of_data.extent), (1, condition, 0, bound.extent)]
    )
    operands[1] = masked(node, operands[1], 0, extent, 0)
    return function(node.with_operands(operands))


@importer("Unique", since=11, outputs=4)
def unique(node: Node) -> Sequence[SSAValue]:
    """One of each, where it first occurs, which one stands at each place, and how often each occurs."""
    axis = node.integer("axis") if node.has("axis") else None
    op = node.add(graph.UniqueOp(node.operand(0), axis, in_order=not node.integer("sorted", 1)))
    along = 0 if op.axis is None else op.axis.value.data
    node.bounded(op.values, along, op.count)
    for result in (op.indices, op.counts):
        node.bounded(result, 0, op.count)
    return op.values, op.indices, op.inverse, op.counts


@carries("Unique")
def _unique_of_bounded(node: Node, function: ImportFunction) -> Results:
    """Of the elements of a vector, or along the bounded axis: what is behind the extent repeats what is first."""
    value, bound = only(node, 0)
    shape, axis, sizes = shape_of(value), bound.axis, Sizes(node)
    along = node.integer("axis") % len(shape) if node.has("axis") else None
    if along not in (axis, None) or (along is None and len(shape) > 1):
        raise refusal(node, "along which nothing is compared")
    if not shape[axis]:
        return function(node)
    inside = node.add(graph.LessOp(positions(node, value, axis), bound.extent)).result
    filled = node.add(graph.WhereOp(inside, value, leading(node, value, axis, 1))).result
    values, indices, inverse, counts = unique(node.with_operands({0: filled}))
    found = node.bound_of(values)
    assert found is not None
    count = sizes.value(sizes.least(found.extent, bound.extent))
    first = node.add(graph.EqualOp(positions(node, counts, 0), leading(node, inverse, 0, 1))).result
    repeated = sizes.value(sizes.sub(shape[axis], bound.extent))
    fewer = node.add(graph.WhereOp(first, repeated, node.constant(np.array(0)))).result
    counts = node.add(graph.SubOp(counts, fewer)).result
    node.bounded(values, axis, count)
    for result, extent in ((indices, count), (inverse, bound.extent), (counts, count)):
        node.bounded(result, 0, extent)
    return values, indices, inverse, counts


@importer("NonMaxSuppression", since=10)
def non_max_suppression(node: Node) -> SSAValue:
    """Without a number of boxes there are none; the number bounds the result if there is a limit to it."""
    limit: SSAValue | None = node.optional(2)
    of_class = node.shape_of(1)[-1] if node.rank_of(1) else 0
    number = 0 if limit is None else elements(node, limit)[0]
    if not isinstance(number, int) and not node.depends_on_data(number) and node.is_known(number):
        number = node.known_int(2, "number of boxes")
    most = max(0, min(of_class, interval(node, number)[1]))
    op = graph.NonMaxSuppressionOp(
        node.operand(0),
        node.operand(1),
        node.constant(np.array(number, np.int64)) if isinstance(number, int) else number,
        _threshold(node, 3) or node.constant(np.array(0, np.float32)),
        _threshold(node, 4),
        most=most,
        center=node.integer("center_point_box", 0) == 1,
    )
    node.add(op)
    return node.bounded(op.selected, 0, op.count)


@carries("NonMaxSuppression")
def _suppression(node: Node, function: ImportFunction) -> Results:
    """Any number of boxes, and of their scores: those behind the extent are no numbers, and so never chosen."""
    found = [(index, value, bound.axis, bound.extent) for index, value, bound in bounds_of(node)]
    if [(index, axis) for index, _, axis, _ in found] != [(0, 1), (1, 2)]:
        raise refusal(node, "which this operator takes of the boxes and their scores only")
    operands, extent = alike(node, found)
    operands[1] = masked(node, operands[1], 2, extent, np.nan)
    return function(node.with_operands(operands))


def _threshold(node: Node, index: int) -> SSAValue | None:
    """A number that may be given as a vector of one."""
    value = node.optional(index)
    return None if value is None else node.add(graph.ReshapeOp(value, [])).result


__all__ = ["compress", "non_max_suppression", "nonzero", "unique"]
