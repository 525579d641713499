"""Remarks as text: those that say the same are one with their number; and counts in sentences."""

from __future__ import annotations

import pytest

from mlopt.diagnostics import Diagnostic, Place, Remark, RemarkKind, Severity, counted, remarks_as_text
from mlopt.diagnostics.remark import MOST_ALIKE


def remark(
    place: Place, message: str = "m", *, name: str = "cse", kind: RemarkKind = "passed", note: str = ""
) -> Remark:
    notes = (Diagnostic(Severity.NOTE, note),) if note else ()
    return Remark(name, kind, message, place, notes)


def nodes(count: int) -> list[Place]:
    return [Place("m.onnx", node=f"n{i}") for i in range(count)]


def test_a_few_are_printed_one_by_one() -> None:
    remarks = [remark(place) for place in nodes(MOST_ALIKE)]
    assert remarks_as_text(remarks) == [one.diagnostic for one in remarks]


def test_many_are_one_with_their_number_and_some_of_their_places() -> None:
    remarks = [remark(place, note="this one") for place in nodes(MOST_ALIKE + 1)]
    (printed,) = remarks_as_text(remarks)
    assert printed.message == "[cse] m (5 times)"
    assert printed.place == remarks[0].place
    assert [note.message for note in printed.notes] == [
        "this one",
        'also at node "n1", node "n2", node "n3" and 1 other place',
    ]


@pytest.mark.parametrize(
    ("places", "note"),
    [
        ([Place("m.mlir", i, 3) for i in range(1, 10)], "also at line 2, line 3, line 4 and 5 other places"),
        ([Place("a.mlir", i // 4 + 1, 1) for i in range(8)], "also at line 2"),
        ([Place(f"{i // 2}.mlir", 1, 1) for i in range(6)], "also at 1.mlir:1:1 and 2.mlir:1:1"),
    ],
)
def test_places_are_named_once_and_shortly(places: list[Place], note: str) -> None:
    (printed,) = remarks_as_text([remark(place) for place in places])
    assert [one.message for one in printed.notes] == [note]


def test_one_place_needs_no_note() -> None:
    (printed,) = remarks_as_text([remark(Place("m.onnx", node="n"))] * 7)
    assert (printed.message, printed.notes) == ("[cse] m (7 times)", ())


def test_what_differs_is_apart_and_the_order_stays() -> None:
    others = [remark(Place(), "other"), remark(Place(), name="dce"), remark(Place(), kind="missed")]
    many = [remark(place) for place in nodes(5)]
    printed = remarks_as_text([others[0], many[0], others[1], *many[1:], others[2]])
    assert [one.message for one in printed] == ["[cse] other", "[cse] m (5 times)", "[dce] m", "[cse] m"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (counted(1, "buffer"), "1 buffer"),
        (counted(0, "buffer"), "0 buffers"),
        (counted(2, "loop runs", "loops run"), "2 loops run"),
    ],
)
def test_counts(text: str, expected: str) -> None:
    assert text == expected
