"""Orders of steps: peaks by hand, all orders of small graphs, and random cells with their proofs."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from math import exp, log
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlopt.memory import PROVED
from mlopt.memory.list_scheduling import LIST_RULES, list_order
from mlopt.memory.order_search import beam_order, exact_order
from mlopt.memory.planner import GAP
from mlopt.memory.scheduling import schedule
from mlopt.memory.steps import (
    Step,
    StepGraph,
    Value,
    graph_of_nodes,
    largest_step,
    least_peak,
    peak_of,
    profile,
)

CELL: Callable[..., StepGraph] = runpy.run_path(
    str(Path(__file__).parents[2] / "benchmarks" / "scheduling.py")
)["cell"]

TWO_BRANCHES = graph_of_nodes([1, 8, 8, 1, 1, 1], [[], [0], [0], [1], [2], [3, 4]])
"""Input 0; wide 1 and 2, made narrow by 3 and 4; joined by 5."""


def orders(graph: StepGraph) -> Iterator[list[int]]:
    """All orders, by trying all."""

    def extend(order: list[int]) -> Iterator[list[int]]:
        if len(order) == len(graph.steps):
            yield order
        for step, facts in enumerate(graph.steps):
            if step not in order and set(facts.after) <= set(order):
                yield from extend([*order, step])

    return extend([])


@st.composite
def graphs(draw: st.DrawFn) -> StepGraph:
    """Up to 7 steps; values of any steps, of no bytes and of no steps too, and workspaces."""
    count = draw(st.integers(0, 7))
    density = draw(st.sampled_from([0.2, 0.5, 0.8]))
    rng = draw(st.randoms(use_true_random=False))
    steps = tuple(
        Step(tuple(b for b in range(step) if rng.random() < density), rng.choice([0, 0, rng.randint(1, 6)]))
        for step in range(count)
    )
    if draw(st.booleans()):
        return graph_of_nodes([rng.randint(0, 9) for _ in steps], [step.after for step in steps])
    users = st.lists(st.integers(0, count - 1), max_size=3) if count else st.just(list[int]())
    values = draw(st.lists(st.tuples(st.integers(0, 9), users), max_size=8))
    return StepGraph(steps, tuple(Value(size, tuple(steps)) for size, steps in values))


def test_profile_by_hand() -> None:
    assert profile(TWO_BRANCHES, range(6)) == [1, 1 + 8, 1 + 8 + 8, 8 + 8 + 1, 8 + 1 + 1, 1 + 1 + 1]
    assert profile(TWO_BRANCHES, [0, 1, 3, 2, 4, 5]) == [1, 9, 10, 10, 10, 3]


def test_workspace_counts_while_its_step_runs() -> None:
    graph = StepGraph((Step(workspace=5), Step((0,), 7)), (Value(2, (0, 1)), Value(1, (1,))))
    assert profile(graph, [0, 1]) == [2 + 5, 2 + 1 + 7]


def test_one_branch_before_the_other() -> None:
    found = schedule(TWO_BRANCHES)
    assert found.order == (0, 1, 3, 2, 4, 5)
    assert (found.source_peak, found.peak, found.bound, found.status) == (17, 10, 10, PROVED)


def test_source_order_stays_where_nothing_is_gained() -> None:
    """Two pairs of branches: the narrow one could be ordered better as well, but the wide one decides."""
    sizes = [1, 8, 8, 1, 1, 1, 2, 2, 1, 1, 1]
    inputs = [[], [0], [0], [1], [2], [3, 4], [5], [5], [6], [7], [8, 9]]
    assert schedule(graph_of_nodes(sizes, inputs)).order == (0, 1, 3, 2, 4, 5, 6, 7, 8, 9, 10)
    equal = graph_of_nodes([1, 1, 1, 1], [[], [0], [0], [1, 2]])
    assert schedule(equal).order == (0, 1, 2, 3)


def test_steps_that_make_nothing_do_not_hide_cuts() -> None:
    """A chain from each of whose tensors something is written out, all of it at the end in source order.

    The tensors then live to the end; with each write right behind its tensor, two of them live at once.
    """
    length = 400
    steps = [Step((step - 1,) if step else ()) for step in range(length)]
    steps += [Step((step,)) for step in range(length)]
    values = [
        Value(1, tuple(u for u in (step, step + 1, length + step) if u < length or u >= length))
        for step in range(length - 1)
    ]
    graph = StepGraph(tuple(steps), (*values, Value(1, (length - 1, 2 * length - 1))))
    found = schedule(graph)
    assert (found.source_peak, found.peak, found.status) == (length, 2, PROVED)
    assert found.nodes == 0


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_every_order_of_small_graphs(graph: StepGraph) -> None:
    """The smallest peak by trying all orders; bounds below it, orders within their declared peaks."""
    best = min(peak_of(graph, order) for order in orders(graph))
    found = schedule(graph)
    assert (found.peak, found.bound, found.status) == (best, best, PROVED)
    assert peak_of(graph, found.order) == best
    assert found.order == tuple(range(len(graph.steps))) or best < found.source_peak
    assert largest_step(graph) <= least_peak(graph) <= best
    hurried = schedule(graph, nodes=2)
    assert hurried.bound <= best <= hurried.peak == peak_of(graph, hurried.order) <= found.source_peak
    for rule in LIST_RULES:
        assert peak_of(graph, list_order(graph, rule)) >= best


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_searches_alone(graph: StepGraph) -> None:
    best = min(peak_of(graph, order) for order in orders(graph))
    exact = exact_order(graph, below=best + 1, floor=0, nodes=10**6)
    assert exact.order is not None and peak_of(graph, exact.order) == best == exact.bound
    none = exact_order(graph, below=best, floor=0, nodes=10**6)
    assert none.order is None and none.bound == best
    wide = beam_order(graph, below=best + 1, nodes=10**6)
    assert wide.order is not None and peak_of(graph, wide.order) == best
    narrow = beam_order(graph, below=10**9, nodes=0)
    assert narrow.order is not None and peak_of(graph, narrow.order) >= best


def test_list_rules_by_hand() -> None:
    assert list_order(TWO_BRANCHES, "breadth-first") == [0, 1, 2, 3, 4, 5]
    assert list_order(TWO_BRANCHES, "depth-first") == [0, 1, 3, 2, 4, 5]
    assert list_order(TWO_BRANCHES, "largest-decrease-first") == [0, 1, 3, 2, 4, 5]
    # 1 frees most in the end, 2 needs least at once.
    graph = StepGraph(
        (Step(), Step((0,), 9), Step((0,))),
        (Value(4, (0, 1)), Value(3, (0, 2)), Value(1, (2,))),
    )
    assert list_order(graph, "largest-decrease-first") == [0, 1, 2]
    assert list_order(graph, "least-peak-first") == [0, 2, 1]


@pytest.mark.parametrize("equal", [True, False])
def test_cells_are_proved(equal: bool) -> None:
    """Ten randomly wired cells. The means are measured: every order is proved, so that no other could be better."""
    source, rule = 0.0, 0.0
    for seed in range(10):
        graph = CELL(seed, equal=equal)
        found = schedule(graph)
        assert found.status == PROVED
        assert peak_of(graph, found.order) == found.peak
        source += log(found.source_peak / found.peak)
        rule += log(peak_of(graph, list_order(graph, "largest-decrease-first")) / found.peak)
    means = exp(source / 10), exp(rule / 10)
    assert means == pytest.approx((1.238, 1.106) if equal else (1.293, 1.160), abs=1e-3)


def test_beyond_the_nodes() -> None:
    """The beam is better than the list rules where the exact search gives up; and says what is not proved."""
    graph = CELL(0, count=100)
    found = schedule(graph, nodes=50_000)
    assert found.status == GAP and found.bound < found.peak
    assert found.nodes <= 65_000
    assert found.peak < min(peak_of(graph, list_order(graph, rule)) for rule in LIST_RULES)
    assert found == schedule(graph, nodes=50_000)


def test_cells_are_watts_strogatz_graphs() -> None:
    """Without rewiring a ring: each node but the first and last two has its two predecessors."""
    graph = CELL(0, p=0.0)
    assert [step.after for step in graph.steps[:6]] == [(), (0,), (1,), (1, 2), (2, 3), (3, 4)]
    assert graph.steps[31].after == (1, 29, 30) and graph.steps[32].after == (1, 2, 30, 31)
    rewired = CELL(3)
    assert sum(len(step.after) for step in rewired.steps[1:33] if step.after != (0,)) == 64


@pytest.mark.parametrize(
    ("steps", "values", "message"),
    [
        ((Step((0,)),), (), "step 0 can't run after step 0"),
        ((Step((-1,)),), (), "step 0 can't run after step -1"),
        ((Step(workspace=-1),), (), "workspace -1 is negative"),
        ((Step(),), (Value(-1, ()),), "size -1 is negative"),
        ((Step(),), (Value(1, (1,)),), "there is no step 1"),
    ],
)
def test_impossible_graphs(steps: tuple[Step, ...], values: tuple[Value, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StepGraph(steps, values)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [0, 0, 1, 2, 3, 4], [1, 0, 2, 3, 4, 5]])
def test_impossible_orders(order: list[int]) -> None:
    with pytest.raises(ValueError, match="step"):
        profile(TWO_BRANCHES, order)
