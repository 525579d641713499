"""Values of options that are given in Python: each is checked where it is given, by name."""

from __future__ import annotations

import re
from collections.abc import Collection
from math import isfinite
from pathlib import Path
from typing import NoReturn, cast

from mlopt.diagnostics import InputError

_UNITS = {
    "": 1,
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}

BYTES_EXPECTED = "a number of bytes, such as 65536, 64KiB or 1.5MB"


def parse_bytes(text: str) -> int | None:
    """The bytes that a text such as `65536`, `64KiB` or `1.5 MB` stands for, rounded down; None if it is no size."""
    match = re.fullmatch(r"([0-9]{1,18})(?:\.([0-9]{1,9}))? ?([a-zA-Z]*)", text.strip())
    if match is None or match[3] not in _UNITS or (match[2] is not None and _UNITS[match[3]] == 1):
        return None
    whole, fraction = int(match[1]), match[2] or ""
    return (int(f"{whole}{fraction}") * _UNITS[match[3]]) // 10 ** len(fraction)


def wrong_value(name: str, expected: str, found: object) -> NoReturn:
    """Raise the `InputError` that an option has no such value."""
    raise InputError(f"option '{name}' must be {expected}, found {found!r}")


def byte_count(name: str, value: object, others: str = "") -> int:
    """A number of bytes, or the number that a text stands for; `others` names what may be given instead."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        found = parse_bytes(str(value))
        if found is not None:
            return found
    wrong_value(name, f"{BYTES_EXPECTED}{others}", value)


def tolerance(name: str, value: object) -> bool | float:
    """True or False, or a difference that is allowed: a finite number of at least 0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value >= 0 and isfinite(value):
        return float(value)
    wrong_value(name, "true, false or a finite number of at least 0", value)


def require_bool(name: str, value: object) -> None:
    """Raise `InputError` for what is neither True nor False."""
    if not isinstance(value, bool):
        wrong_value(name, "true or false", value)


def require_names(name: str, value: object) -> None:
    """Raise `InputError` for what is no collection of texts; a text alone is none."""
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        wrong_value(name, "a list of names", value)
    for each in cast("Collection[object]", value):
        if not isinstance(each, str):
            wrong_value(name, "a list of names, each a text", each)


def require_width(name: str, value: object) -> None:
    """Raise `InputError` for what is no number of launches that run at the same time."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 2:
        wrong_value(name, "a number of launches, at least 2", value)


def as_path(name: str, value: object) -> Path:
    """A path, or the one that a text stands for."""
    if isinstance(value, str | Path):
        return Path(value)
    wrong_value(name, "a path", value)
