"""What passes tell about their work: what they did, what they did not and why, what they found out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity
from mlopt.diagnostics.wording import counted

RemarkKind = Literal["passed", "missed", "analysis"]
"""What was done; what was nearly done, with the reason why not; figures. LLVM's names."""

RemarkValue: TypeAlias = str | int | float | bool
"""A fact of a remark, for programs that read it."""

REMARK_KINDS: tuple[RemarkKind, ...] = ("passed", "missed", "analysis")

MOST_ALIKE = 4
"""Remarks that say the same are printed one by one up to so many, above as one with their number."""

PLACES_NAMED = 3
"""How many other places one remark for many names."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One sentence of a pass about one place in the model.

    `notes` name other places that matter for it, `pattern` the pattern that was at work if one was; `args` are the
    facts that the sentence is made of, by name.
    """

    pass_name: str
    kind: RemarkKind
    message: str
    place: Place
    notes: tuple[Diagnostic, ...] = ()
    pattern: str | None = None
    args: tuple[tuple[str, RemarkValue], ...] = ()

    @property
    def origin(self) -> str:
        """What `--remarks-filter` is matched with: `PASS`, or `PASS:PATTERN`."""
        return self.pass_name if self.pattern is None else f"{self.pass_name}:{self.pattern}"

    @property
    def diagnostic(self) -> Diagnostic:
        """The remark as it is printed: `PLACE: remark: [PASS] MESSAGE`."""
        return Diagnostic(Severity.REMARK, f"[{self.pass_name}] {self.message}", self.place, self.notes)


def select_remarks(
    remarks: Iterable[Remark], kinds: Collection[str], wanted: re.Pattern[str] | None = None
) -> list[Remark]:
    """The remarks of these kinds in order, of passes and patterns (`Remark.origin`) in which `wanted` is found.

    A near miss or a figure is there once, though a pass that runs twice may say it twice; rewrites are all there.
    """
    selected: list[Remark] = []
    seen: set[Remark] = set()
    for remark in remarks:
        if remark.kind not in kinds or (wanted is not None and wanted.search(remark.origin) is None):
            continue
        if remark.kind != "passed":
            if remark in seen:
                continue
            seen.add(remark)
        selected.append(remark)
    return selected


def remarks_as_text(remarks: Iterable[Remark]) -> list[Diagnostic]:
    """Remarks as they are printed: those of one pass that say the same are one, if they are more than `MOST_ALIKE`.

    It stands where the first of them is, with the number of all; a note names the places of some others.
    """
    remarks = list(remarks)
    groups: dict[tuple[str, str, str], list[int]] = {}
    for i, remark in enumerate(remarks):
        groups.setdefault((remark.pass_name, remark.kind, remark.message), []).append(i)
    printed: dict[int, Diagnostic] = {}
    for group in groups.values():
        if len(group) > MOST_ALIKE:
            printed[group[0]] = _as_one([remarks[i] for i in group])
        else:
            printed.update((i, remarks[i].diagnostic) for i in group)
    return [printed[i] for i in sorted(printed)]


def _as_one(group: Sequence[Remark]) -> Diagnostic:
    """The first remark, with the number of all and the places of some others."""
    first = group[0].diagnostic
    message = f"{first.message} ({len(group)} times)"
    others = list(dict.fromkeys(remark.place for remark in group if remark.place != first.place))
    if not others:
        return replace(first, message=message)
    named = [_short(place, group[0].place.file) for place in others[:PLACES_NAMED]]
    if (rest := len(others) - len(named)) > 0:
        named.append(counted(rest, "other place"))
    listed = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    also = Diagnostic(Severity.NOTE, f"also at {listed}")
    return replace(first, message=message, notes=(*first.notes, also))


def _short(place: Place, file: str | None) -> str:
    """A place without its file, if that is `file`."""
    if place.file != file:
        return str(place)
    if place.node is not None:
        return f'node "{place.node}"'
    return f"line {place.line}" if place.line is not None else str(place)


def remark_record(remark: Remark) -> dict[str, Any]:
    """A remark as JSON has it, every key present; `place` is the place as text, and its parts stand beside it."""
    return {
        "pass": remark.pass_name,
        "pattern": remark.pattern,
        "kind": remark.kind,
        "message": remark.message,
        "args": dict(remark.args),
        **place_record(remark.place),
        "notes": [{"message": note.message, **place_record(note.place)} for note in remark.notes],
    }


def place_record(place: Place | None) -> dict[str, Any]:
    """A place as JSON has it: as text, and its parts beside it."""
    place = place or Place()
    return {
        "place": str(place),
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "node": place.node,
    }
