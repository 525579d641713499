"""What matrix multiplication, linear layers, convolution, pooling and determinants mean."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.interpreter.graph.registry import EVALUATIONS, Array, evaluates, lowest, widen


@evaluates(graph.MatMulOp)
def matmul(op: graph.MatMulOp, x: Array, y: Array) -> Array:
    return np.asarray(np.matmul(*widen(op, x, y))).astype(x.dtype, copy=False)


@evaluates(graph.LinearOp)
def linear(op: graph.LinearOp, x: Array, weight: Array, *addends: Array) -> Array:
    y = np.asarray(np.matmul(*widen(op, x, weight))).astype(x.dtype, copy=False)
    for addend in addends:
        y = y + addend
    return activated(op.activation, y, op)


def activated(activation: graph.ActivationAttr | None, y: Array, op: graph.GraphOp) -> Array:
    """The activation of the result of `op`, by the evaluation of the operation that it stands for."""
    if activation is None:
        return y
    applied = activation.operation(tensor_type(op.results[0].type))
    numbers = [np.array(number).astype(y.dtype) for number in activation.numbers]
    result = EVALUATIONS[type(applied)](applied, y, *numbers)
    assert not isinstance(result, tuple)
    return result


@evaluates(graph.ConvOp)
def conv(op: graph.ConvOp | graph.ChannelsLastConvOp, x: Array, weight: Array, *addends: Array) -> Array:
    bias, residual = (addends[:1], addends[1:]) if op.bias is not None else ((), addends)
    wide, w, *b = widen(op, x, weight, *bias)
    y = grouped_convolution(wide, w, b, op.window, op.groups).astype(x.dtype, copy=False)
    for addend in residual:
        y = y + addend
    return activated(op.activation, y, op)


def grouped_convolution(
    x: Array, weight: Array, bias: Sequence[Array], window: graph.Window, groups: int, pad_value: float = 0
) -> Array:
    """The convolution in the one type of all operands; `bias` holds one or none."""
    spatial = x.ndim - 2
    windows = windows_of(x, window, window.positions(x.shape[2:]), pad_value)
    over = ([1, *range(2 + spatial, 2 + 2 * spatial)], [1, *range(2, 2 + spatial)])
    parts = zip(np.split(windows, groups, axis=1), np.split(weight, groups, axis=0), strict=True)
    sums = np.concatenate([np.tensordot(part, kernel, axes=over) for part, kernel in parts], axis=-1)
    y = np.moveaxis(sums, -1, 1)
    for addend in bias:
        y = y + addend.reshape(-1, *[1] * spatial)
    return y


@evaluates(graph.MaxPoolOp)
def max_pool(op: graph.MaxPoolOp | graph.ChannelsLastMaxPoolOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    windows = windows_of(wide, op.window, op.positions, lowest(op, x.dtype))
    return np.max(windows, axis=_kernel_axes(x)).astype(x.dtype, copy=False)


@evaluates(graph.MaxPoolWithIndicesOp)
def max_pool_with_indices(op: graph.MaxPoolWithIndicesOp, x: Array) -> tuple[Array, Array]:
    windows = windows_of(x, op.window, op.positions, lowest(op, x.dtype))
    windows = windows.reshape(*windows.shape[: x.ndim], prod(op.window.kernel))
    largest = np.max(windows, axis=-1)
    order = (0, 1, *range(x.ndim - 1, 1, -1)) if op.column_major is not None else range(x.ndim)
    numbers = np.arange(x.size).reshape([x.shape[axis] for axis in order]).transpose(np.argsort(order))
    places = windows_of(numbers, op.window, op.positions, -1).reshape(windows.shape)
    holds = ((windows == largest[..., None]) | (windows != windows)) & (places >= 0)
    first = np.argmax(holds, axis=-1)[..., None]
    return largest, np.take_along_axis(places, first, axis=-1)[..., 0]


@evaluates(graph.AveragePoolOp)
def average_pool(op: graph.AveragePoolOp | graph.ChannelsLastAveragePoolOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    window = op.window
    total = np.sum(windows_of(wide, window, op.positions, 0), axis=_kernel_axes(x))
    counted = np.ones((1, 1, *x.shape[2:]), wide.dtype)
    if op.count_include_pad is not None:
        padding = [(0, 0), (0, 0), *zip(window.low, window.high, strict=True)]
        counted = np.pad(counted, padding, constant_values=1)
        # The padding is now part of what is counted: the same windows start at its first element.
        window = graph.Window(
            window.kernel, window.strides, (0,) * len(window.low), (0,) * len(window.low), window.dilations
        )
    count = np.sum(windows_of(counted, window, op.positions, 0), axis=_kernel_axes(x))
    return (total / count).astype(x.dtype)


def windows_of(x: Array, window: graph.Window, positions: Sequence[int], pad_value: float) -> Array:
    """The elements under the window at each of its positions; what lies outside of `x` is `pad_value`.

    Shapes: `x` `[n, c, spatial...]`, result `[n, c, positions..., kernel...]`.
    """
    padding: list[tuple[int, int]] = [(0, 0), (0, 0)]
    for size, count, extent, stride, low in zip(
        x.shape[2:], positions, window.extent, window.strides, window.low, strict=True
    ):
        reach = (count - 1) * stride + extent
        padding.append((low, max(0, reach - low - size)))
    padded = np.pad(x, padding, constant_values=pad_value)
    everywhere = sliding_window_view(padded, window.extent, axis=tuple(range(2, x.ndim)))
    steps = [
        slice(0, count * stride, stride) for count, stride in zip(positions, window.strides, strict=True)
    ]
    taps = [slice(None, None, dilation) for dilation in window.dilations]
    return everywhere[(slice(None), slice(None), *steps, *taps)]


def _kernel_axes(x: Array) -> tuple[int, ...]:
    return tuple(range(x.ndim, 2 * x.ndim - 2))


@evaluates(graph.DetOp)
def det(op: graph.DetOp, x: Array) -> Array:
    return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)
