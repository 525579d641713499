"""What the commands of `mlopt` share: their options, compiling as the options say, and reporting what happened."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mlopt import __version__
from mlopt.cli.progress import progress
from mlopt.cli.remarks import add_remark_options, check_remark_options, print_remarks
from mlopt.diagnostics import (
    REMARK_KINDS,
    Diagnostic,
    InputError,
    PipelineError,
    Remark,
    UsageError,
    counted,
    did_you_mean,
    nearest,
    print_diagnostic,
)

if TYPE_CHECKING:
    import numpy as np

    from mlopt.compilation import Compilation
    from mlopt.interpreter.memref import Executable
    from mlopt.ir.donations import Donation
    from mlopt.options import CompileOptions
    from mlopt.passes.pipelines import Level
    from mlopt.passmanager import Instrumentation, PassResult

Commands = Any
"""What `ArgumentParser.add_subparsers` returns; argparse gives it no public type."""


def add_command(
    commands: Commands,
    name: str,
    command: Callable[[argparse.Namespace], int],
    help: str,
    example: str,
    verbose: str = "print what each pass did",
) -> argparse.ArgumentParser:
    """Add a command with what all commands have: MODEL, `--dim`, `--weights`, `--version`, `-q` and `-v`.

    `verbose` says what `-v` prints.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    parser.add_argument("model", type=Path, metavar="MODEL", help="an .onnx or .mlir file")
    parser.add_argument(
        "--dim",
        dest="dims",
        action="append",
        default=[],
        metavar="NAME=N",
        help="the value of a symbolic dimension (INPUT.AXIS for one without a name)",
    )
    parser.add_argument(
        "--weights", type=Path, help="the weights of an .mlir model (default: STEM.safetensors)"
    )
    parser.add_argument("--version", action="version", version=f"mlopt {__version__}")
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-q", "--quiet", action="store_true", help="print errors and the result only")
    volume.add_argument("-v", "--verbose", action="store_true", help=verbose)
    return parser


