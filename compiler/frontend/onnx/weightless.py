"""Reading a model file without its weights, so that they are never held twice.

The protobuf library keeps the whole file's contents in memory for as long as the model lives, and copies a tensor's
bytes once more when they are asked for. Here the large `raw_data` fields of the main graph's initializers are left
out before the file is parsed, and are parts of the mapped file when they are wanted.

Wire format: https://protobuf.dev/programming-guides/encoding/. Field numbers are those of `onnx.proto`.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_GRAPH = 7  # ModelProto.graph
_INITIALIZER = 5  # GraphProto.initializer
_RAW_DATA = 9  # TensorProto.raw_data
_LENGTH_DELIMITED = 2
_SMALL_BYTES = 4096
"""Data of fewer bytes stay in the model."""


class Span(NamedTuple):
    """Bytes of a file."""

    path: Path
    offset: int
    length: int


class _Field(NamedTuple):
    """One field of a message: where it starts, where its value does, and where it ends."""

    number: int
    wire_type: int
    start: int
    value: int
    end: int


def without_weights(path: Path) -> tuple[bytes, dict[int, Span]]:
    """The file's bytes without large weights, and the places of those by the position of their initializer.

    A file that is no protobuf message, or that is written in an unusual way (a message in several pieces), is
    returned whole. `OSError` if the file can't be read.
    """
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return b"", {}
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _strip_model(data, path)
            except ValueError:
                return bytes(data), {}


def _strip_model(data: mmap.mmap, path: Path) -> tuple[bytes, dict[int, Span]]:
    pieces: list[bytes] = []
    spans: dict[int, Span] = {}
    graphs = 0
    for field in _fields(data, 0, len(data)):
        if field.number == _GRAPH:
            graphs += 1
            pieces.append(_message(_GRAPH, _strip_graph(data, field, path, spans)))
        else:
            pieces.append(data[field.start : field.end])
    if graphs != 1:
        raise ValueError("the graph is not in one piece")
    return b"".join(pieces), spans


def _strip_graph(data: mmap.mmap, graph: _Field, path: Path, spans: dict[int, Span]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for field in _fields(data, graph.value, graph.end):
        raw = _large_raw_data(data, field) if field.number == _INITIALIZER else None
        if raw is None:
            pieces.append(data[field.start : field.end])
        else:
            spans[position] = Span(path, raw.value, raw.end - raw.value)
            pieces.append(_message(_INITIALIZER, data[field.value : raw.start] + data[raw.end : field.end]))
        position += field.number == _INITIALIZER
    return b"".join(pieces)


def _large_raw_data(data: mmap.mmap, tensor: _Field) -> _Field | None:
    found = [field for field in _fields(data, tensor.value, tensor.end) if field.number == _RAW_DATA]
    if len(found) > 1:
        raise ValueError("several raw_data in one tensor")
    return found[0] if found and found[0].end - found[0].value >= _SMALL_BYTES else None


def _fields(data: mmap.mmap, start: int, end: int) -> Iterator[_Field]:
    """The fields of the message in `data[start:end]`; `ValueError` if it is none."""
    while start < end:
        tag, value = _varint(data, start, end)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _LENGTH_DELIMITED:
            length, value = _varint(data, value, end)
            after = value + length
        elif wire_type == 0:
            after = _varint(data, value, end)[1]
        elif wire_type in (1, 5):
            after = value + (8 if wire_type == 1 else 4)
        else:
            raise ValueError(f"wire type {wire_type}")
        if after > end:
            raise ValueError("a field ends beyond its message")
        yield _Field(number, wire_type, start, value, after)
        start = after


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    result = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise ValueError("a number without an end")


def _message(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return _number_bytes(number << 3 | _LENGTH_DELIMITED) + _number_bytes(len(content)) + content


def _number_bytes(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
