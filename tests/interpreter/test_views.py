"""Views of memory: overlap, order and merging, against numpy's exact answers on real arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlopt.interpreter.elementwise import inside
from mlopt.interpreter.expressions import Bound, Linear
from mlopt.interpreter.views import (
    Region,
    Slot,
    View,
    is_injective,
    may_overlap,
    merged_strides,
    row_major,
    same_elements,
)

F32 = np.dtype(np.float32)
MEMORY = np.zeros(4096, np.uint8)
REGION = Region("memory", MEMORY.nbytes, MEMORY)


def view(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> View:
    return View(REGION, offset, shape, strides, F32)


VIEWS = st.builds(
    lambda offset, dims: view(4 * offset, tuple(e for e, _ in dims), tuple(4 * s for _, s in dims)),
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 24)), max_size=3),
)


@given(VIEWS, VIEWS)
def test_views_said_to_be_disjoint_are(a: View, b: View) -> None:
    if not may_overlap(a, b):
        assert not np.shares_memory(a.array(), b.array())


@pytest.mark.parametrize(
    ("a", "b", "overlap"),
    [
        (view(0, (4, 8), (32, 4)), view(128, (4, 8), (32, 4)), False),  # blocks of rows
        (view(0, (4, 4), (32, 4)), view(16, (4, 4), (32, 4)), False),  # columns
        (view(0, (4, 5), (32, 4)), view(16, (4, 4), (32, 4)), True),
        (view(0, (4,), (8,)), view(4, (4,), (8,)), False),  # even and odd elements
        (
            view(0, (2, 4, 4), (256, 32, 4)),
            view(16, (2, 4, 4), (256, 32, 4)),
            False,
        ),  # heads of a packed buffer
        (view(0, (0, 8), (32, 4)), view(0, (4, 8), (32, 4)), False),  # empty
        (view(60, (4,), (-4,)), view(0, (12,), (4,)), False),  # backwards, 15 down to 12
    ],
)
def test_overlap_of_usual_slices_is_exact(a: View, b: View, overlap: bool) -> None:
    assert may_overlap(a, b) is overlap
    assert may_overlap(b, a) is overlap


def test_slots_overlap_what_they_may_point_into() -> None:
    moving = View(Slot("s", 64, writable=True, origins=frozenset((REGION,))), 0, (4,), (4,), F32)
    own = View(Slot("t", 64, writable=True), 0, (4,), (4,), F32)
    still = view(1024, (4,), (4,))
    assert may_overlap(moving, still) and may_overlap(still, moving)
    assert not may_overlap(own, still) and not may_overlap(own, moving)


@given(VIEWS)
def test_injective_views_have_no_element_twice(a: View) -> None:
    offsets = np.zeros(a.shape, int)
    for axis, (extent, stride) in enumerate(zip(a.shape, a.strides, strict=True)):
        offsets += (np.arange(extent) * stride).reshape([-1 if d == axis else 1 for d in range(a.ndim)])
    if is_injective(a):
        assert len(np.unique(offsets)) == a.size


def test_over_is_the_view_along_iteration_dimensions() -> None:
    """x[2 m + 1, k] over (m, n, k) = (2, 3, 4) of a [5, 4] buffer."""
    values = np.arange(20, dtype=np.float32)
    MEMORY[:80] = values.view(np.uint8)
    x = view(0, (5, 4), row_major((5, 4), 4))
    got = x.over((Linear((2, 0, 0), 1), Linear((0, 0, 1))), (2, 3, 4)).array()
    want = np.broadcast_to(values.reshape(5, 4)[1::2][:, None, :], (2, 3, 4))
    np.testing.assert_array_equal(got, want)


def test_same_elements_ignores_strides_of_single_positions() -> None:
    assert same_elements(view(0, (1, 8), (0, 4)), view(0, (1, 8), (32, 4)))
    assert not same_elements(view(0, (2, 8), (0, 4)), view(0, (2, 8), (32, 4)))


def test_neighbours_merge_where_all_views_allow_it() -> None:
    whole, column, row = row_major((2, 1, 3, 5), 4), (12, 0, 4, 0), (0, 0, 0, 4)
    assert merged_strides((2, 1, 3, 5), [whole]) == [[0, 2, 3]]
    assert merged_strides((2, 1, 3, 5), [whole, column]) == [[0, 2], [3]]
    assert merged_strides((2, 1, 3, 5), [whole, row]) == [[0, 2], [3]]


@given(
    st.integers(-3, 3).filter(bool),
    st.integers(-5, 5),
    st.none() | st.integers(-6, 6),
    st.none() | st.integers(-6, 12),
    st.integers(0, 3),
    st.integers(2, 8),
)
def test_positions_inside_a_bound(
    factor: int, constant: int, low: int | None, high: int | None, start: int, extent: int
) -> None:
    bound = Bound(Linear((factor,), constant), low, high)
    want = [
        i
        for i in range(start, start + extent)
        if (low is None or factor * i + constant >= low) and (high is None or factor * i + constant < high)
    ]
    box = inside([bound], (start,), (extent,))
    got = [] if box is None else list(range(box[0][0], box[0][0] + box[1][0]))
    assert got == want
