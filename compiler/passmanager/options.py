"""Options of passes: the fields of the pass's dataclass, read from text and written back.

A field `max_iterations: int = 10` is the option `max-iterations`. Types: `bool`, `int`, `float`, `str`,
`Literal["a", "b"]`, `tuple[T, ...]`, and `T | None`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from mlopt.diagnostics import MloptError, PipelineError
from mlopt.passmanager.base import Pass

_PLAIN_VALUE = re.compile(r"[^\s,{}()'\"]+")


class Option(NamedTuple):
    """One option of a pass: its name in pipelines, its field, its type, and its default if it has one."""

    name: str
    field: str
    type: Any
    default: Any
    required: bool

    @property
    def type_text(self) -> str:
        """The type as shown to a user: `int`, `bool`, `conservative|aggressive`, `int,...`."""
        return _type_text(self.type)


class OptionValueError(ValueError):
    """A text that is no value of an option's type; the message says what was expected."""


class OptionError(PipelineError):
    """An option of a pass that is unknown or has no such value; `option` is its name as given."""

    def __init__(self, message: str, option: str):
        super().__init__(message)
        self.option = option


def pass_options(pass_class: type[Pass]) -> tuple[Option, ...]:
    """The options of a pass, in the order of its fields."""
    options: list[Option] = []
    hints: dict[str, Any] = {}
    for field in fields(pass_class):
        hints = hints or get_type_hints(pass_class)
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        options.append(
            Option(
                field.name.replace("_", "-"),
                field.name,
                hints[field.name],
                default,
                required=default is MISSING,
            )
        )
    return tuple(options)


def make_pass(pass_class: type[Pass], values: Mapping[str, str | None]) -> Pass:
    """A pass with options from text (None: the option was given without a value, which means true).

    Raises `PipelineError` for a missing option or a combination that the pass refuses, and `OptionError` for an
    unknown option or a value that its type can't hold. Whole numbers are sizes, counts and limits, of which none
    is negative; other numbers are finite.
    """
    options = {option.name: option for option in pass_options(pass_class)}
    arguments: dict[str, Any] = {}
    for given, text in values.items():
        option = options.get(given.replace("_", "-"))
        if option is None:
            known = ", ".join(options) or "none"
            message = f"pass '{pass_class.name}': no such option {given} (its options: {known})"
            raise OptionError(message, given)
        try:
            arguments[option.field] = parse_value("true" if text is None else text, option.type)
        except OptionValueError as error:
            message = f"pass '{pass_class.name}': option '{option.name}' {error}"
            raise OptionError(message, given) from None
    missing = [
        option.name for option in options.values() if option.required and option.field not in arguments
    ]
    if missing:
        raise PipelineError(f"pass '{pass_class.name}' needs a value for option '{missing[0]}'")
    try:
        made = pass_class(**arguments)
    except MloptError as error:
        raise PipelineError(f"pass '{pass_class.name}': {error.message}", notes=error.notes) from error
    except ValueError as error:
        raise PipelineError(f"pass '{pass_class.name}': {error}") from error
    for given in values:
        option = options[given.replace("_", "-")]
        value = arguments[option.field]
        expected = None
        if isinstance(value, int) and value < 0:
            expected = "expects a number of at least 0"
        elif isinstance(value, float) and not isfinite(value):
            expected = "expects a finite number"
        if expected is not None:
            message = f"pass '{pass_class.name}': option '{option.name}' {expected}, found '{values[given]}'"
            raise OptionError(message, given)
    return made


def options_text(pass_: Pass) -> str:
    """All options of a pass with their values, as in a pipeline: `max-iterations=10 names={a,b}`; None is left out."""
    parts: list[str] = []
    for option in pass_options(type(pass_)):
        value = getattr(pass_, option.field)
        if value is not None:
            parts.append(f"{option.name}={value_text(value)}")
    return " ".join(parts)


def parse_value(text: str, type_: Any) -> Any:
    """The value of a type that a text stands for; `OptionValueError` if it stands for none."""
    origin = get_origin(type_)
    if origin in (Union, UnionType):
        return _parse_union(text, [inner for inner in get_args(type_) if inner is not NoneType])
    if origin is Literal:
        choices = [str(choice) for choice in get_args(type_)]
        if text not in choices:
            expected = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
            raise OptionValueError(f"expects {expected}, found '{text}'")
        return get_args(type_)[choices.index(text)]
    if origin is tuple:
        return tuple(parse_value(part, get_args(type_)[0]) for part in _split_list(text))
    if type_ is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise OptionValueError(f"expects true or false, found '{text}'")
        return text.lower() in ("true", "1")
    if type_ is int or type_ is float:
        try:
            return type_(text)
        except ValueError:
            what = "an integer" if type_ is int else "a number"
            raise OptionValueError(f"expects {what}, found '{text}'") from None
    return _unquote(text)


def value_text(value: Any) -> str:
    """The text of an option's value; `parse_value` reads it back."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "{" + ",".join(value_text(item) for item in cast("tuple[Any, ...]", value)) + "}"
    text = str(value)
    if isinstance(value, str) and not _PLAIN_VALUE.fullmatch(text):
        return f'"{text}"' if '"' not in text else f"'{text}'"
    return text


def _parse_union(text: str, types: list[Any]) -> Any:
    expected: list[str] = []
    for type_ in types:
        try:
            return parse_value(text, type_)
        except OptionValueError as error:
            expected.append(str(error).removeprefix("expects ").partition(", found")[0])
    raise OptionValueError(f"expects {' or '.join(expected)}, found '{text}'")


def _split_list(text: str) -> list[str]:
    """The elements of `a,b` or `{a,b}`; commas inside quotes or braces don't separate."""
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    parts: list[str] = []
    depth, quote, start = 0, "", 0
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "{(":
            depth += 1
        elif char in "})":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [] if parts == [""] else parts


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if len(text) >= 2 and text[0] == "{" and text[-1] == "}":
        return text[1:-1]
    return text


def _type_text(type_: Any) -> str:
    origin = get_origin(type_)
    if origin in (Union, UnionType):
        return "|".join(_type_text(inner) for inner in get_args(type_) if inner is not NoneType)
    if origin is Literal:
        return "|".join(str(choice) for choice in get_args(type_))
    if origin is tuple:
        return f"{_type_text(get_args(type_)[0])},..."
    return getattr(type_, "__name__", str(type_))
