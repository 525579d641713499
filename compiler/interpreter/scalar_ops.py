"""What each scalar `arith` and `math` op means, evaluated on whole numpy arrays of operands at once.

Values are represented as numpy sees them: `i1` as bool, `iN` as signed `intN`, `index` as int64, floats as
themselves (bf16 by ml_dtypes). Integers are signless: unsigned ops reinterpret the bits. Where MLIR calls a
result poison (division by zero, conversion of a float that the integer type can't hold), it is a value that
shows (`poison`).
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from mlopt.dialects.arith import RemfOp
from mlopt.ir.dtypes import to_numpy_dtype

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Binary: TypeAlias = Callable[[Array, Array], Array]


def poison(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Contents that nothing may depend on, made to show: NaN, bytes 0xCC in integers, true in bools."""
    if dtype.kind in "iu":
        return np.full(shape, np.frombuffer(b"\xcc" * dtype.itemsize, dtype)[0], dtype)
    return np.full(shape, True if dtype.kind == "b" else np.nan, dtype)


def evaluate_scalar_op(op: Operation, operands: Sequence[Array]) -> Array:
    """The result of a scalar op for arrays of operands that broadcast; `LookupError` for an unknown op."""
    result = to_numpy_dtype(op.results[0].type)
    if isinstance(op, arith.ConstantOp):
        return constant(op.value, result)
    if isinstance(op, arith.CmpiOp):
        return np.asarray(_compare_integers(op.predicate.value.data, *operands))
    if isinstance(op, arith.CmpfOp):
        return np.asarray(_compare_floats(op.predicate.value.data, *operands))
    if type(op) in _CASTS:
        return np.asarray(_CASTS[type(op)](operands[0], result))
    if type(op) not in _OPS:
        raise LookupError(f"the scalar operation '{op.name}' is not known")
    return np.asarray(_OPS[type(op)](*map(np.asarray, operands))).astype(result, copy=False)


def constant(value: Attribute, dtype: np.dtype[Any]) -> Array:
    """A number attribute as an array of rank 0."""
    if isinstance(value, FloatAttr):
        return np.asarray(value.value.data).astype(dtype)
    if isinstance(value, IntegerAttr):
        # i1 is -1 or 1 when true; an unsigned literal has the bits of its signed counterpart.
        number = value.value.data
        return (
            np.asarray(number != 0)
            if dtype.kind == "b"
            else np.asarray(number & _MASK64, np.uint64).astype(dtype)
        )
    raise LookupError(f"{value} is no scalar constant")


_MASK64 = (1 << 64) - 1


def _signed(x: Array) -> Array:
    """The operand as a signed number: the true of i1 is -1."""
    return np.negative(x.astype(np.int8)) if x.dtype.kind == "b" else x


def _unsigned(x: Array) -> Array:
    """The operand's bits as an unsigned number."""
    return x.astype(np.uint8) if x.dtype.kind == "b" else x.view(f"u{x.dtype.itemsize}")


def _wrapped(x: Array, like: Array) -> Array:
    """An integer result reduced to the bits of `like`'s type."""
    return (x & 1).astype(np.bool_) if like.dtype.kind == "b" else x.astype(like.dtype)


def _on_signed(function: Binary) -> Binary:
    def evaluate(a: Array, b: Array) -> Array:
        return _wrapped(function(_signed(a), _signed(b)), a)

    return evaluate


def _on_unsigned(function: Binary) -> Binary:
    def evaluate(a: Array, b: Array) -> Array:
        return _wrapped(function(_unsigned(a), _unsigned(b)), a)

    return evaluate


def _quotient(a: Array, b: Array) -> Array:
    """`a / b` toward zero."""
    floored = a // b
    inexact = floored * b != a
    return floored + (inexact & ((a < 0) != (b < 0)))


def _unless_zero(function: Binary) -> Binary:
    """Division: the result for a divisor of zero is poison."""

    def divide(a: Array, b: Array) -> Array:
        zero = b == 0
        quotient = function(a, np.where(zero, np.ones_like(b), b))
        return np.where(zero, poison((), a.dtype), quotient)

    return divide


def _shift(function: Binary) -> Binary:
    """Shifts: by the width or more is poison."""

    def shift(a: Array, b: Array) -> Array:
        width = 1 if a.dtype.kind == "b" else 8 * a.dtype.itemsize
        valid = _unsigned(b) < width
        return np.where(valid, function(a, np.where(valid, b, np.zeros_like(b))), poison((), a.dtype))

    return shift


def _compare_integers(predicate: int, a: Array, b: Array) -> Array:
    view = _unsigned if predicate >= 6 else _signed
    return _INTEGER_PREDICATES[predicate](view(np.asarray(a)), view(np.asarray(b)))


_INTEGER_PREDICATES: tuple[Binary, ...] = (
    *(np.equal, np.not_equal),
    *(np.less, np.less_equal, np.greater, np.greater_equal),  # signed
    *(np.less, np.less_equal, np.greater, np.greater_equal),  # unsigned
)
"""By the number of an `arith.cmpi` predicate: eq ne slt sle sgt sge ult ule ugt uge."""


def _compare_floats(predicate: int, a: Array, b: Array) -> Array:
    unordered = np.isnan(a) | np.isnan(b)
    holds = _FLOAT_PREDICATES[predicate](a, b)
    return holds & ~unordered if predicate < 8 else holds | unordered


def _never(a: Array, b: Array) -> Array:
    return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_)


