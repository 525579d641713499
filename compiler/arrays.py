"""Reading and writing `.npz` files of inputs, outputs and references, and making seeded inputs.

Numpy's file format has no names for the types of `ml_dtypes` (bfloat16, float8_e4m3fn, int4, ...): what `np.savez`
writes of them comes back as raw bytes. Here such an array is written as records of one field, whose name is the type
and which holds the bits as an unsigned integer: `np.load(file)["y"]["bfloat16"].view(ml_dtypes.bfloat16)`. Both forms
are read; raw bytes stay as they are, and get the type that the model declares (`mlopt.ir.dtypes.typed_array`).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.lib.npyio import NpzFile

from mlopt.diagnostics import InputError, Place
from mlopt.files import replacing
from mlopt.ir.dense import FLOAT_DTYPES
from mlopt.weights import sub_byte

_NOT_NPZ = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # an unknown compression
    RuntimeError,  # an encrypted archive
)
"""What numpy and zipfile raise for files that are no `.npz` or are damaged."""


_ML_DTYPES = {
    dtype.name: dtype
    for dtype in (*FLOAT_DTYPES.values(), *sub_byte.SIGNED, *sub_byte.UNSIGNED)
    if dtype.isbuiltin != 1
}
"""The types that are not numpy's own, by name."""


def read_npz(path: Path, side: Literal["in", "out"]) -> dict[str, np.ndarray]:
    """The arrays of one side of an `.npz` file, C-contiguous and in the native byte order.

    An array may be named `NAME`, or `in:NAME` and `out:NAME`; one file can then serve both sides. Names with the other
    side's prefix are left out. Raises `InputError` if the file is missing, no `.npz`, or truncated, and for two arrays
    of one name.
    """
    place = Place(str(path))
    other = "out:" if side == "in" else "in:"
    try:
        with path.open("rb") as opened:
            if not zipfile.is_zipfile(opened):
                opened.seek(0)
                if opened.read(6) == b"\x93NUMPY":
                    raise InputError("expected an .npz file, found a single array", place=place)
                raise InputError("not a readable .npz file: truncated, or of another format", place=place)
            opened.seek(0)
            file: object = np.load(opened, allow_pickle=False)
            assert isinstance(file, NpzFile)  # as numpy reads every zip file
            arrays: dict[str, np.ndarray] = {}
            # A member that is no array comes out as bytes.
            members = cast(Mapping[str, np.ndarray | bytes], file)
            for member in members:
                name = member.removeprefix(f"{side}:")
                if member.startswith(other):
                    continue
                if name in arrays:
                    raise InputError(f"expected one array for '{name}', found two", place=place)
                array = members[member]
                if not isinstance(array, np.ndarray):
                    raise InputError(f"expected arrays only, found the file '{member}'", place=place)
                arrays[name] = _native(array)
            return arrays
    except FileNotFoundError:
        raise InputError("no such file of arrays", place=place) from None
    except IsADirectoryError:
        raise InputError("expected an .npz file, found a folder", place=place) from None
    except _NOT_NPZ as error:
        raise InputError(f"not a readable .npz file: {error}", place=place) from None


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays under their names; the file appears whole or not at all."""
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(array), allow_pickle=False)


def _native(array: np.ndarray) -> np.ndarray:
    """C-contiguous, in the native byte order, and of the type that the name of a single field gives."""
    if array.dtype.names is not None and len(array.dtype.names) == 1:
        name = array.dtype.names[0]
        bits = _native(array[name])
        dtype = _ML_DTYPES.get(name)
        if dtype is not None and bits.dtype == np.dtype(f"u{dtype.itemsize}"):
            return bits.view(dtype)
    return np.require(array, array.dtype.newbyteorder("="), "C")


def _storable(array: np.ndarray) -> np.ndarray:
    """Records of one field for a type that numpy's file format has no name for."""
    if array.dtype.name not in _ML_DTYPES:
        return array
    return np.require(array, None, "C").view(np.dtype([(array.dtype.name, f"<u{array.dtype.itemsize}")]))


def random_array(shape: Sequence[int], dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    """Random values for an input: standard normal floats, integers 0 or 1, bools, the powers 1 and 2."""
    if dtype.kind in "biu" or sub_byte.is_integer(dtype):
        return generator.integers(0, 2, size=shape).astype(dtype)
    if dtype == FLOAT_DTYPES["f8E8M0FNU"]:
        return np.exp2(generator.integers(0, 2, size=shape)).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
