"""Calls of a plan by the shortest way into numpy: the same bits as by the public functions, and no copies."""

from __future__ import annotations

import tracemalloc
from typing import cast

import numpy as np
import pytest

from mlopt.interpreter.direct import Call, direct, in_rows
from mlopt.interpreter.views import Region, View

RNG = np.random.default_rng(7)


def matrix(rows: int, columns: int, layout: str, kind: str = "f4") -> View:
    """Numbers in memory: `C` by rows, `F` by columns, `+` with gaps between them."""
    shape = (columns, rows) if "F" in layout else (rows, columns)
    gap = 3 if "+" in layout else 0
    numbers = (10 * RNG.standard_normal((shape[0], shape[1] + gap))).astype(kind)
    region = Region.of_array("numbers", numbers, writable=True)
    view = View(region, 0, shape, numbers.strides, numbers.dtype)
    return view.transposed((1, 0)) if "F" in layout else view


@pytest.mark.parametrize("out", ["C", "F", "C+", "F+"])
@pytest.mark.parametrize("right", ["C", "F", "C+"])
@pytest.mark.parametrize("left", ["C", "F", "F+"])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 147, 16), (1, 40, 7), (33, 5, 1), (130, 96, 384)])
def test_a_product_without_gaps_is_made_by_dot(
    m: int, k: int, n: int, left: str, right: str, out: str
) -> None:
    """Which copies nothing, as `np.matmul` does, and has the same bits: both call the same function of BLAS."""
    a, b, c = matrix(m, k, left), matrix(k, n, right), matrix(m, n, out)
    called = direct(np.matmul, (a, b, c), {})
    flags = [view.array().flags for view in (a, b, c)]
    is_flat = all(flag.c_contiguous or flag.f_contiguous for flag in flags)
    assert (called.function is not np.matmul) == is_flat
    arrays = [view.array() for view in called.args if isinstance(view, View)]
    called.function(*arrays)
    got = c.array().copy()
    np.matmul(a.array(), b.array(), c.array())
    np.testing.assert_array_equal(got, c.array())
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    called.function(*arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - before < 1024


@pytest.mark.parametrize("kind", ["f2", "i4", "i8"])
def test_other_types_are_multiplied_by_matmul(kind: str) -> None:
    views = matrix(5, 4, "C", kind), matrix(4, 3, "C", kind), matrix(5, 3, "C", kind)
    assert direct(np.matmul, views, {}).function is np.matmul


@pytest.mark.parametrize(
    ("source", "target", "is_said"), [("f4", "f4", False), ("f4", "f2", False), ("f4", "i4", True)]
)
def test_copies_say_that_they_convert_only_where_they_must(source: str, target: str, is_said: bool) -> None:
    """What numpy converts anyway is the same copy; the other conversions are errors unless they are asked for."""
    to, of = matrix(3, 4, "C", target), matrix(3, 4, "F", source)
    called = direct(np.copyto, (to, of), {"casting": "unsafe"})
    assert bool(called.kwargs) == is_said
    called.function(to.array(), of.array(), **called.kwargs)
    np.testing.assert_array_equal(to.array(), of.array().astype(target))


def test_einsum_and_take() -> None:
    x, w, y = matrix(6, 4, "C"), matrix(4, 5, "C"), matrix(6, 5, "C")
    called = direct(np.einsum, ("ab,bc->ac", x, w), {"out": y})
    called.function("ab,bc->ac", x.array(), w.array(), out=y.array())
    np.testing.assert_allclose(y.array(), x.array() @ w.array(), rtol=1e-5)
    table, to = matrix(9, 5, "C"), matrix(6, 5, "C")
    index = np.array([8, 0, 3, 3, 1, 7])
    called = direct(np.take, (table, index), {"axis": 0, "out": to, "mode": "clip"})
    called.function(table.array(), index, axis=0, out=to.array(), mode="clip")
    np.testing.assert_array_equal(to.array(), table.array()[index])


def view_of(array: np.ndarray) -> View:
    """A view of an array of single precision, wherever it begins in its memory."""
    base = array if array.base is None else array.base
    assert isinstance(base, np.ndarray)
    offset = array.ctypes.data - base.ctypes.data
    return View(Region.of_array("a", base, writable=True), offset, array.shape, array.strides, array.dtype)


def view_array(view: object) -> np.ndarray:
    assert isinstance(view, View)
    return view.array()


UFUNCS = (np.add, np.multiply, np.divide, np.maximum, np.exp, np.tanh, np.negative, np.less, np.sqrt)


@pytest.mark.parametrize("function", UFUNCS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("width", [1, 3, 17, 64, 1000])
def test_two_rows_are_two_calls_with_the_same_bits(function: np.ufunc, width: int) -> None:
    """Parts of rows, a row for both, a number for each: what numpy would walk with an iterator."""
    rng = np.random.default_rng(width)
    whole = rng.standard_normal((2, 3 * width + 5)).astype(np.float32)
    row = rng.standard_normal(width).astype(np.float32)
    column = rng.standard_normal((2, 1)).astype(np.float32)
    left = whole[:, 2 : 2 + width]
    for right in (whole[:, 5 + width : 5 + 2 * width], row, column)[: function.nin + 1]:
        out = np.zeros((2, width + 4), bool if function is np.less else np.float32)[:, :width]
        operands = [left, right][: function.nin]
        named = {"out": view_of(out)} if function is np.maximum else {}
        given = [view_of(array) for array in (operands if named else (*operands, out))]
        calls = in_rows(Call(function, given, named))
        assert len(calls) == (2 if width > 1 else 1)
        with np.errstate(all="ignore"):
            for call in calls:
                arrays = map(view_array, call.args)
                call.function(*arrays, **{name: view_array(view) for name, view in call.kwargs.items()})
            want = function(*operands)
        np.testing.assert_array_equal(out, want)


def test_what_is_no_two_rows_stays_one_call() -> None:
    """One run of elements, three rows, three axes; types to convert; a reduction, a generalized ufunc, a copy."""
    whole = np.zeros((3, 8, 8), np.float32)
    pairs = np.zeros((2, 8), np.float32)
    numbers = np.zeros((2, 8), np.float64)[:, :4]
    together: list[tuple[object, list[np.ndarray]]] = [
        (np.negative, [pairs, pairs]),
        (np.negative, [whole[0, :3, :4], whole[1, :3, :4]]),
        (np.negative, [whole[:2, :2, :4], whole[1:, :2, :4]]),
        (np.add, [pairs[:, :4], numbers, numbers]),
        (np.vecdot, [pairs[:, :4], pairs[:, 4:], pairs[:, 0]]),
        (np.copyto, [pairs[:, :4], pairs[:, 4:]]),
    ]
    for function, arrays in together:
        call = Call(cast("np.ufunc", function), [view_of(array) for array in arrays], {})
        assert in_rows(call) == (call,)
    reduction = Call(np.add.reduce, [view_of(pairs[:, :4])], {"axis": 0})
    assert in_rows(reduction) == (reduction,)
