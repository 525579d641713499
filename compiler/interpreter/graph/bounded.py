"""What operations mean whose results have a size that depends on data: the rest of each bounded result is zero."""

from __future__ import annotations

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.interpreter.graph.registry import Array, evaluates
from mlopt.ir.locations import place_of_op


def _filled(values: Array, bound: int, axis: int = 0) -> Array:
    """The values, and zeros up to the bound."""
    shape = list(values.shape)
    shape[axis] = bound
    result = np.zeros(shape, values.dtype)
    result[tuple(slice(size) for size in values.shape)] = values
    return result


@evaluates(graph.NonZeroOp)
def nonzero(op: graph.NonZeroOp, x: Array) -> tuple[Array, ...]:
    indices = np.argwhere(x).T.astype(np.int64)
    return _filled(indices, x.size, 1), np.array(indices.shape[1])


@evaluates(graph.UniqueOp)
def unique(op: graph.UniqueOp, x: Array) -> tuple[Array, ...]:
    """Slices are compared by the ranks of their elements, for which NaN is one value and -0.0 is 0.0."""
    axis = 0 if op.axis is None else op.axis.value.data
    if op.axis is None:
        x = x.reshape(-1)
    bound = x.shape[axis]
    keys = np.unique(_comparable(x), return_inverse=True)[1].reshape(x.shape)
    rows = np.moveaxis(keys, axis, 0).reshape(bound, x.size // max(1, bound))
    if x.size == 0:
        rows = np.zeros((bound, 1), np.int64)
    _, indices, inverse, counts = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    inverse = inverse.reshape(-1)
    if op.in_order is not None:
        order = np.argsort(indices)
        indices, inverse, counts = indices[order], np.argsort(order)[inverse], counts[order]
    numbers = [
        _filled(indices.astype(np.int64), bound),
        inverse.astype(np.int64),
        _filled(counts.astype(np.int64), bound),
    ]
    return _filled(np.take(x, indices, axis), bound, axis), *numbers, np.array(len(indices))


def _comparable(x: Array) -> Array:
    """The elements in a type that numpy sorts: those of 16 bits and less that are no integers of numpy's in f32."""
    return x if x.dtype.kind in "iub" or x.dtype.itemsize > 2 else x.astype(np.float32)


@evaluates(graph.NonMaxSuppressionOp)
def non_max_suppression(
    op: graph.NonMaxSuppressionOp, boxes: Array, scores: Array, limit: Array, iou: Array, *least: Array
) -> tuple[Array, ...]:
    chosen: list[tuple[int, int, int]] = []
    for batch, of_classes in enumerate(scores):
        corners = _corners(boxes[batch], center=op.center is not None)
        for number, of_boxes in enumerate(of_classes):
            order = [box for box in np.argsort(-of_boxes, kind="stable") if not np.isnan(of_boxes[box])]
            kept: list[int] = []
            for box in order:
                if least and not of_boxes[box] > least[0]:
                    break
                if len(kept) >= min(int(limit), op.most.value.data):
                    break
                if not any(_overlap(corners[box], corners[other]) > iou for other in kept):
                    kept.append(int(box))
            chosen += [(batch, number, box) for box in kept]
    bound = tensor_type(op.selected.type).get_shape()[0]
    rows = np.array(chosen, np.int64).reshape(len(chosen), 3)
    return _filled(rows, bound), np.array(len(chosen))


def _corners(boxes: Array, *, center: bool) -> Array:
    """Boxes as lower and upper corner: `[box, corner, coordinate]`."""
    if center:
        middle, half = boxes[:, :2], boxes[:, 2:] / np.float32(2)
        return np.stack([middle - half, middle + half], 1)
    pairs = boxes.reshape(-1, 2, 2)
    return np.sort(pairs, axis=1)


def _overlap(a: Array, b: Array) -> Array:
    """The area of the intersection over that of the union, in f32; 0 without a common inside."""
    sides = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    inside, of_a, of_b = (np.asarray(side[0] * side[1]) for side in (sides, a[1] - a[0], b[1] - b[0]))
    union = of_a + of_b - inside
    has_inside = (sides > 0).all() and of_a > 0 and of_b > 0 and union > 0
    return np.asarray(inside / union) if has_inside else np.zeros((), np.float32)


@evaluates(graph.RequireEqualOp)
def require_equal(op: graph.RequireEqualOp, lhs: Array, rhs: Array) -> Array:
    if lhs != rhs:
        raise RunError(f"expected equal sizes, found {lhs} and {rhs}", place=place_of_op(op))
    return lhs
