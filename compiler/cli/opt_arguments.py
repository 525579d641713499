"""The command line of `mlopt-opt`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from mlopt import __version__
from mlopt.cli.arguments import add_disable_options, validation_tolerance
from mlopt.cli.bare import natural
from mlopt.cli.remarks import add_remark_options
from mlopt.diagnostics import REMARK_KINDS, UsageError, did_you_mean, nearest

DESCRIPTION = "Run passes over textual IR and print the result."
EPILOG = """examples:
  mlopt-opt model.mlir --canonicalize --cse
  mlopt-opt model.mlir --pass-pipeline='builtin.module(cse,func.func(canonicalize{max-rewrites=100}))' -o out.mlir
  mlopt-opt model.mlir --convert-graph-to-kernel --mlir-print-ir-after-all 2> dumps.mlir

IR goes to stdout, everything else to stderr. A weight #mlopt.weight<"name"> is looked up in STEM.safetensors beside
FILE. --list-passes describes the passes and their options, --list-patterns what --disable-pattern can name.
Exit codes: 0 done; 1 an error in the input, the pipeline or a pass; 2 a wrong command line.
"""
SPLIT_MARKER = "// -----"
_BARE_VALUES = {
    "--split-input-file": SPLIT_MARKER,
    "--verify-each": "true",
    "--verify-diagnostics": "all",
    "--remarks": ",".join(REMARK_KINDS),
    "--validate": "",
}
"""The value of a flag that is given without one."""


@dataclass
class OptArguments:
    """What a command line asks for.

    `passes` are the single-pass flags in order: name of the pass or pipeline, and options text. `idle_flags` say how
    dumps are made where there are none.
    """

    input: str = "-"
    output: str = "-"
    pass_pipeline: str | None = None
    passes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    weights: Path | None = None
    split_input_file: str | None = None
    verify_each: bool = True
    verify_diagnostics: str | None = None
    allow_unregistered_dialect: bool = False
    print_before: frozenset[str] | bool = False
    print_after: frozenset[str] | bool = False
    print_after_change: bool = False
    print_after_failure: bool = False
    print_module_scope: bool = False
    print_tree: Path | None = None
    idle_flags: list[str] = field(default_factory=list[str])
    elide_larger_than: int | None = None
    debuginfo: bool = False
    generic: bool = False
    timing: bool = False
    statistics: bool = False
    remarks: tuple[str, ...] = ()
    remarks_filter: re.Pattern[str] | None = None
    remarks_file: Path | None = None
    disable_pass: list[str] = field(default_factory=list[str])
    disable_pattern: list[str] = field(default_factory=list[str])
    validate: bool | float | None = None
    bisect: bool = False
    inputs: Path | None = None
    reproducers: Path = Path("mlopt-reproducers")
    dump_pass_pipeline: bool = False
    list_passes: bool = False
    list_patterns: bool = False
    show_dialects: bool = False


def parse_arguments(
    arguments: Sequence[str], pass_names: Collection[str], pipeline_names: Collection[str] = ()
) -> OptArguments:
    """Read a command line; `UsageError` for a wrong one. `--help` and `--version` print and exit."""
    flag_names = {*pass_names, *pipeline_names}
    parser = _build_parser()
    # argparse tells its options nowhere else.
    actions = parser._actions  # pyright: ignore[reportPrivateUsage]
    flags = [string for action in actions for string in action.option_strings]
    rest, passes = _normalize(arguments, flags, flag_names)
    parsed, unknown = parser.parse_known_args(rest)
    if unknown:
        raise UsageError(_unknown(unknown[0], [*flags, *(f"--{name}" for name in sorted(flag_names))]))
    values = vars(parsed)
    result = OptArguments(**{key: value for key, value in values.items() if not key.startswith("_")})
    result.passes = passes
    result.print_before = values["_before_all"] or _pass_set(values["_before"], "before", pass_names)
    result.print_after = values["_after_all"] or _pass_set(values["_after"], "after", pass_names)
    result.idle_flags = _idle_dump_flags(result)
    if passes and result.pass_pipeline is not None:
        raise UsageError("'--pass-pipeline' option can't be used with individual pass options")
    return result


def _normalize(
    arguments: Sequence[str], flags: Collection[str], pass_names: Collection[str]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Take the single-pass flags out of a command line, and put the rest into one form.

    `-flag` becomes `--flag`, as `mlir-opt` accepts both; a flag whose value may be left out gets its value.
    """
    rest: list[str] = []
    passes: list[tuple[str, str]] = []
    for i, argument in enumerate(arguments):
        if argument == "--":
            return rest + list(arguments[i:]), passes
        name, equals, value = argument.partition("=")
        if name.startswith("-") and not name.startswith("--") and len(name) > 2:
            double = f"-{name}"
            if double in flags or double[2:] in pass_names:
                name, argument = double, f"-{argument}"
        if name.startswith("--") and name[2:] in pass_names:
            passes.append((name[2:], value))
        elif name in _BARE_VALUES and (not equals or (name == "--split-input-file" and not value)):
            rest.append(f"{name}={_BARE_VALUES[name]}")
        else:
            rest.append(argument)
    return rest, passes


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mlopt-opt",
        usage="mlopt-opt [FILE | -] [-o OUT] (--pass-pipeline=TEXT | --PASS[=OPTIONS] ...) [flags]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "input", nargs="?", default="-", metavar="FILE", help="the IR to read (default: stdin)"
    )
    parser.add_argument(
        "-o", dest="output", default="-", metavar="OUT", help="the file to write (default: stdout)"
    )
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="passes to run, e.g. 'builtin.module(cse)'")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="the weights (default: STEM.safetensors)"
    )
    parser.add_argument(
        "--split-input-file",
        metavar="MARKER",
        help=f"process the pieces between lines '{SPLIT_MARKER}' one by one",
    )
    parser.add_argument(
        "--verify-each",
        default=True,
        type=_boolean,
        metavar="BOOL",
        help="verify after each pass (default: true)",
    )
    parser.add_argument(
        "--verify-diagnostics",
        choices=("all", "only-expected"),
        help="check the diagnostics against comments such as // expected-error @below {{text}}",
    )
    for name, help_text in (
        ("--allow-unregistered-dialect", "accept operations of unknown dialects"),
        ("--list-passes", "describe all passes and their options"),
        ("--list-patterns", "describe the patterns of all passes"),
        ("--show-dialects", "list the dialects"),
        ("--dump-pass-pipeline", "print the pipeline with the values of all options"),
    ):
        parser.add_argument(name, action="store_true", help=help_text)
    add_remark_options(parser)
    add_disable_options(parser)
    validation = parser.add_argument_group("validation")
    validation.add_argument(
        "--validate",
        type=validation_tolerance,
        metavar="[=TOL]",
        help="compare what the IR computes before and after each pass, and undo what changes the answer by more than "
        "TOL (default: 1e-4) of the largest output; exit code 1 if there was any",
    )
    validation.add_argument(
        "--bisect", action="store_true", help="--validate, and find the rewrite that is to blame"
    )
    validation.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE.npz",
        help="inputs of @main, or of the only function, to evaluate beside seeded ones",
    )
    validation.add_argument(
        "--reproducers",
        type=Path,
        default=Path("mlopt-reproducers"),
        metavar="DIR",
        help="where --validate writes a reduced .mlir file for each change undone (default: mlopt-reproducers)",
    )
    dumps = parser.add_argument_group("IR dumps (on stderr)")
    for when in ("before", "after"):
        dumps.add_argument(
            f"--mlir-print-ir-{when}",
            dest=f"_{when}",
            action="append",
            default=[],
            metavar="PASS[,PASS]",
            help=f"print the IR {when} these passes",
        )
        dumps.add_argument(
            f"--mlir-print-ir-{when}-all",
            dest=f"_{when}_all",
            action="store_true",
            help=f"... {when} each pass",
        )
    for name, target, help_text in (
        (
            "--mlir-print-ir-after-change",
            "print_after_change",
            "of those after passes only where one changed something",
        ),
        ("--mlir-print-ir-after-failure", "print_after_failure", "... after a pass that failed"),
        ("--mlir-print-ir-module-scope", "print_module_scope", "print the whole module each time"),
    ):
        dumps.add_argument(name, dest=target, action="store_true", help=help_text)
    dumps.add_argument(
        "--mlir-print-ir-tree-dir",
        dest="print_tree",
        type=_folder,
        metavar="DIR",
        help="write each dump to a file here",
    )
    text = parser.add_argument_group("text")
    text.add_argument(
        "--mlir-elide-elementsattrs-if-larger",
        dest="elide_larger_than",
        type=natural,
        metavar="N",
        help="leave out constants of more than N elements",
    )
    text.add_argument("--mlir-print-debuginfo", dest="debuginfo", action="store_true", help="print locations")
    text.add_argument(
        "--mlir-print-op-generic", dest="generic", action="store_true", help="print in generic form"
    )
    reports = parser.add_argument_group("reports (on stderr)")
    reports.add_argument(
        "--mlir-timing", dest="timing", action="store_true", help="report the time of each pass"
    )
    reports.add_argument(
        "--mlir-pass-statistics",
        dest="statistics",
        action="store_true",
        help="report the counts of each pass",
    )
    parser.add_argument(
        "--mlir-disable-threading", dest="_threading", action="store_true", help=argparse.SUPPRESS
    )
    parser.add_argument("--version", action="version", version=f"mlopt-opt {__version__}")
    return parser


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"expected true or false, found '{text}'")
    return text.lower() in ("true", "1")


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, found no name")
    return Path(text)


def _pass_set(lists: Sequence[str], when: str, pass_names: Collection[str]) -> frozenset[str]:
    names = [name.strip() for text in lists for name in text.split(",")]
    for name in names:
        if name not in pass_names:
            raise UsageError(
                f"for the --mlir-print-ir-{when} option: cannot find pass named '{name}'"
                f"{did_you_mean(nearest(name, pass_names))}"
            )
    return frozenset(names)


def _idle_dump_flags(given: OptArguments) -> list[str]:
    """The flags that, as in `mlir-opt`, only say how dumps are made, if no dumps are asked for."""
    if given.print_before or given.print_after or given.print_after_failure:
        is_idle = given.print_after_change and not given.print_after
        return ["--mlir-print-ir-after-change"] if is_idle else []
    flags = {
        "--mlir-print-ir-after-change": given.print_after_change,
        "--mlir-print-ir-module-scope": given.print_module_scope,
        "--mlir-print-ir-tree-dir": given.print_tree is not None,
    }
    return [flag for flag, is_given in flags.items() if is_given]


def _unknown(argument: str, known: Collection[str]) -> str:
    name = argument.partition("=")[0]
    return f"unknown command line argument '{name}'{did_you_mean(nearest(name, known))}"
