"""The floating-point type in which a contraction is summed, so that BLAS can do it, without changing the result.

BLAS has single and double precision only. Half precision is summed in single. Integers are summed in floats if every
partial sum is exact there, which follows from the ranges of the factors: products of 8-bit numbers, mostly.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import Float32Type, Float64Type

from mlopt.interpreter.expressions import Apply, Const, Expr
from mlopt.ir.dtypes import to_numpy_dtype

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_EXACT = {_SINGLE: 1 << 24, _DOUBLE: 1 << 53}
"""Integers below this magnitude are exact in the type."""


def sum_dtype(left: Expr, right: Expr, points: int, out: np.dtype) -> np.dtype:
    """The type in which to sum `points` products of the two factors into elements of type `out`."""
    if out.kind not in "iub":
        return _SINGLE if out.itemsize == 2 else out
    bounds = magnitude(left), magnitude(right)
    if out.kind != "i" or bounds[0] is None or bounds[1] is None:
        return out
    largest = bounds[0] * bounds[1] * points
    if largest > np.iinfo(out).max:
        return out
    return next((dtype for dtype, limit in _EXACT.items() if largest < limit), out)


def converted(expr: Expr, dtype: np.dtype) -> Expr:
    """The expression as a number of the type in which it is summed."""
    found = to_numpy_dtype(expr.type)
    if found == dtype:
        return expr
    target = Float32Type() if dtype == _SINGLE else Float64Type()
    if found.kind not in "ib":
        return Apply(target, "arith.extf", (expr,))
    match expr:
        case Apply(name="arith.extsi", args=(narrow,)):
            return Apply(target, "arith.sitofp", (narrow,))
        case Apply(name="arith.extui", args=(narrow,)):
            return Apply(target, "arith.uitofp", (narrow,))
        case _:
            return Apply(target, "arith.sitofp", (expr,))


def magnitude(expr: Expr) -> int | None:
    """A bound on the absolute value of an integer expression, below the range of its type; None if there is none."""
    bound: int | None = None
    match expr:
        case Const(value=int() as value):
            return abs(value)
        case Apply(name="arith.extsi", args=(narrow,)):
            bound = magnitude(narrow) or _type_bound(narrow, signed=True)
        case Apply(name="arith.extui", args=(narrow,)):
            bound = _type_bound(narrow, signed=False)
        case Apply(name="arith.addi" | "arith.subi", args=(left, right)):
            first, second = magnitude(left), magnitude(right)
            bound = None if first is None or second is None else first + second
        case _:
            bound = _type_bound(expr, signed=True) if _width(expr) <= 8 else None
    # A sum that leaves its type wraps; then only the type bounds it.
    return bound if bound is not None and bound <= _type_bound(expr, signed=True) else None


def _width(expr: Expr) -> int:
    dtype = to_numpy_dtype(expr.type)
    return 1 if dtype == np.bool_ else 8 * dtype.itemsize


def _type_bound(expr: Expr, *, signed: bool) -> int:
    return 1 << (_width(expr) - 1) if signed else (1 << _width(expr)) - 1
