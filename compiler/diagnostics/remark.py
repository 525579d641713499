"""What passes tell about their work: what they did, what they did not and why, what they found out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity

RemarkKind = Literal["passed", "missed", "analysis"]
"""What was done; what was nearly done, with the reason why not; figures. LLVM's names."""

RemarkValue: TypeAlias = str | int | float | bool
"""A fact of a remark, for programs that read it."""

REMARK_KINDS: tuple[RemarkKind, ...] = ("passed", "missed", "analysis")


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


def remark_record(remark: Remark) -> dict[str, Any]:
    """A remark as JSON has it, every key present; `place` is the place as text, and its parts stand beside it."""
    return {
        "pass": remark.pass_name,
        "pattern": remark.pattern,
        "kind": remark.kind,
        "message": remark.message,
        "args": dict(remark.args),
        **_place_record(remark.place),
        "notes": [{"message": note.message, **_place_record(note.place)} for note in remark.notes],
    }


def _place_record(place: Place | None) -> dict[str, Any]:
    place = place or Place()
    return {
        "place": str(place),
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "node": place.node,
    }
