"""Arrays at addresses that are multiples of 64 bytes: a cache line, and the widest vector load."""

from __future__ import annotations

import numpy as np

ALIGNMENT = 64
"""Bytes."""


def is_aligned(data: np.ndarray, alignment: int = ALIGNMENT) -> bool:
    """Whether the first element is at a multiple of so many bytes. Without elements, anywhere."""
    return data.nbytes == 0 or data.ctypes.data % alignment == 0


def aligned_copy(data: np.ndarray) -> np.ndarray:
    """A read-only copy of a one-dimensional uint8 array, aligned to 64 bytes."""
    block = np.empty(data.nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    copy = block[start : start + data.nbytes]
    copy[:] = data
    copy.flags.writeable = False
    return copy
