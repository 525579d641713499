"""`mlopt import`: the graph-level IR of an ONNX model and its weights."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_inputs_option,
    compile_options,
    example_inputs,
    say,
)
from mlopt.cli.progress import progress
from mlopt.diagnostics import UsageError, print_diagnostic


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "import",
        run,
        "write the graph-level IR of an ONNX model and its weights",
        "mlopt import model.onnx -o model.mlir --dim batch=1",
        verbose="print how many operations of each kind there are",
    )
    command.add_argument("-o", dest="output", type=Path, required=True, help="the .mlir file to write")
    add_inputs_option(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt import`."""
    from mlopt.compilation import load_model
    from mlopt.report import graph_ops
    from mlopt.save import check_model_path, save_model

    if arguments.model.suffix == ".mlir":
        raise UsageError(f"'mlopt import' takes an ONNX model, found '{arguments.model}'")
    check_model_path(arguments.output)
    with progress(f"importing {arguments.model}"):
        compilation = load_model(
            arguments.model, compile_options(arguments), inputs=example_inputs(arguments)
        )
    files = save_model(compilation.module, compilation.ctx.weights, arguments.output)
    for warning in compilation.ctx.warnings:
        print_diagnostic(warning)
    say(arguments, f"wrote {' and '.join(map(str, files))}")
    if arguments.verbose:
        for name, count in sorted(Counter(op.name for op in graph_ops(compilation.module)).items()):
            say(arguments, f"{name}: {count}")
    return 0
