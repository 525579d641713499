"""`mlopt memory`: the memory plan of a model as tables and as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_dump_option,
    add_pipeline_options,
    compile_options,
    compile_with_progress,
    exit_code,
    finish,
    say,
)
from mlopt.cli.progress import progress


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "memory",
        run,
        "show the memory plan of a model",
        "mlopt memory model.onnx --dim batch=1 --svg plan.svg",
    )
    command.add_argument("--inputs", type=Path, help="an .npz file of inputs, to take dimensions from")
    command.add_argument("--svg", type=Path, metavar="FILE", help="draw the plan into this SVG file")
    command.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="write buffers and offsets, as 'mlopt plan' reads and writes them",
    )
    add_pipeline_options(command)
    add_dump_option(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt memory`."""
    from rich.console import Console

    from mlopt.arrays import read_npz
    from mlopt.compilation import load_model
    from mlopt.files import check_writable, write_text
    from mlopt.memory.csv_format import table_of, write_plan
    from mlopt.report import build_report
    from mlopt.visual.memory_picture import memory_picture
    from mlopt.visual.memory_tables import buffers_table, peak_table, totals_table
    from mlopt.visual.planned import memory_plan

    for path in (arguments.svg, arguments.csv, arguments.report):
        if path is not None:
            check_writable(path)
    inputs = read_npz(arguments.inputs, "in") if arguments.inputs else None
    with progress(f"loading {arguments.model}"):
        compilation = load_model(arguments.model, compile_options(arguments), inputs=inputs)
    compilation = compile_with_progress(arguments, compilation, "memref")
    plan = memory_plan(compilation.module)
    console = Console(highlight=False)
    console.print(totals_table(build_report(compilation)["memory"], plan))
    console.print(peak_table(plan))
    if arguments.verbose:
        console.print(buffers_table(plan.buffers))
    if arguments.csv is not None:
        table = table_of([planned.buffer for planned in plan.buffers])
        write_plan(arguments.csv, table, {planned.buffer.id: planned.offset for planned in plan.buffers})
        say(arguments, f"wrote {arguments.csv}")
    if arguments.svg is not None:
        write_text(arguments.svg, memory_picture(plan, f"{arguments.model}: memory plan"))
        say(arguments, f"wrote {arguments.svg}")
    finish(arguments, compilation, None, {})
    return exit_code(compilation)
