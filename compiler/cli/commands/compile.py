"""`mlopt compile`: compile a model and write its IR at some level."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_dump_option,
    add_inputs_option,
    add_pipeline_options,
    compile_options,
    compile_with_progress,
    example_inputs,
    exit_code,
    finish,
    say,
)
from mlopt.cli.progress import progress


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "compile",
        run,
        "compile a model and write its IR",
        "mlopt compile model.onnx -o model.mlir --dim batch=1 --to kernel",
    )
    command.add_argument("-o", dest="output", type=Path, required=True, help="the .mlir file to write")
    add_inputs_option(command)
    command.add_argument(
        "--to",
        choices=("graph", "kernel", "memref"),
        help="the level to stop at (default: memref, or where the passes of --pipeline end)",
    )
    add_pipeline_options(command)
    add_dump_option(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt compile`."""
    from mlopt.compilation import load_model, require_weights
    from mlopt.files import check_writable
    from mlopt.save import check_model_path, save_model

    check_model_path(arguments.output)
    if arguments.report is not None:
        check_writable(arguments.report)
    options, inputs = compile_options(arguments), example_inputs(arguments)
    with progress(f"loading {arguments.model}"):
        compilation = load_model(arguments.model, options, inputs=inputs)
    compile_with_progress(arguments, compilation, arguments.to)
    require_weights(compilation)
    files = save_model(compilation.module, compilation.ctx.weights, arguments.output)
    say(arguments, f"wrote {' and '.join(map(str, files))}")
    finish(arguments, compilation, None, {})
    return exit_code(compilation)
