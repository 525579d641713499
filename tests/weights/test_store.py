"""The weight store: equal contents once, unique names, alignment, and the file format.

Right values come from numpy, and from the `safetensors` package as the outside reader and writer.
"""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from mlopt.diagnostics import InputError
from mlopt.weights import WeightStore
from mlopt.weights.sub_byte import extended


def test_equal_arrays_are_stored_once():
    store = WeightStore()
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert store.add(a, "a") == "a"
    assert store.add(a.copy(), "b") == "a"
    assert store.add(np.asfortranarray(a), "c") == "a"
    assert list(store) == ["a"]


@pytest.mark.parametrize(
    "other",
    [
        np.arange(6, dtype=np.float32),  # another shape
        np.arange(6, dtype=np.float32).reshape(2, 3).view(np.int32),  # another dtype
        np.arange(6, dtype=np.float32).reshape(2, 3) + 1,  # other values
    ],
)
def test_arrays_that_differ_are_stored_apart(other: np.ndarray):
    store = WeightStore()
    store.add(np.arange(6, dtype=np.float32).reshape(2, 3), "a")
    assert store.add(other, "a") == "a_1"
    np.testing.assert_array_equal(store.get("a_1"), other)


def test_equality_is_of_bytes():
    store = WeightStore()
    store.add(np.array([0.0]), "zero")
    assert store.add(np.array([-0.0]), "minus_zero") == "minus_zero"
    store.add(np.array([np.nan]), "nan")
    assert store.add(np.array([np.nan]), "other") == "nan"


def test_names_are_unique():
    store = WeightStore()
    assert store.add(np.array([1]), "a") == "a"
    assert store.add(np.array([2]), "a_1") == "a_1"
    assert store.add(np.array([3]), "a") == "a_2"
    assert store.add(np.array([4]), "") == "weight"
    assert store.add(np.array([5]), "__metadata__") == "__metadata___1"


def test_arrays_are_read_only_contiguous_and_aligned():
    store = WeightStore()
    block = np.zeros(1000, np.uint8)
    for offset in range(4):
        name = store.add(block[offset : offset + 7] + offset, f"w{offset}")
        got = store.get(name)
        assert got.ctypes.data % 64 == 0
        assert got.flags.c_contiguous
        assert not got.flags.writeable
    transposed = store.get(store.add(np.arange(6.0).reshape(2, 3).T, "t"))
    assert transposed.flags.c_contiguous
    np.testing.assert_array_equal(transposed, [[0, 3], [1, 4], [2, 5]])


def test_later_writes_to_the_array_do_not_reach_the_store():
    store = WeightStore()
    array = np.ones(3)
    frozen = array[:]
    frozen.flags.writeable = False
    store.add(frozen, "w")
    array[:] = 7
    np.testing.assert_array_equal(store.get("w"), [1, 1, 1])


def test_type_shape_and_size_without_the_data():
    store = WeightStore()
    store.add(np.zeros((3, 0, 2), np.int16), "empty")
    store.add(np.zeros((3, 2), np.int16), "w")
    store.add(np.array(1.5), "scalar")
    assert (store.dtype("w"), store.shape("w"), store.nbytes("w")) == (np.int16, (3, 2), 12)
    assert (store.shape("empty"), store.nbytes("empty")) == ((3, 0, 2), 0)
    assert (store.shape("scalar"), store.nbytes("scalar")) == ((), 8)
    assert store.get("scalar") == 1.5
    with pytest.raises(KeyError):
        store.get("missing")


def test_big_endian_arrays_are_stored_in_native_order():
    store = WeightStore()
    name = store.add(np.array([1, 2], ">i4"), "w")
    assert store.dtype(name) == np.dtype("<i4")
    np.testing.assert_array_equal(store.get(name), [1, 2])


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None], dtype=object)])
def test_arrays_without_a_numeric_type_are_refused(array: np.ndarray):
    with pytest.raises(InputError, match=r'weight "w" has the type .* not supported'):
        WeightStore().add(array, "w")


def test_retain_drops_the_others_and_forgets_their_contents():
    store = WeightStore()
    store.add(np.array([1.0]), "a")
    store.add(np.array([2.0]), "b")
    store.add(np.array([2.0]), "again")
    assert store.retain(["a", "unknown"]) == ["b"]
    assert list(store) == ["a"]
    assert store.add(np.array([2.0]), "c") == "c"


