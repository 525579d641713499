"""Plans are sound, as small as brute force finds on tiny instances, and never below the lower bound."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlopt.memory import GAP, OPTIMAL, STRATEGIES, Buffer, Plan, PlanError, check_plan, max_live, plan

EXAMPLE_12 = [("b1", 0, 3, 4), ("b2", 3, 9, 4), ("b3", 0, 9, 4), ("b4", 9, 21, 4), ("b5", 0, 21, 4)]
"""MiniMalloc's example: three buffers of 4 bytes live at any moment, so 12 bytes are needed, and suffice."""


def buffers_of(rows: list[tuple[str, int, int, int]], alignment: int = 1) -> list[Buffer]:
    return [Buffer(*row, alignment) for row in rows]


def is_sound(buffers: list[Buffer], result: Plan) -> bool:
    """Straight from the definition: every pair that shares a moment shares no byte."""
    return all(
        one.upper <= other.lower
        or other.upper <= one.lower
        or not (
            set(range(result.offsets[one.id], result.offsets[one.id] + one.size))
            & set(range(result.offsets[other.id], result.offsets[other.id] + other.size))
        )
        for one, other in itertools.combinations(buffers, 2)
    )


def smallest_height(buffers: list[Buffer]) -> int:
    """Brute force: first fit over all orders reaches an optimum (take an optimum's buffers by offset)."""
    best = sum(buffer.footprint for buffer in buffers)
    for order in itertools.permutations(buffers):
        placed: list[tuple[int, Buffer]] = []
        for buffer in order:
            blocking = sorted(
                (offset, offset + other.footprint)
                for offset, other in placed
                if other.overlaps_in_time(buffer)
            )
            end = 0
            for low, high in blocking:
                if low - end >= buffer.footprint:
                    break
                end = max(end, high)
            placed.append((end, buffer))
        best = min(best, max(offset + buffer.footprint for offset, buffer in placed))
    return best


instances = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 6), st.integers(0, 9)), min_size=0, max_size=12
).map(lambda rows: [Buffer(f"b{i}", low, low + life, size, 1) for i, (low, life, size) in enumerate(rows)])


@given(instances, st.data())
def test_the_check_finds_every_overlap(buffers: list[Buffer], data: st.DataObject) -> None:
    """Any offsets, against all pairs."""
    offsets = {buffer.id: data.draw(st.integers(0, 30)) for buffer in buffers}
    try:
        check_plan(buffers, offsets, 40)
        accepted = True
    except PlanError:
        accepted = False
    assert accepted == is_sound(buffers, Plan(offsets, 40, 0))


