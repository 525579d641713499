"""Plans of very many buffers, mended window by window: large neighbourhoods around what is too high.

A good greedy plan is too high in a few places only. There, the buffers that live within a stretch of time are taken
out, together with all that are too high, and placed anew by descents of the search, while the others stay where they
are: they are fixed buffers of a small instance.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from mlopt.memory.buffers import Buffer
from mlopt.memory.descent import Budget, Descents
from mlopt.memory.instance import Instance
from mlopt.memory.kernel import FOUND
from mlopt.memory.native import NativeKernel
from mlopt.memory.segments import confined

_SIZES = (50, 200, 800)
"""Buffers around a fault that are placed anew; more if with fewer it fails."""

_NODES = 2
"""Nodes of one descent, for each buffer of the window."""


def mend(
    buffers: Sequence[Buffer],
    offsets: list[int],
    capacity: int,
    budget: Budget,
    compiled: NativeKernel | None,
) -> bool:
    """Whether the plan was brought within `capacity`; what could be mended is, in `offsets`, in any case.

    `buffers` are in order of their beginnings.
    """
    begins = [buffer.lower for buffer in buffers]
    for index, buffer in enumerate(buffers):
        if offsets[index] + buffer.footprint <= capacity:
            continue
        if buffer.fixed is not None:
            return False
        if not any(
            _mend_window(buffers, begins, offsets, index, size, capacity, budget, compiled) for size in _SIZES
        ):
            return False
    return True


def _mend_window(
    buffers: Sequence[Buffer],
    begins: Sequence[int],
    offsets: list[int],
    fault: int,
    size: int,
    capacity: int,
    budget: Budget,
    compiled: NativeKernel | None,
) -> bool:
    """Place a buffer that is too high, and some `size` around it, within the capacity, if a descent finds how."""
    if budget.left <= 0:
        return False
    last = bisect_left(begins, buffers[fault].upper)
    lower = begins[max(0, fault - size // 2)]
    upper = max(buffers[fault].upper, begins[min(len(begins) - 1, last + size // 2)])
    around = [i for i in range(bisect_left(begins, upper)) if buffers[i].upper > lower]
    free = {
        i
        for i in around
        if buffers[i].fixed is None
        and (
            (lower <= begins[i] and buffers[i].upper <= upper) or offsets[i] + buffers[i].footprint > capacity
        )
    }
    free.add(fault)
    lower = min(begins[i] for i in free)
    upper = max(buffers[i].upper for i in free)
    members = [
        i
        for i in range(bisect_left(begins, upper))
        if buffers[i].upper > lower and (i in free or offsets[i] + buffers[i].footprint <= capacity)
    ]
    stay = [buffers[i] if i in free else confined(buffers[i], offsets[i], lower, upper) for i in members]
    descents = Descents(Instance.of(stay), compiled)
    if descents.attempt(capacity, _NODES * len(stay), budget) != FOUND:
        return False
    for i, offset in zip(members, descents.offsets, strict=True):
        offsets[i] = offset
    return True
