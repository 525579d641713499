"""Running steps a second time: what lives long and is cheap is dropped, and made again right before it is used.

A value that is written by one step only can be made again by that step, if all that the step uses is there.
`best_rerun` says which steps to run again for fewer live bytes, `recomputation_bound` what is live at least, whatever
the order and whatever single step is run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlopt.memory.step_rewrites import excess, maker, rerun
from mlopt.memory.steps import StepGraph, Value, ancestors, bits, descendants, profile

_DEPTH = 4
"""How many steps are run again at once, at most, to make one value."""

_CHOICES = 1 << 14
"""How many sets of values the bound looks at, at most, for one step: beyond, it counts fewer values."""


@dataclass(frozen=True, slots=True)
class Rerun:
    """`steps`, positions in the source order, are run again, in this order, right before the step `before`.

    What they make is then used by the steps from `before` on, in place of what they made first. `excess`: what is
    left above the capacity, summed over all steps.
    """

    steps: tuple[int, ...]
    before: int
    excess: int


def best_rerun(
    graph: StepGraph, capacity: int, costs: Sequence[float | None], writers: Sequence[int]
) -> Rerun | None:
    """Steps to run again so that less is live above `capacity` in the source order; None if nothing helps.

    `costs`: of each step what it costs to run it again, None if that is impossible. `writers`: of each value how many
    steps write it: it can be made again if that is one. Of what helps, the one that takes away most for its cost.
    """
    live = profile(graph, range(len(graph.steps)))
    now = sum(max(0, bytes - capacity) for bytes in live)
    best: tuple[float, Rerun] | None = None
    worst = max(range(len(live)), key=live.__getitem__)
    for value in graph.values:
        if not value.size or worst in value.steps or not min(value.steps) < worst < max(value.steps):
            continue
        before = min(step for step in value.steps if step > worst)
        for steps in _closures(graph, value, before, costs, writers):
            left = excess(rerun(graph, steps, before), capacity)
            if left < now:
                cost = sum(costs[step] or 0.0 for step in steps)
                rate = (now - left) / (cost + 1.0)
                if best is None or rate > best[0]:
                    best = rate, Rerun(tuple(steps), before, left)
    return None if best is None else best[1]


def _closures(
    graph: StepGraph,
    value: Value,
    before: int,
    costs: Sequence[float | None],
    writers: Sequence[int],
) -> Iterator[list[int]]:
    """The step that makes a value, then with it those that make what it uses and is dead by then, and so on."""
    made_by: dict[int, list[int]] = {}
    for index, other in enumerate(graph.values):
        if other.steps:
            made_by.setdefault(maker(other), []).append(index)

    def may_run(step: int) -> bool:
        return costs[step] is not None and all(writers[index] == 1 for index in made_by.get(step, ()))

    steps = [maker(value)]
    while len(steps) <= _DEPTH and all(map(may_run, steps)):
        yield sorted(steps)
        used = {index for step in steps for index in graph.used[step]}
        dead = {maker(graph.values[i]) for i in used if max(graph.values[i].steps) < before}
        more = sorted(dead - set(steps))
        if not more:
            return
        steps += more


@dataclass(frozen=True, slots=True)
class Necessary:
    """What is live at least while `step` runs: `bytes`, its workspace included, of the values `values`.

    `values` are those of the step itself and those that are kept over it.
    """

    step: int
    bytes: int
    values: tuple[int, ...]


def recomputation_bound(graph: StepGraph, writers: Sequence[int]) -> Necessary:
    """The step at which the most must be live in every order, even if single steps are run again.

    What is proved: take any order of the steps, in which any step may be run any number of times, and each time but
    the first uses what the first runs of other steps made. While `step` runs for the first time, `bytes` are live:

    - its own values, and its workspace;
    - of each value that a step before it and a step after it use: the value, or, if only one step writes it, all that
      this step uses, from which the value may be made again later. Of all such choices the one of the fewest bytes.
    """
    before, after = ancestors(graph), descendants(graph)
    begun: list[int] = []
    awaited: list[int] = []
    for value in graph.values:
        begun.append(_union(after[step] for step in value.steps))
        awaited.append(_union(before[step] for step in value.steps))
    crossing: list[list[int]] = [[] for _ in graph.steps]
    for index, value in enumerate(graph.values):
        if value.size:
            own = _union(1 << step for step in value.steps)
            for step in bits(begun[index] & awaited[index] & ~own):
                crossing[step].append(index)
    best = Necessary(0, 0, ())
    for step in range(len(graph.steps)):
        own = list(graph.used[step])
        most = sum(graph.values[v].size for v in (*own, *crossing[step])) + graph.steps[step].workspace
        if most <= best.bytes:
            continue
        kept = _least_kept(graph, set(own), crossing[step], writers)
        bytes = sum(graph.values[v].size for v in (*own, *kept)) + graph.steps[step].workspace
        if bytes > best.bytes:
            best = Necessary(step, bytes, (*own, *kept))
    return best


def _least_kept(
    graph: StepGraph, own: set[int], crossing: Sequence[int], writers: Sequence[int]
) -> list[int]:
    """The values of the fewest bytes that hold, of each crossing one, itself or what it can be made from."""
    made_from = {
        value: [v for v in graph.used[maker(graph.values[value])] if v != value and v not in own]
        for value in crossing
        if writers[value] == 1
    }
    kept = [value for value in crossing if value not in made_from]
    open_ = [value for value in crossing if value in made_from]
    if 1 << len(open_) > _CHOICES:
        open_ = sorted(open_, key=lambda value: -graph.values[value].size)[: _CHOICES.bit_length() - 1]
    size = [value.size for value in graph.values]
    best: list[int] | None = None
    least = 0

    def choose(position: int, held: frozenset[int], bytes: int) -> None:
        nonlocal best, least
        if best is not None and bytes >= least:
            return
        if position == len(open_):
            best, least = sorted(held), bytes
            return
        value = open_[position]
        for more in ([value], made_from[value]):
            new = [v for v in more if v not in held]
            choose(position + 1, held.union(new), bytes + sum(size[v] for v in new))

    choose(0, frozenset(kept), sum(size[v] for v in kept))
    assert best is not None
    return best


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result
