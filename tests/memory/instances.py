"""Small instances of the planner, and what is true of them by exhaustive search."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from mlopt.memory import Buffer
from mlopt.memory.buffers import align_up


def fits(buffers: Sequence[Buffer], capacity: int) -> bool:
    """Exhaustive: every multiple of its alignment is tried for each buffer, against all pairs."""
    order = sorted((b for b in buffers if b.size), key=lambda b: (b.fixed is None, b.lower))
    placed: list[tuple[Buffer, int]] = []

    def place(index: int) -> bool:
        if index == len(order):
            return True
        new = order[index]
        last = capacity - new.footprint
        for offset in range(0, last + 1, new.alignment) if new.fixed is None else [new.fixed]:
            if offset <= last and all(
                offset + new.footprint <= at or at + old.footprint <= offset or not new.overlaps_in_time(old)
                for old, at in placed
            ):
                placed.append((new, offset))
                if place(index + 1):
                    return True
                placed.pop()
        return False

    return place(0)


def smallest_height(buffers: Sequence[Buffer]) -> int:
    """The smallest capacity that suffices."""
    height = 0
    while not fits(buffers, height):
        height += 1
    return height


def without_slack(seed: int, moments: int, capacity: int, longest: int) -> list[Buffer]:
    """At each moment new buffers of random sizes and lifetimes start until `capacity` bytes are live.

    The smallest plan of such instances is above max-live now and then; that of others practically never is.
    """
    generator = random.Random(seed)
    buffers: list[Buffer] = []
    for now in range(moments):
        room = capacity - sum(buffer.size for buffer in buffers if buffer.upper > now)
        while room:
            size = generator.randint(1, min(room, capacity // 2))
            end = now + generator.randint(1, longest)
            buffers.append(Buffer(f"b{len(buffers)}", now, end, size, 1))
            room -= size
    return buffers


@st.composite
def any_buffers(draw: st.DrawFn, most: int = 7) -> list[Buffer]:
    """Buffers with alignments and gaps; up to two, one above the other, are fixed."""
    buffers: list[Buffer] = []
    taken = 0
    for index in range(draw(st.integers(0, most))):
        times = sorted(draw(st.lists(st.integers(0, 9), min_size=2, max_size=6, unique=True)))
        gaps = tuple((times[i], times[i + 1]) for i in range(1, len(times) - 2, 2))
        alignment = draw(st.sampled_from([1, 1, 2, 3]))
        size = draw(st.integers(0, 4))
        fixed = None
        if index < 2 and draw(st.integers(0, 3)) == 0:
            fixed = align_up(taken, alignment) + alignment * draw(st.integers(0, 1))
            taken = fixed + size
        buffers.append(Buffer(f"b{index}", times[0], times[-1], size, alignment, fixed, gaps))
    return buffers
