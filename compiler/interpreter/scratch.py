"""Scratch memory of one function: a stack of temporaries in its workspace.

Code generators ask for what they need for one step and give it back after it. Where the workspace can't hold even the
smallest blocks, the session's own memory takes over (and is counted), so that a plan can always be made.

What a code generator does depends on the capacity only through `fits` and `room`. So what it asked there tells at which
capacities it would do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np

from mlopt.interpreter.plan import Memory
from mlopt.interpreter.views import Region, View, row_major

ALIGNMENT = 64
UNLIMITED = 1 << 62

SCARCE = 1
"""A capacity with which code takes as few bytes as it can, at any cost in time. With 0 it takes what is reasonable."""


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Scratch:
    """Bytes `base` to `base + capacity` of `region`, used as a stack.

    `peak` is the most that was in use. `asked` is the least capacity with which every answer so far would have been
    the same as without a limit; 0 if nobody asked for anything.
    """

    def __init__(self, memory: Memory, region: Region, base: int, capacity: int):
        self.peak = 0
        self.asked = 0
        self._memory = memory
        self._region = region
        self._base = base
        self._capacity = capacity
        self._top = 0
        self._spills = 0

    def fits(self, nbytes: int) -> bool:
        """Whether `nbytes` are left. Nothing always fits."""
        if nbytes <= 0:
            return True
        self.asked = max(self.asked, self._top + nbytes)
        return self._top + nbytes <= self._capacity

    def is_spare(self, nbytes: int) -> bool:
        """Whether `nbytes` are left in what is there anyway: for what is good to have, and not worth memory."""
        return self.fits(nbytes)

    @property
    def room(self) -> int:
        """Bytes that are left, for those to whom every byte may make a difference; `SCARCE` if all are taken."""
        self.asked = UNLIMITED
        return max(min(SCARCE, self._capacity), self._capacity - self._top)

    @contextmanager
    def frame(self) -> Generator[None]:
        """What is taken inside is given back at the end."""
        top, spills = self._top, self._spills
        try:
            yield
        finally:
            self._top, self._spills = top, spills

    def take(self, nbytes: int) -> tuple[Region, int]:
        """A region and an offset in it, with at least `nbytes` from there on."""
        nbytes = aligned(nbytes)
        self.peak = max(self.peak, self._top + nbytes)
        if self._memory.measuring or self._top + nbytes <= self._capacity:
            offset = self._base + self._top
            self._top += nbytes
            return self._region, offset
        self._spills += 1
        return self._memory.spill(self._spills - 1, nbytes), 0

    def array(self, shape: Sequence[int], dtype: np.dtype) -> View:
        """A contiguous view of fresh memory."""
        shape = tuple(shape)
        strides = row_major(shape, dtype.itemsize)
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        region, offset = self.take(nbytes)
        return View(region, offset, shape, strides, dtype)


class LateScratch(Scratch):
    """Scratch in all of a region that `provide` makes when it is first asked for any; None stands for no bytes."""

    def __init__(self, memory: Memory, provide: Callable[[], Region | None]):
        # Temporaries without elements lie in a region, too.
        super().__init__(memory, Region("scratch", 0, np.empty(0, np.uint8)), 0, 0)
        self._provide: Callable[[], Region | None] | None = provide

    def fits(self, nbytes: int) -> bool:
        if nbytes > 0:
            self._demand()
        return super().fits(nbytes)

    def is_spare(self, nbytes: int) -> bool:
        return self._provide is None and super().fits(nbytes)

    @property
    def room(self) -> int:
        self._demand()
        return super().room

    def take(self, nbytes: int) -> tuple[Region, int]:
        if nbytes > 0:
            self._demand()
        return super().take(nbytes)

    def _demand(self) -> None:
        provide, self._provide = self._provide, None
        region = None if provide is None else provide()
        if region is not None:
            self._region, self._capacity = region, region.nbytes
