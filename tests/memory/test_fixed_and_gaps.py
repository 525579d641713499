"""Alignments, fixed offsets and gaps in lifetimes: soundness, and the smallest height, against exhaustive search."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from mlopt.memory import STRATEGIES, Buffer, PlanError, check_plan, max_live, plan
from mlopt.memory.buffers import conflicts
from mlopt.memory.search import search
from tests.memory.instances import any_buffers, smallest_height


def live_moments(buffer: Buffer) -> set[int]:
    """Straight from the definition; all times of the instances here are below 20."""
    return {
        t
        for t in range(20)
        if buffer.lower <= t < buffer.upper and not any(begin <= t < end for begin, end in buffer.gaps)
    }


@given(any_buffers(most=12))
def test_conflicts_and_max_live_are_those_of_the_definition(buffers: list[Buffer]) -> None:
    pairs = {
        frozenset((i, j))
        for i, j in itertools.combinations(range(len(buffers)), 2)
        if buffers[i].size and buffers[j].size and live_moments(buffers[i]) & live_moments(buffers[j])
    }
    found = [frozenset(pair) for pair in conflicts(buffers)]
    assert set(found) == pairs
    assert len(found) == len(pairs)
    live = [sum(b.footprint for b in buffers if t in live_moments(b)) for t in range(20)]
    fixed = [b.fixed + b.footprint for b in buffers if b.fixed is not None and b.size]
    assert max_live(buffers) == max([*live, *fixed])


@given(any_buffers(most=12))
def test_the_check_knows_gaps(buffers: list[Buffer]) -> None:
    """All at the start: sound if and only if no two are live at one moment."""
    free = [Buffer(b.id, b.lower, b.upper, b.size, b.alignment, None, b.gaps) for b in buffers]
    clash = bool(list(conflicts(free)))
    try:
        check_plan(free, {buffer.id: 0 for buffer in free}, 100)
    except PlanError:
        assert clash
    else:
        assert not clash


@given(any_buffers(most=12))
def test_every_strategy_is_sound(buffers: list[Buffer]) -> None:
    for strategy in STRATEGIES:
        result = plan(buffers, strategy)
        check_plan(buffers, result.offsets, result.height)
        assert result.height >= result.lower_bound


@given(any_buffers())
@settings(deadline=None, max_examples=300)
def test_the_search_is_exact(buffers: list[Buffer]) -> None:
    result = search(buffers, choice="python")
    check_plan(buffers, result.plan.offsets, result.plan.height)
    assert result.plan.height == result.bound == smallest_height(buffers)


def test_a_gap_is_used() -> None:
    """By hand: `b` lives while `a` does not."""
    buffers = [Buffer("a", 0, 10, 4, 1, None, ((3, 7),)), Buffer("b", 3, 7, 4, 1)]
    assert plan(buffers).height == 4
    assert plan([Buffer("a", 0, 10, 4, 1, None, ((3, 6),)), buffers[1]]).height == 8


def test_a_fixed_buffer_stays_and_bounds_the_height() -> None:
    buffers = [Buffer("a", 0, 5, 4, 2, 6), Buffer("b", 0, 5, 6, 1), Buffer("c", 0, 5, 1, 1)]
    for strategy in STRATEGIES:
        assert plan(buffers, strategy).offsets["a"] == 6
    result = plan(buffers)
    assert (result.height, result.lower_bound, result.offsets) == (11, 11, {"a": 6, "b": 0, "c": 10})
    assert max_live(buffers[:1]) == 10


def test_a_fixed_buffer_takes_its_size_alone() -> None:
    """By hand: two that are fixed side by side leave no gap that rounding would need; no plan has more than 8 bytes."""
    buffers = [Buffer("a", 0, 2, 4, 4, 0), Buffer("b", 0, 2, 1, 4, 4), Buffer("c", 0, 2, 3, 1)]
    result = search(buffers, choice="python")
    assert (result.plan.height, result.bound, result.plan.offsets["c"]) == (8, 8, 5)


def test_fixed_buffers_that_overlap_are_named() -> None:
    with pytest.raises(PlanError, match=r"'a'.*'b'.*overlap"):
        plan([Buffer("a", 0, 5, 4, 1, 0), Buffer("b", 4, 9, 4, 1, 3)])


def test_the_check_sees_a_fixed_buffer_elsewhere() -> None:
    with pytest.raises(PlanError, match="'a' is at offset 4, and fixed at 0"):
        check_plan([Buffer("a", 0, 1, 4, 4, 0)], {"a": 4}, 8)


@pytest.mark.parametrize(
    ("fixed", "gaps", "message"),
    [
        (2, (), "fixed offset 2"),
        (-4, (), "fixed offset -4"),
        (None, ((0, 2),), "gap"),
        (None, ((2, 9),), "gap"),
        (None, ((3, 3),), "gap"),
        (None, ((4, 6), (2, 3)), "gap"),
        (None, ((2, 4), (4, 6)), "gap"),
    ],
)
def test_malformed_buffers(fixed: int | None, gaps: tuple[tuple[int, int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Buffer("a", 0, 9, 4, 4, fixed, gaps)
