"""What rotary embedding means. f16 and bf16 are computed in f32 and rounded at the end."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.interpreter.graph.registry import Array, evaluates, widen


@evaluates(graph.RotaryEmbeddingOp)
def rotary_embedding(op: graph.RotaryEmbeddingOp, x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    split, axis = ((half, 2), -1) if op.interleaved is not None else ((2, half), -2)
    wide, cos, sin = widen(op, x, cos, sin)
    first, second = np.moveaxis(wide.reshape(*x.shape[:-1], *split), axis, 0)
    turned = np.stack((first * cos - second * sin, second * cos + first * sin), axis)
    return turned.reshape(x.shape).astype(x.dtype)
