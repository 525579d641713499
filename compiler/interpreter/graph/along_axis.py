"""What cumulative sums and products and the largest elements along an axis mean."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.interpreter.graph.registry import Array, evaluates, has_float_elements, widen


@evaluates(graph.CumSumOp, graph.CumProdOp)
def cumulative(op: graph.CumSumOp | graph.CumProdOp, x: Array) -> Array:
    axis = op.axis.value.data
    (wide,) = widen(op, x)
    if op.reverse is not None:
        wide = np.flip(wide, axis)
    if op.exclusive is not None:
        first = np.full_like(wide.take([0], axis) if x.size else wide, isinstance(op, graph.CumProdOp))
        wide = np.concatenate([first, wide], axis).take(range(x.shape[axis]), axis)
    accumulate = np.cumprod if isinstance(op, graph.CumProdOp) else np.cumsum
    result = accumulate(wide, axis, dtype=wide.dtype)
    return (np.flip(result, axis) if op.reverse is not None else result).astype(x.dtype)


@evaluates(graph.TopKOp)
def top_k(op: graph.TopKOp, x: Array) -> tuple[Array, Array]:
    """A stable sort of how many different numbers are above (or below) each element, NaN being above all."""
    axis = op.axis.value.data
    wide = x.astype(np.float64) if has_float_elements(op.input) else x
    _, ranks = np.unique(wide, return_inverse=True)  # NaN is last, -0.0 is 0.0
    ranks = ranks.reshape(x.shape)
    order = np.argsort(ranks if op.smallest is not None else -ranks, axis=axis, kind="stable")
    indices = order.take(range(op.k.value.data), axis)
    return np.take_along_axis(x, indices, axis), indices
