"""`mlopt export`: optimise a model at the graph level and write it as ONNX."""

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
        "export",
        run,
        "optimise a model at the graph level and write it as ONNX, in standard operators and with static shapes",
        "mlopt export model.onnx -o optimised.onnx --dim batch=1",
    )
    command.add_argument("-o", dest="output", type=Path, required=True, help="the .onnx file to write")
    add_inputs_option(command)
    command.add_argument(
        "--external-data",
        action="store_true",
        help="write weights to OUT.onnx.data beside the model (default: if it would be larger than 2 GB)",
    )
    command.add_argument(
        "--opset",
        type=int,
        metavar="N",
        help="write operator set N (default: the oldest from 18 on that has all operators of the model)",
    )
    add_pipeline_options(command, plans_memory=False)
    add_dump_option(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt export`."""
    from mlopt.compilation import load_model, require_weights
    from mlopt.diagnostics import Diagnostic, Place, Severity, print_diagnostic
    from mlopt.export import bound_inputs, check_onnx_path, check_opset, save_onnx
    from mlopt.files import check_writable
    from mlopt.options import for_export

    check_onnx_path(arguments.output)
    check_opset(arguments.opset)
    if arguments.report is not None:
        check_writable(arguments.report)
    options, inputs = for_export(compile_options(arguments)), example_inputs(arguments)
    with progress(f"loading {arguments.model}"):
        compilation = load_model(arguments.model, options, inputs=inputs)
    compile_with_progress(arguments, compilation, "graph")
    require_weights(compilation)
    for name in bound_inputs(compilation.module):
        message = f'input "{name}" decided shapes, and ONNX can\'t say so: what was written holds for its value only'
        print_diagnostic(Diagnostic(Severity.WARNING, message, Place(str(arguments.output))))
    files = save_onnx(
        compilation.module,
        compilation.ctx.weights,
        arguments.output,
        external_data=arguments.external_data,
        opset=arguments.opset,
    )
    say(arguments, f"wrote {' and '.join(map(str, files))}")
    finish(arguments, compilation, None, {})
    return exit_code(compilation)
