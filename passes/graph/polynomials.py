"""Expressions as polynomials: how often a formula is written otherwise, and still is the same formula.

`0.5 * x * (1 + e)`, `x * (0.5 + 0.5 * e)` and `(x * e + x) / 2` are all `0.5 x + 0.5 x e`. Sums in which terms cancel
are none: they round otherwise than what they are equal to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.graph.fusion import uniform_value, unit_of

Exponents: TypeAlias = tuple[int, ...]
"""One exponent per variable."""

Terms: TypeAlias = Mapping[Exponents, float]
"""The coefficient of each product of powers; none is 0."""

MAX_OPS = 12
"""More operations than any form of a formula that is looked for has: what is larger is not expanded."""

ROUNDINGS = 1.5
"""By how many units in the last place a product of up to three rounded numbers may be off."""

_ARITHMETIC = (graph.AddOp, graph.SubOp, graph.MulOp, graph.DivOp, graph.NegOp, graph.PowOp)


class Polynomial(NamedTuple):
    """What an expression is in its variables, and the operations that compute it, the last one first."""

    terms: Terms
    ops: tuple[Operation, ...]


def expand(value: SSAValue, variables: Sequence[SSAValue], ctx: CompilerContext) -> Polynomial | None:
    """The value as a polynomial of the variables; None if it is none, or is the difference of like terms.

    Numbers are constants that are one number everywhere. Shapes are not looked at: a constant may enlarge the result.
    """
    expansion = _Expansion({variable: i for i, variable in enumerate(variables)}, ctx)
    terms = expansion.terms(value)
    return None if terms is None else Polynomial(terms, tuple(reversed(expansion.ops)))


def operands_below(value: SSAValue, depth: int) -> Iterator[SSAValue]:
    """The value, and what it is computed from by arithmetic of up to so many steps, the nearest first, each once."""
    seen = {value: None}
    level = [value]
    for _ in range(depth + 1):
        yield from level
        below: dict[SSAValue, None] = {}
        for known in level:
            if isinstance(known.owner, _ARITHMETIC):
                below.update((operand, None) for operand in known.owner.operands if operand not in seen)
        seen.update(below)
        level = list(below)


def once(ops: Sequence[Operation]) -> tuple[Operation, ...]:
    """Operations that several expressions share once, where the last of them has them: users first."""
    return tuple(reversed(dict.fromkeys(reversed(ops))))


def goes_on(op: Operation, variables: Sequence[SSAValue], ctx: CompilerContext) -> bool:
    """Is the result used in another polynomial of the same variables? Then that is where a formula ends."""
    users = {use.operation: None for use in op.results[0].uses}
    return any(
        isinstance(user, _ARITHMETIC) and expand(user.results[0], variables, ctx) is not None
        for user in users
    )


def is_close(number: float, wanted: float, like: SSAValue) -> bool:
    """Whether a number may be `wanted`, the numbers that it is the product of rounded to the element type of `like`."""
    dtype = to_numpy_dtype(tensor_type(like.type).element_type)
    return abs(number - wanted) <= ROUNDINGS * unit_of(dtype) * abs(wanted)


class _Expansion:
    def __init__(self, variables: Mapping[SSAValue, int], ctx: CompilerContext):
        self.variables = variables
        self.ctx = ctx
        self.ops: list[Operation] = []
        self.begun = 0
        """Operations that were looked at, which `ops` has once all below them are expanded."""
        self.known: dict[SSAValue, Terms | None] = {}

    def terms(self, value: SSAValue) -> Terms | None:
        if value not in self.known:
            self.known[value] = self._terms(value)
        return self.known[value]

    def _terms(self, value: SSAValue) -> Terms | None:
        count = len(self.variables)
        if (index := self.variables.get(value)) is not None:
            return {tuple(int(i == index) for i in range(count)): 1.0}
        op = value.owner
        if not isinstance(op, _ARITHMETIC):
            number = uniform_value(value, self.ctx)
            return None if number is None or not isfinite(number) else _constant(number, count)
        if self.begun >= MAX_OPS:
            return None
        self.begun += 1
        operands: list[Terms] = []
        for operand in op.operands:
            if (terms := self.terms(operand)) is None:
                return None
            operands.append(terms)
        self.ops.append(op)
        return _applied(op, operands)


def _applied(op: Operation, operands: Sequence[Terms]) -> Terms | None:
    first, second = operands[0], operands[-1]
    match op:
        case graph.AddOp():
            return _sum(first, second)
        case graph.SubOp():
            return _sum(first, _scaled(second, -1))
        case graph.MulOp():
            return _product(first, second)
        case graph.NegOp():
            return _scaled(first, -1)
        case graph.DivOp():
            divisor = _number(second)
            return None if divisor is None or divisor == 0 else _scaled(first, 1 / divisor)
        case _:  # a power
            exponent = _number(second)
            if exponent not in (1, 2, 3):
                return None
            result: Terms | None = first
            for _ in range(int(exponent) - 1):
                result = None if result is None else _product(result, first)
            return result


def _constant(number: float, count: int) -> Terms:
    return {(0,) * count: number} if number != 0 else {}


def _number(terms: Terms) -> float | None:
    """The number that the terms are; None if a variable is in them."""
    if any(any(exponents) for exponents in terms):
        return None
    return sum(terms.values())


def _scaled(terms: Terms, factor: float) -> Terms:
    return {exponents: coefficient * factor for exponents, coefficient in terms.items()}


def _sum(a: Terms, b: Terms) -> Terms | None:
    """None if like terms have different signs."""
    result = dict(a)
    for exponents, coefficient in b.items():
        there = result.get(exponents, 0.0)
        if there * coefficient < 0:
            return None
        result[exponents] = there + coefficient
    return result


def _product(a: Terms, b: Terms) -> Terms | None:
    result: Terms | None = {}
    for exponents, coefficient in a.items():
        shifted = {
            tuple(m + n for m, n in zip(exponents, other, strict=True)): coefficient * factor
            for other, factor in b.items()
        }
        result = None if result is None else _sum(result, shifted)
    return result
