"""What each `arith` and `math` operation is in terms of ufuncs, casts and selects.

Integers are signless: an unsigned operation reads the same bits as unsigned. Integer arithmetic wraps, `maximumf` and
`minimumf` propagate NaN, `maxnumf` and `minnumf` prefer the number. Results that MLIR leaves undefined (division by
zero, conversions out of range) are what numpy gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy._core import umath

from mlopt.interpreter.nodes import Cast, Compute, Leaf, Ref, Select
from mlopt.interpreter.plan import Memory
from mlopt.interpreter.views import View

BOOL = np.dtype(np.bool_)
INDEX = np.dtype(np.int64)

CLIP = cast(np.ufunc, vars(umath)["clip"])
"""What `np.clip` calls, after much else in Python; its stub does not have it."""


class NoSteps(Exception):
    """An operation that the numpy engine has no steps for; the message names it."""


class NodeBuilder:
    """Makes nodes; operations on constants are evaluated at once."""

    def __init__(self, memory: Memory, rank: int):
        self.memory = memory
        self.rank = rank

    def constant(self, value: object, dtype: np.dtype) -> Ref:
        """The same number everywhere."""
        with np.errstate(all="ignore"):
            return self._constant(np.asarray(value).astype(dtype))

    def scalar(self, view: View) -> Ref:
        """A scalar in memory (a view without axes), the same everywhere."""
        return Ref(Leaf(view.dtype, frozenset(), view), view.dtype)

    def apply(self, function: np.ufunc, *args: Ref, dtype: np.dtype | None = None) -> Ref:
        """A ufunc; the result has the type of the last operand unless given."""
        dtype = args[-1].dtype if dtype is None else dtype
        constants = self._values(args)
        if constants is not None:
            with np.errstate(all="ignore"):
                return self._constant(np.asarray(function(*constants)).astype(dtype))
        node = Compute(dtype, _dims(args), function, args)
        return Ref(node, dtype)

    def cast(self, source: Ref, dtype: np.dtype) -> Ref:
        """The elements converted as C does."""
        if source.dtype == dtype:
            return source
        constants = self._values((source,))
        if constants is not None:
            return self.constant(constants[0], dtype)
        return self.copy(source, dtype)

    def copy(self, source: Ref, dtype: np.dtype | None = None) -> Ref:
        """The elements in memory of their own."""
        dtype = source.dtype if dtype is None else dtype
        return Ref(Cast(dtype, source.node.dims, source), dtype)

    def select(self, condition: Ref, yes: Ref, no: Ref) -> Ref:
        """`yes` where the condition is true, else `no`."""
        constants = self._values((condition,))
        if constants is not None:
            return yes if constants[0] else no
        return Ref(Select(yes.dtype, _dims((condition, yes, no)), condition, yes, no), yes.dtype)

    def _constant(self, value: np.ndarray) -> Ref:
        view = self.memory.table(value)
        return Ref(Leaf(view.dtype, frozenset(), view, constant=True), view.dtype)

    @staticmethod
    def _values(args: Sequence[Ref]) -> list[np.ndarray] | None:
        values: list[np.ndarray] = []
        for node, dtype in args:
            if not (isinstance(node, Leaf) and node.constant):
                return None
            values.append(node.view.array().view(dtype))
        return values


def lower(
    builder: NodeBuilder, name: str, args: Sequence[Ref], dtype: np.dtype, predicate: int | None
) -> Ref:
    """The nodes of one operation; `NoSteps` if there are none."""
    if predicate is not None:
        return _COMPARISONS[name](builder, predicate, *args)
    if name not in _OPERATIONS:
        raise NoSteps(f"the numpy engine has no steps for '{name}'")
    return _OPERATIONS[name](builder, dtype, *args)


def reduction_ufunc(name: str, dtype: np.dtype) -> tuple[np.ufunc, np.dtype]:
    """The ufunc of an associative operation, and the type to read the elements as."""
    if dtype == BOOL:
        return _ON_BOOLS[name], dtype
    return _BINARY_UFUNCS[name], _unsigned(dtype) if name in ("arith.maxui", "arith.minui") else dtype


def identity(name: str, dtype: np.dtype) -> object | None:
    """The value that the operation leaves the other operand unchanged with, or None if there is no such value.

    For `addf` it is +0.0 (a sum that starts there has the same value, up to the sign of zero).
    """
    if dtype == BOOL:
        return name in ("arith.andi", "arith.muli", "arith.minui", "arith.maxsi")
    kind = name.removeprefix("arith.")
    if kind in ("addf", "addi", "ori", "xori", "maxui"):
        return 0
    if kind in ("mulf", "muli"):
        return 1
    if kind in ("maximumf", "minimumf"):
        return -np.inf if kind == "maximumf" else np.inf
    if kind in ("maxsi", "minsi"):
        return np.iinfo(dtype).min if kind == "maxsi" else np.iinfo(dtype).max
    return -1 if kind in ("andi", "minui") else None


def _dims(args: Sequence[Ref]) -> frozenset[int]:
    return frozenset[int]().union(*(ref.node.dims for ref in args))


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.name}") if dtype.kind == "i" else dtype


def _as_unsigned(*refs: Ref) -> list[Ref]:
    return [ref.bitcast(_unsigned(ref.dtype)) for ref in refs]


_Operation = Callable[..., Ref]

_BINARY_UFUNCS: dict[str, np.ufunc] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.remsi": np.fmod,
    "arith.remf": np.fmod,
    "arith.floordivsi": np.floor_divide,
    "affine.mod": np.remainder,
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
}

# Numbers of one bit: true is -1 when signed and 1 when unsigned.
_ON_BOOLS: dict[str, np.ufunc] = {
    "arith.addi": np.logical_xor,
    "arith.subi": np.logical_xor,
    "arith.muli": np.logical_and,
    "arith.andi": np.logical_and,
    "arith.ori": np.logical_or,
    "arith.xori": np.logical_xor,
    "arith.maxsi": np.logical_and,
    "arith.minsi": np.logical_or,
    "arith.maxui": np.logical_or,
    "arith.minui": np.logical_and,
}

_UNARY_UFUNCS: dict[str, np.ufunc] = {
    "arith.negf": np.negative,
    "math.absf": np.absolute,
    "math.absi": np.absolute,
    "math.acos": np.arccos,
    "math.acosh": np.arccosh,
    "math.asin": np.arcsin,
    "math.asinh": np.arcsinh,
    "math.atan": np.arctan,
    "math.atanh": np.arctanh,
    "math.cbrt": np.cbrt,
    "math.ceil": np.ceil,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.roundeven": np.rint,
    "math.sin": np.sin,
    "math.sinh": np.sinh,
    "math.sqrt": np.sqrt,
    "math.tan": np.tan,
    "math.tanh": np.tanh,
    "math.trunc": np.trunc,
}


def _unary(function: np.ufunc, b: NodeBuilder, _dtype: np.dtype, x: Ref) -> Ref:
    return b.apply(function, x)


def _binary(name: str, b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    if dtype == BOOL and name in _ON_BOOLS:
        return b.apply(_ON_BOOLS[name], x, y)
    if name in ("arith.maxui", "arith.minui"):
        return b.apply(_BINARY_UFUNCS[name], *_as_unsigned(x, y)).bitcast(dtype)
    return b.apply(_BINARY_UFUNCS[name], x, y)


def _on_unsigned(function: np.ufunc, b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    return b.apply(function, *_as_unsigned(x, y)).bitcast(dtype)


def _quotient(b: NodeBuilder, _dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    """Division toward zero: numpy's rounds down, so the remainder is taken off first."""
    whole = b.apply(np.subtract, x, b.apply(np.fmod, x, y))
    return b.apply(np.floor_divide, whole, y)


