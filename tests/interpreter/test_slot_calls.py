"""Views of inputs and outputs live as long as a run: made once for all calls, dropped behind it."""

from __future__ import annotations

import warnings
import weakref

import numpy as np
import pytest

from mlopt.interpreter.slot_calls import MOST_RUN_VIEWS, Recipe, RunViews, SlotCall
from mlopt.interpreter.views import Slot
from tests.interpreter.memref_text import generic, load, module

F32 = np.dtype(np.float32)
T = "memref<4xf32>"


def recipe(*, stays: bool, offset: int = 0) -> Recipe:
    """Of two elements in a slot that points at the numbers 0, 1, 2, ..."""
    slot = Slot("s", 1024, writable=True, stays=stays)
    slot.data = np.arange(256, dtype=F32).view(np.uint8)
    return Recipe(slot, offset, (2,), (4,), F32)


def test_calls_share_the_views_of_a_run() -> None:
    views, seen, view = RunViews(), list[np.ndarray](), recipe(stays=True)

    def step(source: np.ndarray, out: np.ndarray) -> None:
        seen.extend((source, out))

    calls = [SlotCall(step, [view], {"out": view}, views) for _ in range(2)]
    views.make()
    for call in calls:
        call()
    assert len(seen) == 4 and all(array is seen[0] for array in seen)
    np.testing.assert_array_equal(seen[0], [0, 1])


def test_a_view_that_moves_is_made_for_each_call() -> None:
    seen, view = list[np.ndarray](), recipe(stays=False)
    call = SlotCall(seen.append, [view], {}, RunViews())
    call()
    view.slot.base = 8
    call()
    assert [array.tolist() for array in seen] == [[0, 1], [2, 3]]


def test_views_beyond_the_limit_are_made_for_each_call() -> None:
    views, seen, slot = RunViews(), list[np.ndarray](), recipe(stays=True)
    calls = [
        SlotCall(seen.append, [slot._replace(offset=4 * i)], {}, views) for i in range(MOST_RUN_VIEWS + 8)
    ]
    views.make()
    for _ in range(2):
        for call in calls:
            call()
    assert [array[0] for array in seen] == 2 * list(range(MOST_RUN_VIEWS + 8))
    first, second = seen[: len(calls)], seen[len(calls) :]
    assert sum(a is b for a, b in zip(first, second, strict=True)) == MOST_RUN_VIEWS


SQRT = generic("m:p", [("%x", "m", T)], [("%y", "m", T)], "%r = math.sqrt %i0 : f32\nlinalg.yield %r : f32")


def test_a_session_holds_on_to_no_array_of_a_run() -> None:
    executable = load(module(SQRT, inputs={"x": T}, outputs={"y": T}))
    x, y = np.array([0, 1, 4, 9], F32), np.empty(4, F32)
    executable.run({"x": x}, {"y": y})
    np.testing.assert_array_equal(y, [0, 1, 2, 3])
    held = weakref.ref(x), weakref.ref(y)
    del x, y
    assert [reference() for reference in held] == [None, None]


def test_numbers_out_of_range_are_no_news_and_the_callers_settings_stay() -> None:
    executable = load(module(SQRT, inputs={"x": T}, outputs={"y": T}))
    size = np.getbufsize()
    with warnings.catch_warnings(), np.errstate(invalid="raise"):
        warnings.simplefilter("error")
        y = executable.run({"x": np.full(4, -1, F32)})["y"]
        assert np.isnan(y).all()
        with pytest.raises(FloatingPointError):
            np.sqrt(np.full(4, -1, F32))
    assert np.getbufsize() == size