def _always(a: Array, b: Array) -> Array:
    return np.ones(np.broadcast_shapes(a.shape, b.shape), np.bool_)


_RELATIONS = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)
_FLOAT_PREDICATES: tuple[Binary, ...] = (
    *(_never, *_RELATIONS, _always),  # ordered, that is, false for NaN: false oeq ogt oge olt ole one ord
    *(*_RELATIONS, _never, _always),  # or unordered, that is, true for NaN: ueq ugt uge ult ule une uno true
)
"""By the number of an `arith.cmpf` predicate, without what it says about NaN."""


def _float_to_integer(x: Array, dtype: np.dtype[Any], *, unsigned: bool) -> Array:
    """Truncate toward zero; poison where the integer type can't hold the number."""
    bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize
    low, high = (0, 1 << bits) if unsigned else (-(1 << (bits - 1)), 1 << (bits - 1))
    number = np.trunc(x.astype(np.float64))
    fits = (number >= low) & (number < high)
    kept = np.where(fits, number, 0.0)
    whole = kept.astype(np.uint64).view(np.int64) if unsigned else kept.astype(np.int64)
    return np.where(fits, whole.astype(dtype), poison((), dtype))


def float_power(x: Array, y: Array) -> Array:
    """`x ** y` as IEEE 754 has it: for y = 0.5, -0 gives 0, and -inf gives inf.

    numpy takes the square root where one 0.5 is the exponent of all, and that of -0 is -0, that of -inf no number.
    """
    return np.power(np.where((y == 0.5) & ((x == 0) | np.isinf(x)), np.abs(x), x), y)


def _power(a: Array, b: Array) -> Array:
    """Integer power; a negative exponent gives `1 / a ** -b` truncated toward zero, poison for base 0."""
    positive = np.power(a, np.where(b < 0, np.zeros_like(b), b))
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0)).astype(a.dtype)
    inverse = np.where(a == 0, poison((), a.dtype), inverse)
    return np.where(b < 0, inverse, positive)


def _round_half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + np.asarray(0.5, x.dtype)), x)


_erf_of_number = np.frompyfunc(pymath.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_of_number(x.astype(np.float64))).astype(x.dtype)


def _reciprocal_sqrt(x: Array) -> Array:
    return np.asarray(1, x.dtype) / np.sqrt(x)


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    return a * b + c


_CASTS: dict[type[Operation], Callable[[Array, np.dtype[Any]], Array]] = {
    arith.ExtFOp: lambda x, dtype: x.astype(dtype),
    arith.TruncFOp: lambda x, dtype: x.astype(dtype),
    arith.ExtSIOp: lambda x, dtype: _signed(x).astype(dtype),
    arith.ExtUIOp: lambda x, dtype: _unsigned(x).astype(dtype),
    arith.TruncIOp: lambda x, dtype: x & 1 != 0 if dtype.kind == "b" else x.astype(dtype),
    arith.IndexCastOp: lambda x, dtype: x & 1 != 0 if dtype.kind == "b" else _signed(x).astype(dtype),
    arith.SIToFPOp: lambda x, dtype: _signed(x).astype(dtype),
    arith.UIToFPOp: lambda x, dtype: _unsigned(x).astype(dtype),
    arith.FPToSIOp: lambda x, dtype: _float_to_integer(x, dtype, unsigned=False),
    arith.FPToUIOp: lambda x, dtype: _float_to_integer(x, dtype, unsigned=True),
    arith.BitcastOp: lambda x, dtype: x.view(dtype),
}

_OPS: dict[type[Operation], Callable[..., Any]] = {
    arith.AddiOp: _on_unsigned(np.add),
    arith.SubiOp: _on_unsigned(np.subtract),
    arith.MuliOp: _on_unsigned(np.multiply),
    arith.DivSIOp: _unless_zero(_on_signed(_quotient)),
    arith.DivUIOp: _unless_zero(_on_unsigned(np.floor_divide)),
    arith.FloorDivSIOp: _unless_zero(_on_signed(np.floor_divide)),
    arith.RemSIOp: _unless_zero(_on_signed(np.fmod)),
    arith.RemUIOp: _unless_zero(_on_unsigned(np.fmod)),
    arith.MaxSIOp: _on_signed(np.maximum),
    arith.MaxUIOp: _on_unsigned(np.maximum),
    arith.MinSIOp: _on_signed(np.minimum),
    arith.MinUIOp: _on_unsigned(np.minimum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: _shift(_on_unsigned(np.left_shift)),
    arith.ShRSIOp: _shift(_on_signed(np.right_shift)),
    arith.ShRUIOp: _shift(_on_unsigned(np.right_shift)),
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    RemfOp: np.fmod,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    arith.SelectOp: np.where,
    math.AbsFOp: np.abs,
    math.AbsIOp: np.abs,
    math.CeilOp: np.ceil,
    math.FloorOp: np.floor,
    math.TruncOp: np.trunc,
    math.RoundEvenOp: np.rint,
    math.RoundOp: _round_half_away,
    math.CopySignOp: np.copysign,
    math.ErfOp: _erf,
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.ExpM1Op: np.expm1,
    math.LogOp: np.log,
    math.Log2Op: np.log2,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.SqrtOp: np.sqrt,
    math.RsqrtOp: _reciprocal_sqrt,
    math.SinOp: np.sin,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.SinhOp: np.sinh,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.Atan2Op: np.arctan2,
    math.PowFOp: float_power,
    math.IPowIOp: _power,
    math.FmaOp: _multiply_add,
}
