"""Linear index expressions and accesses: composing, bounding, covering; checked against evaluation at every point."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineExpr, AffineMap

from mlopt.dialects.kernel import Access, LinearExpr

ROWS = st.builds(LinearExpr, st.tuples(st.integers(-3, 3), st.integers(-3, 3)), st.integers(-5, 5))
BOUNDS = st.tuples(st.integers(1, 4), st.integers(1, 4))


def at(row: LinearExpr, point: tuple[int, ...]) -> int:
    """The value of an expression at a point, from its definition."""
    return sum(c * i for c, i in zip(row.coefficients, point, strict=True)) + row.constant


@given(ROWS, ROWS, st.integers(-4, 4))
def test_sums_and_multiples(a: LinearExpr, b: LinearExpr, factor: int) -> None:
    for point in product(range(3), range(3)):
        assert at(a + b, point) == at(a, point) + at(b, point)
        assert at(a + factor, point) == at(a, point) + factor
        assert at(a * factor, point) == at(a, point) * factor


@given(ROWS, BOUNDS)
def test_range_is_what_the_points_reach(row: LinearExpr, bounds: tuple[int, int]) -> None:
    values = [at(row, point) for point in product(*map(range, bounds))]
    assert row.range(bounds) == (min(values), max(values))


@given(ROWS)
def test_affine_maps_and_back(row: LinearExpr) -> None:
    access = Access(2, (row,))
    assert Access.from_map(access.to_map()) == access
    assert access.to_map().eval([2, 3], []) == (at(row, (2, 3)),)


@given(st.tuples(ROWS, ROWS), st.tuples(ROWS, ROWS))
def test_composition_is_access_after_access(
    outer: tuple[LinearExpr, LinearExpr], inner: tuple[LinearExpr, LinearExpr]
) -> None:
    composed = Access(2, outer).compose(Access(2, inner))
    for point in product(range(3), range(2)):
        through = tuple(at(row, point) for row in inner)
        assert [at(row, point) for row in composed.rows] == [at(row, through) for row in outer]


@pytest.mark.parametrize(
    "row, text",
    [
        (LinearExpr((2, 1), -3), "2 * oh + kh - 3"),
        (LinearExpr((0, -1), 2), "-kh + 2"),
        (LinearExpr((-2, -3)), "-2 * oh - 3 * kh"),
        (LinearExpr((0, 0), -7), "-7"),
        (LinearExpr((0, 1)), "kh"),
    ],
)
def test_text(row: LinearExpr, text: str) -> None:
    assert row.text(["oh", "kh"]) == text


def test_maps_that_are_not_linear_have_no_access() -> None:
    assert Access.from_map(AffineMap(1, 0, (AffineExpr.dimension(0) % 2,))) is None
    assert Access.from_map(AffineMap(1, 0, (AffineExpr.dimension(0) // 2,))) is None
    assert Access.from_map(AffineMap(1, 1, (AffineExpr.symbol(0),))) is None


def test_dims_of_expressions() -> None:
    assert LinearExpr((0, 2, 1)).dims == (1, 2)
    assert LinearExpr((0, 2, 0), 5).single_dim == 1
    assert LinearExpr((1, 2, 0)).single_dim is None
    assert LinearExpr.dim(1, 3).is_dim(1)
    assert not LinearExpr.dim(1, 3, offset=1).is_dim(1)
    assert not LinearExpr.dim(1, 3, scale=2).is_dim(1)


def test_kinds_of_accesses() -> None:
    assert Access.identity(3).is_identity and Access.identity(3).is_injective
    assert not Access.of_dims([1, 0], 2).is_identity and Access.of_dims([1, 0], 2).is_injective
    assert not Access.of_dims([0, 0], 2).is_injective
    assert not Access(2, (LinearExpr((1, 1)),)).is_injective
    assert Access.of_dims([2], 3).dims == {2}


@pytest.mark.parametrize(
    "rows, shape, covers",
    [
        ([LinearExpr((1, 0)), LinearExpr((0, 1))], (4, 3), True),
        ([LinearExpr((-1, 0), 3), LinearExpr((0, 1))], (4, 3), True),  # backwards
        ([LinearExpr((1, 0)), LinearExpr((0, 1))], (4, 4), False),  # the last column is left out
        ([LinearExpr((1, 0), 1), LinearExpr((0, 1))], (5, 3), False),  # the first row is left out
        ([LinearExpr((2, 0)), LinearExpr((0, 1))], (7, 3), False),  # every second row
        ([LinearExpr((1, 0)), LinearExpr((0, 0))], (4, 1), True),
        ([LinearExpr((1, 0)), LinearExpr((0, 0))], (4, 2), False),
    ],
)
def test_covers(rows: list[LinearExpr], shape: tuple[int, ...], covers: bool) -> None:
    assert Access(2, tuple(rows)).covers(shape, (4, 3)) == covers
