"""Named read-only arrays outside the IR; equal contents are stored once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np


class WeightStore:
    """Name → array. Arrays handed out are read-only, C-contiguous and aligned to 64 bytes."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def add(self, array: np.ndarray, name: str) -> str:
        """Store `array`; return the name to use: that of an equal array already stored, else `name` made unique."""
        raise NotImplementedError

    def get(self, name: str) -> np.ndarray:
        """The array of that name (read-only); `KeyError` if there is none."""
        return self._arrays[name]

    def save(self, path: Path, names: list[str]) -> None:
        """Write the named arrays as a safetensors file, atomically."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: Path) -> WeightStore:
        """Open a safetensors file without reading it whole (memory-mapped)."""
        raise NotImplementedError
