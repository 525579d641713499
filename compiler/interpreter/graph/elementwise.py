"""What the elementwise graph operations mean.

Single numpy functions round f16 and bf16 once; formulas of several steps are computed in f32 for these types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import ml_dtypes
import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.base import (
    BOOL,
    INTEGER,
    is_float,
    is_scale_float,
    is_sub_byte,
    is_tiny_float,
    tensor_type,
)
from mlopt.interpreter.graph.registry import Array, evaluates, has_float_elements, widen
from mlopt.interpreter.scalar_ops import float_power
from mlopt.ir.dtypes import largest_number, to_numpy_dtype

_erf_of_number = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function, in f64 to its last bits, in the type of `x`."""
    return np.asarray(_erf_of_number(x.astype(np.float64)), np.float64).astype(x.dtype)


def _by_function(function: Callable[..., Array]) -> Callable[..., Array]:
    def evaluation(op: graph.GraphOp, *operands: Array) -> Array:
        return function(*operands)

    return evaluation


for _op_type, _function in {
    graph.AbsOp: np.abs,
    graph.AcosOp: np.arccos,
    graph.AcoshOp: np.arccosh,
    graph.AddOp: np.add,
    graph.AndOp: np.bitwise_and,
    graph.AsinOp: np.arcsin,
    graph.AsinhOp: np.arcsinh,
    graph.AtanOp: np.arctan,
    graph.AtanhOp: np.arctanh,
    graph.CeilOp: np.ceil,
    graph.CosOp: np.cos,
    graph.CoshOp: np.cosh,
    graph.EqualOp: np.equal,
    graph.ErfOp: erf,
    graph.ExpOp: np.exp,
    graph.FloorOp: np.floor,
    graph.GreaterEqualOp: np.greater_equal,
    graph.GreaterOp: np.greater,
    graph.IsInfOp: np.isinf,
    graph.IsNanOp: np.isnan,
    graph.LessEqualOp: np.less_equal,
    graph.LessOp: np.less,
    graph.LogOp: np.log,
    graph.MaxOp: np.maximum,
    graph.MinOp: np.minimum,
    graph.MulOp: np.multiply,
    graph.NegOp: np.negative,
    graph.NotOp: np.invert,
    graph.OrOp: np.bitwise_or,
    graph.RoundOp: np.rint,
    graph.SignOp: np.sign,
    graph.SinOp: np.sin,
    graph.SinhOp: np.sinh,
    graph.SqrtOp: np.sqrt,
    graph.SubOp: np.subtract,
    graph.TanOp: np.tan,
    graph.TanhOp: np.tanh,
    graph.WhereOp: np.where,
    graph.XorOp: np.bitwise_xor,
}.items():
    evaluates(_op_type)(_by_function(_function))


