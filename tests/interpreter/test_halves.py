"""Halves as single precision by moving bits: every half gives the bits that `np.copyto` gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mlopt.interpreter.direct import direct
from mlopt.interpreter.halves import widen
from mlopt.interpreter.views import Region, View

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = ALL[np.isfinite(ALL)]


def view(array: np.ndarray) -> View:
    region = Region.of_array("array", array)
    return View(region, 0, array.shape, array.strides, array.dtype)


def converted(source: View) -> tuple[np.ndarray, object]:
    """What a copy to single precision writes, and what is called for it."""
    target = np.full(source.shape, 7, np.float32)
    call = direct(np.copyto, (view(target), source), {})
    args = [argument.array() if isinstance(argument, View) else argument for argument in call.args]
    call.function(*args, **call.kwargs)
    return target, call.function


def cut(array: np.ndarray, columns: int) -> View:
    """The first columns of the numbers as rows of 512."""
    rows = array[: array.size // 512 * 512].reshape(-1, 512)
    return replace(view(rows), shape=(rows.shape[0], columns))


@pytest.mark.parametrize(
    "source",
    [view(ALL), view(FINITE), view(ALL[ALL >= 0]), view(FINITE[::-1].copy()), cut(FINITE, 70), cut(ALL, 512)],
    ids=["all", "finite", "positive", "backwards", "columns", "matrix"],
)
def test_every_half_has_the_same_bits(source: View) -> None:
    """Zeros of both signs, subnormal numbers, infinities and NaN with their bits, among them."""
    got, function = converted(source)
    assert function is widen
    np.testing.assert_array_equal(got.view(np.uint32), source.array().astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, -np.nan])
def test_one_that_is_not_finite_among_many(special: float) -> None:
    for position in (0, 4095, 8191):
        halves = np.linspace(-3, 3, 8192).astype(np.float16)
        halves[position] = special
        got, function = converted(view(halves))
        assert function is widen
        np.testing.assert_array_equal(got.view(np.uint32), halves.astype(np.float32).view(np.uint32))


def test_nothing_else_is_called_for_other_copies() -> None:
    """Few numbers, other types, other shapes, the same memory: one call of numpy is shorter, or right."""
    assert converted(view(FINITE[:1000]))[1] is not widen
    assert converted(view(np.ones(8192, np.float32)))[1] is not widen
    target = view(np.zeros((4, 4096), np.float32))
    assert direct(np.copyto, (target, view(FINITE[:4096])), {}).function is not widen
    same = View(target.region, 0, (8192,), (2,), np.dtype(np.float16))
    whole = View(target.region, 0, (8192,), (4,), np.dtype(np.float32))
    assert direct(np.copyto, (whole, same), {}).function is not widen
    source = cut(FINITE, 500)
    gaps = replace(view(np.zeros((source.shape[0], 512), np.float32)), shape=source.shape)
    assert direct(np.copyto, (gaps, source), {}).function is not widen
