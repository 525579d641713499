"""Indices and positions that run-time functions compute with."""

from __future__ import annotations

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime.base import Array


def resolve_indices(indices: Array, size: int, axis: int, out: Array) -> None:
    """Write integer indices to `out` (int64, of the same shape), those below 0 counted from the end of `size`.

    `RunError` if one is out of bounds; `axis` is for the message.
    """
    if not indices.size:
        return
    low, high = int(np.minimum.reduce(indices, axis=None)), int(np.maximum.reduce(indices, axis=None))
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise RunError(f"index {wrong} is out of bounds for axis {axis} of size {size}")
    np.copyto(out, indices)
    if low < 0:
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