@evaluates(graph.ReluOp)
def relu(op: graph.ReluOp, x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


@evaluates(graph.ReciprocalOp)
def reciprocal(op: graph.ReciprocalOp, x: Array) -> Array:
    return np.ones((), x.dtype) / x


@evaluates(graph.SigmoidOp)
def sigmoid(op: graph.SigmoidOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    return (1 / (1 + np.exp(-wide))).astype(x.dtype)


@evaluates(graph.GeluOp)
def gelu(op: graph.GeluOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    if op.approximate.data == "tanh":
        inner = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide))
    else:
        inner = erf(wide / math.sqrt(2))
    return (0.5 * wide * (1 + inner)).astype(x.dtype)


@evaluates(graph.AllReduceOp)
def all_reduce(op: graph.AllReduceOp, *partials: Array) -> Array:
    return reduce(np.add, partials)


@evaluates(graph.LeakyReluOp)
def leaky_relu(op: graph.LeakyReluOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    return np.where(wide >= 0, wide, op.alpha.value.data * wide).astype(x.dtype)


@evaluates(graph.SwishOp)
def swish(op: graph.SwishOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    return (wide / (1 + np.exp(-op.alpha.value.data * wide))).astype(x.dtype)


@evaluates(graph.HardSigmoidOp)
def hard_sigmoid(op: graph.HardSigmoidOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    line = op.alpha.value.data * wide + op.beta.value.data
    return np.maximum(0, np.minimum(1, line)).astype(x.dtype)


@evaluates(graph.HardSwishOp)
def hard_swish(op: graph.HardSwishOp, x: Array) -> Array:
    (wide,) = widen(op, x)
    return (wide * (np.minimum(np.maximum(wide + 3, 0), 6) / 6)).astype(x.dtype)


@evaluates(graph.DivOp)
def div(op: graph.DivOp, x: Array, y: Array) -> Array:
    if has_float_elements(op.lhs):
        return np.divide(x, y)
    return divide_toward_zero(x, y)


def divide_toward_zero(x: Array, y: Array) -> Array:
    """Integer division that truncates; 0 where `y` is 0, and wrapping where the quotient does not fit."""
    divisor = np.where(y == 0, np.ones((), y.dtype), y)
    floor = np.floor_divide(x, divisor)
    inexact = floor * divisor != x
    quotient = floor + (inexact & ((x < 0) != (y < 0)))
    return np.where(y == 0, 0, quotient).astype(x.dtype)


@evaluates(graph.ModOp)
def mod(op: graph.ModOp, x: Array, y: Array) -> Array:
    return np.fmod(x, y) if op.fmod is not None else np.mod(x, y)


@evaluates(graph.PowOp)
def power(op: graph.PowOp, x: Array, y: Array) -> Array:
    if has_float_elements(op.lhs):
        return float_power(x, y)
    whole = np.power(x, np.maximum(y, 0))
    # 1 / x**|y|, truncated: only 1 and -1 leave something.
    inverse = np.where(np.abs(x) == 1, np.power(x, np.abs(y)), 0)
    return np.where(y < 0, inverse, whole).astype(x.dtype)


@evaluates(graph.ShiftLeftOp)
def shift_left(op: graph.ShiftLeftOp, x: Array, y: Array) -> Array:
    valid, amount = _shift_amount(x, y)
    return np.where(valid, np.left_shift(x, amount), np.zeros((), x.dtype))


@evaluates(graph.ShiftRightOp)
def shift_right(op: graph.ShiftRightOp, x: Array, y: Array) -> Array:
    valid, amount = _shift_amount(x, y)
    from_above = np.where(x < 0, np.array(-1).astype(x.dtype), np.zeros((), x.dtype))
    return np.where(valid, np.right_shift(x, amount), from_above)


def _shift_amount(x: Array, y: Array) -> tuple[Array, Array]:
    """Whether a shift by `y` leaves bits of `x`, and the shift itself, or 0 if not."""
    valid = (y >= 0) & (y < 8 * x.dtype.itemsize)
    return valid, np.where(valid, y, np.zeros((), y.dtype))


@evaluates(graph.BitcastOp)
def bitcast(op: graph.BitcastOp, x: Array) -> Array:
    return x.view(to_numpy_dtype(tensor_type(op.result.type).element_type))


@evaluates(graph.ClipOp)
def clip(op: graph.ClipOp, x: Array, *bounds: Array) -> Array:
    remaining = list(bounds)
    if op.lower is not None:
        x = np.maximum(x, remaining.pop(0))
    if op.upper is not None:
        x = np.minimum(x, remaining.pop(0))
    return x


@evaluates(graph.CastOp)
def cast(op: graph.CastOp, x: Array) -> Array:
    source, target = (tensor_type(value.type).element_type for value in (op.input, op.result))
    dtype = to_numpy_dtype(target)
    if is_tiny_float(source):
        x = x.astype(np.float32)
    elif is_sub_byte(source):
        x = x.astype(np.int8)
    if BOOL.accepts(target):
        return x != np.zeros((), x.dtype)
    if is_scale_float(target):
        assert op.round_mode is not None
        return power_of_two(x.astype(np.float64), op.round_mode.data, saturate=op.saturate is not None)
    if is_tiny_float(target):
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        largest = np.array(largest_number(target), wide.dtype)
        return (np.clip(wide, -largest, largest) if op.saturate is not None else wide).astype(dtype)
    if is_float(source) or is_tiny_float(source):
        if is_sub_byte(target):
            return truncate_saturating(x.astype(np.float64), np.dtype(np.int32)).astype(dtype)
        if INTEGER.accepts(target):
            return truncate_saturating(x.astype(np.float64), dtype)
    return x.astype(dtype)


def power_of_two(x: Array, round_mode: str, *, saturate: bool) -> Array:
    """f64 as f8E8M0FNU, `2^(byte - 127)` or NaN (byte 255), rounded as `graph.cast` says."""
    mantissa, exponent = np.frexp(x)  # x = mantissa * 2^exponent with mantissa in [0.5, 1)
    rounded = {"up": mantissa > 0.5, "nearest": mantissa >= 0.75, "down": np.zeros(x.shape, np.bool_)}
    byte = exponent - 1 + rounded[round_mode] + 127
    byte = np.where(x == 0, -1, np.where(np.isinf(x), 255, byte))
    outside = np.clip(byte, 0, 254) if saturate else np.full(x.shape, 255)
    byte = np.where((byte < 0) | (byte > 254), outside, byte)
    return np.where(np.isnan(x) | (x < 0), 255, byte).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def truncate_saturating(x: Array, dtype: np.dtype[np.integer]) -> Array:
    """f64 to the nearest integer of `dtype` toward zero; NaN to 0."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    whole = np.trunc(x)
    inside = (whole > low) & (whole < high)
    result = np.where(inside, whole, 0).astype(dtype)
    result = np.where(whole <= low, np.array(low, dtype), result)
    return np.where(whole >= high, np.array(high, dtype), result)
