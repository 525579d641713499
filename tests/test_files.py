"""Files appear whole or not at all; `.npz` files serve as inputs and references."""

from __future__ import annotations

import contextlib
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mlopt.arrays import random_array, read_npz, write_npz
from mlopt.diagnostics import InputError
from mlopt.files import replacing, write_text


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_links_are_followed_where_the_user_gave_the_name_and_replaced_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    for follow in (True, False):
        outside.write_text("before")
        link = tmp_path / f"link{follow}"
        link.symlink_to(outside)
        with replacing(link, follow=follow) as file:
            file.write(b"after")
        assert link.read_text() == "after"
        assert link.is_symlink() == follow
        assert outside.read_text() == ("after" if follow else "before")


def test_other_names_of_a_file_keep_its_contents(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("before")
    second.hardlink_to(first)
    with replacing(second) as file:
        file.write(b"after")
    assert (first.read_text(), second.read_text()) == ("before", "after")


@pytest.mark.parametrize("name", ["none/out.txt", "."])
def test_where_no_file_can_be_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="can't write here"):
        write_text(tmp_path / name, "text")


def test_an_archive_goes_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        write_npz(pipe, {"x": np.arange(5)})
        (tmp_path / "back.npz").write_bytes(read.result(10))
    np.testing.assert_array_equal(read_npz(tmp_path / "back.npz", "in")["x"], np.arange(5))
    write_npz(Path("/dev/null"), {"x": np.arange(5)})


def test_sides_of_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "both.npz"
    np.savez(path, **{"in:x": np.array([1]), "out:y": np.array([2]), "z": np.array([3])})
    assert read_npz(path, "in") == {"x": 1, "z": 3}
    assert read_npz(path, "out") == {"y": 2, "z": 3}


def test_names_survive_npz(tmp_path: Path) -> None:
    """Tensor names hold slashes, colons, spaces and letters of any script."""
    arrays = {"a/b:0": np.arange(3), "ü ü": np.array(1.5), "1": np.zeros((0, 2))}
    write_npz(tmp_path / "a.npz", arrays)
    back = read_npz(tmp_path / "a.npz", "in")
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)


def test_arrays_come_in_the_order_that_the_engine_reads(tmp_path: Path) -> None:
    """Else each run would copy them."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "a.npz", f=np.asfortranarray(values), b=values.astype(">f4"), s=np.array(1.5))
    arrays = read_npz(tmp_path / "a.npz", "in")
    for name in ("f", "b"):
        assert (
            arrays[name].flags.c_contiguous
            and arrays[name].dtype == np.float32
            and arrays[name].dtype.isnative
        )
        np.testing.assert_array_equal(arrays[name], values)
    assert arrays["s"].shape == ()


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{"x": np.zeros(1), "in:x": np.ones(1)})
    with pytest.raises(InputError, match="expected one array for 'x', found two"):
        read_npz(tmp_path / "a.npz", "in")
    assert list(read_npz(tmp_path / "a.npz", "out")) == ["x"]


def test_files_of_other_kinds_inside_an_npz(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("notes.txt", "these are no numbers")
    with pytest.raises(InputError, match=r"expected arrays only, found the file 'notes.txt'"):
        read_npz(tmp_path / "a.npz", "in")


def test_damage_inside_an_npz(tmp_path: Path) -> None:
    """Any flipped byte gives the right arrays or one error; never anything else."""
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(20))
    whole = (tmp_path / "a.npz").read_bytes()
    for position in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= 0x5A
        (tmp_path / "b.npz").write_bytes(damaged)
        with contextlib.suppress(InputError):
            read_npz(tmp_path / "b.npz", "in")


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 cut"])
def test_files_that_are_no_npz(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a readable"):
        read_npz(path, "in")


def test_a_missing_npz(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_npz(tmp_path / "none.npz", "in")


def test_a_cut_npz(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(1000))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="not a readable"):
        read_npz(path, "in")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_random_arrays_are_seeded(dtype: str) -> None:
    first, second = (random_array((3, 4), np.dtype(dtype), np.random.default_rng(0)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.dtype == dtype and first.shape == (3, 4)
