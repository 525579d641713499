"""`mlopt bench`: time a model, side by side with another engine if one is named."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlopt.cli.arguments import (
    Commands,
    add_command,
    add_pipeline_options,
    compile_options,
    print_findings,
    say,
)
from mlopt.cli.bare import positive
from mlopt.cli.progress import progress
from mlopt.diagnostics import Diagnostic, Severity, counted, one_line, print_diagnostic

if TYPE_CHECKING:
    from rich.table import Table

    from mlopt.benchmark.driver import BenchmarkResult


def add_parser(commands: Commands) -> None:
    """Add the command to the command line."""
    command = add_command(
        commands,
        "bench",
        run,
        "time a model, side by side with another engine",
        "mlopt bench model.onnx --inputs in.npz --against onnxruntime",
    )
    command.add_argument("--inputs", type=Path, help="an .npz file of inputs (default: seeded random inputs)")
    command.add_argument(
        "--against", choices=("onnxruntime",), help="time this engine too, in turns, and compare the outputs"
    )
    command.add_argument(
        "--repeat", type=positive, default=50, metavar="N", help="runs of each engine (default: 50)"
    )
    command.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads of each engine, at most one for each processor (default)",
    )
    add_pipeline_options(command)


def run(arguments: argparse.Namespace) -> int:
    """`mlopt bench`."""
    from rich.console import Console

    from mlopt.arrays import read_npz
    from mlopt.benchmark.driver import available_threads, benchmark
    from mlopt.files import check_writable, write_text

    if arguments.report is not None:
        check_writable(arguments.report)
    options = compile_options(arguments)
    inputs = read_npz(arguments.inputs, "in") if arguments.inputs else None
    threads, available = arguments.threads, available_threads()
    if threads is not None and threads > available:
        message = f"--threads {threads} is more than the processors that there are: using {available}"
        print_diagnostic(Diagnostic(Severity.WARNING, message))
        threads = available
    with progress(f"timing {arguments.model}") as update:
        result = benchmark(
            arguments.model,
            options,
            inputs=inputs,
            against=arguments.against,
            repeat=arguments.repeat,
            threads=threads,
            watch=update,
        )
    if inputs is None:
        say(arguments, "no --inputs: timed on seeded random inputs of the declared shapes", always=True)
    own = result.engines[0].loaded
    validation = own.report.get("validation")
    print_findings(arguments, own.warnings, own.remarks, validation, own.passes)
    runs = counted(len(result.engines[0].seconds), "run")
    print(f"{one_line(result.model.name)}: {runs}, threads: {result.threads}")
    Console(highlight=False).print(table_of(result))
    print_comparisons(result)
    if arguments.report is not None:
        write_text(arguments.report, json.dumps(report_of(result), indent=2, allow_nan=False) + "\n")
        say(arguments, f"wrote {arguments.report}")
    return int(not result.agrees or bool(validation and validation["rejected"]))


def table_of(result: BenchmarkResult) -> Table:
    """A column per engine and, with two, their ratio: times in milliseconds, memory in KiB.

    The ratio of the medians is the median over the rounds, whose ratios vary by what the row below it says.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for engine in result.engines:
        table.add_column(engine.name, justify="right")
    if result.ratio is not None:
        table.add_column("ratio", justify="right")

    def row(
        name: str, values: list[float], digits: int, style: str | None = None, ratio: float | None = None
    ) -> None:
        cells = [f"{value:,.{digits}f}" for value in values]
        if len(values) == 2:
            cells.append(f"{values[0] / values[1] if ratio is None else ratio:.2f}")
        table.add_row(name, *cells, style=style)

    row("run, median (ms)", [1e3 * engine.median for engine in result.engines], 3, "bold", result.ratio)
    if result.spread is not None:
        low, high = result.spread
        table.add_row("ratio, 10th to 90th percentile", "", "", f"{low:.2f}-{high:.2f}")
    row("run, fastest (ms)", [1e3 * engine.fastest for engine in result.engines], 3)
    row("load the model (ms)", [1e3 * engine.loaded.load_seconds for engine in result.engines], 0)
    row("start the process and load (ms)", [1e3 * engine.start_seconds for engine in result.engines], 0)
    row("peak memory of the process (KiB)", [engine.peak_rss_bytes / 1024 for engine in result.engines], 0)
    memory = result.engines[0].loaded.report["memory"]
    table.add_row("arena (KiB)", f"{memory['arena_bytes'] / 1024:,.0f}")
    return table


def print_comparisons(result: BenchmarkResult) -> None:
    """How the outputs of the engines agree: the largest error, or each output that differs too much."""
    if not result.comparisons:
        return
    if result.agrees:
        relative = max(comparison.max_rel_error for comparison in result.comparisons)
        print(f"outputs agree: largest relative error {relative:.2g}")
    for comparison in result.comparisons:
        if not comparison.passed:
            print(f"output {one_line(comparison.name)} {comparison.reason}: FAILED")


def report_of(result: BenchmarkResult) -> dict[str, Any]:
    """The report of the compilation, and a section `bench` with what was measured."""
    from mlopt.cli.commands.run import errors

    engines = {
        engine.name: {
            "median_s": engine.median,
            "min_s": engine.fastest,
            "runs_s": engine.seconds,
            "load_s": engine.loaded.load_seconds,
            "start_s": engine.start_seconds,
            "peak_rss_bytes": engine.peak_rss_bytes,
        }
        for engine in result.engines
    }
    report = dict(result.engines[0].loaded.report)
    report["bench"] = {"threads": result.threads, "ratio": result.ratio, "engines": engines}
    if result.spread is not None:
        report["bench"]["ratio_p10"], report["bench"]["ratio_p90"] = result.spread
    if result.comparisons:
        report["check"] = errors(result.comparisons)
    return report
