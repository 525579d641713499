"""A capacity that can't be met is explained by buffers that don't fit, none of which can be left out."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.memory import Buffer, max_live
from mlopt.memory.explanation import explain
from tests.memory.instances import any_buffers, fits, without_slack


def is_smallest(buffers: list[Buffer], capacity: int) -> bool:
    """Exhaustive: they don't fit, and without any one of them they do."""
    return not fits(buffers, capacity) and all(
        fits([*buffers[:i], *buffers[i + 1 :]], capacity) for i in range(len(buffers))
    )


@given(any_buffers(), st.integers(0, 16))
@settings(deadline=None, max_examples=200)
def test_sets_are_minimal(buffers: list[Buffer], capacity: int) -> None:
    found = explain(buffers, capacity, nodes=100_000, choice="python")
    if fits(buffers, capacity):
        assert found is None
    else:
        assert found is not None
        assert found.irreducible
        assert is_smallest(list(found.buffers), capacity)
        assert set(found.buffers) <= set(buffers)


def test_the_fewest_that_are_live_at_once() -> None:
    """By hand: at 0 it takes all three to exceed 9, at 5 two."""
    rows = [("a", 0, 2, 4), ("b", 0, 2, 4), ("c", 0, 9, 2), ("d", 5, 9, 8), ("e", 5, 6, 1)]
    found = explain([Buffer(*row, 1) for row in rows], 9, nodes=0)
    assert found is not None
    assert ([buffer.id for buffer in found.buffers], found.crowded) == (["c", "d"], True)


def test_places_that_clash_at_no_single_moment() -> None:
    """Where max-live fits and no plan does: such instances are among those without slack."""
    proved = 0
    for seed in range(300):
        buffers = without_slack(seed, 8, 8, 5)
        found = explain(buffers, max_live(buffers), nodes=20_000, choice="python")
        if found is None:
            continue
        proved += 1
        assert not found.crowded
        assert found.irreducible
        assert is_smallest(list(found.buffers), max_live(buffers))
    assert proved >= 2


def test_fixed_buffers_that_clash() -> None:
    one, other = Buffer("a", 0, 5, 4, 1, 0), Buffer("b", 4, 9, 4, 1, 3)
    found = explain([one, Buffer("c", 0, 9, 1, 1), other], 100, nodes=0)
    assert found is not None
    assert found.buffers == (one, other)
    high = Buffer("h", 0, 1, 4, 1, 8)
    found = explain([one, high], 10, nodes=0)
    assert found is not None
    assert found.buffers == (high,)


def test_without_proof_there_is_no_explanation() -> None:
    buffers = next(
        b
        for b in (without_slack(seed, 8, 8, 5) for seed in range(300))
        if explain(b, max_live(b), nodes=20_000, choice="python")
    )
    assert explain(buffers, max_live(buffers), nodes=3, choice="python") is None
