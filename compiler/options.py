"""Options of a compilation, and the configuration files that set them by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, cast

from mlopt.diagnostics import InputError, PipelineError, Place
from mlopt.ir.donations import Donation
from mlopt.passes.pipelines import (
    FINAL,
    MEMORY_STRATEGIES,
    OPTIMISATION_LEVELS,
    Level,
    PipelineOptions,
    at_optimisation_level,
    check_pass_names,
    named_pipeline,
)
from mlopt.passmanager import Pipeline, parse_pipeline
from mlopt.passmanager.option_values import (
    BYTES_EXPECTED,
    as_path,
    parse_bytes,
    require_bool,
    tolerance,
    wrong_value,
)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What a compilation may be told.

    - `dims`: values of symbolic dimensions, by name.
    - `pipeline`: the three switches, `optimize` and `thorough`, and passes and patterns left out (see
      `PipelineOptions`).
    - `pipeline_text`: a pipeline to run instead of the standard one, in MLIR's grammar; of `pipeline` only
      `disabled` and `disabled_patterns` then count.
    - `donate`: inputs whose memory is given up, each a `Donation` or a text such as `past=present@64`.
    - `weights`: the safetensors file of a textual model (default: beside it).
    - `poison`: fill dead bytes of the arena while running, to show that nothing reads them.
    - `validate`: undo what a pass changes if it changes the answer: True, or the allowed difference as a part of the
      largest number of an output (see `mlopt.validation`).
    - `bisect`: `validate`, and find the rewrite that is to blame.
    - `reproducers`: the folder for what shows that a pass changes the answer.

    `InputError` for a value that an option can't have.
    """

    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    pipeline: PipelineOptions = field(default_factory=PipelineOptions)
    pipeline_text: str | None = None
    donate: Sequence[Donation | str] = ()
    weights: Path | None = None
    poison: bool = False
    validate: bool | float = False
    bisect: bool = False
    reproducers: Path = Path("mlopt-reproducers")

    def __post_init__(self) -> None:
        given: Any = self  # as the types are not checked when a program runs
        if not isinstance(given.dims, Mapping):
            wrong_value("dims", "a table of names and sizes", given.dims)
        if not isinstance(given.pipeline, PipelineOptions):
            wrong_value("pipeline", "PipelineOptions (a pipeline as text is 'pipeline_text')", given.pipeline)
        if not isinstance(given.pipeline_text, str | None):
            wrong_value("pipeline_text", "text", given.pipeline_text)
        if isinstance(given.donate, str) or not isinstance(given.donate, Sequence):
            wrong_value("donate", "a list of donations", given.donate)
        for each in cast("Sequence[object]", given.donate):
            if not isinstance(each, Donation | str):
                wrong_value("donate", 'donations or texts such as "past=present@64"', each)
        for name in ("poison", "bisect"):
            require_bool(name, getattr(self, name))
        if given.weights is not None:
            object.__setattr__(self, "weights", as_path("weights", given.weights))
        object.__setattr__(self, "reproducers", as_path("reproducers", given.reproducers))
        object.__setattr__(self, "validate", tolerance("validate", given.validate))


def for_export(options: CompileOptions) -> CompileOptions:
    """`options` without what a level does for this engine alone; a pipeline given as text runs as it is."""
    if options.pipeline_text is not None:
        return options
    disabled = (*options.pipeline.disabled, *(step.pass_name for step in FINAL))
    return replace(options, pipeline=replace(options.pipeline, disabled=disabled))


_WRAPPED = re.compile(r"\s*(builtin\.module|any)\s*\(")


def parse_pipeline_text(text: str, level: Level = "graph", source: str = "<pipeline>") -> Pipeline:
    """The pipeline that a text stands for: passes, or all of it in MLIR's grammar, `builtin.module(...)`.

    A named pipeline stands for its passes from `level` down. An error is a `PipelineError` with the place in the text,
    named `source`.
    """
    anchor = None if _WRAPPED.match(text) else "builtin.module"
    return parse_pipeline(text, expand=partial(named_pipeline, level=level), source=source, anchor=anchor)


