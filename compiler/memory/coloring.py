"""Colouring interval graphs: buffers in blocks, one at a time in each.

The left-edge rule, buffers by start and the first free block, needs as many blocks as buffers live at one moment,
which is the fewest (Hashimoto and Stevens, "Wire routing by optimizing channel assignment", DAC 1971). For buffers of
equal size the plan is as small as can be; else blocks are as large as the largest buffer in them. Gaps in lifetimes
are not used.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import lcm

from mlopt.memory.buffers import Buffer, align_up


def color_equal_sizes(buffers: Sequence[Buffer], base: int) -> list[int]:
    """The offset of each buffer, from `base` on: only those of equal size and alignment share blocks.

    Fixed buffers are where they are fixed; so in `color_all`.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for index, buffer in enumerate(buffers):
        groups.setdefault((buffer.alignment, buffer.size), []).append(index)
    return _place(buffers, list(groups.values()), base)


def color_all(buffers: Sequence[Buffer], base: int) -> list[int]:
    """The offset of each buffer, from `base` on, with as few blocks as buffers live at one moment."""
    return _place(buffers, [list(range(len(buffers)))], base)


def _place(buffers: Sequence[Buffer], groups: Sequence[Sequence[int]], base: int) -> list[int]:
    offsets = [0 if buffer.fixed is None else buffer.fixed for buffer in buffers]
    end = base
    for group in groups:
        for block in _blocks(buffers, [index for index in group if buffers[index].fixed is None]):
            begin = align_up(end, lcm(*(buffers[index].alignment for index in block)))
            for index in block:
                offsets[index] = begin
            end = begin + max(buffers[index].footprint for index in block)
    return offsets


def _blocks(buffers: Sequence[Buffer], members: Sequence[int]) -> list[list[int]]:
    """The members of each block; of the free blocks, the first is taken."""
    blocks: list[list[int]] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for index in sorted(members, key=lambda index: (buffers[index].lower, index)):
        while busy and busy[0][0] <= buffers[index].lower:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            block = heapq.heappop(free)
        else:
            block = len(blocks)
            blocks.append([])
        blocks[block].append(index)
        heapq.heappush(busy, (buffers[index].upper, block))
    return blocks
