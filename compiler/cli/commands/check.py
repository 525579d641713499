"""`mlopt check`: can a model be compiled, and if not, everything that stands in the way."""

from __future__ import annotations

import argparse
import textwrap

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_inputs_option,
    add_pipeline_options,
    compile_options,
    example_inputs,
    exit_code,
    finish,
)
from mlopt.cli.progress import progress
from mlopt.diagnostics import one_line

_INDENT = 15
"""Width of the first column."""
_WIDTH = 80


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "check",
        run,
        "say whether a model can be compiled, and all that stands in the way",
        "mlopt check model.onnx --dim batch=1",
    )
    add_inputs_option(command)
    add_pipeline_options(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt check`."""
    from mlopt.checking import check_model
    from mlopt.files import check_writable

    if arguments.report is not None:
        check_writable(arguments.report)
    options = compile_options(arguments)
    inputs = example_inputs(arguments)
    with progress(f"checking {arguments.model}"):
        findings = check_model(arguments.model, options, inputs)
    if not arguments.quiet:
        for what, value in findings.facts:
            print(_row(what, value))
        print()
        for stage, outcome in findings.stages:
            print(_row(stage, outcome))
        print()
    if findings.compilation is not None and findings.executable is not None:
        finish(arguments, findings.compilation, findings.executable, {})
    if findings.compiles:
        print(f"{arguments.model} can be compiled")
        return exit_code(findings.compilation) if findings.compilation is not None else 0
    verdict = "lacks sizes to be compiled" if findings.lacks_sizes else "can't be compiled; in the way"
    print(f"{arguments.model} {verdict} ({len(findings.obstacles)}):")
    for number, obstacle in enumerate(findings.obstacles, 1):
        print(textwrap.indent(obstacle, "     ").replace("     ", f"{number:3}. ", 1))
    return 1


def _row(what: str, value: str) -> str:
    return textwrap.fill(
        f"{what:{_INDENT}}{one_line(value)}",
        _WIDTH,
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
