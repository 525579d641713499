"""Spilling: what is idle over a peak is copied to a second memory, and back right before it is used again.

Steps work in the first memory alone. A value that no step uses for a while is *idle*; in such a gap it may lie in the
second memory, which costs its bytes twice, once for each way. What is spilled in several gaps and holds the same in all
of them is copied out once.

`choose_spills` says what to spill in which gaps, `step_bound` what no spilling can change.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from mlopt.memory.rematerialization import Necessary
from mlopt.memory.steps import StepGraph, profile


class Gap(NamedTuple):
    """No step uses `value` between the steps `after` and `before`, positions in the source order.

    - `contents`: equal for the gaps in which the value holds the same.
    - `held_since`: the step since which a copy is in the second memory already; None if there is none.
    """

    value: int
    contents: int
    after: int
    before: int
    held_since: int | None = None


def idle_gaps(users: Sequence[int]) -> list[tuple[int, int]]:
    """The neighbours in `users`, steps in any order, between which there are other steps."""
    steps = sorted(set(users))
    return [(after, before) for after, before in pairwise(steps) if before > after + 1]


def choose_spills(
    graph: StepGraph,
    gaps: Sequence[Gap],
    capacity: int,
    spilled: Sequence[int] | None = None,
    spill_capacity: int | None = None,
) -> list[Gap]:
    """The gaps to spill values in, so that less is live above `capacity` in the source order; ascending.

    Of all gaps the one is taken that takes most bytes away, summed over the steps above the capacity, for each byte
    that is moved; and so on until it fits, or nothing helps. What turns out not to be needed is left out again.

    `spilled`: the bytes that are in the second memory while each step runs, already; together with what is chosen never
    more than `spill_capacity` (None: as many as it takes).
    """
    chosen = _Choice(graph, capacity, spilled or [0] * len(graph.steps), spill_capacity)
    left = [gap for gap in gaps if graph.values[gap.value].size]
    while chosen.excess():
        rates = [(chosen.gain(gap) / chosen.cost(gap), -number) for number, gap in enumerate(left)]
        allowed = sorted((rate for rate in rates if rate[0] > 0), reverse=True)
        best = next((-number for _, number in allowed if chosen.has_room(left[-number])), None)
        if best is None:
            break
        chosen.add(left.pop(best))
    for gap in sorted(chosen.gaps, key=lambda gap: -graph.values[gap.value].size):
        if not chosen.excess() and chosen.is_spare(gap):
            chosen.remove(gap)
    return sorted(chosen.gaps, key=lambda gap: (gap.after, gap.before, gap.value))


class _Choice:
    """The gaps chosen so far, and what is live with them."""

    def __init__(self, graph: StepGraph, capacity: int, spilled: Sequence[int], spill_capacity: int | None):
        self.gaps: list[Gap] = []
        self._sizes = [value.size for value in graph.values]
        self._capacity = capacity
        self._live = profile(graph, range(len(graph.steps)))
        self._spilled = spilled
        self._spill_capacity = spill_capacity

    def excess(self) -> int:
        """The bytes above the capacity, summed over all steps."""
        return sum(live - self._capacity for live in self._live if live > self._capacity)

    def gain(self, gap: Gap) -> int:
        """By how much less that would be."""
        size, capacity = self._sizes[gap.value], self._capacity
        over = (live - capacity for live in self._live[gap.after + 1 : gap.before] if live > capacity)
        return sum(min(size, bytes) for bytes in over)

    def cost(self, gap: Gap) -> int:
        """The bytes that are moved for it."""
        is_there = gap.held_since is not None or any(g.contents == gap.contents for g in self.gaps)
        return self._sizes[gap.value] * (1 if is_there else 2)

    def has_room(self, gap: Gap) -> bool:
        """Whether the second memory has room for it, too."""
        if self._spill_capacity is None:
            return True
        # What is there between two steps: copied out after the first, not yet all copied back before the second.
        there = list(map(max, self._spilled, [*self._spilled[1:], 0]))
        spans: dict[int, tuple[int, int, int]] = {}
        for other in (*self.gaps, gap):
            first = other.after if other.held_since is None else other.held_since
            size, begin, end = spans.get(other.contents, (self._sizes[other.value], first, other.before))
            spans[other.contents] = size, min(begin, first), max(end, other.before)
        for size, begin, end in spans.values():
            for step in range(begin, end):
                there[step] += size
        return max(there, default=0) <= self._spill_capacity

    def add(self, gap: Gap) -> None:
        self.gaps.append(gap)
        self._change(gap, -self._sizes[gap.value])

    def remove(self, gap: Gap) -> None:
        self.gaps.remove(gap)
        self._change(gap, self._sizes[gap.value])

    def is_spare(self, gap: Gap) -> bool:
        """Whether it would fit without this one."""
        room = self._capacity - self._sizes[gap.value]
        return max(self._live[gap.after + 1 : gap.before]) <= room

    def _change(self, gap: Gap, bytes: int) -> None:
        for step in range(gap.after + 1, gap.before):
            self._live[step] += bytes


def step_bound(graph: StepGraph) -> Necessary:
    """The step that finds the most bytes in memory even if all but its own values are spilled, and which those are."""
    best = Necessary(0, 0, ())
    for step, used in enumerate(graph.used):
        bytes = sum(graph.values[value].size for value in used) + graph.steps[step].workspace
        if bytes > best.bytes:
            best = Necessary(step, bytes, used)
    return best
