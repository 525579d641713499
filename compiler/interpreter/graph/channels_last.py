"""What windows over channels-last tensors mean: the operation on channels-first tensors, between transposes."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.channels_last import kernel_last
from mlopt.interpreter.graph import contraction
from mlopt.interpreter.graph.registry import Array, evaluates


@evaluates(graph.ChannelsLastConvOp)
def conv(op: graph.ChannelsLastConvOp, x: Array, weight: Array, *addends: Array) -> Array:
    bias, residual = (addends[:1], addends[1:]) if op.bias is not None else ((), addends)
    kernel = weight.transpose(kernel_last(weight.ndim))
    return _last(contraction.conv(op, _first(x), kernel, *bias, *map(_first, residual)))


@evaluates(graph.ChannelsLastMaxPoolOp)
def max_pool(op: graph.ChannelsLastMaxPoolOp, x: Array) -> Array:
    return _last(contraction.max_pool(op, _first(x)))


@evaluates(graph.ChannelsLastAveragePoolOp)
def average_pool(op: graph.ChannelsLastAveragePoolOp, x: Array) -> Array:
    return _last(contraction.average_pool(op, _first(x)))


def _first(x: Array) -> Array:
    return np.moveaxis(x, -1, 1)


def _last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))
