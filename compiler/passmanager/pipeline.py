"""Pass pipelines: MLIR's grammar, read into passes and written back.

    pipeline ::= anchor `(` (element (`,` element)*)? `)`
    element  ::= pass-name (`{` options `}`)? | pipeline-name | pipeline | fixpoint
    fixpoint ::= `fixpoint` (`{` `limit=` number `}`)? `(` (element (`,` element)*)? `)`
    options  ::= (name (`=` value)?)*        separated by spaces
    value    ::= word | `'`...`'` | `"`...`"` | `{`...`}`

The anchor is the name of the operation that the elements run on, or `any`. A named pipeline, such as `O2`, is replaced
by its passes. A fixpoint runs its elements on the operation of the pipeline around it, round after round until none
has anything left to do, at most `limit` times. Spaces around names don't matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn, TypeAlias

from mlopt.diagnostics import PipelineError, Place, did_you_mean, nearest
from mlopt.passmanager.base import Pass
from mlopt.passmanager.options import OptionError, make_pass, options_text

ANY = "any"
"""The anchor that stands for every isolated operation."""

FIXPOINT = "fixpoint"
"""The name of what repeats its elements."""

DEFAULT_LIMIT = 10
"""After so many rounds a fixpoint gives up, unless it is told otherwise."""

_NAME_END = re.compile(r"[,{}()]")
_ANCHOR = re.compile(r"[A-Za-z_][\w$]*(\.[\w$]+)+")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_CLOSING = {"{": "}", "(": ")"}
_EXTRA_CLOSING = "encountered extra closing ')' creating unbalanced parentheses while parsing pipeline"


class Pipeline(NamedTuple):
    """Passes, nested pipelines and fixpoints, in order, for one kind of operation."""

    anchor: str
    elements: tuple[Element, ...]

    def __str__(self) -> str:
        """The pipeline as text, every option with its value; `parse_pipeline` reads it back."""
        return f"{element_head(self)}({','.join(map(element_text, self.elements))})"

    def without(self, names: Collection[str]) -> Pipeline:
        """The pipeline without the passes of these names, those inside its elements included."""
        return Pipeline(self.anchor, _without(self.elements, names))


class Fixpoint(NamedTuple):
    """Elements that run again and again, until none of them has anything left to do or `limit` rounds are over."""

    elements: tuple[Element, ...]
    limit: int = DEFAULT_LIMIT

    def __str__(self) -> str:
        return f"{element_head(self)}({','.join(map(element_text, self.elements))})"


Element: TypeAlias = Pass | Pipeline | Fixpoint
"""What stands between two commas of a pipeline."""


def element_head(element: Pipeline | Fixpoint) -> str:
    """What stands before the parentheses of a pipeline or a fixpoint."""
    return element.anchor if isinstance(element, Pipeline) else f"{FIXPOINT}{{limit={element.limit}}}"


def element_text(element: Element) -> str:
    """One element of a pipeline as text."""
    if not isinstance(element, Pass):
        return str(element)
    options = options_text(element)
    return f"{element.name}{{{options}}}" if options else element.name


def passes_on_anchor(elements: Sequence[Element]) -> Iterator[Pass]:
    """The passes that run on the operation that the elements run on: not those of nested pipelines."""
    for element in elements:
        if isinstance(element, Fixpoint):
            yield from passes_on_anchor(element.elements)
        elif isinstance(element, Pass):
            yield element


def _without(elements: Sequence[Element], names: Collection[str]) -> tuple[Element, ...]:
    kept: list[Element] = []
    for element in elements:
        match element:
            case Pipeline():
                kept.append(element.without(names))
            case Fixpoint():
                kept.append(Fixpoint(_without(element.elements, names), element.limit))
            case _ if element.name not in names:
                kept.append(element)
            case _:
                pass
    return tuple(kept)


def dump_text(pipeline: Pipeline) -> str:
    """The pipeline over several lines, as MLIR's `--dump-pass-pipeline` prints it."""

    def lines(element: Element, indent: str) -> str:
        if isinstance(element, Pass):
            return indent + element_text(element)
        if not element.elements:
            return f"{indent}{element_head(element)}()"
        inner = ",\n".join(lines(inner, indent + "  ") for inner in element.elements)
        return f"{indent}{element_head(element)}(\n{inner}\n{indent})"

    return f"Pass Manager with {len(pipeline.elements)} passes:\n{lines(pipeline, '')}\n"


