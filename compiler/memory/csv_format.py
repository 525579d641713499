"""Buffers and plans as CSV files, in the format of MiniMalloc: `id,lower,upper,size` and, in a plan, `offset`.

The first line names the columns, in any order. `lower` and `upper` are a half-open lifetime, `size` is in bytes. A
column `alignment` may be there (1 without it); a column `gaps` of times within the lifetime at which a buffer is not
live, as `LOWER-UPPER`, half-open, separated by spaces; and a column `fixed` of offsets that buffers must have. Gaps and
fixed offsets may be empty. An `offset` column is what an earlier plan wrote: it is replaced.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlopt.diagnostics import InputError, Place
from mlopt.files import write_text
from mlopt.memory.buffers import Buffer, PlanError, check_plan, max_live

REQUIRED = ("id", "lower", "upper", "size")
OPTIONAL = ("alignment", "gaps", "fixed", "offset")

MAX_DIGITS = 100
"""Longer numbers are refused as a mistake; Python itself refuses to print numbers of more than 4300 digits."""


@dataclass(frozen=True)
class BufferTable:
    """The rows of a CSV file as read, with the names of their columns, the buffers that they mean, and their places."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    buffers: tuple[Buffer, ...]
    places: tuple[Place, ...] = ()

    def check_offsets(self, offsets: Mapping[str, int], capacity: int) -> None:
        """As `check_plan` for the buffers that have an offset, but what is wrong is an `InputError` at its row."""
        placed = [buffer for buffer in self.buffers if buffer.id in offsets]
        try:
            check_plan(placed, offsets, capacity)
        except PlanError as error:
            places = {buffer.id: place for buffer, place in zip(self.buffers, self.places, strict=True)}
            raise InputError(error.message, place=places[error.buffer]) from None


def read_buffers(path: Path) -> BufferTable:
    """Read a CSV file of buffers.

    `InputError`, with file and line, for a file that is missing or not UTF-8 text, columns that are missing, unknown or
    named twice, rows with too few or too many fields, numbers that are none, ids given twice, and fixed buffers that
    overlap.
    """
    lines = _records(path)
    if not lines:
        raise InputError(
            f"expected a first line that names the columns, such as '{','.join(REQUIRED)}', found an empty file",
            place=Place(str(path)),
        )
    line, header = lines[0]
    columns = tuple(name.strip() for name in header)
    _check_columns(columns, Place(str(path), line))
    rows: list[tuple[str, ...]] = []
    buffers: list[Buffer] = []
    places: list[Place] = []
    lines_of: dict[str, int] = {}
    for line, fields in lines[1:]:
        place = Place(str(path), line)
        if len(fields) != len(columns):
            raise InputError(
                f"expected {len(columns)} fields ({', '.join(columns)}), found {len(fields)}", place=place
            )
        row = tuple(field.strip() for field in fields)
        buffer = _buffer(dict(zip(columns, row, strict=True)), place)
        if buffer.id in lines_of:
            raise InputError(
                f"expected every id once, found '{buffer.id}' again (first in line {lines_of[buffer.id]})",
                place=place,
            )
        lines_of[buffer.id] = line
        rows.append(row)
        buffers.append(buffer)
        places.append(place)
    table = BufferTable(columns, tuple(rows), tuple(buffers), tuple(places))
    fixed = {buffer.id: buffer.fixed for buffer in buffers if buffer.fixed is not None}
    table.check_offsets(fixed, max_live(buffers))
    return table


def write_plan(path: Path, table: BufferTable, offsets: Mapping[str, int]) -> None:
    """Write the rows of `table` in their order with the offset (bytes) of each buffer in the last column."""
    kept = [position for position, name in enumerate(table.columns) if name != "offset"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(table.columns[position] for position in kept), "offset"])
    for row, buffer in zip(table.rows, table.buffers, strict=True):
        writer.writerow([*(row[position] for position in kept), offsets[buffer.id]])
    write_text(path, text.getvalue())


