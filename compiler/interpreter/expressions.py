"""The structured form of a `linalg` op: an iteration space, accesses affine in it, and a body as a DAG of expressions.

Nothing here knows how the op will be executed: numpy appears nowhere, and neither do names or hints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.diagnostics import Place


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficients[d] * i[d]) + constant` over the iteration dimensions `i`."""

    coefficients: tuple[int, ...]
    constant: int = 0

    @staticmethod
    def of_constant(rank: int, value: int) -> Linear:
        return Linear((0,) * rank, value)

    @staticmethod
    def of_dim(rank: int, dim: int) -> Linear:
        return Linear(tuple(int(d == dim) for d in range(rank)))

    def __add__(self, other: Linear) -> Linear:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Linear(tuple(a + b for a, b in pairs), self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Linear:
        return Linear(tuple(c * factor for c in self.coefficients), self.constant * factor)

    @property
    def is_constant(self) -> bool:
        return not any(self.coefficients)

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions it depends on."""
        return tuple(d for d, c in enumerate(self.coefficients) if c)

    def bounds(self, extents: Sequence[int]) -> tuple[int, int]:
        """Smallest and largest value over the box `0 <= i[d] < extents[d]`, which must not be empty."""
        low = high = self.constant
        for coefficient, extent in zip(self.coefficients, extents, strict=True):
            reach = coefficient * (extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high


class Bound(NamedTuple):
    """The condition `low <= expr < high`; `None` is no limit on that side."""

    expr: Linear
    low: int | None
    high: int | None

    def holds_everywhere(self, extents: Sequence[int]) -> bool:
        smallest, largest = self.expr.bounds(extents)
        return (self.low is None or smallest >= self.low) and (self.high is None or largest < self.high)

    def cut(self, extents: Sequence[int]) -> tuple[int | None, int | None]:
        """By how much the value at the origin is off either limit; None where the limit cuts nothing off the box."""
        smallest, largest = self.expr.bounds(extents)
        origin = self.expr.constant
        return (
            None if self.low is None or smallest >= self.low else self.low - origin,
            None if self.high is None or largest < self.high else self.high - origin,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One scalar of a body, for every point of the iteration space; nodes are shared, so equality is identity."""

    type: Attribute

    @property
    def operands(self) -> tuple[Expr, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A constant."""

    value: int | float


@dataclass(frozen=True, slots=True, eq=False)
class Captured(Expr):
    """A scalar defined outside the op: the same at every point."""

    source: SSAValue


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expr):
    """A position: an affine function of the iteration dimensions, of type `index`."""

    value: Linear


@dataclass(frozen=True, slots=True, eq=False)
class Read(Expr):
    """The element of `source` at an affine index.

    With bounds, the value is `pad` wherever one of them does not hold; where all hold the index is inside `source`.
    """

    source: SSAValue
    index: tuple[Linear, ...]
    bounds: tuple[Bound, ...] = ()
    pad: Expr | None = None

    @property
    def operands(self) -> tuple[Expr, ...]:
        return () if self.pad is None else (self.pad,)


@dataclass(frozen=True, slots=True, eq=False)
class Gather(Expr):
    """The element of `source` at computed indices, one expression per axis; `place` is that of the load.

    Where it is `speculative` the index may lie outside `source`; the value is not used there.
    """

    source: SSAValue
    index: tuple[Expr, ...]
    place: Place
    speculative: bool = False

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.index


@dataclass(frozen=True, slots=True, eq=False)
class Apply(Expr):
    """An `arith` or `math` operation on scalars, by its name; `predicate` is that of a comparison."""

    name: str
    args: tuple[Expr, ...]
    predicate: int | None = None

    @property
    def operands(self) -> tuple[Expr, ...]:
        return self.args


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Where one result of the body goes: an element of `target` at an affine index."""

    target: SSAValue
    index: tuple[Linear, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Structured:
    """A `linalg` op: for every point of the box `extents`, `stores[j] = yields[j]`.

    `initial[j]` is the expression that reads what `stores[j]` holds so far. `reductions` are the dimensions of
    more than one position (or none) that no output has, whatever the op declares; their order is the order of the
    accumulation.
    """

    op: Operation
    extents: tuple[int, ...]
    reductions: frozenset[int]
    stores: tuple[Store, ...]
    initial: tuple[Read, ...]
    yields: tuple[Expr, ...]

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def parallels(self) -> tuple[int, ...]:
        return tuple(d for d in range(self.rank) if d not in self.reductions)

    @property
    def is_empty(self) -> bool:
        return 0 in self.extents

    def expressions(self) -> Iterator[Expr]:
        """Every expression that the yields use, each once, operands first."""
        return post_order(self.yields)


def post_order(roots: Sequence[Expr]) -> Iterator[Expr]:
    """The expressions below `roots`, each once, operands first."""
    seen: set[Expr] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        expr, done = stack.pop()
        if done:
            yield expr
        elif expr not in seen:
            seen.add(expr)
            stack.append((expr, True))
            stack.extend((operand, False) for operand in reversed(expr.operands))


def uses(expr: Expr, other: Expr) -> bool:
    """Whether `expr` depends on `other`."""
    return any(e is other for e in post_order((expr,)))
