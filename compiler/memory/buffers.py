"""Buffers with lifetimes, the lower bound of every plan, and the check that a plan is sound.

Time is half-open: a buffer lives in `lower <= t < upper`, so one that ends at `t` and one that starts at `t` may share
bytes. Sizes are bytes, as Python integers without a limit. A buffer takes its size rounded up to its alignment, unless
it is fixed: the lower bound and the heights of plans all speak of these rounded sizes.

A buffer may have gaps, times between its first and its last moment at which its contents don't matter: others may have
its bytes then. And it may be fixed: at an offset that somebody else has chosen.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlopt.diagnostics import MloptError


class PlanError(MloptError):
    """A plan that would damage memory: two live buffers overlap, or one is misaligned or outside the arena.

    `buffer` is the id of the one that is misplaced; of two that overlap, of the one that is live later.
    """

    def __init__(self, message: str, buffer: str):
        super().__init__(message)
        self.buffer = buffer


def align_up(size: int, alignment: int) -> int:
    """The smallest multiple of `alignment` that is not below `size`."""
    return -(-size // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that are live in `lower <= t < upper`, to be placed at a multiple of `alignment`.

    `fixed` is the offset it must have, if not None. `gaps` are half-open times within the lifetime, in order and
    apart, at which it is not live.

    Raises `ValueError` for an empty lifetime (a buffer that nobody reads is still written, so it lives while its writer
    runs), a negative size, an alignment below 1, a fixed offset that is negative or no multiple of the alignment, and
    gaps that are empty, out of order, or not inside the lifetime.
    """

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 64
    fixed: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.lower >= self.upper:
            raise ValueError(f"buffer '{self.id}': lifetime [{self.lower}, {self.upper}) is empty")
        if self.size < 0:
            raise ValueError(f"buffer '{self.id}': size {self.size} is negative")
        if self.alignment < 1:
            raise ValueError(f"buffer '{self.id}': alignment {self.alignment} is below 1")
        if self.fixed is not None and (self.fixed < 0 or self.fixed % self.alignment):
            raise ValueError(
                f"buffer '{self.id}': fixed offset {self.fixed} is no multiple of its alignment {self.alignment}"
            )
        end = self.lower
        for begin, stop in self.gaps:
            if not end < begin < stop < self.upper:
                raise ValueError(
                    f"buffer '{self.id}': gap [{begin}, {stop}) is not within [{self.lower}, {self.upper}), or "
                    "empty, or does not come after the gap before it"
                )
            end = stop

    @property
    def footprint(self) -> int:
        """The bytes it takes in an arena: its size rounded up to its alignment; of a fixed one, its size."""
        return align_up(self.size, self.alignment) if self.fixed is None else self.size

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The half-open times at which it is live, in order."""
        if not self.gaps:
            return [(self.lower, self.upper)]
        begins = [self.lower, *(stop for _, stop in self.gaps)]
        return list(zip(begins, [*(begin for begin, _ in self.gaps), self.upper], strict=True))

    def overlaps_in_time(self, other: Buffer) -> bool:
        """Whether both are live at some moment."""
        if not self.gaps and not other.gaps:
            return self.lower < other.upper and other.lower < self.upper
        return any(a < d and c < b for a, b in self.runs for c, d in other.runs)


def max_live(buffers: Iterable[Buffer]) -> int:
    """The most bytes (footprints) that are live at one moment: no plan for these lifetimes can be smaller.

    Nor can it be smaller than where a fixed buffer ends.
    """
    changes: dict[int, int] = {}
    peak = 0
    for buffer in buffers:
        footprint = buffer.footprint
        for lower, upper in buffer.runs if buffer.gaps else ((buffer.lower, buffer.upper),):
            changes[lower] = changes.get(lower, 0) + footprint
            changes[upper] = changes.get(upper, 0) - footprint
        if buffer.fixed is not None and buffer.size:
            peak = max(peak, buffer.fixed + footprint)
    live = 0
    for time in sorted(changes):
        live += changes[time]
        peak = max(peak, live)
    return peak


def conflicts(buffers: Sequence[Buffer]) -> Iterator[tuple[int, int]]:
    """All pairs of positions in `buffers` that are live at the same moment and not empty, each once.

    A sweep over time; a pair of which one has gaps is tried by its hull.
    """
    live: list[int] = []
    for new in sorted(range(len(buffers)), key=lambda index: (buffers[index].lower, index)):
        buffer = buffers[new]
        if buffer.size == 0:
            continue
        lower = buffer.lower
        live = [old for old in live if buffers[old].upper > lower]
        for old in live:
            if not (buffer.gaps or buffers[old].gaps) or buffer.overlaps_in_time(buffers[old]):
                yield old, new
        live.append(new)


def check_plan(buffers: Sequence[Buffer], offsets: Mapping[str, int], capacity: int) -> None:
    """Check that `offsets` (bytes, by buffer id) place every buffer aligned, inside `capacity` and apart from others.

    A fixed buffer must be where it is fixed. A sweep over time with the live buffers in order of offset: they share no
    bytes, so a new one needs comparing with its two neighbours only. It shares no code with the planner. Buffers of
    size zero overlap nothing, and may be fixed anywhere.

    Raises:
        PlanError: naming the buffer, or the two buffers that are live at one moment and share bytes.
        KeyError: if a buffer has no offset.
    """
    for buffer in buffers:
        offset = offsets[buffer.id]
        if offset % buffer.alignment:
            raise PlanError(
                f"buffer '{buffer.id}' is at offset {offset}, which is no multiple of its alignment {buffer.alignment}",
                buffer.id,
            )
        if buffer.fixed is not None and offset != buffer.fixed:
            raise PlanError(
                f"buffer '{buffer.id}' is at offset {offset}, and fixed at {buffer.fixed}", buffer.id
            )
        inside = offset + buffer.size <= capacity or (buffer.fixed is not None and not buffer.size)
        if offset < 0 or not inside:
            raise PlanError(
                f"buffer '{buffer.id}' takes bytes [{offset}, {offset + buffer.size}) of an arena of {capacity} bytes",
                buffer.id,
            )
    runs = [(lower, upper, buffer) for buffer in buffers if buffer.size for lower, upper in buffer.runs]
    expiry: list[tuple[int, int]] = []
    live: dict[int, tuple[int, int, Buffer]] = {}
    begins: list[int] = []
    for lower, upper, new in sorted(runs, key=lambda run: run[0]):
        while expiry and expiry[0][0] <= lower:
            _, gone = heapq.heappop(expiry)
            del live[gone]
            del begins[bisect_left(begins, gone)]
        begin, end = offsets[new.id], offsets[new.id] + new.size
        above = bisect_left(begins, begin)
        for old_lower, old_upper, old in (live[other] for other in begins[max(0, above - 1) : above + 1]):
            old_begin = offsets[old.id]
            if begin < old_begin + old.size and old_begin < end:
                raise PlanError(
                    f"buffers '{old.id}' (bytes [{old_begin}, {old_begin + old.size}), live in "
                    f"[{old_lower}, {old_upper})) and '{new.id}' (bytes [{begin}, {end}), live in "
                    f"[{lower}, {upper})) overlap",
                    new.id,
                )
        heapq.heappush(expiry, (upper, begin))
        live[begin] = (lower, upper, new)
        begins.insert(above, begin)
