"""Running steps again: the graphs that come of it, what is chosen, and the bound against all executions of a graph."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from mlopt.memory.rematerialization import Rerun, best_rerun, recomputation_bound
from mlopt.memory.scheduling import schedule
from mlopt.memory.step_rewrites import can_be_joined, excess, join_steps, rerun
from mlopt.memory.steps import Step, StepGraph, Value, graph_of_nodes, largest_step, least_peak, profile


@dataclass(frozen=True)
class Program:
    """Steps, and of each value how many of them write it."""

    graph: StepGraph
    writers: tuple[int, ...]


def random_program(generator: random.Random, count: int) -> Program:
    """Each step makes a value from up to two others, or updates one of them in place behind all that use it."""
    after: list[set[int]] = []
    users: list[list[int]] = []
    writers: list[int] = []
    last_write: list[int] = []
    for step in range(count):
        made = range(len(users))
        used = generator.sample(made, min(len(made), generator.choice([0, 1, 1, 2, 2])))
        needs = {last_write[value] for value in used}
        if used and generator.random() < 0.35:
            needs.update(users[used[0]])
            writers[used[0]] += 1
            last_write[used[0]] = step
        else:
            users.append([])
            writers.append(1)
            last_write.append(step)
            used.append(len(users) - 1)
        for value in used:
            users[value].append(step)
        after.append(needs)
    sizes = [generator.choice([1, 2, 3, 5, 8, 13]) for _ in users]
    steps = tuple(Step(tuple(sorted(before)), generator.choice([0, 0, 0, 1, 4])) for before in after)
    values = tuple(Value(size, tuple(steps_)) for size, steps_ in zip(sizes, users, strict=True))
    return Program(StepGraph(steps, values), tuple(writers))


UNMADE, KEPT, DROPPED, MADE_AGAIN = range(4)

State: TypeAlias = "tuple[int, tuple[int, ...]]"
"""The steps that have run, as bits, and of each value where it stands."""


def least_of_all_executions(program: Program, *, again: bool) -> int:
    """The smallest peak there is, by visiting all states of memory: with steps run again, or each step once.

    A step that runs again finds what other steps made for it as the first run left it. Written from the definition, and
    not from the code under test.
    """
    graph, writers = program.graph, program.writers
    every = (1 << len(graph.steps)) - 1
    makes = [[i for i, v in enumerate(graph.values) if min(v.steps) == s] for s in range(len(graph.steps))]
    uses = [[i for i, v in enumerate(graph.values) if s in v.steps] for s in range(len(graph.steps))]

    def live(memory: tuple[int, ...]) -> int:
        return sum(
            v.size for v, state in zip(graph.values, memory, strict=True) if state in (KEPT, MADE_AGAIN)
        )

    start: State = (0, (UNMADE,) * len(graph.values))
    best: dict[State, int] = {start: 0}
    pending: list[tuple[int, State]] = [(0, start)]
    while pending:
        peak, (done, memory) = heapq.heappop(pending)
        if best[done, memory] < peak:
            continue
        if done == every:
            return peak
        following: list[tuple[int, State]] = []
        for index, state in enumerate(memory):
            if state in (KEPT, MADE_AGAIN):
                following.append((peak, (done, (*memory[:index], DROPPED, *memory[index + 1 :]))))
        for step in range(len(graph.steps)):
            is_first = not done >> step & 1
            others = [index for index in uses[step] if index not in makes[step]]
            if is_first:
                may = all(done >> before & 1 for before in graph.steps[step].after)
                may = may and all(memory[index] in (KEPT, MADE_AGAIN) for index in others)
            else:
                may = again and bool(makes[step]) and all(writers[i] == 1 for i in makes[step])
                may = may and all(memory[index] == KEPT for index in others)
            if not may:
                continue
            new = list(memory)
            for index in makes[step]:
                if is_first or new[index] == DROPPED:
                    new[index] = KEPT if is_first else MADE_AGAIN
            during = live(tuple(new)) + graph.steps[step].workspace
            following.append((max(peak, during), (done | 1 << step, tuple(new))))
        for reached, state in following:
            if reached < best.get(state, reached + 1):
                best[state] = reached
                heapq.heappush(pending, (reached, state))
    raise AssertionError("the steps have no order")


def test_a_bound_by_hand() -> None:
    """`a` (8) is made from nothing, `b` (2) from `a`, `c` (9) from `b`, the last from `a` and `c`.

    In any order `a`, `b` and `c` are live at `c`: 8 + 2 + 9. But `a` may be made again behind it: then 2 + 9 are live
    there, and at the last step, whose own values are 1 + 8 + 9, the most.
    """
    graph = graph_of_nodes([8, 2, 9, 1], [[], [0], [1], [0, 2]])
    assert least_peak(graph) == 19
    bound = recomputation_bound(graph, [1, 1, 1, 1])
    assert (bound.bytes, bound.step, bound.values) == (18, 3, (0, 2, 3))
    assert least_of_all_executions(Program(graph, (1, 1, 1, 1)), again=True) == 18


def test_what_is_updated_in_place_is_kept() -> None:
    """As above, but `a` is written by two steps: it can't be made again, so it is live beside the others."""
    graph = graph_of_nodes([8, 2, 9, 1], [[], [0], [1], [0, 2]])
    bound = recomputation_bound(graph, [2, 1, 1, 1])
    assert (bound.bytes, bound.step, bound.values) == (19, 2, (1, 2, 0))


