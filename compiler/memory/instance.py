"""Buffers by position, with the cliques of their conflict graph: the form in which they are searched."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from mlopt.memory.buffers import Buffer, conflicts


class Instance(NamedTuple):
    """Buffers that take bytes, by position. All sizes and offsets are in units of `unit` bytes.

    Moments are cliques: sets of buffers that are all live at once, each with one that begins after the moment before
    and one that ends before the next. A run is a range of cliques that a buffer is in; `first` and `end` are the
    hull of a buffer's runs.
    """

    unit: int
    sizes: list[int]
    alignments: list[int]
    fixed: list[int]
    """The offset that a buffer must have, or -1."""
    widths: list[int]
    """From the first moment to the last, in the time of the buffers."""
    neighbours: list[list[int]]
    runs: list[list[tuple[int, int]]]
    cliques: list[list[int]]

    @staticmethod
    def of(buffers: Sequence[Buffer]) -> Instance:
        """The instance that these buffers mean; each must have a size."""
        neighbours: list[list[int]] = [[] for _ in buffers]
        for one, other in conflicts(buffers):
            neighbours[one].append(other)
            neighbours[other].append(one)
        unit = unit_of(buffers)
        runs, cliques = find_cliques(buffers)
        return Instance(
            unit,
            [buffer.footprint // unit for buffer in buffers],
            [max(1, buffer.alignment // unit) for buffer in buffers],
            [-1 if buffer.fixed is None else buffer.fixed // unit for buffer in buffers],
            [buffer.upper - buffer.lower for buffer in buffers],
            neighbours,
            runs,
            cliques,
        )

    @property
    def first(self) -> list[int]:
        """The first clique of each buffer."""
        return [runs[0][0] for runs in self.runs]

    @property
    def end(self) -> list[int]:
        """The clique after the last of each buffer."""
        return [runs[-1][1] for runs in self.runs]


def unit_of(buffers: Sequence[Buffer]) -> int:
    """A number of bytes that all offsets and heights of pushed-down plans are multiples of."""
    unit = gcd(*(buffer.footprint for buffer in buffers), *(buffer.fixed or 0 for buffer in buffers))
    if any(unit % buffer.alignment for buffer in buffers):
        unit = gcd(unit, *(buffer.alignment for buffer in buffers))
    return unit


def find_cliques(buffers: Sequence[Buffer]) -> tuple[list[list[tuple[int, int]]], list[list[int]]]:
    """The runs of each buffer, and the buffers in each clique: a sweep over time, ends before beginnings."""
    events = [(upper, 0, i) for i, buffer in enumerate(buffers) for _, upper in buffer.runs]
    events += [(lower, 1, i) for i, buffer in enumerate(buffers) for lower, _ in buffer.runs]
    runs: list[list[tuple[int, int]]] = [[] for _ in buffers]
    cliques: list[list[int]] = []
    live: dict[int, int] = {}
    grown = False
    for _, begins, index in sorted(events):
        if begins:
            live[index] = len(cliques)
            grown = True
            continue
        if grown:
            cliques.append(list(live))
            grown = False
        begin = live.pop(index)
        if runs[index] and runs[index][-1][1] == begin:
            begin = runs[index].pop()[0]
        runs[index].append((begin, len(cliques)))
    return runs, cliques
