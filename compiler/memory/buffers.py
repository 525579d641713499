"""Buffers with lifetimes, the lower bound of every plan, and the check that a plan is sound.

Time is half-open: a buffer lives in `lower <= t < upper`, so one that ends at `t` and one that starts at `t` may share
bytes. Sizes are bytes, as Python integers without a limit. A buffer takes its size rounded up to its alignment: the
lower bound and the heights of plans all speak of these rounded sizes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlopt.diagnostics import MloptError


class PlanError(MloptError):
    """A plan that would damage memory: two live buffers overlap, or one is misaligned or outside the arena."""


def align_up(size: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `size`."""
    return -(-size // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that are live in `lower <= t < upper`, to be placed at a multiple of `alignment`.

    Raises `ValueError` for an empty lifetime (a buffer that nobody reads is still written, so it lives while its writer
    runs), a negative size, or an alignment below 1.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 64

    def __post_init__(self) -> None:
        if self.lower >= self.upper:
            raise ValueError(f"buffer '{self.id}': lifetime [{self.lower}, {self.upper}) is empty")
        if self.size < 0:
            raise ValueError(f"buffer '{self.id}': size {self.size} is negative")
        if self.alignment < 1:
            raise ValueError(f"buffer '{self.id}': alignment {self.alignment} is below 1")

    @property
    def footprint(self) -> int:
        """The bytes it takes in an arena: its size rounded up to its alignment."""
        return align_up(self.size, self.alignment)

    def overlaps_in_time(self, other: Buffer) -> bool:
        """Whether both are live at some moment."""
        return self.lower < other.upper and other.lower < self.upper


def max_live(buffers: Iterable[Buffer]) -> int:
    """The most bytes (footprints) that are live at one moment: no plan for these lifetimes can be smaller."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.lower] = changes.get(buffer.lower, 0) + buffer.footprint
        changes[buffer.upper] = changes.get(buffer.upper, 0) - buffer.footprint
    live = peak = 0
    for time in sorted(changes):
        live += changes[time]
        peak = max(peak, live)
    return peak


def conflicts(buffers: Sequence[Buffer]) -> Iterator[tuple[int, int]]:
    """All pairs of positions in `buffers` that are live at the same moment and not empty: a sweep over time."""
    live: list[int] = []
    for new in sorted(range(len(buffers)), key=lambda index: (buffers[index].lower, index)):
        if buffers[new].size == 0:
            continue
        live = [old for old in live if buffers[old].upper > buffers[new].lower]
        for old in live:
            yield old, new
        live.append(new)


def check_plan(buffers: Sequence[Buffer], offsets: Mapping[str, int], capacity: int) -> None:
    """Check that `offsets` (bytes, by buffer id) place every buffer aligned, inside `capacity` and apart from others.

    A sweep over time with the live buffers in order of offset: they share no bytes, so a new one needs comparing with
    its two neighbours only. It shares no code with the planner. Buffers of size zero overlap nothing.

    Raises:
        PlanError: naming the buffer, or the two buffers that are live at one moment and share bytes.
        KeyError: if a buffer has no offset.
    """
    for buffer in buffers:
        offset = offsets[buffer.id]
        if offset % buffer.alignment:
            raise PlanError(
                f"buffer '{buffer.id}' is at offset {offset}, which is no multiple of its alignment {buffer.alignment}"
            )
        if offset < 0 or offset + buffer.size > capacity:
            raise PlanError(
                f"buffer '{buffer.id}' takes bytes [{offset}, {offset + buffer.size}) of an arena of {capacity} bytes"
            )
    starts = sorted((buffer for buffer in buffers if buffer.size), key=lambda buffer: buffer.lower)
    expiry: list[tuple[int, int, str]] = []
    live: dict[int, Buffer] = {}
    begins: list[int] = []
    for new in starts:
        while expiry and expiry[0][0] <= new.lower:
            _, gone, _ = heapq.heappop(expiry)
            del live[gone]
            del begins[bisect_left(begins, gone)]
        begin, end = offsets[new.id], offsets[new.id] + new.size
        above = bisect_left(begins, begin)
        for old in (live[other] for other in begins[max(0, above - 1) : above + 1]):
            old_begin = offsets[old.id]
            if begin < old_begin + old.size and old_begin < end:
                raise PlanError(
                    f"buffers '{old.id}' (bytes [{old_begin}, {old_begin + old.size}), live in "
                    f"[{old.lower}, {old.upper})) and '{new.id}' (bytes [{begin}, {end}), live in "
                    f"[{new.lower}, {new.upper})) overlap"
                )
        heapq.heappush(expiry, (new.upper, begin, new.id))
        live[begin] = new
        begins.insert(above, begin)