_SWITCHES = {
    "enable_fusion": ("fusion", (True, False)),
    "enable_inplace": ("inplace", (True, False)),
    "memory_reuse_strategy": ("memory_reuse", MEMORY_STRATEGIES),
}


def load_config(path: Path, options: CompileOptions) -> CompileOptions:
    """`options` with what the JSON or TOML file at `path` sets.

    Keys: `dims`, `poison`, `validate`, `bisect`, `optimize`, `pipeline` (a level such as `O3`, or passes),
    `memory_budget` (bytes, or text such as `"64KiB"`), `spill_budget` (likewise, or `"any"`), `waves`, `donate`,
    `disable_pass`, `disable_pattern`, and the table `optimization` with the switches `enable_fusion`, `enable_inplace`
    and `memory_reuse_strategy`, which win over the level. Raises `InputError` for a missing or malformed file and for
    an unknown key or value.
    """
    return apply_config(read_config(path), options, path)


def read_config(path: Path) -> dict[str, Any]:
    """The table in a JSON or TOML file."""
    import tomllib  # most compilations read no configuration

    place = Place(str(path))
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("no such configuration file", place=place) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't read the configuration file: {error}", place=place) from None
    try:
        table = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg}", place=Place(str(path), error.lineno, error.colno)
        ) from None
    except _DuplicateKey as error:
        raise InputError(f"the key '{error}' is given twice", place=place) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", place=place) from None
    if not isinstance(table, dict):
        raise InputError("expected a table of options at the top of the configuration file", place=place)
    return cast(dict[str, Any], table)


