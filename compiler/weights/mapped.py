"""Bytes that a file stands behind: files mapped into memory once each, and a file for arrays that have none.

Such memory is no private memory of the process: the system may drop its pages and read them again.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from mlopt.weights.alignment import ALIGNMENT

_CHUNK_BYTES = 1 << 28


class MappedFiles:
    """Files mapped as a whole, each once however many parts of it are asked for: a map keeps a file descriptor open."""

    def __init__(self) -> None:
        self._files: dict[Path, np.memmap] = {}

    def part(self, path: Path, offset: int, length: int) -> np.ndarray:
        """Bytes of a file as one-dimensional uint8, read-only; fewer where the file ends.

        A part is an `np.memmap`. `OSError` if the file can't be read.
        """
        if path not in self._files:
            self._files[path] = np.memmap(path, np.uint8, "r")
        return self._files[path][offset : offset + length]


class Spill:
    """Arrays moved to temporary files without a name, which go when the last array does."""

    def __init__(self) -> None:
        self._file = -1
        self._mapped: np.memmap | None = None
        self._used = 0

    def moved(self, data: np.ndarray) -> np.ndarray | None:
        """A read-only copy of one-dimensional uint8 data, aligned to 64 bytes; None if the disk has no room for it."""
        try:
            mapped = self._with_room_for(data.nbytes)
            start, view = self._used, data.data
            while view.nbytes:
                written = os.pwrite(self._file, view, start + data.nbytes - view.nbytes)
                view = view[written:]
        except OSError:
            return None
        self._used = start + -(-data.nbytes // ALIGNMENT) * ALIGNMENT
        return np.asarray(mapped[start : start + data.nbytes])

    def _with_room_for(self, nbytes: int) -> np.memmap:
        if self._mapped is None or self._used + nbytes > self._mapped.nbytes:
            self._close()
            size = max(_CHUNK_BYTES, nbytes)
            with tempfile.TemporaryFile(prefix="mlopt.") as file:
                file.truncate(size)
                self._mapped = np.memmap(file, np.uint8, "r", shape=(size,))
                self._file = os.dup(file.fileno())
            self._used = 0
        return self._mapped

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self._close()