def test_what_it_is_made_from_is_kept_in_its_place() -> None:
    """`b` (8) is made from `a` (3): while `c` (9) is made from another, `a` at least is kept for the last step."""
    graph = graph_of_nodes([3, 8, 5, 9, 1, 1], [[], [0], [0, 1], [2], [3], [1, 4]])
    assert least_peak(graph) == 5 + 9 + 8
    bound = recomputation_bound(graph, [1] * 6)
    assert (bound.bytes, bound.step, bound.values) == (5 + 9 + 3, 3, (2, 3, 0))
    assert least_of_all_executions(Program(graph, (1,) * 6), again=True) == bound.bytes


def test_no_execution_is_below_the_bound() -> None:
    """300 random programs. The bound is mostly reached, and sometimes more than what a single step takes."""
    generator = random.Random(5)
    reached = above_steps = helps = 0
    for _ in range(300):
        program = random_program(generator, generator.randint(4, 7))
        bound = recomputation_bound(program.graph, program.writers)
        least = least_of_all_executions(program, again=True)
        once = least_of_all_executions(program, again=False)
        assert largest_step(program.graph) <= bound.bytes <= least <= once
        kept = sum(program.graph.values[value].size for value in bound.values)
        assert kept + program.graph.steps[bound.step].workspace == bound.bytes
        reached += bound.bytes == least
        above_steps += bound.bytes > largest_step(program.graph)
        helps += least < once
    assert reached > 250
    assert above_steps > 5
    assert helps > 5


def test_each_order_alone_is_what_the_order_search_finds() -> None:
    """The second opinion of these tests agrees with the exact search where no step runs again."""
    generator = random.Random(6)
    for _ in range(100):
        program = random_program(generator, 6)
        assert least_of_all_executions(program, again=False) == schedule(program.graph).peak


def test_rerun_by_hand() -> None:
    """Step 0 again before step 3: its value ends at step 1, and a copy lives from the new step on."""
    graph = graph_of_nodes([8, 2, 9, 1], [[], [0], [1], [0, 2]])
    again = rerun(graph, [0], 3)
    assert again.values == (
        Value(8, (0, 1)),
        Value(8, (3, 4)),
        Value(2, (1, 2)),
        Value(9, (2, 4)),
        Value(1, (4,)),
    )
    assert [step.after for step in again.steps] == [(), (0,), (1,), (), (0, 2, 3)]
    assert profile(again, range(5)) == [8, 10, 11, 17, 18]


