"""The values of ONNX tensors as arrays: inside the model, or in files beside it (external data).

External data is read from where the model says only if that is inside the model's own folder: a location that
is absolute, goes up with `..`, or leads out of the folder through a link is refused, and so is a file with
several hard links. Files are mapped into memory and not read.
"""

from __future__ import annotations

from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mlopt.diagnostics import InputError, Place, UnsupportedError
from mlopt.frontend.onnx.weightless import Span
from mlopt.weights.mapped import MappedFiles
from mlopt.weights.sub_byte import WIDTHS, extended, packed_bytes, unpacked

_MAX_BYTES = 2**62
"""More than any memory has, and what numpy takes as the size of an array, even of one without elements."""


def tensor_array(
    tensor: TensorProto,
    model_path: Path | None,
    place: Place,
    files: MappedFiles,
    span: Span | None = None,
) -> np.ndarray:
    """The value of a tensor: a read-only part of a mapped file, or an array of its own if the model holds the data.

    `model_path` is the model's file, or None for a model in memory (which can't have external data). `span` is
    where the data are in that file, if they were not read with the model. `files` maps it and those beside it.
    Elements of less than a byte are unpacked: an array of its own then, with a byte for each.
    `InputError` if type, shape and data don't fit, `UnsupportedError` for strings.
    """
    dtype = tensor_dtype(tensor, place)
    if any(extent < 0 for extent in tensor.dims):
        raise InputError(
            f"{_what(tensor)}: expected extents of at least 0, found {list(tensor.dims)}", place=place
        )
    if prod(max(1, extent) for extent in tensor.dims) * dtype.itemsize > _MAX_BYTES:
        raise InputError(
            f"{_what(tensor)}: expected a shape that fits into memory, found {list(tensor.dims)}", place=place
        )
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external_array(tensor, dtype, model_path, place, files)
    shape = tuple(tensor.dims)
    expected = packed_bytes(shape, dtype)
    if span is not None or tensor.HasField("raw_data"):
        found = len(tensor.raw_data) if span is None else span.length
        if found != expected:
            message = f"{_what(tensor)}: expected {expected} bytes of data, found {found}"
            raise InputError(message, place=place)
    if span is not None:
        data = files.part(span.path, span.offset, span.length)
        if data.nbytes != expected:
            raise InputError(f"{_what(tensor)}: its data were cut while the model was read", place=place)
        return _elements(data, shape, dtype)
    if tensor.HasField("raw_data"):
        return _elements(np.frombuffer(tensor.raw_data, np.uint8), shape, dtype)
    if WIDTHS.get(dtype) in (2, 4) and len(tensor.int32_data) != expected:  # each number is a byte
        message = (
            f"{_what(tensor)}: expected {expected} numbers in int32_data, found {len(tensor.int32_data)}"
        )
        raise InputError(message, place=place)
    try:
        return extended(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{_what(tensor)}: its data do not fit its shape {list(tensor.dims)}", place=place
        ) from error


def tensor_dtype(tensor: TensorProto, place: Place) -> np.dtype:
    """The numpy type of a tensor's elements; `UnsupportedError` for strings."""
    if tensor.data_type == TensorProto.STRING:
        raise UnsupportedError(f"{_what(tensor)}: element type string is not supported", place=place)
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_type == TensorProto.UNDEFINED:
        raise InputError(f"{_what(tensor)}: expected an element type, found {tensor.data_type}", place=place)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))


def _what(tensor: TensorProto) -> str:
    return f'tensor "{tensor.name}"' if tensor.name else "a tensor without a name"


def _external_array(
    tensor: TensorProto, dtype: np.dtype, model_path: Path | None, place: Place, files: MappedFiles
) -> np.ndarray:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if model_path is None:
        message = f"{_what(tensor)}: its data is in another file, which a model in memory can't have"
        raise InputError(message, place=place)
    path = _data_path(tensor, entries.get("location", ""), model_path, place)
    shape = tuple(tensor.dims)
    nbytes = packed_bytes(shape, dtype)
    offset = _number(tensor, entries, "offset", 0, place)
    length = _number(tensor, entries, "length", nbytes, place)
    if length != nbytes:
        raise InputError(
            f"{_what(tensor)}: expected {nbytes} bytes of data, found length {length}", place=place
        )
    size = path.stat().st_size
    if offset + length > size:
        raise InputError(
            f'{_what(tensor)}: expected bytes {offset} to {offset + length} of "{path}", which has {size}',
            place=place,
        )
    if nbytes == 0:
        return np.zeros(shape, dtype)
    return _elements(files.part(path, offset, length), shape, dtype)


def _elements(data: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The tensor that these bytes of a file hold, a view where they can be taken as they are."""
    if dtype == np.bool_ and data.size and data.max() > 1:
        return (data != 0).reshape(shape)  # numpy takes no bytes but 0 and 1 for truth values
    return unpacked(data, shape, dtype)


def _number(tensor: TensorProto, entries: dict[str, str], key: str, default: int, place: Place) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit()):
        raise InputError(f'{_what(tensor)}: expected a number for its {key}, found "{text}"', place=place)
    return int(text)


def _data_path(tensor: TensorProto, location: str, model_path: Path, place: Place) -> Path:
    """The file at `location`, if it is one inside the model's folder."""

    def refuse(reason: str) -> InputError:
        return InputError(f'{_what(tensor)}: its data file "{location}" {reason}', place=place)

    parts = {*PurePosixPath(location).parts, *PureWindowsPath(location).parts}
    if not location or "\0" in location:
        raise refuse("has no valid name")
    if PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor:
        raise refuse("must be given relative to the model's folder")
    if ".." in parts:
        raise refuse("must not go up with '..'")
    path = model_path.parent / location
    # A download cache has links for both files, to one folder: the data may be in the folder of either name.
    folders = {model_path.parent.resolve(), model_path.resolve().parent}
    try:
        target = path.resolve(strict=True)
    except FileNotFoundError:
        raise refuse("does not exist") from None
    except (OSError, RuntimeError) as error:
        raise refuse("can't be opened") from error
    if not any(target.is_relative_to(folder) for folder in folders):
        raise refuse("leads out of the model's folder through a link")
    if not target.is_file():
        raise refuse("is no file")
    if target.stat().st_nlink > 1:
        raise refuse("has several hard links, so that it may belong to another place: copy it")
    return target
