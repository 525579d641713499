"""What is spilled: less live than a capacity wherever that is possible, nothing without need, room on both sides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from mlopt.memory.spilling import Gap, choose_spills, idle_gaps, step_bound
from mlopt.memory.steps import Step, StepGraph, Value, graph_of_nodes, profile


def random_graph(generator: random.Random) -> StepGraph:
    steps = generator.randint(2, 14)
    values: list[Value] = []
    for _ in range(generator.randint(1, 12)):
        users = generator.sample(range(steps), min(steps, generator.choice([1, 2, 2, 3, 4])))
        values.append(Value(generator.choice([0, 1, 2, 3, 5, 8]), tuple(sorted(users))))
    workspaces = [generator.choice([0, 0, 0, 2, 6]) for _ in range(steps)]
    return StepGraph(tuple(Step((), workspace) for workspace in workspaces), tuple(values))


def all_gaps(graph: StepGraph, generator: random.Random | None = None) -> list[Gap]:
    """Every gap of every value; written in between or not, which decides what one copy serves, by chance."""
    gaps: list[Gap] = []
    contents = 0
    for index, value in enumerate(graph.values):
        contents += 1
        for after, before in idle_gaps(value.steps):
            contents += generator is not None and generator.random() < 0.5
            gaps.append(Gap(index, contents, after, before))
    return gaps


def live_with(graph: StepGraph, gaps: Sequence[Gap]) -> list[int]:
    """The bytes live at each step, value by value, from what a value is: live from one use to the next."""
    spilled = {(gap.value, gap.after, gap.before) for gap in gaps}
    live = [step.workspace for step in graph.steps]
    for index, value in enumerate(graph.values):
        steps = sorted(set(value.steps))
        for step in steps:
            live[step] += value.size
        for after, before in pairwise(steps):
            if (index, after, before) not in spilled:
                for step in range(after + 1, before):
                    live[step] += value.size
    return live


def most_spilled(graph: StepGraph, gaps: Sequence[Gap]) -> int:
    """The most bytes in the second memory: at each moment between two steps, all that is out before it comes back."""
    copies: dict[int, list[Gap]] = {}
    for gap in gaps:
        copies.setdefault(gap.contents, []).append(gap)
    moments = range(len(graph.steps))
    return max(
        (
            sum(
                graph.values[own[0].value].size
                for own in copies.values()
                if min(g.after for g in own) <= moment < max(g.before for g in own)
            )
            for moment in moments
        ),
        default=0,
    )


@pytest.mark.parametrize("seed", range(300))
def test_it_fits_if_spilling_everything_does(seed: int) -> None:
    """And of what is spilled nothing can stay."""
    generator = random.Random(seed)
    graph = random_graph(generator)
    gaps = all_gaps(graph, generator)
    source = live_with(graph, [])
    assert source == profile(graph, range(len(graph.steps)))
    for capacity in range(step_bound(graph).bytes - 2, max(source) + 1):
        chosen = choose_spills(graph, gaps, capacity)
        assert set(chosen) <= set(gaps)
        fits = max(live_with(graph, chosen)) <= capacity
        assert fits == (max(live_with(graph, gaps)) <= capacity) == (capacity >= step_bound(graph).bytes)
        if fits:
            for gap in chosen:
                assert max(live_with(graph, [g for g in chosen if g != gap])) > capacity
        if capacity >= max(source):
            assert not chosen


@pytest.mark.parametrize("seed", range(200))
def test_the_second_memory_is_never_too_small(seed: int) -> None:
    generator = random.Random(seed)
    graph = random_graph(generator)
    gaps = all_gaps(graph, generator)
    capacity = step_bound(graph).bytes
    needed = most_spilled(graph, choose_spills(graph, gaps, capacity))
    for room in range(needed + 1):
        chosen = choose_spills(graph, gaps, capacity, [0] * len(graph.steps), room)
        assert most_spilled(graph, chosen) <= room
    assert max(live_with(graph, choose_spills(graph, gaps, capacity, None, needed + 100))) <= capacity


def test_what_is_there_already_takes_room() -> None:
    graph = StepGraph((Step(),) * 4, (Value(4, (0, 3)), Value(9, (1, 2))))
    (gap,) = all_gaps(graph)
    assert choose_spills(graph, [gap], 9, [0, 2, 2, 0], 6) == [gap]
    assert choose_spills(graph, [gap], 9, [0, 3, 3, 0], 6) == []


def test_bytes_for_bytes_moved() -> None:
    """Over the peak of 10 lie 6 bytes for two steps, and 5 for one: 12 and 5 bytes less, for 12 and 10 moved."""
    steps = (Step(), Step(), Step((), 10), Step((), 10), Step(), Step())
    graph = StepGraph(steps, (Value(6, (0, 5)), Value(5, (1, 3))))
    gaps = all_gaps(graph)
    assert [(gap.after, gap.before) for gap in gaps] == [(0, 5), (1, 3)]
    assert choose_spills(graph, gaps, 15) == [gaps[0]]
    assert choose_spills(graph, gaps, 20) == [gaps[0]]
    assert choose_spills(graph, gaps, 14) == gaps  # at step 3 the second one is used, and 15 are live


def test_one_copy_serves_two_gaps() -> None:
    """The first value is idle twice: once copied out, it costs half as much as the third one, of the same bytes."""
    steps = (Step(), Step(), Step((), 8), Step(), Step((), 4), Step())
    graph = StepGraph(steps, (Value(4, (0, 3, 5)), Value(4, (1, 5)), Value(4, (3, 5))))
    first, second, other, third = all_gaps(graph)
    assert (first.contents, third.contents) == (second.contents, 3)
    assert choose_spills(graph, [first, third, second], 12) == [first, second]
    assert choose_spills(graph, [first, third, second._replace(contents=7)], 12) == [first, third]
    assert choose_spills(graph, [third, second, other], 12) == [other]  # over both peaks
    held = second._replace(held_since=3)
    assert choose_spills(graph, [first, third, held._replace(contents=7)], 12) == [
        first,
        held._replace(contents=7),
    ]


def test_nothing_else_is_in_memory_at_the_bound() -> None:
    """The third step reads 8, makes 9 and works in 2."""
    graph = graph_of_nodes([4, 8, 9, 1], [[], [], [1], [0, 2]])
    steps = (*graph.steps[:2], graph.steps[2]._replace(workspace=2), graph.steps[3])
    bound = step_bound(StepGraph(steps, graph.values))
    assert (bound.step, bound.bytes, bound.values) == (2, 19, (1, 2))
    assert step_bound(StepGraph((), ())).bytes == 0
