"""Indices of run-time functions: checked, and counted from the beginning."""

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
