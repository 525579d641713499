"""What transposed convolution and the sum of columns mean: each tap of the window is added to where it lands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph import Window
from mlopt.dialects.graph.base import shape_of
from mlopt.interpreter.graph.contraction import activated
from mlopt.interpreter.graph.registry import Array, evaluates, widen


@evaluates(graph.ConvTransposeOp)
def conv_transpose(op: graph.ConvTransposeOp, x: Array, weight: Array, *bias: Array) -> Array:
    wide, w, *b = widen(op, x, weight, *bias)
    batch, features, *sizes = shape_of(op.result)
    inputs = np.split(wide, op.groups, axis=1)
    weights = np.split(w, op.groups, axis=0)

    def products(tap: tuple[int, ...]) -> Array:
        """`[n, m, spatial...]`: what the elements add at this tap."""
        parts = [
            np.moveaxis(np.tensordot(part, kernel[(slice(None), slice(None), *tap)], axes=([1], [0])), -1, 1)
            for part, kernel in zip(inputs, weights, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    y = _spread(np.zeros((batch, features, *sizes), wide.dtype), op.window, x.shape[2:], products)
    if b:
        y += b[0].reshape(-1, *[1] * len(sizes))
    return activated(op.activation, y.astype(x.dtype, copy=False), op)


@evaluates(graph.Col2ImOp)
def col2im(op: graph.Col2ImOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    batch, channels, *image = shape_of(op.result)
    columns = wide.reshape(batch, channels, *op.window.kernel, *op.positions)
    result = np.zeros((batch, channels, *image), wide.dtype)
    y = _spread(result, op.window, op.positions, lambda tap: columns[(slice(None), slice(None), *tap)])
    return y.astype(x.dtype, copy=False)


def _spread(
    result: Array, window: Window, positions: Sequence[int], tap_values: Callable[[tuple[int, ...]], Array]
) -> Array:
    """`result` plus `tap_values(tap)` `[n, c, positions...]` of every tap of the window, where that is inside."""
    for tap in np.ndindex(*window.kernel):
        values = tap_values(tap)
        targets: list[slice] = [slice(None), slice(None)]
        sources: list[slice] = [slice(None), slice(None)]
        for axis, k in enumerate(tap):
            stride = window.strides[axis]
            start = k * window.dilations[axis] - window.low[axis]
            first = max(0, -(start // stride))
            last = min(positions[axis], -((start - result.shape[2 + axis]) // stride))
            sources.append(slice(first, max(first, last)))
            targets.append(slice(start + first * stride, max(0, start + last * stride), stride))
        result[tuple(targets)] += values[tuple(sources)]
    return result