def add_pipeline_options(parser: argparse.ArgumentParser, *, plans_memory: bool = True) -> None:
    """What decides how a model is compiled; options of its memory only where that is planned."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--pipeline",
        metavar="NAME|TEXT",
        help="O0: as imported, O1: optimise without fusion, O2: optimise and fuse (default), O3: O2 and what takes "
        "longer or rounds differently; or passes in MLIR's grammar, in place of these, or before one: 'PASS,...,O2'",
    )
    which.add_argument("--no-optimize", action="store_true", help="lower the model as it was imported (O0)")
    if plans_memory:
        _add_memory_options(parser)
    add_disable_options(parser)
    parser.add_argument(
        "--validate",
        type=validation_tolerance,
        default=None,
        metavar="[=TOL]",
        help="compare what the IR computes before and after each pass, and undo what changes the answer by more than "
        "TOL (default: 1e-4) of the largest output; exit code 1 if there was any",
    )
    parser.add_argument(
        "--bisect", action="store_true", help="--validate, and find the rewrite that is to blame"
    )
    parser.add_argument(
        "--reproducers",
        type=Path,
        metavar="DIR",
        help="where --validate writes a reduced .mlir file for each change undone (default: mlopt-reproducers)",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="options by name, in JSON or TOML")
    parser.add_argument(
        "--report", type=Path, metavar="FILE.json", help="write figures of the compilation and run"
    )
    add_remark_options(parser)


def _add_memory_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory-budget",
        type=byte_count,
        metavar="BYTES",
        help="let the arena be no larger, such as 64KiB or 1.5MB: reorder, cut into tiles and compute again until it "
        "fits; an error that says what is live at once if nothing does",
    )
    parser.add_argument(
        "--spill-budget",
        type=_bytes_or_any,
        metavar="BYTES|any",
        help="with --memory-budget, where nothing else fits: copy tensors to a second memory of so many bytes, and "
        "back before they are used",
    )
    parser.add_argument(
        "--waves",
        type=_width,
        metavar="N",
        help="let up to N launches that are independent of each other run at the same time, on threads of their own; "
        "the arena then keeps their memory apart",
    )
    parser.add_argument(
        "--donate",
        action="extend",
        type=_names,
        default=[],
        metavar="INPUT[=OUTPUT[@CAPACITY]]",
        help="let an output be computed in the memory of this input, or one that begins with it, whose contents are "
        "lost then; CAPACITY is how long that memory is along the axis that grows. Several with commas",
    )


def add_inputs_option(parser: argparse.ArgumentParser) -> None:
    """`--inputs`, where they are an example of shapes only; see `example_inputs`."""
    parser.add_argument("--inputs", type=Path, help="an .npz file of inputs, to take dimensions from")


def example_inputs(arguments: argparse.Namespace) -> dict[str, np.ndarray] | None:
    """The arrays of `--inputs`, if it is given."""
    from mlopt.arrays import read_npz

    return read_npz(arguments.inputs, "in") if arguments.inputs else None


def add_disable_options(parser: argparse.ArgumentParser) -> None:
    """What leaves passes and patterns out, of `mlopt` and `mlopt-opt` alike."""
    parser.add_argument(
        "--disable-pass",
        action="extend",
        type=_names,
        default=[],
        metavar="NAME[,NAME]",
        help="leave passes out (mlopt-opt --list-passes has the names)",
    )
    parser.add_argument(
        "--disable-pattern",
        action="extend",
        type=_names,
        default=[],
        metavar="[PASS:]NAME[,...]",
        help="leave patterns out of every pass, or of one (mlopt-opt --list-patterns has the names)",
    )


def add_dump_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dump",
        type=Path,
        metavar="DIR",
        help="write the IR after each pass that changed something to files in this folder",
    )


def compile_options(arguments: argparse.Namespace) -> CompileOptions:
    """The options that the command line and its `--config` give; the command line wins."""
    from mlopt.options import CompileOptions, load_config, parse_pipeline_text
    from mlopt.passes.pipelines import OPTIMISATION_LEVELS, at_optimisation_level, check_pass_names
    from mlopt.passes.registry import PASSES

    if arguments.weights is not None and arguments.model.suffix != ".mlir":
        raise UsageError(f"--weights goes with an .mlir model only, found '{arguments.model}'")
    if hasattr(arguments, "remarks"):
        check_remark_options(arguments)
    options = CompileOptions(
        dims=_parse_dims(arguments.dims),
        weights=arguments.weights,
        poison=getattr(arguments, "poison", False),
    )
    if getattr(arguments, "config", None) is not None:
        options = load_config(arguments.config, options)
    if getattr(arguments, "validate", None) is not None:
        options = replace(options, validate=arguments.validate)
    if getattr(arguments, "bisect", False):
        options = replace(options, bisect=True)
    if getattr(arguments, "donate", None):
        options = replace(options, donate=(*options.donate, *map(_donation, arguments.donate)))
    if getattr(arguments, "reproducers", None) is not None:
        options = replace(options, reproducers=arguments.reproducers)
    pipeline = options.pipeline
    text: str | None = getattr(arguments, "pipeline", None)
    if text in OPTIMISATION_LEVELS:
        pipeline, text = at_optimisation_level(text, pipeline), None
    elif text is not None and re.fullmatch(r"[\w-]*", text) and text not in PASSES:
        raise UsageError(
            f"--pipeline wants {', '.join(OPTIMISATION_LEVELS)} or the names of passes, found '{text}'"
            f"{did_you_mean(nearest(text, PASSES))}"
        )
    elif text is not None:
        parse_pipeline_text(text, source="--pipeline")  # a faulty one is an error whatever the model is
    if getattr(arguments, "no_optimize", False):
        pipeline = at_optimisation_level("O0", pipeline)
    if getattr(arguments, "disable_pass", None):
        check_disabled(arguments.disable_pass, ())
        pipeline = replace(pipeline, disabled=(*pipeline.disabled, *arguments.disable_pass))
    if getattr(arguments, "disable_pattern", None):
        check_disabled((), arguments.disable_pattern)
        names = (*pipeline.disabled_patterns, *arguments.disable_pattern)
        pipeline = replace(pipeline, disabled_patterns=names)
    check_pass_names(pipeline.disabled)
    if getattr(arguments, "memory_budget", None) is not None:
        pipeline = replace(pipeline, memory_budget=arguments.memory_budget)
    if getattr(arguments, "waves", None) is not None:
        pipeline = replace(pipeline, waves=arguments.waves)
    if getattr(arguments, "spill_budget", None) is not None:
        pipeline = replace(pipeline, spill_budget=arguments.spill_budget)
    if (
        text is None
        and getattr(arguments, "pipeline", None) is None
        and not getattr(arguments, "no_optimize", False)
    ):
        text = options.pipeline_text
    if text is not None and pipeline.memory_budget is not None:
        raise UsageError(
            "a memory budget goes with O0 to O3, in other pipelines it is an option of fit-memory, plan-workspaces and "
            f"assign-buffers; found '{text}'"
        )
    if text is not None and pipeline.waves is not None:
        raise UsageError(
            f"waves go with O0 to O3, in other pipelines they are the pass order-in-waves; found '{text}'"
        )
    if pipeline.spill_budget is not None and pipeline.memory_budget is None:
        raise UsageError(
            "--spill-budget goes with --memory-budget, which says how many bytes the first memory has"
        )
    return replace(options, pipeline=pipeline, pipeline_text=text)


def check_disabled(passes: Sequence[str], patterns: Sequence[str]) -> None:
    """Raise `UsageError` if `--disable-pass` names what is no pass, or `--disable-pattern` what is no pattern."""
    from mlopt.passes.pipelines import check_pass_names

    try:
        check_pass_names(passes)
        if patterns:
            from mlopt.passes.patterns import check_pattern_names  # which loads every pass

            check_pattern_names(patterns)
    except PipelineError as error:
        raise UsageError(error.message) from None


def _donation(text: str) -> Donation:
    from mlopt.ir.donations import Donation

    try:
        return Donation.parse(text)
    except InputError as error:
        raise UsageError(f"--donate: {error.message}") from None


def byte_count(text: str) -> int:
    """A number of bytes, with or without a unit, as the type of an option."""
    from mlopt.passmanager.option_values import BYTES_EXPECTED, parse_bytes

    found = parse_bytes(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected {BYTES_EXPECTED}, found '{text}'")
    return found


def _width(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 2:
        raise argparse.ArgumentTypeError(f"expected a number of launches, at least 2, found '{text}'")
    return int(text)


def _bytes_or_any(text: str) -> int | Literal["any"]:
    from mlopt.passmanager.option_values import BYTES_EXPECTED, parse_bytes

    found = "any" if text == "any" else parse_bytes(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected {BYTES_EXPECTED}, or any, found '{text}'")
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _parse_dims(texts: Sequence[str]) -> dict[str, int]:
    dims: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not re.fullmatch(r"[0-9]{1,18}", value):
            raise UsageError(f"--dim wants NAME=N with a whole number N, found '{text}'")
        if dims.setdefault(name, int(value)) != int(value):
            raise UsageError(f"--dim gives '{name}' two values, {dims[name]} and {value}")
    return dims


def compile_with_progress(
    arguments: argparse.Namespace, compilation: Compilation, target: Level | None
) -> Compilation:
    """`compile_model`, with a sign of life on a terminal, dumps if asked for, and the levels that a report wants."""
    from mlopt.cli.watching import PassProgress, dumps_of_changes
    from mlopt.compilation import compile_model

    with progress(f"compiling {arguments.model}") as update:
        watchers: list[Instrumentation] = [PassProgress(update)]
        if arguments.dump is not None:
            watchers.append(dumps_of_changes(arguments.dump))
        return compile_model(
            compilation, target, instrumentations=watchers, keep_levels=arguments.report is not None
        )


def finish(
    arguments: argparse.Namespace,
    compilation: Compilation,
    executable: Executable | None,
    figures: dict[str, Any],
) -> None:
    """Print warnings, remarks and pass times when asked, and write the report."""
    from mlopt.files import write_text
    from mlopt.report import build_report

    validation = None if compilation.validator is None else compilation.validator.report()
    print_findings(
        arguments, compilation.ctx.warnings, compilation.ctx.remarks, validation, compilation.passes
    )
    if arguments.report is not None:
        report = build_report(compilation, executable)
        for section, values in figures.items():
            report.setdefault(section, {}).update(values)
        write_text(arguments.report, json.dumps(report, indent=2, allow_nan=False) + "\n")
        say(arguments, f"wrote {arguments.report}")


def print_findings(
    arguments: argparse.Namespace,
    warnings: Iterable[Diagnostic],
    remarks: Iterable[Remark],
    validation: Mapping[str, Any] | None,
    passes: Iterable[PassResult],
) -> None:
    """Print what a compilation had to say: warnings, and remarks, what validation found and passes as asked for.

    `validation` is that of a report.
    """
    for warning in warnings:
        print_diagnostic(warning)
    print_remarks(arguments, remarks, str(arguments.model))
    if validation is not None:
        held, undone = len(validation["validated"]), len(validation["rejected"])
        worst = max(validation["validated"], key=lambda each: each["largest_error"], default=None)
        error = "" if worst is None else f"; largest error {worst['largest_error']:.2g}, by '{worst['pass']}'"
        say(arguments, f"validated: {counted(held, 'change holds', 'changes hold')}, {undone} undone{error}")
    if arguments.verbose:
        for result in passes:
            changed = "changed" if result.changed else "unchanged"
            counts = "".join(f", {name} {count}" for name, count in sorted(result.statistics.items()))
            print(f"{result.name}: {1e3 * result.seconds:.1f} ms, {changed}{counts}", file=sys.stderr)


def validation_tolerance(text: str) -> bool | float:
    """What `--validate` gives: a finite number of at least 0, or nothing for the default."""
    if not text:
        return True
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected a finite number of at least 0, found '{text}'")
    return value


def with_bare_values(arguments: Sequence[str]) -> list[str]:
    """A command line in which the options whose value may be left out have one.

    `--validate` never takes the next word; `--remarks` does, unless there is none or it is another option or a model.
    """
    values = {"--validate": "--validate=", "--remarks": f"--remarks={','.join(REMARK_KINDS)}"}
    given: list[str] = []
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue="-"):
        is_none = following.startswith("-") or following.endswith((".onnx", ".mlir"))
        is_bare = argument in values and (argument == "--validate" or is_none)
        given.append(values[argument] if is_bare else argument)
    return given


def exit_code(compilation: Compilation) -> int:
    """1 if a pass changed the answer, which was undone; else 0."""
    return int(compilation.validator is not None and bool(compilation.validator.rejections))


def say(arguments: argparse.Namespace, text: str, always: bool = False) -> None:
    """Tell the user what happened, on stderr; `-q` silences all but what is `always` said."""
    if always or not arguments.quiet:
        print(text, file=sys.stderr)