def test_rerun_of_two_steps_uses_the_copy() -> None:
    graph = graph_of_nodes([4, 8, 9, 1], [[], [0], [1], [1, 2]])
    again = rerun(graph, [0, 1], 3)
    assert again.values[:4] == (Value(4, (0, 1)), Value(4, (3, 4)), Value(8, (1, 2)), Value(8, (4, 5)))
    assert again.steps[4].after == (0, 3)


def test_every_rerun_runs_and_is_above_the_bound() -> None:
    """What is chosen takes bytes away, and an execution with it is one of those that the bound speaks of."""
    generator = random.Random(7)
    chosen = 0
    for _ in range(300):
        program = random_program(generator, generator.randint(4, 9))
        graph = program.graph
        peak = schedule(graph).peak
        capacity = generator.randint(largest_step(graph), max(peak, largest_step(graph)))
        costs = [1.0] * len(graph.steps)
        found = best_rerun(graph, capacity, costs, program.writers)
        if found is None:
            continue
        chosen += 1
        again = rerun(graph, found.steps, found.before)
        assert found.excess == excess(again, capacity) < excess(graph, capacity)
        assert all(
            program.writers[v] == 1 for v, value in enumerate(graph.values) if min(value.steps) in found.steps
        )
        if len(found.steps) == 1:
            bound = recomputation_bound(graph, program.writers).bytes
            assert max(profile(again, range(len(again.steps)))) >= bound
    assert chosen > 50


def test_the_cheap_one_runs_again() -> None:
    """Two values of 8 are kept over the step of 9; one costs less."""
    graph = graph_of_nodes([8, 8, 9, 9, 1], [[], [], [], [2], [0, 1, 3]])
    assert best_rerun(graph, 26, [5.0, 1.0, 1.0, 1.0, 1.0], [1] * 5) == Rerun((1,), 4, 0)
    assert best_rerun(graph, 26, [1.0, 5.0, 1.0, 1.0, 1.0], [1] * 5) == Rerun((0,), 4, 0)
    assert best_rerun(graph, 26, [None, None, 1.0, 1.0, 1.0], [1] * 5) is None
    assert best_rerun(graph, 26, [1.0] * 5, [2, 2, 1, 1, 1]) is None


def test_what_it_is_made_from_runs_again_too() -> None:
    """`b` (8) is made from `a` (6), which is dead by then: kept longer it would cost more than it saves."""
    graph = graph_of_nodes([6, 8, 3, 20, 1, 1], [[], [0], [1], [2], [3], [1, 4]])
    assert best_rerun(graph, 23, [1.0] * 6, [1] * 6) == Rerun((0, 1), 5, 0)


@pytest.mark.parametrize(
    ("members", "allowed"), [([0, 1], True), ([0, 3], False), ([1, 3], True), ([0, 1, 2, 3], True)]
)
def test_joined_steps_have_nothing_between_that_needs_them(members: list[int], allowed: bool) -> None:
    """Step 2 needs step 0, and step 3 all of them."""
    graph = graph_of_nodes([1, 1, 1, 1], [[], [0], [0], [0, 1, 2]])
    assert can_be_joined(graph, members) is allowed


def test_join_by_hand() -> None:
    """Steps 1 and 3 become one of 7 bytes of workspace, in which the value between them is."""
    graph = graph_of_nodes([4, 8, 2, 1], [[], [0], [0], [1, 2]])
    joined = join_steps(graph, [1, 3], 7)
    assert joined.steps == (Step(), Step((0,)), Step((0, 1), 7))
    assert joined.values == (Value(4, (0, 2, 1)), Value(0, (2,)), Value(2, (1, 2)), Value(1, (2,)))
    assert profile(joined, range(3)) == [4, 6, 14]


def test_positions_must_be_those_of_the_graph() -> None:
    graph = graph_of_nodes([1, 1], [[], [0]])
    with pytest.raises(ValueError, match="step 1 can't run after step 1"):
        StepGraph((graph.steps[0], graph.steps[1]._replace(after=(1,))), graph.values)