class _DuplicateKey(Exception):
    """A key that a JSON table has twice, which TOML refuses by itself."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise _DuplicateKey(key)
        table[key] = value
    return table


def apply_config(table: Mapping[str, Any], options: CompileOptions, path: Path) -> CompileOptions:
    """`options` with what `table` sets; `path` is named in errors."""
    place = Place(str(path))
    pipeline = options.pipeline
    if "pipeline" in table:
        text = _expect(table["pipeline"], str, "pipeline", place)
        if text in OPTIMISATION_LEVELS:
            pipeline = at_optimisation_level(text, pipeline)
        else:
            _check_pipeline(text, path)
            options = replace(options, pipeline_text=text)
    for key, value in table.items():
        match key:
            case "pipeline":
                pass  # above: the switches win over it, wherever they stand
            case "optimization":
                pipeline = _apply_switches(_expect(value, dict, key, place), pipeline, place)
            case "optimize":
                pipeline = replace(pipeline, optimize=_expect(value, bool, key, place))
            case "memory_budget":
                pipeline = replace(pipeline, memory_budget=_expect_bytes(value, key, place))
            case "waves":
                pipeline = replace(pipeline, waves=_expect_waves(value, place))
            case "spill_budget":
                spill = "any" if value == "any" else _expect_bytes(value, key, place, ', or "any"')
                pipeline = replace(pipeline, spill_budget=spill)
            case "disable_pass":
                pipeline = replace(pipeline, disabled=_expect_names(value, key, place))
                _check_names(pipeline.disabled, check_pass_names, path)
            case "disable_pattern":
                pipeline = replace(pipeline, disabled_patterns=_expect_names(value, key, place))
                _check_names(pipeline.disabled_patterns, _check_pattern_names, path)
            case "donate":
                names = _expect_names(value, key, place)
                options = replace(options, donate=(*_expect_donations(names, path), *options.donate))
            case "dims":
                options = replace(options, dims={**_expect_dims(value, place), **options.dims})
            case "poison":
                options = replace(options, poison=_expect(value, bool, key, place))
            case "bisect":
                options = replace(options, bisect=_expect(value, bool, key, place))
            case "validate":
                options = replace(options, validate=_expect_tolerance(value, place))
            case _:
                raise InputError(
                    f"unknown key '{key}', expected one of bisect, dims, disable_pass, disable_pattern, "
                    "donate, memory_budget, optimization, optimize, pipeline, poison, spill_budget, validate, waves",
                    place=place,
                )
    return replace(options, pipeline=pipeline)


def _check_pipeline(text: str, path: Path) -> None:
    try:
        parse_pipeline_text(text)
    except PipelineError as error:
        found = error.place
        inside = (
            found.column if found is not None and found.file == "<pipeline>" and found.line == 1 else None
        )
        raise InputError(
            f"'pipeline': {error.message}", place=_place_of(text, path, inside or 1), notes=error.notes
        ) from error


def _check_names(names: Collection[str], check: Callable[[Collection[str]], None], path: Path) -> None:
    """Check names one by one, so that an error has the place of the one that it is about."""
    for name in names:
        try:
            check([name])
        except PipelineError as error:
            raise InputError(error.message, place=_place_of(name, path)) from error


def _expect_donations(texts: Sequence[str], path: Path) -> list[Donation]:
    """Donations, each error with the place of the text that it is about."""
    found: list[Donation] = []
    for text in texts:
        try:
            found.append(Donation.parse(text))
        except InputError as error:
            raise InputError(error.message, place=_place_of(text, path)) from error
    return found


def _check_pattern_names(names: Collection[str]) -> None:
    from mlopt.passes.patterns import check_pattern_names  # which loads every pass

    check_pattern_names(names)


def _place_of(text: str, path: Path, column: int = 1) -> Place:
    """The place of character `column` of a text in a file, if it stands there once, between quotes; else the file."""
    whole = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = [match.start(1) for match in re.finditer(f"[\"'](?=({re.escape(text)})[\"'])", whole)]
    if len(found) != 1:
        return Place(str(path))
    before = whole[: found[0]]
    return Place(str(path), before.count("\n") + 1, found[0] - (before.rfind("\n") + 1) + column)


def _apply_switches(table: Mapping[str, Any], pipeline: PipelineOptions, place: Place) -> PipelineOptions:
    for key, value in table.items():
        if key not in _SWITCHES:
            raise InputError(
                f"unknown key 'optimization.{key}', expected one of {', '.join(_SWITCHES)}", place=place
            )
        name, allowed = _SWITCHES[key]
        if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
            choices = ", ".join(json.dumps(choice) for choice in allowed)
            raise InputError(
                f"'optimization.{key}' must be one of {choices}, found {json.dumps(value)}", place=place
            )
        pipeline = replace(pipeline, **{name: value})
    return pipeline


def _expect_names(value: Any, key: str, place: Place) -> tuple[str, ...]:
    names = _expect(value, list, key, place)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"'{key}' must be a list of names, found {json.dumps(value)}", place=place)
    return tuple(names)


def _expect_bytes(value: Any, key: str, place: Place, others: str = "") -> int:
    found = parse_bytes(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if found is None:
        raise InputError(f"'{key}' must be {BYTES_EXPECTED}{others}, found {json.dumps(value)}", place=place)
    return found


def _expect_waves(value: Any, place: Place) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 2:
        raise InputError(
            f"'waves' must be a number of launches, at least 2, found {json.dumps(value)}", place=place
        )
    return value


def _expect_dims(value: Any, place: Place) -> dict[str, int]:
    dims = _expect(value, dict, "dims", place)
    for name, size in dims.items():
        if type(size) is not int or size < 0:
            raise InputError(f"'dims.{name}' must be a whole number, found {json.dumps(size)}", place=place)
    return dims


def _expect_tolerance(value: Any, place: Place) -> bool | float:
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float) or not 0 <= value < inf:
        raise InputError(
            f"'validate' must be true, false or a finite number of at least 0, found {json.dumps(value)}",
            place=place,
        )
    return float(value)


def _expect(value: Any, kind: type, key: str, place: Place) -> Any:
    if not isinstance(value, kind):
        names = {dict: "a table", str: "text", bool: "true or false", list: "a list"}
        raise InputError(f"'{key}' must be {names[kind]}, found {json.dumps(value)}", place=place)
    return value
