"""Reading and writing `.npz` files of inputs, outputs and references, and making seeded inputs."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from mlopt.diagnostics import InputError, Place
from mlopt.files import replacing


def read_npz(path: Path, side: Literal["in", "out"]) -> dict[str, np.ndarray]:
    """The arrays of one side of an `.npz` file.

    An array may be named `NAME`, or `in:NAME` and `out:NAME`; one file can then serve both sides. Names with the other
    side's prefix are left out. Raises `InputError` if the file is missing, no `.npz`, or truncated.
    """
    place = Place(str(path))
    other = "out:" if side == "in" else "in:"
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            names = [name for name in file.files if not name.startswith(other)]
            return {name.removeprefix(f"{side}:"): file[name] for name in names}
    except FileNotFoundError:
        raise InputError("no such file of arrays", place=place) from None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, AttributeError) as error:
        raise InputError(f"not a readable .npz file: {error}", place=place) from None


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays under their names; the file appears whole or not at all."""
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def random_array(shape: Sequence[int], dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    """Random values for an input: standard normal floats, integers 0 or 1, bools."""
    if dtype.kind == "b" or dtype.kind in "iu":
        return generator.integers(0, 2, size=shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