def parse_pipeline(
    text: str,
    *,
    load: Callable[[str], type[Pass]] | None = None,
    expand: Callable[[str], str] | None = None,
    source: str = "<pass-pipeline>",
    anchor: str | None = None,
) -> Pipeline:
    """Read a pipeline, such as `builtin.module(func.func(cse),canonicalize{max-iterations=2})`.

    `load` gives the class of a pass by its name, or raises `KeyError` (default: mlopt's registry); `expand` likewise
    the passes of a named pipeline (default: there is none). With `anchor`, the text is what stands in the parentheses
    of a pipeline for that. An error is a `PipelineError` with the place in the text, named `source`.
    """
    parser = _PipelineParser(text, load or _registered_pass, expand or _no_pipeline, source)
    return parser.parse() if anchor is None else Pipeline(anchor, parser.parse_elements(anchor))


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


def _registered_names() -> Collection[str]:
    from mlopt.passes.registry import PASSES

    return PASSES


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
            self._fail(_EXTRA_CLOSING, self.pos)
        if self.pos < len(self.text):
            self._fail("expected the pipeline to end here", self.pos)
        return pipeline

    def parse_elements(self, anchor: str) -> tuple[Element, ...]:
        """The whole text: elements that run on `anchor`, and nothing after them."""
        self._skip_spaces()
        return self._list(anchor, None) if self.pos < len(self.text) else ()

    def _nested(self, anchor: str, start: int) -> Pipeline:
        """A pipeline whose anchor has been read and whose `(` comes next."""
        if anchor != ANY and not _ANCHOR.fullmatch(anchor):
            self._fail(
                f"expected the name of an operation, such as 'func.func', before '(', found '{anchor}'", start
            )
        return Pipeline(anchor, self._parenthesized(anchor))

    def _parenthesized(self, anchor: str) -> tuple[Element, ...]:
        """Elements in parentheses, of which `(` comes next."""
        opening = self.pos
        self.pos += 1
        self._skip_spaces()
        if self._at(")"):
            self.pos += 1
            return ()
        return self._list(anchor, opening)

    def _list(self, anchor: str, opening: int | None) -> tuple[Element, ...]:
        """Elements, at least one, up to the `)` of the `(` at `opening`, or to the end of the text."""
        elements: list[Element] = []
        while True:
            elements += self._elements(anchor)
            self._skip_spaces()
            if self._at(","):
                self.pos += 1
            elif self.pos >= len(self.text):
                if opening is None:
                    return tuple(elements)
                self._fail("encountered unbalanced parentheses while parsing pipeline", opening)
            elif self._at(")"):
                if opening is None:
                    self._fail(_EXTRA_CLOSING, self.pos)
                self.pos += 1
                return tuple(elements)
            elif self._at("}"):
                self._fail("encountered extra closing '}' while parsing pipeline", self.pos)
            else:
                self._fail("expected ',' after parsing pipeline", self.pos)

    def _elements(self, anchor: str) -> Sequence[Element]:
        """What stands between two commas: an element, or those of a named pipeline."""
        start = self._skip_spaces()
        name = self._name()
        if name == FIXPOINT:
            return [self._fixpoint(anchor)]
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

    def _fixpoint(self, anchor: str) -> Fixpoint:
        """A fixpoint whose name has been read."""
        limit = DEFAULT_LIMIT
        if self._at("{"):
            values, positions = self._options()
            for name, text in values.items():
                if name != "limit":
                    self._fail(f"{FIXPOINT}: no such option {name} (its options: limit)", positions[name])
                if text is None or not _NUMBER.fullmatch(text):
                    found = "none" if text is None else f"'{text}'"
                    expected = "option 'limit' expects a whole number from 1 to 999999999"
                    self._fail(f"{FIXPOINT}: {expected}, found {found}", positions[name])
                limit = int(text)
        self._skip_spaces()
        if not self._at("("):
            self._fail(f"expected '(' and the passes that '{FIXPOINT}' repeats", self.pos)
        return Fixpoint(self._parenthesized(anchor), limit)

    def _expanded(self, name: str, anchor: str, start: int, options: Mapping[str, int]) -> Sequence[Element]:
        try:
            text = self.expand(name)
        except KeyError:
            hint = did_you_mean(nearest(name, _registered_names())) if self.load is _registered_pass else ""
            self._fail(f"'{name}' does not refer to a registered pass or pass pipeline{hint}", start)
        for option, position in options.items():
            self._fail(f"pipeline '{name}': no such option {option} (its options: none)", position)
        elements = _PipelineParser(text, self.load, self.expand, f"<{name}>").parse_elements(ANY)
        for pass_ in passes_on_anchor(elements):
            self._check_anchor(type(pass_), anchor, start)
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
