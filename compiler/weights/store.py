"""Named read-only arrays outside the IR; equal contents are stored once.

On disk a store is a safetensors file. Files written here keep every array whose size allows it at a multiple
of 64 bytes, so that opening one maps it into memory and copies only the few arrays that stand elsewhere.

Large arrays are never private memory of the process: those that come from a file stay mapped, those that a pass has
computed go to a temporary file, and so do copies of what stands in its file where no element may start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlopt.diagnostics import InputError
from mlopt.weights import safetensors_file
from mlopt.weights.alignment import ALIGNMENT, aligned_copy, is_aligned
from mlopt.weights.mapped import Spill
from mlopt.weights.sub_byte import extended, is_extended

_Kind = tuple[np.dtype, tuple[int, ...]]
_SAMPLES = 16
_SAMPLE_BYTES = 64
_LARGE_BYTES = 1 << 16
"""Arrays of at least so many bytes are large: a file stands behind them."""

_RESERVED_NAME = "__metadata__"


class _Entry(NamedTuple):
    """One stored array: its type, and its bytes (in memory, or a part of a mapped file)."""

    dtype: np.dtype
    shape: tuple[int, ...]
    data: np.ndarray  # one-dimensional uint8, read-only
    mapped: bool = False  # from a file of others: aligned as it happens to be

    def array(self) -> np.ndarray:
        array = self.data.view(self.dtype).reshape(self.shape)
        array.flags.writeable = False
        return array


class WeightStore:
    """Name → array. Arrays handed out are read-only, C-contiguous and aligned to 64 bytes.

    A large array of a mapped file is handed out as it lies there, if it is aligned as its dtype needs.
    Two arrays are equal when dtype, shape and bytes are: `0.0` and `-0.0` differ, a NaN equals the same NaN.
    Contents are looked at only when another array of the same dtype and shape is there: some of their bytes first, and
    where these are equal too, all of them, once each.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # Where to look for an equal array: names by what is known of their contents so far.
        self._unread: dict[_Kind, list[str]] = {}
        self._by_sample: dict[tuple[_Kind, bytes], list[str]] = {}
        self._by_digest: dict[tuple[_Kind, bytes], str] = {}
        self._spill = Spill()

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, array: np.ndarray, name: str) -> str:
        """Store `array`; return the name to use: that of an equal stored array, else `name` made unique.

        The array is copied, so that later writes to it do not reach the store; a read-only `np.memmap` is
        kept as it is and not read. `InputError` if the dtype can't be stored (strings, objects).
        """
        if not safetensors_file.is_storable(array.dtype.newbyteorder("=")):
            raise InputError(f'weight "{name}" has the type {array.dtype}, which is not supported')
        array = extended(_little_endian(array))
        data = _bytes_of(array)
        kind = (array.dtype, array.shape)
        equal = self._find_equal(data, kind)
        if equal is not None:
            return equal
        name = self._unique_name(name)
        mapped = isinstance(array, np.memmap) and array.mode == "r" and array.flags.c_contiguous
        self._entries[name] = _Entry(array.dtype, array.shape, data if mapped else self._copy(data), mapped)
        self._unread.setdefault(kind, []).append(name)
        return name

    def view(self, name: str) -> np.ndarray:
        """As `get`, but nothing is copied: an array of a mapped file has the alignment that it has there.

        For reading a constant while compiling; numpy takes such arrays, more slowly.
        """
        entry = self._entries[name]
        return entry.array() if is_extended(entry.array()) else self.get(name)

    def get(self, name: str) -> np.ndarray:
        """The array of that name (read-only); `KeyError` if there is none.

        Elements of less than a byte are extended to it, whatever a file's bytes were.
        """
        entry = self._entries[name]
        data = entry.data if is_extended(entry.array()) else _bytes_of(extended(entry.array()))
        stays = entry.mapped and data.nbytes >= _LARGE_BYTES
        if not is_aligned(data, entry.dtype.alignment if stays else ALIGNMENT):
            data = self._copy(data)
        if data is not entry.data:
            entry = _Entry(entry.dtype, entry.shape, data)
            self._entries[name] = entry
        return entry.array()

    def dtype(self, name: str) -> np.dtype:
        """The dtype of the array of that name; its contents are not read."""
        return self._entries[name].dtype

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the array of that name; its contents are not read."""
        return self._entries[name].shape

    def nbytes(self, name: str) -> int:
        """Bytes of the array of that name in memory; its contents are not read."""
        return self._entries[name].data.nbytes

    def retain(self, names: Iterable[str]) -> list[str]:
        """Drop every array that is not named in `names`; return the names dropped."""
        kept = set(names)
        dropped = [name for name in self._entries if name not in kept]
        for name in dropped:
            del self._entries[name]
        gone = set(dropped)
        self._by_digest = {key: name for key, name in self._by_digest.items() if name not in gone}
        for pending in (*self._unread.values(), *self._by_sample.values()):
            pending[:] = [name for name in pending if name not in gone]
        return dropped

    def save(self, path: Path, names: Iterable[str]) -> None:
        """Write the named arrays as a safetensors file, atomically: the old file or the whole new one.

        `KeyError` if a name is not in the store; `InputError` if the file can't be written.
        """
        entries = {name: self._entries[name] for name in dict.fromkeys(names)}
        safetensors_file.write(path, {name: (e.dtype, e.shape, e.data) for name, e in entries.items()})

    @classmethod
    def load(cls, path: Path) -> WeightStore:
        """Open a safetensors file without reading it whole (memory-mapped).

        `InputError` if the file is missing, truncated, no safetensors file, or holds a type that numpy lacks.
        """
        store = cls()
        for name, (dtype, shape, data) in safetensors_file.open_mapped(path).items():
            store._entries[name] = _Entry(dtype, shape, data, mapped=True)
            store._unread.setdefault((dtype, shape), []).append(name)
        return store

    def _copy(self, data: np.ndarray) -> np.ndarray:
        """An aligned read-only copy of bytes, on disk if they are many."""
        moved = self._spill.moved(data) if data.nbytes >= _LARGE_BYTES else None
        return aligned_copy(data) if moved is None else moved

    def _find_equal(self, data: np.ndarray, kind: _Kind) -> str | None:
        """The name of a stored array of that kind with the same bytes."""
        unread = self._unread.get(kind)
        if unread is None:
            return None
        for name in unread:
            self._by_sample.setdefault((kind, _sample(self._entries[name].data)), []).append(name)
        unread.clear()
        unhashed = self._by_sample.get((kind, _sample(data)))
        if unhashed is None:
            return None
        for name in unhashed:
            self._by_digest.setdefault((kind, _digest(self._entries[name].data)), name)
        unhashed.clear()
        return self._by_digest.get((kind, _digest(data)))

    def _unique_name(self, name: str) -> str:
        candidate = base = name or "weight"
        number = 0
        while candidate in self._entries or candidate == _RESERVED_NAME:
            number += 1
            candidate = f"{base}_{number}"
        return candidate


def _little_endian(array: np.ndarray) -> np.ndarray:
    if array.dtype.byteorder == ">":
        return array.astype(array.dtype.newbyteorder("<"))
    return array


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The elements in row-major order as a one-dimensional uint8 array (a view where possible)."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _sample(data: np.ndarray) -> bytes:
    """Some of the bytes, from places all over."""
    step = max(_SAMPLE_BYTES, data.nbytes // _SAMPLES)
    return b"".join(data[start : start + _SAMPLE_BYTES].tobytes() for start in range(0, data.nbytes, step))


def _digest(data: np.ndarray) -> bytes:
    return hashlib.sha256(data.data).digest()
