"""Checks diagnostics against the comments in a text, as MLIR's `--verify-diagnostics` does.

    // expected-error @below {{does not dominate}}
    // expected-note-re @+2 {{defined at line {{[0-9]+}}}}

The comment stands on the line of the diagnostic, or names it: `@above` and `@below` (the next line without such a
comment), `@+N`, `@-N`, `@unknown` (no place). The text is part of the message; with `-re`, `{{...}}` inside it is a
regular expression, in which POSIX classes such as `[[:alpha:]]` may stand.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from mlopt.diagnostics.diagnostic import Diagnostic, Place, Severity

_COMMENT = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?"
    r" *(?:@(?P<where>[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)
_ALMOST = re.compile(r"//.*\bexpected-(error|warning|note|remark)\b")
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
"""What stands for `[:NAME:]` inside brackets: MLIR's regular expressions are POSIX's, Python's know no such classes."""


@dataclass
class _Expected:
    severity: Severity
    line: int | None
    pattern: re.Pattern[str]
    text: str
    place: Place
    produced: bool = False

    def matches(self, diagnostic: Diagnostic) -> bool:
        line = diagnostic.place.line if diagnostic.place is not None else None
        return (
            diagnostic.severity == self.severity
            and line == self.line
            and self.pattern.search(diagnostic.message) is not None
        )


@dataclass
class ExpectedDiagnostics:
    """The diagnostics that a text says it expects, and those that came without being expected."""

    only_expected: bool = False
    _expected: list[_Expected] = field(default_factory=list[_Expected])
    _complaints: list[Diagnostic] = field(default_factory=list[Diagnostic])

    @classmethod
    def from_text(
        cls, text: str, file: str, *, first_line: int = 1, only_expected: bool = False
    ) -> ExpectedDiagnostics:
        """Read the comments of a text whose first line has the number `first_line`.

        With `only_expected`, a diagnostic that no comment expects is no fault.
        """
        self = cls(only_expected)
        lines = text.split("\n")  # the lines that places count; `splitlines` knows more ends of lines
        comments = {i: match for i, line in enumerate(lines) if (match := _COMMENT.search(line))}
        for i, match in comments.items():
            place = Place(file, i + first_line, match.start() + 1)
            try:
                pattern = _pattern(match["text"], regex=match["regex"] is not None)
            except ValueError as error:
                self._complain(f"invalid regex: {error}", place)
                continue
            line = _designated(match["where"], i, comments, len(lines))
            self._expected.append(
                _Expected(
                    Severity(match["severity"]),
                    None if line is None else line + first_line,
                    pattern,
                    match["text"],
                    place,
                )
            )
        for i, line in enumerate(lines):
            almost = _ALMOST.search(line)
            if almost and i not in comments:
                self._complain(
                    "malformed expected comment: the form is // expected-error {{text}}",
                    Place(file, i + first_line, almost.start() + 1),
                )
        return self

    def check(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Take diagnostics as produced, with their notes."""
        for diagnostic in diagnostics:
            self._check_one(diagnostic)
            self.check(diagnostic.notes)

    def complaints(self) -> list[Diagnostic]:
        """What was not as expected: unexpected diagnostics, then missing ones. Empty if all is well."""
        missing = [
            Diagnostic(
                Severity.ERROR,
                f'expected {expected.severity.value} "{expected.text}" was not produced',
                expected.place,
            )
            for expected in self._expected
            if not expected.produced
        ]
        return self._complaints + missing

    def _check_one(self, diagnostic: Diagnostic) -> None:
        matching = [expected for expected in self._expected if expected.matches(diagnostic)]
        fresh = [expected for expected in matching if not expected.produced]
        if fresh:
            fresh[0].produced = True
        elif not self.only_expected:
            self._complain(f"unexpected {diagnostic.severity.value}: {diagnostic.message}", diagnostic.place)

    def _complain(self, message: str, place: Place | None) -> None:
        self._complaints.append(Diagnostic(Severity.ERROR, message, place))


def _designated(where: str | None, line: int, comments: dict[int, re.Match[str]], count: int) -> int | None:
    """The line (from 0) that a comment in `line` speaks of."""
    match where:
        case None:
            return line
        case "unknown":
            return None
        case "above":
            candidates = (i for i in range(line - 1, -1, -1) if i not in comments)
            return next(candidates, line)
        case "below":
            candidates = (i for i in range(line + 1, count) if i not in comments)
            return next(candidates, line)
        case _:
            return line + int(where)


def _pattern(text: str, *, regex: bool) -> re.Pattern[str]:
    """What a message must hold; `ValueError` if `text` is no regular expression."""
    if not regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    if any("{{" in part for part in parts[::2]):
        raise ValueError("found start of regex with no end '}}'")
    return re.compile("".join(_group(part) if i % 2 else re.escape(part) for i, part in enumerate(parts)))


def _group(text: str) -> str:
    """A regular expression as a group of its own; `ValueError` if it is none by itself."""
    translated = re.sub(r"\[:([a-z]+):\]", lambda match: _POSIX_CLASSES.get(match[1], match[0]), text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # a class that there is not
            re.compile(translated)
    except (re.error, FutureWarning) as error:
        raise ValueError(f"'{text}': {error}") from error
    return f"({translated})"