ARRAYS = {
    "bool": np.array([True, False]),
    "int8": np.array([-1, 2], np.int8),
    "uint64": np.array([2**64 - 1], np.uint64),
    "float16": np.array([1.5, np.inf], np.float16),
    "float32": np.arange(48, dtype=np.float32).reshape(3, 16),
    "float64": np.array(0.1),
    "complex64": np.array([1 + 2j], np.complex64),
    "complex128": np.array([[1 + 2j, 3j]], np.complex128),
    "bfloat16": np.array([1.0, -2.0], ml_dtypes.bfloat16),
    "f8e4m3": np.array([0.5, 448.0], ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.array([0.5, np.inf], ml_dtypes.float8_e5m2),
    "int4": np.array([-8, 7], ml_dtypes.int4),
    "uint4": np.array([[15]], ml_dtypes.uint4),
    "int2": np.array([-2, 1], ml_dtypes.int2),
    "f4": np.array([-6, 0.5], ml_dtypes.float4_e2m1fn),
    "f6": np.array([7.5, -0.125], ml_dtypes.float6_e2m3fn),
    "f8e8m0": np.array([0.5, 4], ml_dtypes.float8_e8m0fnu),
    "empty": np.zeros((0, 4), np.float32),
}


def test_save_and_load_every_type(tmp_path: Path):
    store = WeightStore()
    names = {store.add(array, name): array for name, array in ARRAYS.items()}
    store.save(tmp_path / "w.safetensors", list(names))
    loaded = WeightStore.load(tmp_path / "w.safetensors")
    assert set(loaded) == set(names)
    for name, array in names.items():
        got = loaded.get(name)
        assert (got.dtype, got.shape, got.tobytes()) == (
            array.dtype,
            array.shape,
            extended(array).tobytes(),
        ), name
        assert got.nbytes == 0 or got.ctypes.data % 64 == 0
        assert not got.flags.writeable
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_the_safetensors_package_reads_our_files_and_we_read_its(tmp_path: Path):
    arrays = {
        "odd": np.arange(3, dtype=np.float32),
        "even": np.arange(32, dtype=np.float32),
        "µ": np.array([1]),
    }
    store = WeightStore()
    for name, array in arrays.items():
        store.add(array, name)
    store.save(tmp_path / "ours.safetensors", arrays)
    with safe_open(tmp_path / "ours.safetensors", framework="np") as file:
        for name, array in arrays.items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
    save_file(arrays, tmp_path / "theirs.safetensors")
    loaded = WeightStore.load(tmp_path / "theirs.safetensors")
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded.get(name), array)
        assert loaded.get(name).ctypes.data % 64 == 0


def test_aligned_arrays_are_parts_of_the_mapped_file(tmp_path: Path):
    store = WeightStore()
    store.add(np.arange(3, dtype=np.float32), "odd")
    store.add(np.arange(32, dtype=np.float32), "even")
    store.add(np.arange(64, dtype=np.float32), "more")
    store.save(tmp_path / "w.safetensors", ["odd", "even", "more"])
    loaded = WeightStore.load(tmp_path / "w.safetensors")
    even, more = loaded.get("even"), loaded.get("more")
    assert more.ctypes.data - even.ctypes.data == even.nbytes  # neighbours in one mapping: nothing was copied


def test_a_loaded_array_is_found_by_its_contents(tmp_path: Path):
    store = WeightStore()
    store.add(np.arange(3), "a")
    store.save(tmp_path / "w.safetensors", ["a"])
    loaded = WeightStore.load(tmp_path / "w.safetensors")
    assert loaded.add(np.arange(3), "b") == "a"


def test_a_store_can_be_saved_over_the_file_it_is_mapped_from(tmp_path: Path):
    path = tmp_path / "w.safetensors"
    store = WeightStore()
    store.add(np.arange(32), "a")
    store.save(path, ["a"])
    loaded = WeightStore.load(path)
    loaded.add(np.arange(64), "b")
    loaded.save(path, ["b", "a"])
    np.testing.assert_array_equal(loaded.get("a"), np.arange(32))
    np.testing.assert_array_equal(WeightStore.load(path).get("b"), np.arange(64))


def test_the_same_arrays_give_the_same_file(tmp_path: Path):
    for file in ("1", "2"):
        store = WeightStore()
        for name, array in ARRAYS.items():
            store.add(array, name)
        store.save(tmp_path / file, list(store))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def damaged(tmp_path: Path, keep: int) -> Path:
    store = WeightStore()
    store.add(np.arange(100), "a")
    path = tmp_path / "w.safetensors"
    store.save(path, ["a"])
    path.write_bytes(path.read_bytes()[:keep])
    return path


@pytest.mark.parametrize("keep", [0, 5, 20, 500])
def test_a_truncated_file_is_an_error_with_its_name(tmp_path: Path, keep: int):
    path = damaged(tmp_path, keep)
    with pytest.raises(InputError, match="expected a safetensors file") as error:
        WeightStore.load(path)
    assert str(error.value.place) == str(path)


def test_no_file_garbage_and_a_directory_are_errors(tmp_path: Path):
    with pytest.raises(InputError, match="found no such file"):
        WeightStore.load(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="found a directory"):
        WeightStore.load(tmp_path)
    (tmp_path / "text").write_text("this is no safetensors file at all")
    with pytest.raises(InputError, match="damaged or other file"):
        WeightStore.load(tmp_path / "text")


def test_saving_into_a_missing_folder_is_an_error(tmp_path: Path):
    store = WeightStore()
    store.add(np.arange(3), "a")
    with pytest.raises(InputError, match=r'expected the folder ".*none" for the weights'):
        store.save(tmp_path / "none" / "w.safetensors", ["a"])
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="can't write here: this is a folder"):
        store.save(tmp_path / "taken", ["a"])
    assert os.listdir(tmp_path) == ["taken"]
