"""Reading and writing safetensors files: mapped into memory, written atomically and in a stream.

The format (https://github.com/huggingface/safetensors): eight bytes with the length of a JSON header, the
header (`{name: {dtype, shape, data_offsets}}`), then the bytes of all tensors without gaps. Reading has the
`safetensors` package check the file; writing is done here because that package does not align the data, and
64-byte aligned data can be used straight from the mapped file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from mlopt.diagnostics import InputError, Place
from mlopt.files import replacing
from mlopt.weights.alignment import ALIGNMENT

Tensor = tuple[np.dtype, tuple[int, ...], np.ndarray]
"""dtype, shape, and the elements as one-dimensional uint8 in row-major order."""

_DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(np.bool_),
    "I8": np.dtype(np.int8),
    "U8": np.dtype(np.uint8),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "C64": np.dtype(np.complex64),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}

# Types the format has no code for, kept as a byte (or a pair of floats) per element; the metadata names the
# real one.
_CARRIED: dict[str, tuple[np.dtype, str, int]] = {
    "int4": (np.dtype(ml_dtypes.int4), "U8", 1),
    "uint4": (np.dtype(ml_dtypes.uint4), "U8", 1),
    "int2": (np.dtype(ml_dtypes.int2), "U8", 1),
    "uint2": (np.dtype(ml_dtypes.uint2), "U8", 1),
    "float4_e2m1fn": (np.dtype(ml_dtypes.float4_e2m1fn), "U8", 1),
    "float6_e2m3fn": (np.dtype(ml_dtypes.float6_e2m3fn), "U8", 1),
    "float6_e3m2fn": (np.dtype(ml_dtypes.float6_e3m2fn), "U8", 1),
    "complex128": (np.dtype(np.complex128), "F64", 2),
}
_CARRIED_NAMES = {dtype: name for name, (dtype, _, _) in _CARRIED.items()}
_DTYPE_KEY = "mlopt.dtype:"

_WRITER = {"mlopt.writer": "mlopt"}
"""Stands in the metadata of files written here, which may be replaced."""


def is_storable(dtype: np.dtype) -> bool:
    """Whether arrays of this dtype can be written."""
    return dtype in _CODES or dtype in _CARRIED_NAMES


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors` to `path`: to a temporary file beside it, which then takes its place (see `replacing`).

    Arrays whose size is a multiple of 64 bytes come first, so that they are aligned in the file. The file's
    bytes depend on `tensors` alone. `InputError` if the folder is missing or the file can't be written.
    """
    if not path.parent.is_dir():
        raise InputError(
            f'expected the folder "{path.parent}" for the weights, found no such folder',
            place=Place(str(path)),
        )
    ordered = dict(sorted(tensors.items(), key=lambda item: item[1][2].nbytes % ALIGNMENT != 0))
    with replacing(path, follow=False) as file:
        file.write(_header(ordered))
        for _, _, data in ordered.values():
            file.write(data.data)


def check_replaceable(path: Path) -> None:
    """Raise `InputError` if there is a file at `path` that was not written here: it may be all that its owner has.

    Of a file that has other names, by symbolic or hard links, only this name is lost.
    """
    if path.is_symlink() or not path.is_file() or path.stat().st_nlink > 1:
        return
    try:
        opened: Any = safe_open(path, framework="np")
        with opened as file:
            metadata: Mapping[str, str] = file.metadata() or {}
        is_ours = _WRITER.items() <= metadata.items()
    except (OSError, SafetensorError):
        is_ours = False
    if not is_ours:
        raise InputError(
            "the weights would be written here, and there is a file that mlopt did not write: "
            "move it, or give the .mlir file another name",
            place=Place(str(path)),
        )


def open_mapped(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, in the file's order, as read-only slices of the mapped file.

    `InputError` if the file is missing, truncated, or no safetensors file, or holds a type that numpy lacks.
    """
    place = Place(str(path))
    if path.is_dir():
        raise InputError("expected a safetensors file, found a directory", place=place)
    try:
        with safe_open(path, framework="np"):
            pass  # opening checks the header, and that the tensors cover the file exactly
        mapped = np.memmap(path, mode="r", dtype=np.uint8)
    except FileNotFoundError as error:
        raise InputError(
            "expected a safetensors file with the weights, found no such file", place=place
        ) from error
    except OSError as error:
        raise InputError(f"can't read the weights: {error.strerror or error}", place=place) from error
    except SafetensorError as error:
        raise InputError(
            f"expected a safetensors file, found a damaged or other file ({error})", place=place
        ) from error
    return _tensors_of(mapped, place)


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    """Length and JSON header, padded with spaces so that the data starts at a multiple of 64 bytes."""
    entries: dict[str, Any] = {}
    metadata = dict(_WRITER)
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        code, file_shape = _CODES.get(dtype), shape
        if code is None:
            metadata[_DTYPE_KEY + name] = _CARRIED_NAMES[dtype]
            _, code, repeat = _CARRIED[_CARRIED_NAMES[dtype]]
            file_shape = shape if repeat == 1 else (*shape, repeat)
        entries[name] = {"dtype": code, "shape": file_shape, "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
    text = json.dumps(
        {"__metadata__": metadata, **entries}, ensure_ascii=False, separators=(",", ":")
    ).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _tensors_of(mapped: np.memmap, place: Place) -> dict[str, Tensor]:
    base = 8 + int.from_bytes(mapped[:8].tobytes(), "little")
    entries: dict[str, Any] = json.loads(mapped[8:base].tobytes())
    metadata: dict[str, str] = entries.pop("__metadata__", None) or {}
    tensors: dict[str, Tensor] = {}
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        shape = tuple(int(extent) for extent in entry["shape"])
        dtype = _DTYPES.get(entry["dtype"])
        carried = _CARRIED.get(metadata.get(_DTYPE_KEY + name, ""))
        if carried is not None:
            dtype, _, repeat = carried
            shape = shape if repeat == 1 else shape[:-1]
        if dtype is None:
            raise InputError(
                f'weight "{name}" has the type {entry["dtype"]}, which is not supported', place=place
            )
        begin, end = entry["data_offsets"]
        tensors[name] = (dtype, shape, np.asarray(mapped[base + begin : base + end]))
    return tensors
