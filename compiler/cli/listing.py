"""What there is: the passes with their options, their patterns, and the dialects."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping

from mlopt.ir.registration import DIALECTS
from mlopt.ir.rewriting import DRIVER_REWRITES
from mlopt.passes.patterns import all_patterns
from mlopt.passes.pipelines import OPTIMISATION_LEVELS, named_pipeline
from mlopt.passes.registry import PASSES, load_pass
from mlopt.passmanager import Pass, pass_options
from mlopt.passmanager.options import value_text


def pass_list() -> str:
    """Passes and named pipelines.

    Each pass with the first sentence of its description, and its options with types and defaults; each pipeline with
    the passes that it runs on a module at the graph level.
    """
    passes = "".join(_describe(load_pass(name)) for name in PASSES)
    pipelines = "".join(_describe_pipeline(name) for name in OPTIMISATION_LEVELS)
    return f"Passes:\n{passes}\nPass Pipelines:\n{pipelines}"


def pattern_list() -> str:
    """The patterns of each pass, each with what it does: what `--disable-pattern` can switch off."""
    sections = [f"--{name}\n{_describe_patterns(patterns)}" for name, patterns in all_patterns().items()]
    sections.append(f"any pass\n{_describe_patterns(DRIVER_REWRITES)}")
    return "Patterns:\n" + "".join(sections)


def _describe_patterns(patterns: Mapping[str, str]) -> str:
    lines: list[str] = []
    for name, summary in patterns.items():
        lines.append(f"    {name}")
        lines += textwrap.wrap(
            summary or "One of xDSL's patterns.", 110, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
    return "\n".join(lines) + "\n"


def dialect_list() -> str:
    """The line that `mlir-opt --show-dialects` prints."""
    return f"Available Dialects: {','.join(sorted(DIALECTS))}\n"


def _describe(pass_class: type[Pass]) -> str:
    lines = [f"--{pass_class.name}"]
    summary = (inspect.getdoc(pass_class) or "").partition("\n")[0]
    lines += textwrap.wrap(summary, 100, initial_indent="    ", subsequent_indent="    ")
    for option in pass_options(pass_class):
        if option.required:
            default = "required"
        elif option.default is None:
            default = "default: none"
        else:
            default = f"default: {value_text(option.default)}"
        lines.append(f"      {option.name}=<{option.type_text}>  ({default})")
    return "\n".join(lines) + "\n"


def _describe_pipeline(name: str) -> str:
    passes = named_pipeline(name).replace(",", ", ")
    lines = [f"--{name}", f"    {OPTIMISATION_LEVELS[name]}"]
    lines += textwrap.wrap(
        passes, 100, initial_indent="      ", subsequent_indent="      ", break_on_hyphens=False
    )
    return "\n".join(lines) + "\n"
