"""Placing buffers as a memory allocator would: as time goes by, each into the smallest free gap that holds it.

No pair of buffers is ever looked at, so that it does for instances with far too many for the planner's greedy orders.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence

from mlopt.memory.buffers import Buffer, align_up


def allocate_in_time(buffers: Sequence[Buffer]) -> list[int]:
    """The offset of each buffer, those that begin at one moment from the largest to the smallest; O(n log n)."""
    offsets = [0] * len(buffers)
    present = (index for index, buffer in enumerate(buffers) if buffer.size)
    gaps = _Gaps()
    live: list[tuple[int, int]] = []
    for index in sorted(present, key=lambda i: (buffers[i].lower, -buffers[i].footprint, i)):
        buffer = buffers[index]
        while live and live[0][0] <= buffer.lower:
            _, gone = heapq.heappop(live)
            gaps.free(offsets[gone], offsets[gone] + buffers[gone].footprint)
        offsets[index] = gaps.take(buffer.footprint, buffer.alignment)
        heapq.heappush(live, (buffer.upper, index))
    return offsets


class _Gaps:
    """What is free below the top, by size and by both ends; two gaps never touch, and none touches the top."""

    def __init__(self) -> None:
        self._top = 0
        self._by_size: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        self._begin_of: dict[int, int] = {}

    def take(self, size: int, alignment: int) -> int:
        """Take `size` bytes from the smallest gap that has them at a multiple of `alignment`, else from the top."""
        for position in range(bisect_left(self._by_size, (size, 0)), len(self._by_size)):
            length, begin = self._by_size[position]
            start, end = align_up(begin, alignment), begin + length
            if start + size <= end:
                self._remove(begin, end)
                self._add(begin, start)
                self._add(start + size, end)
                return start
        start = align_up(self._top, alignment)
        self._add(self._top, start)
        self._top = start + size
        return start

    def free(self, begin: int, end: int) -> None:
        """Give bytes back, joined with the free ones on both sides."""
        before, after = self._begin_of.get(begin), self._end_of.get(end)
        if before is not None:
            self._remove(before, begin)
            begin = before
        if after is not None:
            self._remove(end, after)
            end = after
        if end == self._top:
            self._top = begin
        else:
            self._add(begin, end)

    def _add(self, begin: int, end: int) -> None:
        if begin < end:
            insort(self._by_size, (end - begin, begin))
            self._end_of[begin] = end
            self._begin_of[end] = begin

    def _remove(self, begin: int, end: int) -> None:
        del self._by_size[bisect_left(self._by_size, (end - begin, begin))]
        del self._end_of[begin], self._begin_of[end]
