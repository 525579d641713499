"""Pass pipelines: MLIR's grammar, read into passes and written back.

    pipeline ::= anchor `(` (element (`,` element)*)? `)`
    element  ::= pass-name (`{` options `}`)? | pipeline-name | pipeline
    options  ::= (name (`=` value)?)*        separated by spaces
    value    ::= word | `'`...`'` | `"`...`"` | `{`...`}`

The anchor is the name of the operation that the elements run on, or `any`. A named pipeline, such as `O2`, is replaced
by its passes. Spaces around names don't matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mlopt.diagnostics import PipelineError, Place
from mlopt.passmanager.base import Pass
from mlopt.passmanager.options import OptionError, make_pass, options_text

ANY = "any"
"""The anchor that stands for every isolated operation."""

_NAME_END = re.compile(r"[,{}()]")
_ANCHOR = re.compile(r"[A-Za-z_][\w$]*(\.[\w$]+)+")
_CLOSING = {"{": "}", "(": ")"}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes and nested pipelines, in order, for one kind of operation."""

    anchor: str
    elements: tuple[Pass | Pipeline, ...]

    def __str__(self) -> str:
        """The pipeline as text, every option with its value; `parse_pipeline` reads it back."""
        return f"{self.anchor}({','.join(map(element_text, self.elements))})"

    def without(self, names: Collection[str]) -> Pipeline:
        """The pipeline without the passes of these names, nested ones included."""
        kept = (
            element.without(names) if isinstance(element, Pipeline) else element
            for element in self.elements
            if isinstance(element, Pipeline) or element.name not in names
        )
        return Pipeline(self.anchor, tuple(kept))


def element_text(element: Pass | Pipeline) -> str:
    """One element of a pipeline as text."""
    if isinstance(element, Pipeline):
        return str(element)
    options = options_text(element)
    return f"{element.name}{{{options}}}" if options else element.name


def dump_text(pipeline: Pipeline) -> str:
    """The pipeline over several lines, as MLIR's `--dump-pass-pipeline` prints it."""

    def lines(element: Pass | Pipeline, indent: str) -> str:
        if not isinstance(element, Pipeline):
            return indent + element_text(element)
        if not element.elements:
            return f"{indent}{element.anchor}()"
        inner = ",\n".join(lines(inner, indent + "  ") for inner in element.elements)
        return f"{indent}{element.anchor}(\n{inner}\n{indent})"

    return f"Pass Manager with {len(pipeline.elements)} passes:\n{lines(pipeline, '')}\n"


def parse_pipeline(
    text: str,
    *,
    load: Callable[[str], type[Pass]] | None = None,
    expand: Callable[[str], str] | None = None,
    source: str = "<pass-pipeline>",
) -> Pipeline:
    """Read a pipeline, such as `builtin.module(func.func(cse),canonicalize{max-iterations=2})`.

    `load` gives the class of a pass by its name, or raises `KeyError` (default: mlopt's registry); `expand` likewise
    the passes of a named pipeline (default: there is none). An error is a `PipelineError` with the place in the text,
    named `source`.
    """
    return _PipelineParser(text, load or _registered_pass, expand or _no_pipeline, source).parse()


def parse_options(text: str) -> dict[str, str | None]:
    """Read options of a pass as they stand inside its braces: `a=1 b={x,y} c="q r" d`; without a value, None."""
    values: dict[str, str | None] = {}
    for _, name, value in _split_options(text):
        values[name] = value
    return values


def _registered_pass(name: str) -> type[Pass]:
    # The registry names the classes of all passes, and they derive from a class of this package.
    from mlopt.passes.registry import load_pass

    return load_pass(name)


def _no_pipeline(name: str) -> str:
    raise KeyError(name)


