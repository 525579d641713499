"""Rules of `simplify-algebra{mode=fast}`: they hold for real numbers.

Floats are rounded otherwise, results that were NaN or infinite may not be any more, and -0.0 may become 0.0. Integers
are not concerned: what holds for them stands in `exact_algebra.py` and `canonicalization.py`. Constants are merged
only if the result is finite and has all of its digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.passes.graph.algebra import Array, Build, Rule, fits, has_floats, is_normal, sides

FAST_TOLERANCE = 1e-3
"""By how much of the largest number of an output results may differ."""


class DivideByConstant(Rule):
    """a / c -> a * (1 / c)"""

    roots: ClassVar = (graph.DivOp,)

    def simplified(self, op: graph.DivOp) -> Build | None:
        array = self.constant(op.rhs) if has_floats(op) else None
        if array is None or not is_normal(array):
            return None
        inverse = (1 / array.astype(np.float64)).astype(array.dtype)
        if not is_normal(inverse):
            return None
        return lambda: [constant := self.new_constant(inverse, op.rhs), graph.MulOp(op.lhs, constant)]


class SubtractConstant(Rule):
    """(a + c) - d -> (a + c) + (-d)"""

    roots: ClassVar = (graph.SubOp,)

    def simplified(self, op: graph.SubOp) -> Build | None:
        array = self.constant(op.rhs) if has_floats(op) and isinstance(op.lhs.owner, graph.AddOp) else None
        if array is None:
            return None
        return lambda: [constant := self.new_constant(-array, op.rhs), graph.AddOp(op.lhs, constant)]


class RegroupConstants(Rule):
    """(a + c) + d -> a + (c + d); (a * c) * d -> a * (c * d); (a - c) + d -> a + (d - c)"""

    roots: ClassVar = (graph.AddOp, graph.MulOp)

    def simplified(self, op: graph.AddOp | graph.MulOp) -> Build | None:
        if not has_floats(op):
            return None
        for grouped, outer in sides(op):
            second = self.constant(outer) if grouped.has_one_use() else None
            if second is None:
                continue
            for value, middle, function in _inner(op, grouped.owner):
                first = self.constant(middle)
                merged = None if first is None else _computed(function, first, second)
                if merged is not None:
                    return lambda merged=merged, outer=outer, value=value: [
                        constant := self.new_constant(merged, outer),
                        type(op)(value, constant),
                    ]
        return None


Function = Callable[[Array, Array], Array]


def _inner(op: Operation, inner: object) -> list[tuple[SSAValue, SSAValue, Function]]:
    """A value and a constant that the inner operation may join, and how the constant meets the outer one."""
    if isinstance(op, graph.MulOp) and isinstance(inner, graph.MulOp):
        return [(value, other, np.multiply) for value, other in sides(inner)]
    if isinstance(op, graph.AddOp) and isinstance(inner, graph.AddOp):
        return [(value, other, np.add) for value, other in sides(inner)]
    if isinstance(op, graph.AddOp) and isinstance(inner, graph.SubOp):
        return [(inner.lhs, inner.rhs, lambda first, second: second - first)]
    return []


def _computed(function: Function, first: Array, second: Array) -> Array | None:
    """A constant made of two, computed in f64; None if it overflows, loses digits or has more elements."""
    wide = function(first.astype(np.float64), second.astype(np.float64))
    merged = np.asarray(wide).astype(first.dtype)
    nonzero = merged[wide != 0]
    is_sound = bool(np.all(np.isfinite(merged))) and (nonzero.size == 0 or is_normal(nonzero))
    return merged if is_sound and fits(merged, first, second) else None


class TimesZero(Rule):
    """a * 0 -> 0; 0 / a -> 0"""

    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def simplified(self, op: graph.MulOp | graph.DivOp) -> Build | None:
        if not has_floats(op):
            return None
        values = [op.lhs] if isinstance(op, graph.DivOp) else [op.lhs, op.rhs]
        if any(self.is_filled(value, zero) for value in values for zero in (0.0, -0.0)):
            return self.filled(op, 0.0)
        return None


class PlusZero(Rule):
    """a + 0.0 -> a; a - (-0.0) -> a"""

    roots: ClassVar = (graph.AddOp, graph.SubOp)

    def simplified(self, op: graph.AddOp | graph.SubOp) -> SSAValue | None:
        if not has_floats(op):
            return None
        number = 0.0 if isinstance(op, graph.AddOp) else -0.0
        return next((value for value, other in sides(op) if self.is_filled(other, number)), None)


class SameOperands(Rule):
    """a - a -> 0; a / a -> 1"""

    roots: ClassVar = (graph.SubOp, graph.DivOp)

    def simplified(self, op: graph.SubOp | graph.DivOp) -> Build | None:
        if not has_floats(op) or op.lhs != op.rhs:
            return None
        return self.filled(op, 0.0 if isinstance(op, graph.SubOp) else 1.0)


class PowerByNumber(Rule):
    """pow(a, 3) -> a * a * a; pow(a, 0.5) -> sqrt(a); pow(a, -1) -> 1 / a; pow(a, -0.5) -> 1 / sqrt(a)"""

    roots: ClassVar = (graph.PowOp,)

    def simplified(self, op: graph.PowOp) -> Build | None:
        if not has_floats(op) or shape_of(op.lhs) != shape_of(op.result):
            return None
        base = op.lhs
        if self.is_filled(op.rhs, 3):
            return lambda: [square := graph.MulOp(base, base), graph.MulOp(square, base)]
        if self.is_filled(op.rhs, 0.5):
            return lambda: [graph.SqrtOp(base)]
        if self.is_filled(op.rhs, -1):
            return lambda: [graph.ReciprocalOp(base)]
        if self.is_filled(op.rhs, -0.5):
            return lambda: [root := graph.SqrtOp(base), graph.ReciprocalOp(root)]
        return None


class CommonFactor(Rule):
    """a * b + a * c -> a * (b + c), and of differences; a / c + b / c -> (a + b) / c"""

    roots: ClassVar = (graph.AddOp, graph.SubOp)

    def simplified(self, op: graph.AddOp | graph.SubOp) -> Build | None:
        first, second = op.lhs.owner, op.rhs.owner
        if not has_floats(op) or op.lhs == op.rhs or not (op.lhs.has_one_use() and op.rhs.has_one_use()):
            return None
        if isinstance(first, graph.MulOp) and isinstance(second, graph.MulOp):
            pairs = [(p, q) for p in sides(first) for q in sides(second)]
        elif isinstance(first, graph.DivOp) and isinstance(second, graph.DivOp):
            pairs = [((first.rhs, first.lhs), (second.rhs, second.lhs))]
        else:
            return None
        for (factor, a), (same, b) in pairs:
            if factor == same and shape_of(a) == shape_of(b) == shape_of(op.result):
                return lambda factor=factor, a=a, b=b: [total := type(op)(a, b), type(first)(total, factor)]
        return None


class TimesReciprocal(Rule):
    """a * (1 / b) -> a / b; a / (1 / b) -> a * b"""

    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def simplified(self, op: graph.MulOp | graph.DivOp) -> Build | None:
        if isinstance(op, graph.DivOp):
            inverse = op.rhs.owner
            if not isinstance(inverse, graph.ReciprocalOp) or not op.rhs.has_one_use():
                return None
            return lambda: [graph.MulOp(op.lhs, inverse.input)]
        for value, other in sides(op):
            inverse = other.owner
            # A factor for several rows is divided once for all of them.
            is_large = other.has_one_use() and shape_of(other) == shape_of(op.result)
            if isinstance(inverse, graph.ReciprocalOp) and is_large:
                return lambda value=value, inverse=inverse: [graph.DivOp(value, inverse.input)]
        return None


class LogOfExp(Rule):
    """log(exp(a)) -> a"""

    roots: ClassVar = (graph.LogOp,)

    def simplified(self, op: graph.LogOp) -> SSAValue | None:
        return inner.input if isinstance(inner := op.input.owner, graph.ExpOp) else None


FAST_RULES: tuple[type[Rule], ...] = (
    *(TimesZero, PlusZero, SameOperands, LogOfExp, PowerByNumber),
    *(DivideByConstant, SubtractConstant, RegroupConstants, CommonFactor, TimesReciprocal),
)
"""In the order in which they are tried, after the exact ones."""
