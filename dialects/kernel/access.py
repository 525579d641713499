"""Index maps of structured ops as rows of linear expressions: reading, composing, bounding and printing them.

An operand of a structured op is accessed at `row(i)` for each of its axes, where `row` is linear in the iteration
dimensions: `2 * oh + kh - 3`. `AffineMapAttr` stores such a map; `Access` is the form that passes compute with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)


@dataclass(frozen=True, slots=True)
class LinearExpr:
    """`sum(coefficients[d] * d) + constant` over the iteration dimensions."""

    coefficients: tuple[int, ...]
    constant: int = 0

    @staticmethod
    def dim(position: int, num_dims: int, *, scale: int = 1, offset: int = 0) -> LinearExpr:
        """`scale * d_position + offset`."""
        return LinearExpr(tuple(scale if d == position else 0 for d in range(num_dims)), offset)

    def __add__(self, other: LinearExpr | int) -> LinearExpr:
        """The sum with another expression over the same dimensions, or with a constant."""
        if isinstance(other, int):
            return LinearExpr(self.coefficients, self.constant + other)
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return LinearExpr(tuple(a + b for a, b in pairs), self.constant + other.constant)

    def __mul__(self, factor: int) -> LinearExpr:
        """The expression times a constant."""
        return LinearExpr(tuple(factor * c for c in self.coefficients), factor * self.constant)

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that the expression depends on, in order."""
        return tuple(d for d, c in enumerate(self.coefficients) if c)

    @property
    def single_dim(self) -> int | None:
        """The only dimension of the expression, or None if it has none or several."""
        dims = self.dims
        return dims[0] if len(dims) == 1 else None

    def is_dim(self, position: int) -> bool:
        """Whether the expression is exactly `d_position`."""
        return self.dims == (position,) and self.coefficients[position] == 1 and self.constant == 0

    def range(self, bounds: Sequence[int]) -> tuple[int, int]:
        """Smallest and largest value over the box `0 <= d < bounds[d]`, which must not be empty."""
        low = high = self.constant
        for coefficient, bound in zip(self.coefficients, bounds, strict=True):
            extreme = coefficient * (bound - 1)
            low += min(0, extreme)
            high += max(0, extreme)
        return low, high

    def substitute(self, rows: Sequence[LinearExpr], num_dims: int) -> LinearExpr:
        """The expression with dimension `d` replaced by `rows[d]`, over `num_dims` dimensions."""
        coefficients = [0] * num_dims
        constant = self.constant
        for coefficient, row in zip(self.coefficients, rows, strict=True):
            if coefficient:
                constant += coefficient * row.constant
                for d, c in enumerate(row.coefficients):
                    coefficients[d] += coefficient * c
        return LinearExpr(tuple(coefficients), constant)

    def to_affine(self) -> AffineExpr:
        """As an xDSL affine expression."""
        result: AffineExpr | None = None
        for d, c in enumerate(self.coefficients):
            if c:
                term = AffineExpr.dimension(d) if c == 1 else AffineExpr.dimension(d) * c
                result = term if result is None else result + term
        if result is None:
            return AffineExpr.constant(self.constant)
        return result + self.constant if self.constant else result

    def text(self, names: Sequence[str]) -> str:
        """As it is printed: `2 * oh + kh - 3`."""
        text = ""
        for name, c in zip(names, self.coefficients, strict=True):
            if c:
                sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
                text += sign + (name if abs(c) == 1 else f"{abs(c)} * {name}")
        if not text:
            return str(self.constant)
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


def linear(expr: AffineExpr, num_dims: int) -> LinearExpr | None:
    """`expr` as a linear expression, or None if it is not linear in the dimensions (symbols, mod, floordiv)."""
    match expr:
        case AffineConstantExpr():
            return LinearExpr((0,) * num_dims, expr.value)
        case AffineDimExpr():
            return LinearExpr.dim(expr.position, num_dims)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            lhs, rhs = linear(expr.lhs, num_dims), linear(expr.rhs, num_dims)
            if lhs is None or rhs is None:
                return None
            return lhs + rhs
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
            lhs, rhs = linear(expr.lhs, num_dims), linear(expr.rhs, num_dims)
            if lhs is None or rhs is None or (lhs.dims and rhs.dims):
                return None
            factor, row = (lhs.constant, rhs) if not lhs.dims else (rhs.constant, lhs)
            return row * factor
        case _:
            return None