class _PipelineParser:
    def __init__(
        self, text: str, load: Callable[[str], type[Pass]], expand: Callable[[str], str], source: str
    ):
        self.text = text
        self.load = load
        self.expand = expand
        self.source = source
        self.pos = 0

    def parse(self) -> Pipeline:
        """The whole text: one pipeline, and nothing after it."""
        start = self._skip_spaces()
        name = self._name()
        if not self._at("(") or not name:
            self._fail(
                "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'",
                start,
            )
        pipeline = self._nested(name, start)
        self._skip_spaces()
        if self._at(")"):
            self._fail(
                "encountered extra closing ')' creating unbalanced parentheses while parsing pipeline",
                self.pos,
            )
        if self.pos < len(self.text):
            self._fail("expected the pipeline to end here", self.pos)
        return pipeline

    def _nested(self, anchor: str, start: int) -> Pipeline:
        """A pipeline whose anchor has been read and whose `(` comes next."""
        if anchor != ANY and not _ANCHOR.fullmatch(anchor):
            self._fail(
                f"expected the name of an operation, such as 'func.func', before '(', found '{anchor}'", start
            )
        opening = self.pos
        self.pos += 1
        elements: list[Pass | Pipeline] = []
        self._skip_spaces()
        if self._at(")"):
            self.pos += 1
            return Pipeline(anchor, ())
        while True:
            elements += self._elements(anchor)
            self._skip_spaces()
            if self._at(","):
                self.pos += 1
            elif self._at(")"):
                self.pos += 1
                return Pipeline(anchor, tuple(elements))
            elif self.pos >= len(self.text):
                self._fail("encountered unbalanced parentheses while parsing pipeline", opening)
            elif self._at("}"):
                self._fail("encountered extra closing '}' while parsing pipeline", self.pos)
            else:
                self._fail("expected ',' after parsing pipeline", self.pos)

    def _elements(self, anchor: str) -> Sequence[Pass | Pipeline]:
        """What stands between two commas: a nested pipeline, a pass, or the passes of a named pipeline."""
        start = self._skip_spaces()
        name = self._name()
        if self._at("("):
            return [self._nested(name, start)]
        if not name:
            self._fail("expected the name of a pass", start)
        values: Mapping[str, str | None] = {}
        positions: dict[str, int] = {}
        if self._at("{"):
            values, positions = self._options()
        try:
            pass_class = self.load(name)
        except KeyError:
            return self._expanded(name, anchor, start, positions)
        self._check_anchor(pass_class, anchor, start)
        try:
            return [make_pass(pass_class, values)]
        except OptionError as error:
            self._fail(error.message, positions[error.option], error)
        except PipelineError as error:
            self._fail(error.message, start, error)

    def _expanded(
        self, name: str, anchor: str, start: int, options: Mapping[str, int]
    ) -> Sequence[Pass | Pipeline]:
        try:
            text = self.expand(name)
        except KeyError:
            self._fail(f"'{name}' does not refer to a registered pass or pass pipeline", start)
        for option, position in options.items():
            self._fail(f"pipeline '{name}': no such option {option} (its options: none)", position)
        elements = _PipelineParser(f"any({text})", self.load, self.expand, f"<{name}>").parse().elements
        for element in elements:
            if isinstance(element, Pass):
                self._check_anchor(type(element), anchor, start)
        return elements

    def _check_anchor(self, pass_class: type[Pass], anchor: str, start: int) -> None:
        if pass_class.anchor is not None and anchor not in (ANY, pass_class.anchor):
            self._fail(
                f"can't add pass '{pass_class.name}' restricted to '{pass_class.anchor}' on a pass manager "
                f"intended to run on '{anchor}', did you intend to nest?",
                start,
            )

    def _options(self) -> tuple[dict[str, str | None], dict[str, int]]:
        """The options in braces, and where each stands."""
        opening = self.pos
        end = _matching_brace(self.text, opening)
        if end is None:
            self._fail("missing closing '}' while processing pass options", opening)
        self.pos = end + 1
        values: dict[str, str | None] = {}
        positions: dict[str, int] = {}
        for offset, name, value in _split_options(self.text[opening + 1 : end]):
            at = opening + 1 + offset
            if name in values:
                self._fail(f"option '{name}' is given twice", at)
            if not name:
                self._fail("expected the name of an option before '='", at)
            values[name], positions[name] = value, at
        return values, positions

    def _name(self) -> str:
        match = _NAME_END.search(self.text, self.pos)
        end = len(self.text) if match is None else match.start()
        name = self.text[self.pos : end]
        self.pos = end
        return name.strip()

    def _skip_spaces(self) -> int:
        while self.pos < len(self.text) and self.text[self.pos].isspace():
            self.pos += 1
        return self.pos

    def _at(self, char: str) -> bool:
        return self.text.startswith(char, self.pos)

    def _fail(self, message: str, position: int, cause: Exception | None = None) -> NoReturn:
        before = self.text[:position]
        line = before.count("\n")
        start = before.rfind("\n") + 1
        place = Place(self.source, line + 1, position - start + 1)
        raise PipelineError(message, place=place, source_line=self.text[start:].partition("\n")[0]) from cause


def _matching_brace(text: str, opening: int) -> int | None:
    """The position of the `}` that closes the `{` at `opening`, or None; quotes hide braces."""
    depth, quote = 0, ""
    for i in range(opening, len(text)):
        char = text[i]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return i
    return None


def _split_options(text: str) -> list[tuple[int, str, str | None]]:
    """Position, name and value of each option; spaces inside quotes, braces and parentheses belong to a value."""
    found: list[tuple[int, str, str | None]] = []
    i = 0
    while i < len(text):
        if text[i].isspace():
            i += 1
            continue
        start = i
        stack: list[str] = []
        quote = ""
        while i < len(text) and (quote or stack or not text[i].isspace()):
            char = text[i]
            if quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char in _CLOSING:
                stack.append(_CLOSING[char])
            elif stack and char == stack[-1]:
                stack.pop()
            i += 1
        name, equals, value = text[start:i].partition("=")
        found.append((start, name, value if equals else None))
    return found