def test_buffers_that_all_live_at_once_take_no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are n^2 pairs of them, and one plan up to the order."""
    monkeypatch.setattr("mlopt.memory.planner.conflicts", None)
    result = plan([Buffer(f"b{i}", i, 1000 - i, i, 1) for i in range(200)])
    assert (result.height, result.status) == (199 * 200 // 2, OPTIMAL)


def test_example_12_is_planned_optimally() -> None:
    buffers = buffers_of(EXAMPLE_12)
    result = plan(buffers)
    check_plan(buffers, result.offsets, 12)
    assert (result.height, result.lower_bound, result.status) == (12, 12, OPTIMAL)


def test_none_gives_every_buffer_its_own_space() -> None:
    result = plan(buffers_of(EXAMPLE_12), "none")
    assert sorted(result.offsets.values()) == [0, 4, 8, 12, 16]
    assert (result.height, result.status) == (20, GAP)


def test_conservative_shares_only_among_equal_sizes() -> None:
    buffers = buffers_of([("a", 0, 1, 8), ("b", 1, 2, 8), ("c", 1, 2, 4), ("d", 2, 3, 4)])
    result = plan(buffers, "conservative")
    assert result.offsets["a"] == result.offsets["b"]
    assert result.offsets["c"] == result.offsets["d"]
    assert result.height == 12
    assert plan(buffers_of([("a", 0, 1, 8), ("b", 1, 2, 4)]), "conservative").height == 12
    assert plan(buffers_of([("a", 0, 1, 8), ("b", 1, 2, 4)]), "aggressive").height == 8


def test_offsets_and_sizes_are_aligned() -> None:
    buffers = [Buffer("a", 0, 2, 1), Buffer("b", 0, 2, 65), Buffer("c", 1, 3, 64)]
    for strategy in STRATEGIES:
        result = plan(buffers, strategy)
        assert all(offset % 64 == 0 for offset in result.offsets.values())
        check_plan(buffers, result.offsets, result.height)
    assert max_live(buffers) == 64 + 128 + 64


def test_mixed_alignments() -> None:
    buffers = [Buffer("a", 0, 2, 4, 4), Buffer("b", 0, 2, 64, 64), Buffer("c", 0, 2, 16, 16)]
    for strategy in STRATEGIES:
        result = plan(buffers, strategy)
        check_plan(buffers, result.offsets, result.height)


def test_mixed_alignments_leave_no_gap_that_the_order_can_avoid() -> None:
    """The 8 bytes first, then the 3: 11 bytes. In the given order it takes 16."""
    assert plan([Buffer("a", 0, 1, 3, 1), Buffer("b", 0, 1, 8, 8)]).height == 11


def test_empty_buffers_share_an_offset_and_do_not_overlap() -> None:
    buffers = buffers_of([("a", 0, 3, 0), ("b", 0, 3, 0), ("c", 0, 3, 4)])
    for strategy in STRATEGIES:
        result = plan(buffers, strategy)
        check_plan(buffers, result.offsets, 4)
        assert result.height == 4
    assert plan([]).status == OPTIMAL


def test_sizes_beyond_32_and_64_bits_are_exact() -> None:
    gib3 = 3 << 30
    live = buffers_of([(f"t{i}", 0, 1, gib3) for i in range(5)], 64)
    assert plan(live).height == 5 * gib3 == 16106127360
    assert plan(buffers_of([("x", 0, 1, 1 << 63), ("y", 0, 1, 1 << 63)])).height == 1 << 64


def test_touching_lifetimes_share_and_overlapping_ones_do_not() -> None:
    assert plan(buffers_of([("a", 0, 5, 4), ("b", 5, 9, 4)])).height == 4
    assert plan(buffers_of([("a", 0, 6, 4), ("b", 5, 9, 4)])).height == 8


def test_a_malformed_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        Buffer("a", 3, 3, 4)
    with pytest.raises(ValueError, match="negative"):
        Buffer("a", 0, 1, -4)
    with pytest.raises(ValueError, match="alignment"):
        Buffer("a", 0, 1, 4, 0)
    with pytest.raises(ValueError, match="unique"):
        plan(buffers_of([("a", 0, 1, 4), ("a", 1, 2, 4)]))
    with pytest.raises(ValueError, match="unknown strategy"):
        plan([], "lazy")  # pyright: ignore[reportArgumentType]  # what a caller without types would do


@pytest.mark.parametrize(
    ("offsets", "capacity", "message"),
    [
        ({"a": 0, "b": 3}, 16, "buffers 'a' .* and 'b' .* overlap"),
        ({"a": 0, "b": 4}, 7, "buffer 'b' takes bytes"),
        ({"a": -4, "b": 4}, 16, "buffer 'a' takes bytes"),
    ],
)
def test_check_plan_names_what_is_wrong(offsets: dict[str, int], capacity: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check_plan(buffers_of([("a", 0, 3, 4), ("b", 2, 4, 4)]), offsets, capacity)


def test_check_plan_sees_misalignment() -> None:
    with pytest.raises(PlanError, match="no multiple"):
        check_plan([Buffer("a", 0, 1, 4, 64)], {"a": 32}, 128)


@given(instances)
def test_every_strategy_is_sound_and_ordered(buffers: list[Buffer]) -> None:
    heights: list[int] = []
    for strategy in STRATEGIES:
        result = plan(buffers, strategy)
        assert is_sound(buffers, result)
        check_plan(buffers, result.offsets, result.height)
        assert result.lower_bound == max(
            (sum(b.size for b in buffers if b.lower <= t < b.upper) for t in range(20)), default=0
        )
        assert result.height >= result.lower_bound
        heights.append(result.height)
    assert heights[0] >= heights[1]
    assert heights[0] >= heights[2]


@given(instances, st.integers(0, 3))
def test_check_plan_agrees_with_the_definition(buffers: list[Buffer], seed: int) -> None:
    offsets = {buffer.id: (index * (seed + 1)) % 7 for index, buffer in enumerate(buffers)}
    sound = is_sound(buffers, Plan(offsets, 0, 0))
    try:
        check_plan(buffers, offsets, 1000)
    except PlanError:
        assert not sound
    else:
        assert sound


@given(instances.filter(lambda buffers: len(buffers) <= 5))
def test_tiny_instances_are_close_to_brute_force(buffers: list[Buffer]) -> None:
    """The greedy portfolio is optimal on instances of up to five buffers (brute force over all orders)."""
    assert plan(buffers).height == (smallest_height(buffers) if buffers else 0)


def test_a_buffer_that_came_too_late_is_taken_first() -> None:
    """Nine units live at once, and nine suffice; no order of the portfolio finds that, a repair does."""
    rows = [("a", 4, 6, 4), ("b", 4, 9, 2), ("c", 0, 4, 3), ("d", 3, 5, 3), ("e", 6, 11, 6), ("f", 2, 3, 4)]
    buffers = buffers_of(rows)
    result = plan(buffers)
    check_plan(buffers, result.offsets, 9)
    assert (result.height, result.status) == (9, OPTIMAL)
    assert plan(buffers, repairs=0).height == 10


def test_plans_do_not_depend_on_anything_but_the_input() -> None:
    buffers = [Buffer(f"b{i}", i * 7 % 31, i * 7 % 31 + 1 + i % 5, 64 * (1 + i * i % 13)) for i in range(60)]
    assert plan(buffers) == plan(list(buffers))
