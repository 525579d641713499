"""The search finds the smallest plan, and its proofs are right: against exhaustive search on small instances."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.memory import GAP, OPTIMAL, PROVED, Buffer, check_plan, max_live, plan
from mlopt.memory.csv_format import read_buffers
from mlopt.memory.search import SearchResult, search
from tests.memory.instances import without_slack

CHALLENGING = Path(__file__).parent / "challenging"
"""Three of the eleven "challenging" instances of MiniMalloc (google/minimalloc, Apache-2.0), the quick ones."""

CAPACITY = 1048576
"""What MiniMalloc asks for on each of them; no greedy plan reaches it on any."""


def smallest_height(buffers: list[Buffer]) -> int:
    """The smallest capacity that suffices, for buffers of alignment 1."""
    height = max_live(buffers)
    while not fits(buffers, height):
        height += 1
    return height


def fits(buffers: list[Buffer], capacity: int) -> bool:
    """Exhaustive: all layouts that the live buffers can have, moment after moment, every offset tried for each."""
    layouts: set[frozenset[tuple[int, int, int]]] = {frozenset()}
    for buffer in sorted(buffers, key=lambda b: b.lower):
        after: set[frozenset[tuple[int, int, int]]] = set()
        for layout in layouts:
            live = frozenset(entry for entry in layout if entry[0] > buffer.lower)
            for offset in range(capacity - buffer.size + 1):
                end = offset + buffer.size
                if all(end <= begin or offset >= stop for _, begin, stop in live):
                    after.add(live | {(buffer.upper, offset, end)})
        layouts = after
    return bool(layouts)


def checked(buffers: list[Buffer], result: SearchResult) -> SearchResult:
    """A result whose plan is sound, whose figures agree, and that is no worse than the greedy plans."""
    check_plan(buffers, result.plan.offsets, result.plan.height)
    assert result.plan.lower_bound == max_live(buffers) <= result.bound <= result.plan.height
    assert result.plan.height <= plan(buffers, repairs=0).height
    return result


def test_agrees_with_exhaustive_search_above_max_live() -> None:
    """Where greedy plans are above max-live: smaller plans are found, and proofs that there are none are right."""
    found = proved = 0
    for seed in range(1000):
        buffers = without_slack(seed, 8, 8, 5)
        if plan(buffers).height == max_live(buffers):
            continue
        result = checked(buffers, search(buffers))
        assert result.plan.height == result.bound == smallest_height(buffers)
        found += result.status == OPTIMAL
        proved += result.status == PROVED
    # The test says nothing if the generator gives none of either kind.
    assert found >= 20
    assert proved >= 3


instances = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(0, 4)), min_size=0, max_size=7
).map(lambda rows: [Buffer(f"b{i}", low, low + life, size, 1) for i, (low, life, size) in enumerate(rows)])


@given(instances)
@settings(deadline=None)
def test_agrees_with_exhaustive_search_on_small_instances(buffers: list[Buffer]) -> None:
    result = checked(buffers, search(buffers))
    assert result.plan.height == smallest_height([buffer for buffer in buffers if buffer.size])


@given(instances, st.integers(0, 3))
@settings(deadline=None)
def test_scales_with_sizes(buffers: list[Buffer], exponent: int) -> None:
    """Sizes and alignments times a power of two: the same plan, scaled. Sizes beyond 64 bits are exact."""
    scale = 1 << (30 * exponent)
    scaled = [Buffer(b.id, b.lower, b.upper, b.size * scale, scale) for b in buffers]
    small, large = search(buffers), checked(scaled, search(scaled))
    assert large.plan.height == small.plan.height * scale
    assert large.bound == small.bound * scale


def test_mixed_alignments_are_kept() -> None:
    for seed in range(60):
        generator = random.Random(seed)
        buffers = [
            Buffer(b.id, b.lower, b.upper, b.size, generator.choice((1, 2, 4)))
            for b in without_slack(seed, 5, 8, 4)
        ]
        checked(buffers, search(buffers, nodes=500))


def test_parts_that_never_meet_in_time_are_planned_apart() -> None:
    """Two copies of one instance, one after the other, need what one needs."""
    one = without_slack(3, 8, 8, 5)
    end = max(buffer.upper for buffer in one)
    other = [Buffer(f"{b.id}'", b.lower + end, b.upper + end, b.size, 1) for b in one]
    both = checked([*one, *other], search([*one, *other]))
    assert both.plan.height == search(one).plan.height == smallest_height(one)


@pytest.mark.parametrize("name", ["G", "J", "K"])
def test_reaches_the_capacity_of_challenging_instances(name: str) -> None:
    buffers = read_buffers(CHALLENGING / f"{name}.{CAPACITY}.csv").buffers
    assert plan(buffers).height > 1.1 * CAPACITY
    result = checked(list(buffers), search(buffers, target=CAPACITY, nodes=50_000))
    assert result.plan.height <= CAPACITY


def test_stops_when_the_nodes_are_spent_and_is_deterministic() -> None:
    buffers = read_buffers(CHALLENGING / f"G.{CAPACITY}.csv").buffers
    result = search(buffers, nodes=1000)
    assert result.nodes == 1000
    assert result.status == GAP
    assert result == search(tuple(buffers), nodes=1000)
    assert search(buffers, nodes=0).plan == plan(buffers, repairs=0)


def test_tells_how_far_it_is() -> None:
    """Nodes grow, heights fall, and the last are those of the result."""
    told: list[tuple[int, int]] = []
    buffers = without_slack(1, moments=40, capacity=64, longest=8)
    result = search(buffers, nodes=20_000, watch=lambda nodes, height: told.append((nodes, height)))
    nodes, heights = zip(*told, strict=True)
    assert list(nodes) == sorted(nodes)
    assert list(heights) == sorted(heights, reverse=True)
    assert nodes[-1] == result.nodes


def test_nothing_to_place() -> None:
    assert search([]).status == OPTIMAL
    empty = [Buffer("a", 0, 1, 0), Buffer("b", 0, 1, 0)]
    result = search(empty)
    assert (result.plan.height, result.plan.offsets, result.status) == (0, {"a": 0, "b": 0}, OPTIMAL)


def test_two_buffers_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        search([Buffer("a", 0, 1, 1), Buffer("a", 1, 2, 1)])
