"""The allocator that goes through time, and how the planner limits its work with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlopt.memory import Buffer, check_plan, planner
from mlopt.memory.allocator import allocate_in_time
from mlopt.memory.buffers import conflicts

BUFFERS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(0, 500), st.sampled_from([1, 4, 64, 96])),
    max_size=30,
).map(
    lambda drawn: [
        Buffer(f"b{i}", lower, lower + width, size, alignment)
        for i, (lower, width, size, alignment) in enumerate(drawn)
    ]
)


@given(BUFFERS)
def test_plans_are_sound(buffers: list[Buffer]) -> None:
    offsets = allocate_in_time(buffers)
    named = {buffer.id: offset for buffer, offset in zip(buffers, offsets, strict=True)}
    check_plan(buffers, named, planner.height_of(buffers, offsets))


@given(BUFFERS)
def test_pairs_are_counted_without_being_made(buffers: list[Buffer]) -> None:
    assert planner._count_conflicts(buffers) == len(list(conflicts(buffers)))  # pyright: ignore[reportPrivateUsage]


def test_the_smallest_gap_that_holds_a_buffer_is_taken() -> None:
    """By hand, largest first: `a`, `x`, `b`, `y` lie at 0, 256, 448 and 576; what ends at 1 leaves gaps of 256 and 128
    bytes. `d` takes the smaller, at 448, and `e` the other one.
    """
    buffers = [
        Buffer("a", 0, 1, 256),
        Buffer("x", 0, 9, 192),
        Buffer("b", 0, 1, 128),
        Buffer("y", 0, 9, 64),
        Buffer("d", 1, 2, 128),
        Buffer("e", 1, 2, 128),
    ]
    assert allocate_in_time(buffers) == [0, 256, 448, 576, 448, 0]


def test_what_is_freed_below_the_top_lowers_it() -> None:
    buffers = [Buffer("a", 0, 9, 64), Buffer("b", 0, 1, 64), Buffer("c", 1, 2, 128), Buffer("d", 2, 3, 64)]
    assert allocate_in_time(buffers) == [0, 64, 64, 64]


def test_instances_with_too_many_pairs_make_no_lists_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """4000 buffers of which half live at each moment: 6 million pairs."""

    def refuse(_: object) -> object:
        raise AssertionError("pairs were made")

    monkeypatch.setattr(planner, "conflicts", refuse)
    buffers = [Buffer(f"b{i}", i, i + 2000, 64 * (1 + i % 7)) for i in range(4000)]
    plan = planner.plan(buffers)
    check_plan(buffers, plan.offsets, plan.height)
    assert plan.height < 1.1 * plan.lower_bound
