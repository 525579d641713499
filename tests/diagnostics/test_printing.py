"""The text of a diagnostic: place, severity, message, source line, caret, notes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mlopt.diagnostics import (
    Diagnostic,
    InputError,
    MloptError,
    Place,
    Severity,
    UsageError,
    format_diagnostic,
    print_diagnostic,
)
from mlopt.diagnostics.printing import MAX_LINE

ERROR = Severity.ERROR


@pytest.mark.parametrize(
    ("place", "start"),
    [
        (None, "error: m"),
        (Place(), "error: m"),
        (Place("f.onnx"), "f.onnx: error: m"),
        (Place("f.onnx", node="n"), 'f.onnx: node "n": error: m'),
        (Place(node="n"), 'node "n": error: m'),
        (Place("f.mlir", 3, 4), "f.mlir:3:4: error: m"),
    ],
)
def test_places(place: Place | None, start: str) -> None:
    assert format_diagnostic(Diagnostic(ERROR, "m", place)) == start


def test_source_line_and_caret_from_a_text() -> None:
    text = "first\n\tsecond line\nthird"
    diagnostic = Diagnostic(ERROR, "m", Place("t", 2, 9), (Diagnostic(Severity.NOTE, "n", Place("t", 3, 1)),))
    want = "t:2:9: error: m\n\tsecond line\n\t       ^\nt:3:1: note: n\nthird\n^"
    assert format_diagnostic(diagnostic, {"t": text}) == want


def test_source_line_from_a_file_or_the_diagnostic(tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    path.write_text("abc\ndef\n")
    assert format_diagnostic(Diagnostic(ERROR, "m", Place(str(path), 2, 3))).endswith(": m\ndef\n  ^")
    assert format_diagnostic(Diagnostic(ERROR, "m", Place(str(path), 9, 1))).endswith(": m")
    given = Diagnostic(ERROR, "m", Place("nowhere", 1, 2), source_line="xyz")
    assert format_diagnostic(given).endswith(": m\nxyz\n ^")


def test_a_long_line_is_cut_around_the_column() -> None:
    line = "a" * 5000 + "B" + "c" * 5000
    shown, caret = format_diagnostic(Diagnostic(ERROR, "m", Place("t", 1, 5001)), {"t": line}).split("\n")[1:]
    assert len(shown) == MAX_LINE
    assert shown[caret.index("^")] == "B"


def test_printing() -> None:
    stream = io.StringIO()
    print_diagnostic(Diagnostic(Severity.WARNING, "careful"), file=stream)
    assert stream.getvalue() == "warning: careful\n"


def test_errors_know_their_diagnostic_and_exit_code() -> None:
    error = InputError("m", place=Place("f"), source_line="s")
    assert error.diagnostics == (Diagnostic(ERROR, "m", Place("f"), (), "s"),)
    assert (MloptError("m").exit_code, UsageError("m").exit_code) == (1, 2)


def test_a_place_is_on_one_line_whatever_nodes_are_called() -> None:
    place = Place("m.onnx", node='we"ird\n\x01')
    text = format_diagnostic(Diagnostic(Severity.REMARK, "done", place))
    assert text == 'm.onnx: node "we"ird\\n\\x01": remark: done'
