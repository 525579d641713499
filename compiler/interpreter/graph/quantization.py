"""What quantization means. Intermediate results are in f32, or f64 where the operands are."""

from __future__ import annotations

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_tiny_float, tensor_type
from mlopt.interpreter.graph.registry import Array, evaluates
from mlopt.ir.dtypes import integer_range, largest_number, to_numpy_dtype


@evaluates(graph.QuantizeOp)
def quantize(op: graph.QuantizeOp, x: Array, scale: Array, *zero_point: Array) -> Array:
    target = tensor_type(op.result.type).element_type
    dtype = to_numpy_dtype(target)
    wide = _wide_dtype(x)
    quotient = np.divide(x, scale).astype(wide)
    if is_tiny_float(target):
        for zero in zero_point:
            quotient = quotient + zero.astype(wide)
        largest = largest_number(target)
        return (np.clip(quotient, -largest, largest) if op.saturate is not None else quotient).astype(dtype)
    number = np.rint(quotient)
    for zero in zero_point:
        number = number + zero.astype(wide)
    low, high = integer_range(target)
    return np.where(np.isnan(number), low, np.clip(number, low, high)).astype(dtype)


@evaluates(graph.DequantizeOp)
def dequantize(op: graph.DequantizeOp, x: Array, scale: Array, *zero_point: Array) -> Array:
    wide = _wide_dtype(scale)
    # Integers differ exactly in i32, which the narrow ones fit and i32 wraps in; small floats in f32.
    exact = np.float32 if is_tiny_float(tensor_type(op.input.type).element_type) else np.int32
    difference = x.astype(exact)
    for zero in zero_point:
        difference = difference - zero.astype(exact)
    return (difference.astype(wide) * scale.astype(wide)).astype(scale.dtype)


def _wide_dtype(x: Array) -> type[np.floating]:
    return np.float64 if x.dtype == np.float64 else np.float32
