"""Instances of very many buffers: mended in windows, and cut into segments."""

from __future__ import annotations

import random

import pytest

from mlopt.memory import OPTIMAL, Buffer, check_plan, max_live, plan
from mlopt.memory import search as search_module
from mlopt.memory.descent import Budget
from mlopt.memory.search import search
from mlopt.memory.segments import Segments
from mlopt.memory.windows import mend


def chain(count: int, seed: int = 0) -> list[Buffer]:
    """Each lives until the next has been made, and a third of them for some twenty more; sizes are uniform."""
    generator = random.Random(seed)
    buffers: list[Buffer] = []
    for step in range(count):
        more = int(generator.expovariate(1 / 20)) if generator.random() < 0.3 else 0
        buffers.append(Buffer(f"b{step}", step, step + 2 + more, 64 * generator.randint(1, 1000)))
    return buffers


@pytest.fixture(autouse=True)
def no_descent_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "WHOLE", 100)


def test_a_large_chain_meets_its_bound() -> None:
    """No greedy plan does: they are 1.032 of it."""
    buffers = chain(3000, seed=1)
    assert plan(buffers).height > plan(buffers).lower_bound
    result = search(buffers, nodes=8 * len(buffers), choice="python")
    check_plan(buffers, result.plan.offsets, result.plan.height)
    assert result.status == OPTIMAL


def test_a_window_is_mended() -> None:
    """One buffer lies far too high in a plan that meets the bound; no more than its surroundings change."""
    buffers = sorted(chain(2000), key=lambda b: (b.lower, b.id))
    best = search(buffers, nodes=16_000, choice="python").plan
    assert best.height == max_live(buffers)
    offsets = [best.offsets[buffer.id] for buffer in buffers]
    before = list(offsets)
    offsets[1000] = best.height
    assert mend(buffers, offsets, best.height, Budget(50_000, lambda _: None), None)
    check_plan(buffers, dict(zip((b.id for b in buffers), offsets, strict=True)), best.height)
    assert offsets[:500] == before[:500]
    assert offsets[1500:] == before[1500:]


def test_what_cannot_be_mended_stays_sound() -> None:
    buffers = sorted(chain(300), key=lambda b: (b.lower, b.id))
    start = plan(buffers)
    offsets = [start.offsets[buffer.id] for buffer in buffers]
    assert not mend(buffers, offsets, max_live(buffers) - 64, Budget(5000, lambda _: None), None)
    check_plan(buffers, dict(zip((b.id for b in buffers), offsets, strict=True)), start.height)


@pytest.mark.parametrize("seed", range(4))
def test_segments_make_one_sound_plan(seed: int) -> None:
    buffers = sorted(chain(600, seed), key=lambda b: (b.lower, b.id))
    buffers[50] = Buffer("long", 50, 550, 64 * 500)
    buffers[70] = Buffer("fixed", 70, 400, 64 * 10, 64, 64 * 100)
    buffers[90] = Buffer("gaps", 90, 300, 64 * 200, 64, None, ((100, 200), (210, 220)))
    segments = Segments(buffers, 100, None)
    height = int(1.3 * max_live(buffers))
    assert segments.fit(height, 4, Budget(None, lambda _: None))
    check_plan(buffers, dict(zip((b.id for b in buffers), segments.offsets, strict=True)), height)


def test_nodes_are_counted_and_the_search_ends() -> None:
    buffers = chain(400)
    result = search(buffers, nodes=500, choice="python")
    assert result.nodes <= 500
    assert result == search(buffers, nodes=500, choice="auto")
