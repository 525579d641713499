"""Plans of very many buffers, cut in time: segments that are searched one by one.

Cuts are put where little is live. The buffers that live across a cut are stacked at the bottom first, those that live
on for longest lowest; from then on they are fixed, and what lies between two cuts is an instance of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

from mlopt.memory.buffers import Buffer, align_up
from mlopt.memory.descent import Budget, Descents
from mlopt.memory.instance import Instance
from mlopt.memory.kernel import FOUND
from mlopt.memory.native import NativeKernel

LENGTHS = (1200, 2000, 700)
"""Buffers that begin in one segment at most: what one way of cutting makes hard is easy in another."""


class Segments:
    """A component in segments, in each of which at most `longest` buffers begin.

    `buffers` are in order of their beginnings, and none is empty.
    """

    def __init__(self, buffers: Sequence[Buffer], longest: int, compiled: NativeKernel | None):
        cuts = _cuts(buffers, longest)
        places = _stack_across(buffers, cuts)
        self.offsets = [places.get(index, 0) for index in range(len(buffers))]
        self._bottom = max((places[i] + buffers[i].footprint for i in places), default=0)
        self._segments = [
            _Segment(buffers, members, places, lower, upper, compiled)
            for (lower, upper), members in zip(pairwise(cuts), _members(buffers, cuts), strict=True)
        ]
        self._segments.sort(key=lambda segment: -segment.nodes)

    def fit(self, capacity: int, effort: int, budget: Budget) -> bool:
        """Whether a plan within `capacity` is found, with `effort` nodes for each buffer and ranking; see `offsets`."""
        if self._bottom > capacity:
            return False
        for segment in self._segments:
            if segment.height > capacity and not segment.fit(capacity, effort, budget):
                return False
        for segment in self._segments:
            for index, offset in segment.offsets:
                self.offsets[index] = offset
        return True


class _Segment:
    """What is live between two cuts, and the best offsets found for it."""

    def __init__(
        self,
        buffers: Sequence[Buffer],
        members: Sequence[int],
        places: dict[int, int],
        lower: float,
        upper: float,
        compiled: NativeKernel | None,
    ):
        self.height: float = inf
        self.offsets: list[tuple[int, int]] = []
        self.nodes = len(members)
        self._members = members
        self._buffers = [
            confined(buffers[i], places[i], lower, upper) if i in places else buffers[i] for i in members
        ]
        self._compiled = compiled
        self._descents: Descents | None = None

    def fit(self, capacity: int, effort: int, budget: Budget) -> bool:
        """Whether a plan within `capacity` is found."""
        if self._descents is None:
            self._descents = Descents(Instance.of(self._buffers), self._compiled)
        if self._descents.attempt(capacity, effort * self.nodes, budget) != FOUND:
            return False
        self.height = capacity
        self.offsets = list(zip(self._members, self._descents.offsets, strict=True))
        return True


def confined(buffer: Buffer, offset: int, lower: float, upper: float) -> Buffer:
    """A buffer fixed where it is, as far as it is seen from a stretch of time."""
    if buffer.gaps:
        return replace(buffer, size=buffer.footprint, fixed=offset)
    begin, end = max(buffer.lower, lower), min(buffer.upper, upper)
    return replace(buffer, size=buffer.footprint, fixed=offset, lower=int(begin), upper=int(end))


def _cuts(buffers: Sequence[Buffer], longest: int) -> list[float]:
    """Moments between segments, with an infinity at either end: each where the fewest bytes live on from before."""
    cuts: list[float] = [-inf]
    crossing = _crossing_bytes(buffers)
    last = 0
    while len(buffers) - last > longest:
        last = min(range(last + longest // 3, last + longest), key=lambda i: (crossing[i], i))
        cuts.append(buffers[last].lower)
    return [*cuts, inf]


def _crossing_bytes(buffers: Sequence[Buffer]) -> list[int]:
    """For each buffer, the bytes that are live both before and after it begins."""
    changes = sorted(
        [(buffer.lower, buffer.footprint) for buffer in buffers]
        + [(buffer.upper, -buffer.footprint) for buffer in buffers]
    )
    crossing: list[int] = []
    live = position = 0
    for buffer in buffers:
        while position < len(changes) and changes[position][0] < buffer.lower:
            live += changes[position][1]
            position += 1
        ended = position
        gone = 0
        while ended < len(changes) and changes[ended][0] == buffer.lower and changes[ended][1] < 0:
            gone += changes[ended][1]
            ended += 1
        crossing.append(live + gone)
    return crossing


def _members(buffers: Sequence[Buffer], cuts: Sequence[float]) -> list[list[int]]:
    """The buffers that live between each two cuts."""
    members: list[list[int]] = [[] for _ in cuts[1:]]
    segment = 0
    for index, buffer in enumerate(buffers):
        while buffer.lower >= cuts[segment + 1]:
            segment += 1
        reached = segment
        while reached < len(members) and cuts[reached] < buffer.upper:
            members[reached].append(index)
            reached += 1
    return members


def _stack_across(buffers: Sequence[Buffer], cuts: Sequence[float]) -> dict[int, int]:
    """Offsets of the buffers that live across cuts, and of the fixed ones: each in the lowest gap."""
    places = {index: buffer.fixed for index, buffer in enumerate(buffers) if buffer.fixed is not None}
    across: set[int] = set()
    for before, after in pairwise(_members(buffers, cuts)):
        across |= set(before) & set(after)
    placed = sorted(places)
    for index in sorted(across - places.keys(), key=lambda i: (buffers[i].lower - buffers[i].upper, i)):
        buffer = buffers[index]
        busy = sorted(
            (places[other], places[other] + buffers[other].footprint)
            for other in placed
            if buffer.overlaps_in_time(buffers[other])
        )
        start = 0
        for gap_end, next_start in busy:
            if start + buffer.footprint <= gap_end:
                break
            start = max(start, align_up(next_start, buffer.alignment))
        places[index] = start
        placed.append(index)
    return places