class Access(NamedTuple):
    """How one operand is indexed: one linear expression per axis, over `num_dims` iteration dimensions."""

    num_dims: int
    rows: tuple[LinearExpr, ...]

    @staticmethod
    def identity(num_dims: int) -> Access:
        """Axis `i` is dimension `i`."""
        return Access.of_dims(range(num_dims), num_dims)

    @staticmethod
    def of_dims(dims: Sequence[int], num_dims: int) -> Access:
        """Axis `i` is dimension `dims[i]`."""
        return Access(num_dims, tuple(LinearExpr.dim(d, num_dims) for d in dims))

    @staticmethod
    def from_map(map: AffineMap) -> Access | None:
        """The access of an affine map, or None if the map is not linear."""
        return _access_of(map)

    def to_map(self) -> AffineMap:
        """As an xDSL affine map."""
        return AffineMap(self.num_dims, 0, tuple(row.to_affine() for row in self.rows))

    @property
    def dims(self) -> frozenset[int]:
        """All dimensions that some axis depends on."""
        return frozenset(d for row in self.rows for d in row.dims)

    @property
    def is_identity(self) -> bool:
        """Whether axis `i` is exactly dimension `i`, for all dimensions."""
        return len(self.rows) == self.num_dims and all(row.is_dim(i) for i, row in enumerate(self.rows))

    @property
    def is_injective(self) -> bool:
        """Whether every axis depends on at most one dimension and no dimension stands in two axes."""
        used = [row.dims for row in self.rows]
        return all(len(dims) <= 1 for dims in used) and len({d for dims in used for d in dims}) == sum(
            map(len, used)
        )

    def compose(self, inner: Access) -> Access:
        """`self` after `inner`: index the operand with `self` at the point that `inner` computes.

        `inner` has one row per dimension of `self`; the result is over the dimensions of `inner`.
        """
        return Access(inner.num_dims, tuple(row.substitute(inner.rows, inner.num_dims) for row in self.rows))

    def inverse(self) -> Access | None:
        """The iteration point as a function of the index: one row per dimension, over the axes.

        None if a dimension is not determined by one axis with coefficient 1 or -1.
        """
        dims: dict[int, LinearExpr] = {}
        for axis, row in enumerate(self.rows):
            d = row.single_dim
            if d is None:
                if row.dims:
                    return None
                continue
            sign = row.coefficients[d]
            if abs(sign) != 1 or d in dims:
                return None
            dims[d] = LinearExpr.dim(axis, len(self.rows), scale=sign, offset=-sign * row.constant)
        if len(dims) != self.num_dims:
            return None
        return Access(len(self.rows), tuple(dims[d] for d in range(self.num_dims)))

    def permute(self, axes: Sequence[int]) -> Access:
        """The access of the transposed operand, whose axis `i` is axis `axes[i]` of this one."""
        return Access(self.num_dims, tuple(self.rows[axis] for axis in axes))

    def without_unit_dims(self, bounds: Sequence[int]) -> Access:
        """The same access in the form that depends on no dimension of extent 1, to compare accesses by."""
        keep = [bound != 1 for bound in bounds]
        return Access(
            self.num_dims,
            tuple(
                LinearExpr(
                    tuple(c if k else 0 for c, k in zip(row.coefficients, keep, strict=True)), row.constant
                )
                for row in self.rows
            ),
        )

    def extent(self, bounds: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Smallest and largest index on each axis over the (non-empty) iteration space."""
        return tuple(row.range(bounds) for row in self.rows)

    def is_permutation(self, shape: Sequence[int], bounds: Sequence[int]) -> bool:
        """Whether each point reads its own element of a tensor of that shape, none twice, all of them, in order.

        Dimensions of extent 1 may be missing.
        """
        return (
            self.is_injective
            and self.covers(shape, bounds)
            and all(row.coefficients[d] == 1 for row in self.rows for d in row.dims)
            and all(bound == 1 for d, bound in enumerate(bounds) if d not in self.dims)
        )

    def covers(self, shape: Sequence[int], bounds: Sequence[int]) -> bool:
        """Whether an injective access touches every element of a tensor of that shape."""
        return all(
            (row.range(bounds) == (0, size - 1) and abs(row.coefficients[row.dims[0]]) == 1)
            if row.dims
            else (size == 1 and row.constant == 0)
            for row, size in zip(self.rows, shape, strict=True)
        )


@lru_cache(maxsize=4096)  # a model has few different maps, and passes ask for their accesses all the time
def _access_of(map: AffineMap) -> Access | None:
    rows: list[LinearExpr] = []
    for expr in map.results:
        row = linear(expr, map.num_dims)
        if row is None:
            return None
        rows.append(row)
    return Access(map.num_dims, tuple(rows))
