"""What products of integers mean: matrix product and convolution of the factors as f32."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.interpreter.graph.contraction import grouped_convolution
from mlopt.interpreter.graph.registry import Array, evaluates


@evaluates(graph.IntegerMatMulOp)
def integer_matmul(op: graph.IntegerMatMulOp, x: Array, y: Array) -> Array:
    return np.asarray(np.matmul(x.astype(np.float32), y.astype(np.float32)))


@evaluates(graph.IntegerConvOp)
def integer_conv(op: graph.IntegerConvOp, x: Array, weight: Array) -> Array:
    factors = x.astype(np.float32), weight.astype(np.float32)
    return grouped_convolution(*factors, [], op.window, op.groups, op.padding)
