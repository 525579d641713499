"""Indices and positions that run-time functions compute with."""

from __future__ import annotations

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime.base import Array


def check_indices(indices: Array, size: int, axis: int) -> bool:
    """Whether some integer indices into an axis of `size` are below 0, and so count from its end.

    `RunError` if one is out of bounds; `axis` is for the message.
    """
    if not indices.size:
        return False
    low, high = int(np.minimum.reduce(indices, axis=None)), int(np.maximum.reduce(indices, axis=None))
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise RunError(f"index {wrong} is out of bounds for axis {axis} of size {size}")
    return low < 0


def copy_indices(indices: Array, size: int, wraps: bool, out: Array) -> None:
    """Copy indices that are in bounds to `out` (int64, of the same shape); `wraps` if some count from the end."""
    np.copyto(out, indices)
    if wraps:
        np.remainder(out, size, out=out)


def count_up(out: Array) -> Array:
    """Fill a vector with 0, 1, 2, ..., without memory of its own; returns it."""
    filled = 1
    out[:1] = 0
    while filled < out.size:
        more = min(filled, out.size - filled)
        np.add(out[:more], filled, out=out[filled : filled + more])
        filled += more
    return out
