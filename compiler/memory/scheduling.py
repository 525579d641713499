"""The order of steps in which the fewest bytes are live at once, with the proof.

1. *Cuts*: a step that every other one must run before or after. The steps between two cuts are a problem of their own,
   a segment, and the peak is that of the worst one: segments that are below it anyway stay as they are.
2. *Lower bound*: what a step must find in memory in every order (`least_peak`). A segment at the bound is done.
3. *List rules*: the best of them, and of the source order, is what the search must beat.
4. *Exact search* over downsets, until it is proved or the nodes are spent (`exact_order`).
5. *Beam search* beyond, with a quarter of the nodes again (`beam_order`).

Everything is deterministic: budgets count nodes, steps tried, not time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from mlopt.memory.list_scheduling import LIST_RULES, list_order
from mlopt.memory.order_search import beam_order, exact_order
from mlopt.memory.planner import GAP, PROVED
from mlopt.memory.steps import Step, StepGraph, Value, largest_step, least_peak, peak_of, profile

NODES = 1_000_000
"""How many steps the exact search tries at most, by default."""

_PAIRS = 1_000_000
"""Steps times values of the largest segment whose bound looks at pairs of them: beyond, at each step alone."""


class Schedule(NamedTuple):
    """An order of the steps and its peak, beside that of the source order, in bytes.

    No order at all has a peak below `bound`. `nodes`: the steps that the searches tried.
    """

    order: tuple[int, ...]
    peak: int
    source_peak: int
    bound: int
    nodes: int

    @property
    def status(self) -> str:
        """`PROVED` if no order has a smaller peak, else `GAP`."""
        return PROVED if self.peak == self.bound else GAP


def schedule(graph: StepGraph, *, nodes: int = NODES) -> Schedule:
    """Order the steps for the smallest peak found; what nothing is gained by moving stays in source order."""
    source_peak = peak_of(graph, range(len(graph.steps)))
    segments = _segments(graph)
    live = iter(profile(graph, [step for steps in segments for step in steps]))
    peaks = [max(islice(live, len(steps))) for steps in segments]
    bound = max((peak for steps, peak in zip(segments, peaks, strict=True) if len(steps) == 1), default=0)
    parts: list[tuple[int, StepGraph]] = []
    for number in sorted(range(len(segments)), key=lambda number: -peaks[number]):
        if peaks[number] <= bound:
            break
        part = _part(graph, segments, number)
        bound = max(bound, _lower_bound(part))
        parts.append((number, part))
    peak, spent = bound, 0
    orders: dict[int, list[int]] = {}
    for number, part in parts:
        if peaks[number] > peak:
            found = _order_part(part, peak, nodes - spent)
            orders[number] = [
                segments[number][step - 1] for step in found.order if 0 < step <= len(segments[number])
            ]
            peak, bound, spent = max(peak, found.peak), max(bound, found.bound), spent + found.nodes
    order: list[int] = []
    for number, steps in enumerate(segments):
        order += orders[number] if number in orders and peaks[number] > peak else steps
    reached = peak_of(graph, order)
    if reached >= source_peak:
        order, reached = list(range(len(graph.steps))), source_peak
    return Schedule(tuple(order), reached, source_peak, bound, spent)


# Segments


def _segments(graph: StepGraph) -> list[list[int]]:
    """The steps between two cuts, the second one included, for all cuts; each in source order.

    Steps that cost nothing as soon as they are ready are in no other's way: they belong where they become ready.
    """
    count = len(graph.steps)
    is_free = [_is_free(graph, step) for step in range(count)]
    latest = [-1] * count  # of the steps that must run before it, free ones looked through
    for position, step in enumerate(graph.steps):
        latest[position] = max((latest[p] if is_free[p] else p for p in step.after), default=-1)
    first = [count] * count  # of those that must run after it
    for position in reversed(range(count)):
        following = graph.successors[position]
        first[position] = min((first[s] if is_free[s] else s for s in following), default=count)
    kept = [step for step in range(count) if not is_free[step]]
    waits_for_all: set[int] = set()
    awaited = -1
    for step in kept:
        if awaited <= step:
            waits_for_all.add(step)
        awaited = max(awaited, first[step])
    cuts: list[int] = []
    needed = count
    for step in reversed(kept):
        if needed >= step and step in waits_for_all:
            cuts.append(step)
        needed = min(needed, latest[step])
    cuts.reverse()
    segments: list[list[int]] = [[] for _ in range(len(cuts) + 1)]
    for step in range(count):
        segments[bisect_left(cuts, latest[step] if is_free[step] else step)].append(step)
    return [steps for steps in segments if steps]


def _is_free(graph: StepGraph, step: int) -> bool:
    """Whether a step never costs a byte once it is ready: it makes no value, and works in no space of its own."""
    before = set(graph.steps[step].after)
    return not graph.steps[step].workspace and all(
        any(user in before for user in graph.values[value].steps) for value in graph.used[step]
    )


def _part(graph: StepGraph, segments: Sequence[Sequence[int]], number: int) -> StepGraph:
    """One segment as a graph: between a first step and a last one that use what lives before and after it."""
    steps = segments[number]
    place = {step: position for position, step in enumerate(steps, 1)}
    end = len(steps) + 1
    segment_of = {step: position for position, members in enumerate(segments) for step in members}
    inner: list[Step] = []
    for step in steps:
        before = tuple(place[p] for p in graph.steps[step].after if p in place)
        inner.append(Step(before or (0,), graph.steps[step].workspace))
    values: list[Value] = []
    for value in graph.values:
        users = [place[step] for step in value.steps if step in place]
        if any(segment_of[step] < number for step in value.steps):
            users.append(0)
        if any(segment_of[step] > number for step in value.steps):
            users.append(end)
        if users and users != [0] and users != [end]:
            values.append(Value(value.size, tuple(users)))
    return StepGraph((Step(), *inner, Step(tuple(range(end)))), tuple(values))


def _lower_bound(part: StepGraph) -> int:
    is_small = len(part.steps) * len(part.values) <= _PAIRS
    return least_peak(part) if is_small else largest_step(part)


# One segment


def _order_part(part: StepGraph, floor: int, nodes: int) -> Schedule:
    """The best order found of a segment; what is below `floor` is of no use, and `bound` 0 if that is reached."""
    source = tuple(range(len(part.steps)))
    source_peak = peak_of(part, source)
    best, peak = source, source_peak
    for rule in LIST_RULES:
        order = list_order(part, rule)
        reached = peak_of(part, order)
        if reached < peak:
            best, peak = tuple(order), reached
    if peak <= floor:
        return Schedule(best, peak, source_peak, 0, 0)
    found = exact_order(part, below=peak, floor=floor, nodes=nodes)
    spent = found.nodes
    bound = found.bound
    if found.order is None and bound < peak:
        found = beam_order(part, below=peak, nodes=nodes // 4)
        spent += found.nodes
    if found.order is not None:
        best = tuple(found.order)
        peak = peak_of(part, best)
    return Schedule(best, peak, source_peak, bound, spent)
