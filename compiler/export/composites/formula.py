"""Formulas of graph operations, written as formulas: `x / (1 + absolute(x))`, and the groups that they match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, tensor_type
from mlopt.export.builder import Builder
from mlopt.ir.dtypes import to_numpy_dtype

Variables: TypeAlias = Mapping[str, SSAValue]
Numbers: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class Match:
    """What a formula found: values and numbers by name, and the operations, the last one first."""

    values: Variables = field(default_factory=dict[str, SSAValue])
    numbers: Numbers = field(default_factory=dict[str, float])
    ops: tuple[Operation, ...] = ()


class Formula(ABC):
    """What a value is computed by. Numbers stand for constants of which every element is that number."""

    @abstractmethod
    def match(self, value: SSAValue, found: Match, builder: Builder) -> Iterator[Match]:
        """Every way in which `value` is this, together with what was found before."""

    def __or__(self, other: Formula) -> Formula:
        return Either((self, other))

    def __add__(self, other: Formula | float) -> Formula:
        return Call(graph.AddOp, (self, formula(other)), commutes=True)

    def __radd__(self, other: float) -> Formula:
        return formula(other) + self

    def __sub__(self, other: Formula | float) -> Formula:
        return Call(graph.SubOp, (self, formula(other)))

    def __mul__(self, other: Formula | float) -> Formula:
        return Call(graph.MulOp, (self, formula(other)), commutes=True)

    def __truediv__(self, other: Formula | float) -> Formula:
        return Call(graph.DivOp, (self, formula(other)))

    def __neg__(self) -> Formula:
        return Call(graph.NegOp, (self,))

    def __lt__(self, other: Formula | float) -> Formula:
        return less(self, formula(other))

    def __gt__(self, other: Formula | float) -> Formula:
        return less(formula(other), self)


@dataclass(frozen=True)
class Variable(Formula):
    """Any value, the same one wherever the name occurs."""

    name: str

    def match(self, value: SSAValue, found: Match, builder: Builder) -> Iterator[Match]:
        known = found.values.get(self.name)
        if known is None:
            yield Match({**found.values, self.name: value}, found.numbers, found.ops)
        elif known is value:
            yield found


@dataclass(frozen=True)
class Number(Formula):
    """This number, rounded to the type of the constant."""

    number: float

    def match(self, value: SSAValue, found: Match, builder: Builder) -> Iterator[Match]:
        number = number_of(value, builder)
        if number is None:
            return
        wanted = np.array(self.number).astype(to_numpy_dtype(tensor_type(value.type).element_type))
        if number == wanted and np.signbit(number) == np.signbit(self.number):
            yield found


@dataclass(frozen=True)
class Parameter(Formula):
    """A finite number, the same one wherever the name occurs."""

    name: str

    def match(self, value: SSAValue, found: Match, builder: Builder) -> Iterator[Match]:
        number = number_of(value, builder)
        if number is None or not isfinite(number):
            return
        if found.numbers.get(self.name, number) == number:
            yield Match(found.values, {**found.numbers, self.name: number}, found.ops)


@dataclass(frozen=True)
class Call(Formula):
    """The only result of an operation of these operands, in either order if it commutes."""

    op_type: type[Operation]
    operands: Sequence[Formula]
    commutes: bool = False

    def match(self, value: SSAValue, found: Match, builder: Builder) -> Iterator[Match]:
        op = value.owner
        if not isinstance(op, self.op_type) or len(op.operands) != len(self.operands):
            return
        found = Match(found.values, found.numbers, (*found.ops, op))
        orders = (op.operands, op.operands[::-1]) if self.commutes else (op.operands,)
        for operands in orders:
            yield from self._match_all(operands, found, builder)

    def _match_all(self, values: Sequence[SSAValue], found: Match, builder: Builder) -> Iterator[Match]:
        matches = [found]
        for operand, value in zip(self.operands, values, strict=True):
            matches = [more for one in matches for more in operand.match(value, one, builder)]
        yield from matches


@dataclass(frozen=True)
class Either(Formula):
    """One of these."""

    formulas: Sequence[Formula]

    def match(self, value: SSAValue, found: Match, builder: Builder) -> Iterator[Match]:
        for one in self.formulas:
            yield from one.match(value, found, builder)


def formula(given: Formula | float) -> Formula:
    """A number as a formula."""
    return given if isinstance(given, Formula) else Number(given)


def call(op_type: type[Operation], *operands: Formula) -> Formula:
    """The result of an operation that does not commute."""
    return Call(op_type, operands)


def less(a: Formula, b: Formula) -> Formula:
    """`a < b`, or `b > a`."""
    return call(graph.LessOp, a, b) | call(graph.GreaterOp, b, a)


def where(condition: Formula, one: Formula, other: Formula | float) -> Formula:
    """`one` where the condition holds, else `other`."""
    return call(graph.WhereOp, condition, one, formula(other))


def square(a: Formula) -> Formula:
    """`a * a`, or a power of 2."""
    return a * a | call(graph.PowOp, a, Number(2))


def number_of(value: SSAValue, builder: Builder) -> float | None:
    """The number that every element of a constant is, which may be cast or negated; None if it is no such constant."""
    op = value.owner
    if isinstance(op, graph.NegOp | graph.CastOp):
        element = tensor_type(value.type).element_type
        number = number_of(op.input, builder) if is_float(element) else None
        if number is None:
            return None
        return (
            -number
            if isinstance(op, graph.NegOp)
            else float(np.array(number).astype(to_numpy_dtype(element)))
        )
    array = builder.constant(value)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if bool(np.all(array == first)) else None


def is_used_outside(ops: Sequence[Operation]) -> bool:
    """Whether a value of a group is used outside it, other than the result of `ops[0]`, or it is in several blocks."""
    group = set(ops)
    inner = group - {ops[0]}
    return any(op.parent is not ops[0].parent for op in inner) or any(
        use.operation not in group for op in inner for result in op.results for use in result.uses
    )


def result_of(op: Operation) -> OpResult:
    """The only result of an operation."""
    (result,) = op.results
    return result
