"""Rules of `simplify-algebra` that give the same bits for every input: -0.0, infinities, NaN and integers that wrap.

What concerns one operation and is never a loss is a canonicalization (`canonicalization.py`). Here is what looks at
several operations, or writes one in terms of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import BOOL, INTEGER, SIGNED, get_ints, rank_of, shape_of
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.graph.algebra import (
    Array,
    Build,
    Rule,
    are_powers_of_two,
    element_of,
    fits,
    has_floats,
    is_filled,
    is_normal,
    sides,
    zeros_differ,
)
from mlopt.passes.graph.constants import make_constant

# Signs


class AddNegated(Rule):
    """a + (-b) -> a - b"""

    roots: ClassVar = (graph.AddOp,)

    def simplified(self, op: graph.AddOp) -> Build | None:
        for kept, other in sides(op):
            if isinstance(negation := other.owner, graph.NegOp):
                return lambda kept=kept, negation=negation: [graph.SubOp(kept, negation.input)]
        return None


class SubtractNegated(Rule):
    """a - (-b) -> a + b"""

    roots: ClassVar = (graph.SubOp,)

    def simplified(self, op: graph.SubOp) -> Build | None:
        negation = op.rhs.owner
        return (lambda: [graph.AddOp(op.lhs, negation.input)]) if isinstance(negation, graph.NegOp) else None


class NegatedFactors(Rule):
    """(-a) * (-b) -> a * b; (-a) / (-b) -> a / b for floats"""

    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def simplified(self, op: graph.MulOp | graph.DivOp) -> Build | None:
        lhs, rhs = op.lhs.owner, op.rhs.owner
        if not isinstance(lhs, graph.NegOp) or not isinstance(rhs, graph.NegOp):
            return None
        if isinstance(op, graph.DivOp) and not has_floats(op):
            return None  # the smallest integer is its own negative
        return lambda: [type(op)(lhs.input, rhs.input)]


class NegatedTimesConstant(Rule):
    """(-a) * c -> a * (-c); (-a) / c -> a / (-c) for floats"""

    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def simplified(self, op: graph.MulOp | graph.DivOp) -> Build | None:
        if isinstance(op, graph.DivOp) and not has_floats(op):
            return None
        for factor, other in sides(op):
            array = self.constant(other) if isinstance(factor.owner, graph.NegOp) else None
            if array is not None and isinstance(negation := factor.owner, graph.NegOp):
                return lambda array=array, other=other, negation=negation: [
                    constant := self.new_constant(-array, other),
                    type(op)(negation.input, constant),
                ]
        return None


class NegateProduct(Rule):
    """-(a * c) -> a * (-c); -(a / c) -> a / (-c) for floats"""

    roots: ClassVar = (graph.NegOp,)

    def simplified(self, op: graph.NegOp) -> Build | None:
        product = op.input.owner
        if not isinstance(product, graph.MulOp | graph.DivOp) or not op.input.has_one_use():
            return None
        if isinstance(product, graph.DivOp) and not has_floats(product):
            return None
        for factor, other in sides(product):
            if (array := self.constant(other)) is not None:
                return lambda array=array, factor=factor, other=other: [
                    constant := self.new_constant(-array, other),
                    type(product)(factor, constant),
                ]
        return None


class TimesMinusOne(Rule):
    """a * (-1), a / (-1), (-0.0) - a -> -a"""

    roots: ClassVar = (graph.MulOp, graph.DivOp, graph.SubOp)

    def simplified(self, op: graph.MulOp | graph.DivOp | graph.SubOp) -> Build | None:
        if not SIGNED.accepts(element_of(op.result)):
            return None
        if isinstance(op, graph.SubOp):
            is_negation = self.is_filled(op.lhs, -0.0 if has_floats(op) else 0)
            return (lambda: [graph.NegOp(op.rhs)]) if is_negation else None
        for value, other in sides(op):
            if self.is_filled(other, -1):
                return lambda value=value: [graph.NegOp(value)]
        return None


class AbsOfNegated(Rule):
    """abs(-a) -> abs(a)"""

    roots: ClassVar = (graph.AbsOp,)

    def simplified(self, op: graph.AbsOp) -> Build | None:
        negation = op.input.owner
        return (lambda: [graph.AbsOp(negation.input)]) if isinstance(negation, graph.NegOp) else None


# Products and powers


class DivideByPowerOfTwo(Rule):
    """a / 2^n -> a * 2^-n for floats"""

    roots: ClassVar = (graph.DivOp,)

    def simplified(self, op: graph.DivOp) -> Build | None:
        array = self.constant(op.rhs) if has_floats(op) else None
        if array is None or not are_powers_of_two(array):
            return None
        inverse = (1 / array).astype(array.dtype)
        if not is_normal(inverse):
            return None
        return lambda: [constant := self.new_constant(inverse, op.rhs), graph.MulOp(op.lhs, constant)]


class OneOver(Rule):
    """1 / a -> reciprocal(a)"""

    roots: ClassVar = (graph.DivOp,)

    def simplified(self, op: graph.DivOp) -> Build | None:
        is_reciprocal = has_floats(op) and self.is_filled(op.lhs, 1)
        return (lambda: [graph.ReciprocalOp(op.rhs)]) if is_reciprocal else None


class Square(Rule):
    """pow(a, 2) -> a * a"""

    roots: ClassVar = (graph.PowOp,)

    def simplified(self, op: graph.PowOp) -> Build | None:
        return (lambda: [graph.MulOp(op.lhs, op.lhs)]) if self.is_filled(op.rhs, 2) else None


class MergeScales(Rule):
    """(a * c) * d -> a * (c * d), where c is a power of two and neither is below 1

    Then a * c is exact, or as infinite as the whole.
    """

    roots: ClassVar = (graph.MulOp,)

    def simplified(self, op: graph.MulOp) -> Build | None:
        if not has_floats(op):
            return None
        for scaled, outer in sides(op):
            inner = scaled.owner
            if not isinstance(inner, graph.MulOp) or not scaled.has_one_use():
                continue
            for value, middle in sides(inner):
                product = self._product(middle, outer)
                if product is not None:
                    return lambda product=product, outer=outer, value=value: [
                        constant := self.new_constant(product, outer),
                        graph.MulOp(value, constant),
                    ]
        return None

    def _product(self, middle: SSAValue, outer: SSAValue) -> Array | None:
        first, second = self.constant(middle), self.constant(outer)
        if first is None or second is None or not are_powers_of_two(first):
            return None
        if not (bool(np.all(np.abs(first) >= 1)) and bool(np.all(np.abs(second) >= 1))):
            return None
        product = first * second
        return product if fits(product, first, second) and bool(np.all(np.isfinite(product))) else None


class MergeConstants(Rule):
    """(a op c) op d -> a op (c op d) for add, mul of integers, and, or, xor, min, max"""

    roots: ClassVar = (
        *(graph.AddOp, graph.MulOp, graph.AndOp, graph.OrOp, graph.XorOp),
        *(graph.MinOp, graph.MaxOp),
    )
    _FUNCTIONS: ClassVar[Mapping[type[Operation], Callable[[Array, Array], Array]]] = {
        graph.AddOp: np.add,
        graph.MulOp: np.multiply,
        graph.AndOp: np.bitwise_and,
        graph.OrOp: np.bitwise_or,
        graph.XorOp: np.bitwise_xor,
        graph.MinOp: np.minimum,
        graph.MaxOp: np.maximum,
    }

    def simplified(self, op: graph.BinaryOp) -> Build | None:
        if isinstance(op, graph.AddOp | graph.MulOp) and has_floats(op):
            return None  # rounded twice, or once
        for grouped, outer in sides(op):
            inner = grouped.owner
            if (
                not isinstance(inner, graph.BinaryOp)
                or type(inner) is not type(op)
                or not grouped.has_one_use()
            ):
                continue
            for value, middle in sides(inner):
                first, second = self.constant(middle), self.constant(outer)
                if first is None or second is None or zeros_differ(first, second):
                    continue
                merged = self._FUNCTIONS[type(op)](first, second)
                if fits(merged, first, second):
                    return lambda merged=merged, outer=outer, value=value: [
                        constant := self.new_constant(merged, outer),
                        type(op)(value, constant),
                    ]
        return None


class SubtractInteger(Rule):
    """a - c -> a + (-c) for integers"""

    roots: ClassVar = (graph.SubOp,)

    def simplified(self, op: graph.SubOp) -> Build | None:
        array = None if has_floats(op) else self.constant(op.rhs)
        if array is None:
            return None
        negative = np.negative(array)
        return lambda: [constant := self.new_constant(negative, op.rhs), graph.AddOp(op.lhs, constant)]


# Bounds


class RepeatedOperand(Rule):
    """(a op b) op b -> a op b for min, max, and, or"""

    roots: ClassVar = (graph.MinOp, graph.MaxOp, graph.AndOp, graph.OrOp)

    def simplified(self, op: graph.BinaryOp) -> SSAValue | None:
        inner = op.lhs.owner
        if type(inner) is type(op) and isinstance(inner, graph.BinaryOp) and inner.rhs == op.rhs:
            return (
                inner.result
            )  # the result of the first is one of its operands, and meets the same one again
        return None


class MaxWithZero(Rule):
    """max(a, 0) -> relu(a)"""

    roots: ClassVar = (graph.MaxOp,)

    def simplified(self, op: graph.MaxOp) -> Build | None:
        if not SIGNED.accepts(element_of(op.result)):
            return None
        for value, other in sides(op):
            if self.is_filled(other, 0) and shape_of(value) == shape_of(op.result):
                return lambda value=value: [graph.ReluOp(value)]
        return None


class Interval(NamedTuple):
    """An operation that keeps numbers within bounds: `min(max(value, lower), upper)`, of which one may be missing."""

    value: SSAValue
    lower: Array | None
    upper: Array | None

    @property
    def bounds(self) -> list[Array]:
        """Those that are there."""
        return [bound for bound in (self.lower, self.upper) if bound is not None]


class MergeBounds(Rule):
    """max, min, relu and clip by single numbers, one after the other -> relu or clip

    Not if a lower bound is above an upper one, or two zeros have different signs.
    """

    roots: ClassVar = (graph.MaxOp, graph.MinOp, graph.ReluOp, graph.ClipOp)

    def simplified(self, op: Operation) -> SSAValue | Build | None:
        for outer in self._intervals(op):
            if not isinstance(before := outer.value.owner, Operation) or not outer.value.has_one_use():
                continue
            for inner in self._intervals(before):
                merged = _intersection(inner, outer)
                if merged is not None:
                    return self._built(merged)
        return None

    def _built(self, merged: Interval) -> Build:
        lower, upper = merged.lower, merged.upper
        is_relu = upper is None and lower is not None and is_filled(lower, 0.0)
        if is_relu and SIGNED.accepts(element_of(merged.value)):
            return lambda: [graph.ReluOp(merged.value)]

        def build() -> list[Operation]:
            low = None if lower is None else make_constant(lower, self.ctx, "lower")
            high = None if upper is None else make_constant(upper, self.ctx, "upper")
            bounds = [bound for bound in (low, high) if bound is not None]
            return [*bounds, graph.ClipOp(merged.value, low, high)]

        return build

    def _intervals(self, op: Operation) -> list[Interval]:
        """The ways to see `op` as an interval."""
        match op:
            case graph.ReluOp():
                zero = np.zeros((), to_numpy_dtype(element_of(op.input)))
                return [Interval(op.input, zero, None)]
            case graph.ClipOp():
                lower, upper = (
                    None if bound is None else self.constant(bound) for bound in (op.lower, op.upper)
                )
                is_known = (lower is None) == (op.lower is None) and (upper is None) == (op.upper is None)
                return [Interval(op.input, lower, upper)] if is_known else []
            case graph.MaxOp() | graph.MinOp():
                found: list[Interval] = []
                for value, other in sides(op):
                    array = self.constant(other)
                    if array is None or shape_of(value) != shape_of(op.result):
                        continue
                    number = array.reshape(-1)[0]
                    if is_filled(array, number):
                        bound = np.array(number, array.dtype)
                        is_lower = isinstance(op, graph.MaxOp)
                        found.append(
                            Interval(value, bound, None) if is_lower else Interval(value, None, bound)
                        )
                return found
            case _:
                return []


def _intersection(inner: Interval, outer: Interval) -> Interval | None:
    """Both intervals in one; None if that is not the same for every number."""
    bounds = inner.bounds + outer.bounds
    lowers = [each.lower for each in (inner, outer) if each.lower is not None]
    uppers = [each.upper for each in (inner, outer) if each.upper is not None]
    if not bounds or any(bound != bound for bound in bounds) or zeros_differ(*bounds):
        return None
    if lowers and uppers and max(lowers) > min(uppers):
        return None
    return Interval(inner.value, max(lowers, default=None), min(uppers, default=None))


# Conditions


class WhereOfNot(Rule):
    """where(not c, a, b) -> where(c, b, a)"""

    roots: ClassVar = (graph.WhereOp,)

    def simplified(self, op: graph.WhereOp) -> Build | None:
        negation = op.condition.owner
        if not isinstance(negation, graph.NotOp):
            return None
        return lambda: [graph.WhereOp(negation.input, op.false_value, op.true_value)]


class WhereOfBools(Rule):
    """where(c, true, false) -> c; where(c, false, true) -> not c"""

    roots: ClassVar = (graph.WhereOp,)

    def simplified(self, op: graph.WhereOp) -> SSAValue | Build | None:
        if not BOOL.accepts(element_of(op.result)):
            return None
        if self.is_filled(op.true_value, True) and self.is_filled(op.false_value, False):
            return op.condition
        if self.is_filled(op.true_value, False) and self.is_filled(op.false_value, True):
            return lambda: [graph.NotOp(op.condition)]
        return None


class WhereInWhere(Rule):
    """where(c, where(c, a, b), d) -> where(c, a, d); where(c, a, where(c, b, d)) -> where(c, a, d)"""

    roots: ClassVar = (graph.WhereOp,)

    def simplified(self, op: graph.WhereOp) -> Build | None:
        first, second = op.true_value.owner, op.false_value.owner
        if isinstance(first, graph.WhereOp) and first.condition == op.condition:
            return lambda: [graph.WhereOp(op.condition, first.true_value, op.false_value)]
        if isinstance(second, graph.WhereOp) and second.condition == op.condition:
            return lambda: [graph.WhereOp(op.condition, op.true_value, second.false_value)]
        return None


class CompareWithBool(Rule):
    """c == true, c xor false -> c; c == false, c xor true -> not c"""

    roots: ClassVar = (graph.EqualOp, graph.XorOp)

    def simplified(self, op: graph.EqualOp | graph.XorOp) -> SSAValue | Build | None:
        if not BOOL.accepts(element_of(op.lhs)):
            return None
        same = isinstance(op, graph.EqualOp)
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if self.is_filled(other, same):
                return value
            if self.is_filled(other, not same):
                return lambda value=value: [graph.NotOp(value)]
        return None


class NotOfComparison(Rule):
    """not (a < b) -> a >= b, and so on, for integers: of a comparison with NaN it would be wrong"""

    roots: ClassVar = (graph.NotOp,)
    _OPPOSITES: ClassVar[dict[type[Operation], type[graph.ComparisonOp]]] = {
        graph.LessOp: graph.GreaterEqualOp,
        graph.LessEqualOp: graph.GreaterOp,
        graph.GreaterOp: graph.LessEqualOp,
        graph.GreaterEqualOp: graph.LessOp,
    }

    def simplified(self, op: graph.NotOp) -> Build | None:
        comparison = op.input.owner
        if not isinstance(comparison, graph.ComparisonOp) or not op.input.has_one_use():
            return None
        opposite = self._OPPOSITES.get(type(comparison))
        if opposite is None or not INTEGER.accepts(element_of(comparison.lhs)):
            return None
        return lambda: [opposite(comparison.lhs, comparison.rhs)]


# Reductions


class MergeReductions(Rule):
    """reduce(reduce(a)) -> reduce(a) over all axes, for max, min, and sum and prod of integers"""

    roots: ClassVar = (graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceSumOp, graph.ReduceProdOp)

    def simplified(self, op: graph.ReductionOp) -> Build | None:
        inner = op.input.owner
        if (
            not isinstance(inner, graph.ReductionOp)
            or type(inner) is not type(op)
            or not op.input.has_one_use()
        ):
            return None
        if has_floats(inner) and isinstance(op, graph.ReduceSumOp | graph.ReduceProdOp):
            return None
        first, second = (get_ints(each.properties, "axes") or () for each in (inner, op))
        kept = [axis for axis in range(rank_of(inner.input)) if axis not in first]
        if inner.keepdims is None:
            second = tuple(kept[axis] for axis in second)
        axes = sorted({*first, *second})
        shape = shape_of(op.result)

        def build() -> list[Operation]:
            merged = type(op)(inner.input, axes, keepdims=op.keepdims is not None)
            return [merged] if shape_of(merged) == shape else [merged, graph.ReshapeOp(merged, shape)]

        return build


EXACT_RULES: tuple[type[Rule], ...] = (
    *(AddNegated, SubtractNegated, NegatedFactors, NegatedTimesConstant, NegateProduct, TimesMinusOne),
    *(AbsOfNegated, DivideByPowerOfTwo, OneOver, Square, MergeScales, SubtractInteger, MergeConstants),
    *(RepeatedOperand, MaxWithZero, MergeBounds),
    *(WhereOfNot, WhereOfBools, WhereInWhere, CompareWithBool, NotOfComparison),
    MergeReductions,
)
"""In the order in which they are tried."""
