"""What a diagnostic is: a severity, a place in a file or model, one sentence, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad it is; the value is the word printed."""

    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is: a file, a line and column in it (1-based), or a named node of a model."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    node: str | None = None

    def __str__(self) -> str:
        text = self.file or "<unknown>"
        if self.line is not None:
            text += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        if self.node is not None:
            text = f'{text}: node "{self.node}"' if self.file else f'node "{self.node}"'
        return text


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message to the user. `notes` are printed after it, each with its own place.

    `source_line`: the line of text that `place` is in, where the printer could not find it by itself.
    """

    severity: Severity
    message: str
    place: Place | None = None
    notes: tuple[Diagnostic, ...] = ()
    source_line: str | None = None