def _ceiling_quotient(b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    rest = b.apply(np.not_equal, b.apply(np.remainder, x, y), b.constant(0, x.dtype), dtype=BOOL)
    return b.apply(np.add, b.apply(np.floor_divide, x, y), b.cast(rest, x.dtype)).bitcast(dtype)


def _ceiling_quotient_unsigned(b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    return _ceiling_quotient(b, dtype, *_as_unsigned(x, y))


def number_of(ref: Ref) -> float | None:
    """The value of a constant."""
    if isinstance(ref.node, Leaf) and ref.node.constant:
        return float(ref.node.view.array().view(ref.dtype))
    return None


def _bound(name: str, b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    """The larger or smaller of two; both bounds of one value, if they are numbers, are one step of twice the speed.

    `clip` compares, so that -0.0 is inside bounds that begin at 0.0; adding 0.0 makes it the 0.0 that it should be.
    A bound that nothing lies beyond is none.
    """
    function, other = (np.maximum, np.minimum) if name == "arith.maximumf" else (np.minimum, np.maximum)
    for operand, number in ((x, number_of(y)), (y, number_of(x))):
        if number is None:
            continue
        if number == identity(name, dtype):
            return operand
        inner = operand.node
        if not isinstance(inner, Compute) or inner.function is not other:
            continue
        for value, second in (inner.args, inner.args[::-1]):
            bound = number_of(second)
            if bound is not None:
                low, high = (number, bound) if function is np.maximum else (bound, number)
                if dtype.kind == "f" and low < high and high != 0 and not (low == 0 and np.signbit(low)):
                    inside = b.apply(CLIP, value, b.constant(low, dtype), b.constant(high, dtype))
                    return b.apply(np.add, inside, b.constant(0.0, dtype)) if low == 0 else inside
    return b.apply(function, x, y)


def _divide(b: NodeBuilder, _dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    """Division; by a power of two it is the product with the inverse, which is as exact."""
    number = number_of(y)
    if number is not None and 0 < abs(number) < np.inf and abs(np.frexp(number)[0]) == 0.5:
        inverse = b.constant(1 / number, y.dtype)
        if number_of(inverse) == 1 / number:
            return b.apply(np.multiply, x, inverse)
    return b.apply(np.divide, x, y)


def _power(b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    """Powers; small whole ones are products, which numpy computes fifty times as fast."""
    exponent = number_of(y)
    if exponent == 2.0:
        return b.apply(np.multiply, x, x)
    if exponent in (3.0, 4.0) and dtype.itemsize >= np.dtype(np.float32).itemsize:
        square = b.apply(np.multiply, x, x)
        return b.apply(np.multiply, square, x if exponent == 3.0 else square)
    if exponent is not None and exponent != 0.5:
        return b.apply(np.power, x, y)
    unsigned = b.apply(
        np.equal, b.apply(np.add, x, x), x, dtype=BOOL
    )  # zeros and infinities: see `float_power`
    if exponent is None:
        is_root = b.apply(np.equal, y, b.constant(0.5, dtype), dtype=BOOL)
        unsigned = b.apply(np.logical_and, unsigned, is_root, dtype=BOOL)
    return b.apply(np.power, b.select(unsigned, b.apply(np.absolute, x), x), y)


def _integer_power(b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    """Negative exponents: 1 for base 1, 1 or -1 for base -1, else 0 (`1 / x ** -y` toward zero)."""
    zero, one = b.constant(0, dtype), b.constant(1, dtype)
    power = b.apply(np.power, x, b.apply(np.maximum, y, zero))
    sign = b.apply(np.power, x, b.apply(np.bitwise_and, y, one))
    unit = b.apply(np.equal, b.apply(np.absolute, x), one, dtype=BOOL)
    inverse = b.select(unit, sign, zero)
    return b.select(b.apply(np.less, y, zero, dtype=BOOL), inverse, power)


def _float_power_of_integer(b: NodeBuilder, dtype: np.dtype, x: Ref, y: Ref) -> Ref:
    return b.apply(np.power, x, b.cast(y, dtype))


def _reciprocal_root(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    return b.apply(np.divide, b.constant(1, dtype), b.apply(np.sqrt, x))


def _multiply_add(b: NodeBuilder, _dtype: np.dtype, x: Ref, y: Ref, z: Ref) -> Ref:
    return b.apply(np.add, b.apply(np.multiply, x, y), z)


def _round_half_away(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    """The whole part, plus the sign of `x` where the fraction is a half or more."""
    whole = b.apply(np.trunc, x)
    fraction = b.apply(np.absolute, b.apply(np.subtract, x, whole))
    up = b.cast(b.apply(np.greater_equal, fraction, b.constant(0.5, dtype), dtype=BOOL), dtype)
    return b.apply(np.copysign, b.apply(np.add, b.apply(np.absolute, whole), up), x)


# erf(x) = tanh(x R(x^2)) with R(t) = A + B t + C / (t + D + E / (t + F)), fitted to min max |error| over [0, 4.6]:
# 2.6e-7 in single precision. The denominators have no zero and R grows with t, so that large |x| saturate.
_ERF_TANH = (
    1.6734049816869878,
    0.05130381765236031,
    -1.8850282767776978,
    -11.803065254769772,
    345.85330143261115,
    22.661556018955675,
)

# W. J. Cody, Rational Chebyshev approximations for the error function (1969), as in netlib's CALERF.
_ERF_SMALL = (
    (
        1.85777706184603153e-1,
        3.16112374387056560,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_ERFC_LARGE = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1),
        *(2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3),
        1.23033935479799725e3,
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
        *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
_ERF_SWITCH = 0.46875
_SMALLEST_SCALE = 0.01  # a factor that may be moved into the fraction: its powers stay far from the limits
_ERF_ONE = 6.0  # erf(6) is 1 in double precision


def _polynomial(b: NodeBuilder, coefficients: Sequence[float], x: Ref) -> Ref:
    """Horner's rule, highest power first."""
    first, *rest = coefficients
    value = x if first == 1.0 else b.apply(np.multiply, x, b.constant(first, x.dtype))
    for coefficient in rest[:-1]:
        value = b.apply(np.multiply, b.apply(np.add, value, b.constant(coefficient, x.dtype)), x)
    return b.apply(np.add, value, b.constant(rest[-1], x.dtype))


def _ratio(b: NodeBuilder, coefficients: tuple[Sequence[float], Sequence[float]], x: Ref) -> Ref:
    return b.apply(np.divide, *(_polynomial(b, part, x) for part in coefficients))


def _erf(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    if dtype == np.float64:
        return _erf_double(b, dtype, x)
    if dtype != np.float32:
        single = np.dtype(np.float32)
        return b.cast(_erf(b, single, b.cast(x, single)), dtype)
    x, scale = _without_scale(x)
    a, slope, c, d, e, f = _ERF_TANH
    step = scale * scale  # the fraction in t = (scale x)^2, rewritten in x^2
    constants = (scale * a, scale * slope * step, scale * c / step, d / step, e / step**2, f / step)
    a, slope, c, d, e, f = (b.constant(value, dtype) for value in constants)
    square = b.apply(np.multiply, x, x)
    inner = b.apply(np.divide, e, b.apply(np.add, square, f))
    outer = b.apply(np.divide, c, b.apply(np.add, b.apply(np.add, inner, square), d))
    linear = b.apply(np.multiply, square, slope)
    ratio = b.apply(np.add, b.apply(np.add, outer, linear), a)
    return b.apply(np.tanh, b.apply(np.multiply, ratio, x))


def _without_scale(x: Ref) -> tuple[Ref, float]:
    """`x` as `scale * argument`, where it is the product or quotient of something and a constant."""
    node = x.node
    if isinstance(node, Compute) and node.function in (np.multiply, np.divide):
        for argument, factor in ((0, 1), (1, 0)) if node.function is np.multiply else ((0, 1),):
            number = number_of(node.args[factor])
            if number is not None and _SMALLEST_SCALE <= abs(number) <= 1 / _SMALLEST_SCALE:
                return node.args[argument], number if node.function is np.multiply else 1 / number
    return x, 1.0


def _erf_double(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    magnitude = b.apply(np.minimum, b.apply(np.absolute, x), b.constant(_ERF_ONE, dtype))
    square = b.apply(np.multiply, magnitude, magnitude)
    small = b.apply(np.multiply, _ratio(b, _ERF_SMALL, square), magnitude)
    decay = b.apply(np.exp, b.apply(np.negative, square))
    tail = b.apply(np.multiply, _ratio(b, _ERFC_LARGE, magnitude), decay)
    large = b.apply(np.subtract, b.constant(1, dtype), tail)
    is_large = b.apply(np.greater, magnitude, b.constant(_ERF_SWITCH, dtype), dtype=BOOL)
    return b.apply(np.copysign, b.select(is_large, large, small), x)


def _extend_signed(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    wide = b.cast(x, dtype)
    return b.apply(np.negative, wide) if x.dtype == BOOL else wide


def _extend_unsigned(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    return b.cast(x.bitcast(_unsigned(x.dtype)), dtype)


def _truncate(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    if dtype == BOOL and x.dtype != BOOL:
        return b.cast(b.apply(np.bitwise_and, x, b.constant(1, x.dtype)), dtype)
    return b.cast(x, dtype)


def _index_cast(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    return _truncate(b, dtype, x) if dtype.itemsize < x.dtype.itemsize else _extend_signed(b, dtype, x)


def _float_to_unsigned(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    return b.cast(x, _unsigned(dtype)).bitcast(dtype)


def _cast(b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    return b.cast(x, dtype)


def _bitcast(_b: NodeBuilder, dtype: np.dtype, x: Ref) -> Ref:
    return x.bitcast(dtype)


def _select(b: NodeBuilder, _dtype: np.dtype, condition: Ref, yes: Ref, no: Ref) -> Ref:
    return b.select(condition, yes, no)


_OPERATIONS: dict[str, _Operation] = {
    **{name: partial(_unary, function) for name, function in _UNARY_UFUNCS.items()},
    **{name: partial(_binary, name) for name in _BINARY_UFUNCS},
    "arith.divf": _divide,
    "arith.maximumf": partial(_bound, "arith.maximumf"),
    "arith.minimumf": partial(_bound, "arith.minimumf"),
    "arith.divui": partial(_on_unsigned, np.floor_divide),
    "arith.remui": partial(_on_unsigned, np.remainder),
    "arith.shrui": partial(_on_unsigned, np.right_shift),
    "arith.divsi": _quotient,
    "arith.ceildivsi": _ceiling_quotient,
    "arith.ceildivui": _ceiling_quotient_unsigned,
    "arith.select": _select,
    "arith.extf": _cast,
    "arith.truncf": _cast,
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _truncate,
    "arith.index_cast": _index_cast,
    "arith.sitofp": _extend_signed,
    "arith.uitofp": _extend_unsigned,
    "arith.fptosi": _cast,
    "arith.fptoui": _float_to_unsigned,
    "arith.bitcast": _bitcast,
    "math.erf": _erf,
    "math.fma": _multiply_add,
    "math.fpowi": _float_power_of_integer,
    "math.ipowi": _integer_power,
    "math.powf": _power,
    "math.round": _round_half_away,
    "math.rsqrt": _reciprocal_root,
}

# By the number of a predicate of arith.cmpi: eq ne, then signed and unsigned slt sle sgt sge.
_RELATIONS = (np.less, np.less_equal, np.greater, np.greater_equal)
_INTEGER_RELATIONS = (np.equal, np.not_equal, *_RELATIONS, *_RELATIONS)
_FIRST_UNSIGNED = 6


def _compare_integers(b: NodeBuilder, predicate: int, x: Ref, y: Ref) -> Ref:
    function = _INTEGER_RELATIONS[predicate]
    if x.dtype == BOOL and 2 <= predicate < _FIRST_UNSIGNED:
        x, y = y, x  # a signed true is -1
    elif predicate >= _FIRST_UNSIGNED:
        x, y = _as_unsigned(x, y)
    return b.apply(function, x, y, dtype=BOOL)


# By the number of a predicate of arith.cmpf: oeq ogt oge olt ole, then (8 on) ueq ugt uge ult ule, by what they negate.
_ORDERED = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal, 13: np.not_equal}
_NEGATED = {9: np.less_equal, 10: np.less, 11: np.greater_equal, 12: np.greater}
_FALSE, _ONE, _ORD, _UEQ, _UNO = 0, 6, 7, 8, 14


def _compare_floats(b: NodeBuilder, predicate: int, x: Ref, y: Ref) -> Ref:
    if predicate in _ORDERED:
        return b.apply(_ORDERED[predicate], x, y, dtype=BOOL)
    if predicate in _NEGATED:
        return b.apply(np.logical_not, b.apply(_NEGATED[predicate], x, y, dtype=BOOL))
    if predicate in (_ONE, _UEQ):
        less = b.apply(np.less, x, y, dtype=BOOL)
        different = b.apply(np.logical_or, less, b.apply(np.greater, x, y, dtype=BOOL))
        return different if predicate == _ONE else b.apply(np.logical_not, different)
    if predicate in (_ORD, _UNO):
        functions = (np.equal, np.logical_and) if predicate == _ORD else (np.not_equal, np.logical_or)
        own = [b.apply(functions[0], ref, ref, dtype=BOOL) for ref in ((x,) if x == y else (x, y))]
        return b.apply(functions[1], *own) if len(own) > 1 else own[0]
    return b.constant(predicate != _FALSE, BOOL)


_COMPARISONS: dict[str, _Operation] = {"arith.cmpi": _compare_integers, "arith.cmpf": _compare_floats}
