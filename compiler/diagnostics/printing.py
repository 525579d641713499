"""Diagnostics as text: `FILE:LINE:COL: error: MESSAGE`, the source line with a caret, then the notes."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Mapping
from typing import IO

from mlopt.diagnostics.diagnostic import Diagnostic, Place

MAX_LINE = 160
"""A longer source line is shown as the part of so many characters around the column."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    r"""A name for a table or a list: ends of lines and other control characters are escapes, such as `\n`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def format_diagnostic(diagnostic: Diagnostic, sources: Mapping[str, str] | None = None) -> str:
    """The lines of a diagnostic and its notes, without a newline at the end.

    The source line comes from the diagnostic, from the texts in `sources` (file name → text), or from the file.
    """
    place = diagnostic.place
    where = f"{one_line(str(place))}: " if place is not None and place != Place() else ""
    lines = [f"{where}{diagnostic.severity.value}: {diagnostic.message}"]
    if place is not None and place.line is not None:
        line = diagnostic.source_line or _source_line(place, sources or {})
        if line.strip():
            lines += _with_caret(line, place.column)
    lines += [format_diagnostic(note, sources) for note in diagnostic.notes]
    return "\n".join(lines)


def print_diagnostic(
    diagnostic: Diagnostic, *, file: IO[str] | None = None, sources: Mapping[str, str] | None = None
) -> None:
    """Print a diagnostic, on stderr unless `file` says where."""
    print(format_diagnostic(diagnostic, sources), file=file or sys.stderr)


def _source_line(place: Place, sources: Mapping[str, str]) -> str:
    if place.file is None or place.line is None:
        return ""
    text = sources.get(place.file)
    if text is None:
        linecache.checkcache(place.file)
        return linecache.getline(place.file, place.line).rstrip("\n")
    lines = text.split("\n", place.line)
    return lines[place.line - 1] if place.line <= len(lines) else ""


def _with_caret(line: str, column: int | None) -> list[str]:
    line = line.rstrip()
    if not column:
        return [line[:MAX_LINE]]
    offset = column - 1
    if len(line) > MAX_LINE:
        start = max(0, offset - MAX_LINE // 2)
        line, offset = line[start : start + MAX_LINE], offset - start
    indent = "".join("\t" if char == "\t" else " " for char in line[:offset])
    return [line, f"{indent.ljust(offset)}^"]
