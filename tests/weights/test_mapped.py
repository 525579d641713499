"""Bytes that a file stands behind: what is read, what is copied, and how many files are open for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from mlopt.weights import WeightStore
from mlopt.weights.mapped import MappedFiles, Spill

LARGE = np.random.default_rng(0).standard_normal((128, 256), np.float32)  # 128 KiB


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is part of a mapped file."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return isinstance(base, np.memmap)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def mapped_array(path: Path, offset: int) -> np.ndarray:
    """`LARGE` in a file, at an offset, mapped."""
    path.write_bytes(b"\7" * offset + LARGE.tobytes())
    return MappedFiles().part(path, offset, LARGE.nbytes).view(np.float32).reshape(LARGE.shape)


def test_a_file_is_mapped_once_for_all_its_parts(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(bytes(range(200)) * 100)
    files, before = MappedFiles(), open_files()
    parts = [files.part(tmp_path / "w.bin", start, 10) for start in range(0, 20000, 10)]
    assert open_files() <= before + 1
    assert parts[21].tolist() == list(range(10, 20))
    assert not parts[0].flags.writeable
    assert files.part(tmp_path / "w.bin", 19995, 10).nbytes == 5


def test_parts_of_files_are_handed_out_as_they_lie_there(tmp_path: Path):
    store = WeightStore()
    array = mapped_array(tmp_path / "w.bin", 4)
    got = store.get(store.add(array, "w"))
    assert np.shares_memory(got, array)
    np.testing.assert_array_equal(got, LARGE)


def test_a_part_where_no_element_may_start_is_copied_when_it_is_wanted_and_not_before(tmp_path: Path):
    store = WeightStore()
    array = mapped_array(tmp_path / "w.bin", 3)
    store.add(array, "w")
    assert np.shares_memory(store.view("w"), array)
    np.testing.assert_array_equal(store.view("w"), LARGE)
    got = store.get("w")
    assert got.ctypes.data % 64 == 0
    assert is_mapped(got)
    assert not np.shares_memory(got, array)
    np.testing.assert_array_equal(got, LARGE)


def test_a_transposed_view_of_a_file_is_stored_in_row_major_order(tmp_path: Path):
    store = WeightStore()
    got = store.get(store.add(mapped_array(tmp_path / "w.bin", 0).T, "w"))
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, LARGE.T)


def test_large_new_arrays_are_on_disk_and_small_ones_in_memory():
    store = WeightStore()
    large, small = store.get(store.add(LARGE, "large")), store.get(store.add(LARGE[0], "small"))
    assert (is_mapped(large), is_mapped(small)) == (True, False)
    for got, right in ((large, LARGE), (small, LARGE[0])):
        assert not got.flags.writeable
        assert got.ctypes.data % 64 == 0
        np.testing.assert_array_equal(got, right)


def test_the_disk_space_goes_with_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, spill = open_files(), Spill()
    parts = [spill.moved(np.full(100_000, value, np.uint8)) for value in range(5)]
    assert list(tmp_path.iterdir()) == []  # no name, so nothing stays however the process ends
    del spill
    assert [part[99_999] for part in parts if part is not None] == [0, 1, 2, 3, 4]
    del parts
    assert open_files() == before


def test_without_room_on_disk_arrays_stay_in_memory(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    store = WeightStore()
    got = store.get(store.add(LARGE, "w"))
    assert not is_mapped(got)
    np.testing.assert_array_equal(got, LARGE)


def test_arrays_that_differ_in_a_byte_between_the_samples_are_stored_apart():
    other = LARGE.copy()
    other.view(np.uint8).reshape(-1)[5000] ^= 1
    store = WeightStore()
    assert [store.add(LARGE, "a"), store.add(other, "b")] == ["a", "b"]
    assert [store.add(other, "c"), store.add(LARGE, "d")] == ["b", "a"]
    first = LARGE.copy()
    first[0, 0] += 1
    assert store.add(first, "e") == "e"
    assert store.add(first, "f") == "e"