def table_of(buffers: Sequence[Buffer]) -> BufferTable:
    """The table that a file of these buffers would give; columns that would be empty are left out."""
    columns: dict[str, list[str]] = {
        "id": [b.id for b in buffers],
        "lower": [str(b.lower) for b in buffers],
        "upper": [str(b.upper) for b in buffers],
        "size": [str(b.size) for b in buffers],
        "alignment": [str(b.alignment) for b in buffers],
        "gaps": [" ".join(f"{lower}-{upper}" for lower, upper in b.gaps) for b in buffers],
        "fixed": ["" if b.fixed is None else str(b.fixed) for b in buffers],
    }
    kept = [name for name, fields in columns.items() if name not in ("gaps", "fixed") or any(fields)]
    rows = zip(*(columns[name] for name in kept), strict=True)
    return BufferTable(tuple(kept), tuple(rows), tuple(buffers))


def _records(path: Path) -> list[tuple[int, list[str]]]:
    """The records that are not blank, each with the number of its last line."""
    place = Place(str(path))
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError("expected a CSV file of buffers, found no such file", place=place) from None
    except UnicodeDecodeError:
        raise InputError("expected a CSV file of buffers, found no UTF-8 text", place=place) from None
    except OSError as error:
        raise InputError(f"can't read the buffers: {error.strerror or error}", place=place) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [(reader.line_num, record) for record in reader if any(field.strip() for field in record)]
    except csv.Error as error:
        raise InputError(
            f"expected a CSV record, found: {error}", place=Place(str(path), reader.line_num)
        ) from None


def _check_columns(columns: Sequence[str], place: Place) -> None:
    found = ", ".join(f"'{name}'" for name in columns)
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise InputError(f"expected a column '{missing[0]}', found {found}", place=place)
    for position, name in enumerate(columns):
        if name not in REQUIRED + OPTIONAL:
            known = ", ".join(REQUIRED + OPTIONAL)
            raise InputError(f"expected columns among {known}, found '{name}'", place=place)
        if name in columns[:position]:
            raise InputError(f"expected every column once, found '{name}' again", place=place)


def _buffer(fields: Mapping[str, str], place: Place) -> Buffer:
    if not fields["id"]:
        raise InputError("expected an id, found an empty field", place=place)
    lower, upper, size = (_number(fields, name, place) for name in REQUIRED[1:])
    alignment = _number(fields, "alignment", place) if "alignment" in fields else 1
    if lower >= upper:
        raise InputError(f"expected lower < upper, found lower {lower} and upper {upper}", place=place)
    if size < 0:
        raise InputError(f"expected a size of at least 0, found {size}", place=place)
    if alignment < 1:
        raise InputError(f"expected an alignment of at least 1, found {alignment}", place=place)
    fixed = _number(fields, "fixed", place) if fields.get("fixed") else None
    if fixed is not None and (fixed < 0 or fixed % alignment):
        raise InputError(
            f"expected a fixed offset that is a multiple of {alignment}, found {fixed}", place=place
        )
    gaps = tuple(_gap(text, place) for text in fields.get("gaps", "").split())
    try:
        return Buffer(fields["id"], lower, upper, size, alignment, fixed, gaps)
    except ValueError as error:
        raise InputError(
            f"expected gaps in order and within the lifetime, found {error}", place=place
        ) from None


def _gap(text: str, place: Place) -> tuple[int, int]:
    match = re.fullmatch(r"(-?[0-9]+)-(-?[0-9]+)", text)
    if match is None:
        raise InputError(
            f"expected gaps as LOWER-UPPER, separated by spaces, found '{text[:MAX_DIGITS]}'", place=place
        )
    return _number({"gap": match[1]}, "gap", place), _number({"gap": match[2]}, "gap", place)


def _number(fields: Mapping[str, str], name: str, place: Place) -> int:
    text = fields[name]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise InputError(f"expected a whole number as {name}, found '{text[:MAX_DIGITS]}'", place=place)
    if len(text) > MAX_DIGITS:
        raise InputError(
            f"expected a whole number of at most {MAX_DIGITS} digits as {name}, found {len(text)}",
            place=place,
        )
    return int(text)
