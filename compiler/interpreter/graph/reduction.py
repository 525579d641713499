"""What reductions and arg_max mean. f16 and bf16 are accumulated in f32; integers wrap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, tensor_type
from mlopt.interpreter.graph.elementwise import divide_toward_zero
from mlopt.interpreter.graph.registry import Array, evaluates, has_float_elements, highest, lowest, widen


@evaluates(graph.ReduceSumOp)
def reduce_sum(op: graph.ReduceSumOp, x: Array) -> Array:
    return _accumulate(op, np.sum, x)


@evaluates(graph.ReduceProdOp)
def reduce_prod(op: graph.ReduceProdOp, x: Array) -> Array:
    return _accumulate(op, np.prod, x)


@evaluates(graph.ReduceMeanOp)
def reduce_mean(op: graph.ReduceMeanOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    count = np.array(np.prod([x.shape[axis] for axis in _axes(op)], dtype=np.int64), wide.dtype)
    total = _accumulate(op, np.sum, wide)
    if has_float_elements(op.input):
        return np.asarray(total / count).astype(x.dtype)
    return divide_toward_zero(total, count)


@evaluates(graph.ReduceMaxOp)
def reduce_max(op: graph.ReduceMaxOp, x: Array) -> Array:
    return _extreme(op, np.max, x, lowest(op, x.dtype))


@evaluates(graph.ReduceMinOp)
def reduce_min(op: graph.ReduceMinOp, x: Array) -> Array:
    return _extreme(op, np.min, x, highest(op, x.dtype))


@evaluates(graph.ArgMaxOp)
def arg_max(op: graph.ArgMaxOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    axis = op.axis.value.data
    keepdims = op.keepdims is not None
    if x.size == 0:
        return np.empty(tensor_type(op.result.type).get_shape(), np.int64)
    if op.select_last is None:
        return np.asarray(np.argmax(wide, axis=axis, keepdims=keepdims), np.int64)
    from_end = np.argmax(np.flip(wide, axis), axis=axis, keepdims=keepdims)
    return np.asarray(x.shape[axis] - 1 - from_end, np.int64)


def _axes(op: graph.ReductionOp) -> tuple[int, ...]:
    return get_ints(op.properties, "axes") or ()


def _accumulate(op: graph.ReductionOp, function: Callable[..., Array], x: Array) -> Array:
    (wide,) = widen(op, x)
    # Without a dtype numpy would add narrow integers in int64.
    result = function(wide, axis=_axes(op), keepdims=op.keepdims is not None, dtype=wide.dtype)
    return np.asarray(result).astype(x.dtype, copy=False)


def _extreme(op: graph.ReductionOp, function: Callable[..., Array], x: Array, initial: float) -> Array:
    (wide,) = widen(op, x)
    result = function(wide, axis=_axes(op), keepdims=op.keepdims is not None, initial=initial)
    return np.asarray(result).astype(x.dtype, copy=False)
