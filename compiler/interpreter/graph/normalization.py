"""What normalizations and softmax mean. f16 and bf16 are computed in f32 and rounded at the end."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.interpreter.graph.registry import Array, evaluates, widen


@evaluates(graph.BatchNormOp)
def batch_norm(op: graph.BatchNormOp, x: Array, *parameters: Array) -> Array:
    per_channel = [parameter.reshape(-1, *[1] * (x.ndim - 2)) for parameter in parameters]
    wide, scale, bias, mean, variance = widen(op, x, *per_channel)
    return ((wide - mean) / np.sqrt(variance + op.epsilon.value.data) * scale + bias).astype(x.dtype)


@evaluates(graph.LayerNormOp)
def layer_norm(op: graph.LayerNormOp, x: Array, scale: Array, *bias: Array) -> Array:
    wide, wide_scale, *wide_bias = widen(op, x, scale, *bias)
    axes = tuple(range(op.axis.value.data, x.ndim))
    centered = wide - _mean(wide, axes)
    y = centered / np.sqrt(_mean(centered * centered, axes) + op.epsilon.value.data) * wide_scale
    return (y + wide_bias[0] if wide_bias else y).astype(x.dtype)


@evaluates(graph.GroupNormOp)
def group_norm(op: graph.GroupNormOp, x: Array, scale: Array, bias: Array) -> Array:
    wide, wide_scale, wide_bias = widen(op, x, scale, bias)
    rows, each = wide.reshape(op.rows), (op.rows[1], op.rows[2], 1)
    centered = rows - _mean(rows, (2, 3))
    y = centered / np.sqrt(_mean(centered * centered, (2, 3)) + op.epsilon.value.data)
    return (y * wide_scale.reshape(each) + wide_bias.reshape(each)).reshape(x.shape).astype(x.dtype)


@evaluates(graph.RmsNormOp)
def rms_norm(op: graph.RmsNormOp, x: Array, scale: Array) -> Array:
    wide, wide_scale = widen(op, x, scale)
    axes = tuple(range(op.axis.value.data, x.ndim))
    return (wide / np.sqrt(_mean(wide * wide, axes) + op.epsilon.value.data) * wide_scale).astype(x.dtype)


@evaluates(graph.SoftmaxOp)
def softmax(op: graph.SoftmaxOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    axis = op.axis.value.data
    exponentials = np.exp(wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf))
    return (exponentials / np.sum(exponentials, axis=axis, keepdims=True)).astype(x.dtype)


@evaluates(graph.LogSoftmaxOp)
def log_softmax(op: graph.LogSoftmaxOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    axis = op.axis.value.data
    shifted = wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))).astype(x.dtype)


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean over axes, kept with size 1; NaN of nothing."""
    count = np.prod([x.shape[axis] for axis in axes], dtype=np.int64)
    return np.sum(x, axis=axes, keepdims=True) / np.array(count, x.dtype)
