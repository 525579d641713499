"""`mlopt memory`: the memory plan of a model as tables and as a picture, and two plans compared."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from mlopt.diagnostics import UsageError

if TYPE_CHECKING:
    from mlopt.compilation import Compilation
    from mlopt.options import CompileOptions
    from mlopt.visual.planned import MemoryPlan

COMPARISONS = """\
--compare WITH takes another plan of the same model, or one of another file:
  none, conservative, aggressive   another way of reusing memory
  O0, O1, O2, O3                   another pipeline, or passes in MLIR's grammar
  FILE.json, FILE.toml             other options, as --config takes them
  FILE.onnx, FILE.mlir             another model
  FILE.csv                         buffers with offsets, as 'mlopt plan' writes
MODEL may be such a CSV file, too.
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "memory",
        run,
        "show the memory plan of a model",
        "mlopt memory model.onnx --dim batch=1 --svg plan.svg\n"
        "  mlopt memory model.onnx --dim batch=1 --compare none --html plans.html",
        verbose="print each buffer, and what each pass did",
    )
    command.epilog = f"{COMPARISONS}\n{command.epilog}"
    command.add_argument("--inputs", type=Path, help="an .npz file of inputs, to take dimensions from")
    command.add_argument("--svg", type=Path, metavar="FILE", help="draw the plan into this SVG file")
    command.add_argument(
        "--html", type=Path, metavar="FILE", help="draw the plan into this HTML page, to be enlarged there"
    )
    command.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="write buffers and offsets, as 'mlopt plan' reads and writes them (of memory space 1: FILE.space1.csv)",
    )
    command.add_argument(
        "--compare",
        metavar="WITH",
        help="compare with another plan, in the table and in the picture: see below",
    )
    add_pipeline_options(command)
    add_dump_option(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt memory`."""
    from rich.console import Console

    from mlopt.files import check_all_writable, write_text
    from mlopt.memory.csv_format import table_of, write_plan
    from mlopt.passes.memref.summary import donated_memory
    from mlopt.visual.memory_page import memory_page
    from mlopt.visual.memory_picture import memory_picture
    from mlopt.visual.memory_tables import (
        buffers_table,
        comparison_table,
        donated_table,
        peak_table,
        totals_table,
    )

    check_all_writable(arguments.svg, arguments.html, arguments.csv, arguments.report)
    shown = _shown(arguments)
    plan = shown.plan
    plans = [(shown.title, plan)]
    other = None if arguments.compare is None else _compared(arguments, arguments.compare)
    if other is not None:
        plans = [(shown.title, plan), (other.title, other.plan)]
    pictures = [picture for one in (shown, *((other,) if other else ())) for picture in one.pictures()]
    console = Console(highlight=False)
    console.print(totals_table(shown.figures(), plan))
    donated = [] if shown.compilation is None else donated_memory(shown.compilation.module)
    if donated:
        console.print(donated_table(donated))
    console.print(peak_table(plan))
    if arguments.compare is not None:
        console.print(comparison_table(plans))
    if arguments.verbose:
        console.print(buffers_table(plan.buffers))
        if shown.spill is not None:
            console.print(buffers_table(shown.spill.buffers))
    if arguments.csv is not None:
        spill_path = arguments.csv.with_suffix(f".space1{arguments.csv.suffix}")
        for path, one in ((arguments.csv, plan), (spill_path, shown.spill)):
            if one is not None:
                table = table_of([planned.buffer for planned in one.buffers])
                write_plan(path, table, {planned.buffer.id: planned.offset for planned in one.buffers})
                say(arguments, f"wrote {path}")
    for path, draw in ((arguments.svg, memory_picture), (arguments.html, memory_page)):
        if path is not None:
            write_text(path, draw(pictures))
            say(arguments, f"wrote {path}")
    if shown.compilation is None:
        return 0
    finish(arguments, shown.compilation, None, {})
    return exit_code(shown.compilation)


@dataclass(frozen=True)
class _Shown:
    """A plan with its title, and the compilation that it comes from, if it comes from one."""

    title: str
    plan: MemoryPlan
    compilation: Compilation | None = None
    spill: MemoryPlan | None = None

    def pictures(self) -> list[tuple[str, MemoryPlan]]:
        """The plans of all memory spaces, with titles."""
        own = [(self.title, self.plan)]
        return own if self.spill is None else [*own, (f"{self.title}: memory space 1", self.spill)]

    def figures(self) -> dict[str, object]:
        """The `memory` section of the report; of a plan on its own the status."""
        from mlopt.memory import GAP, OPTIMAL
        from mlopt.report import build_report

        if self.compilation is not None:
            return build_report(self.compilation)["memory"]
        return {"status": OPTIMAL if self.plan.arena_bytes == self.plan.peak_bytes else GAP}


def _shown(arguments: argparse.Namespace) -> _Shown:
    """The plan of MODEL."""
    from mlopt.options import CompileOptions
    from mlopt.visual.planned import plan_of_file

    model: Path = arguments.model
    if model.suffix == ".csv":
        if arguments.report is not None:
            raise UsageError(f"--report is about a model, found the plan '{model}'")
        compiles = arguments.compare is not None and Path(arguments.compare).suffix in (".onnx", ".mlir")
        if not compiles and (arguments.inputs is not None or compile_options(arguments) != CompileOptions()):
            raise UsageError(f"options of a compilation go with a model, found the plan '{model}'")
        return _Shown(model.name, plan_of_file(model))
    return _compiled(arguments, compile_options(arguments), model, model.name)


def _compared(arguments: argparse.Namespace, other: str) -> _Shown:
    """The plan that MODEL's is compared with: other options, another model, or a file with a plan."""
    from mlopt.options import load_config
    from mlopt.passes.pipelines import MEMORY_STRATEGIES, OPTIMISATION_LEVELS, at_optimisation_level
    from mlopt.passes.registry import PASSES
    from mlopt.visual.planned import plan_of_file

    model, path = arguments.model, Path(other)
    if path.suffix == ".csv":
        return _Shown(path.name, plan_of_file(path))
    options = compile_options(arguments)
    if path.suffix in (".onnx", ".mlir"):
        if path.suffix == ".mlir":
            options = replace(options, dims={})  # IR has no symbolic dimensions
        return _compiled(arguments, replace(options, weights=None), path, path.name)
    if model.suffix == ".csv":
        raise UsageError(f"--compare wants another file for the plan '{model}', found '{other}'")
    pipeline = options.pipeline
    if path.suffix in (".json", ".toml"):
        options = load_config(path, options)
    elif other in MEMORY_STRATEGIES:
        options = replace(options, pipeline=replace(pipeline, memory_reuse=other))
    elif other in OPTIMISATION_LEVELS:
        options = replace(options, pipeline=at_optimisation_level(other, pipeline), pipeline_text=None)
    elif "(" in other or "," in other or other in PASSES:
        options = replace(options, pipeline_text=other)
    else:
        names = ", ".join([*MEMORY_STRATEGIES, *OPTIMISATION_LEVELS])
        raise UsageError(f"--compare wants {names}, passes or a file, found '{other}'")
    return _compiled(arguments, options, model, f"{model.name}: {other}")


def _compiled(arguments: argparse.Namespace, options: CompileOptions, model: Path, title: str) -> _Shown:
    from mlopt.arrays import read_npz
    from mlopt.compilation import load_model
    from mlopt.visual.planned import memory_plan, spill_plan

    inputs = read_npz(arguments.inputs, "in") if arguments.inputs else None
    with progress(f"loading {model}"):
        compilation = load_model(model, options, inputs=inputs)
    compilation = compile_with_progress(arguments, compilation, "memref")
    module = compilation.module
    return _Shown(title, memory_plan(module), compilation, spill_plan(module))
