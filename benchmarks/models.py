"""Models side by side with ONNX Runtime: `python benchmarks/models.py [MODEL.onnx ...] [--threads N] [--repeat N]`.

Inputs come from the `.npz` file beside a model. Without models, those in `tests/models` are taken. Exit code 1 if the
outputs of any model differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mlopt.arrays import read_npz
from mlopt.benchmark.driver import BenchmarkResult, available_threads, benchmark
from mlopt.diagnostics import MloptError, print_diagnostic
from mlopt.options import CompileOptions

MODELS = Path(__file__).parents[1] / "tests" / "models"

COLUMNS = ("model", "mlopt", "ort", "ratio", "10-90 %", "load", "arena", "/sum", "/peak", "error")
WIDTH = 96
"""Columns that long names of models may take, so that no figure is cut off."""
LEGEND = """\
mlopt, ort: median of a run in ms; ratio: the median of those of the rounds, in
which they run one after the other, and how far these vary; load: from the file
to a loaded model in ms; arena: in KiB, and divided by the sum of all tensors as
imported, and by the most of them that live at once; error: the largest relative
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Models side by side with ONNX Runtime.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--threads", type=int, default=available_threads(), metavar="N")
    parser.add_argument(
        "--repeat", type=int, default=200, metavar="N", help="runs of each engine (default: 200)"
    )
    options = parser.parse_args(arguments)
    results: list[BenchmarkResult] = []
    failed = False
    for model in options.models or sorted(MODELS.glob("*.onnx")):
        values = model.with_suffix(".npz")
        inputs = read_npz(values, "in") if values.exists() else None
        try:
            results.append(
                benchmark(
                    model,
                    CompileOptions(),
                    inputs=inputs,
                    against="onnxruntime",
                    repeat=options.repeat,
                    threads=options.threads,
                )
            )
        except MloptError as error:
            failed = True
            for diagnostic in error.diagnostics:
                print_diagnostic(diagnostic)
    if results:
        Console(highlight=False, width=max(Console().width, WIDTH)).print(table_of(results))
        print(LEGEND, end="")
    return int(failed or not all(result.agrees for result in results))


def table_of(results: Sequence[BenchmarkResult]) -> Table:
    """A row per model, and the geometric means of the ratios."""
    table = Table(
        title=f"medians of {len(results[0].engines[0].seconds)} runs, threads: {results[0].threads}",
        title_justify="left",
        box=SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
    )
    for name in COLUMNS:
        if name == "model":
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=20)
        else:
            table.add_column(name, justify="right", no_wrap=True)
    ratios: list[tuple[float, float, float]] = []
    for result in results:
        ours, theirs = result.engines
        memory = ours.loaded.report["memory"]
        arena = memory["arena_bytes"]
        reuse, live = memory["imported_no_reuse_bytes"], memory["imported_max_live_bytes"]
        assert result.ratio is not None and result.spread is not None
        figures = (result.ratio, arena / reuse, arena / live)
        ratios.append(figures)
        error = max(comparison.max_rel_error for comparison in result.comparisons)
        table.add_row(
            result.model.stem,
            f"{1e3 * ours.median:.2f}",
            f"{1e3 * theirs.median:.2f}",
            f"{figures[0]:.2f}",
            "-".join(f"{ratio:.2f}" for ratio in result.spread),
            f"{1e3 * ours.loaded.load_seconds:.0f}",
            f"{arena / 1024:.0f}",
            f"{figures[1]:.3f}",
            f"{figures[2]:.2f}",
            f"{error:.0e}" if result.agrees else "FAILED",
        )
    time, reuse, live = (geometric_mean(column) for column in zip(*ratios, strict=True))
    table.add_section()
    table.add_row("geometric mean", "", "", f"{time:.2f}", "", "", "", f"{reuse:.3f}", f"{live:.2f}", "")
    return table


if __name__ == "__main__":
    sys.exit(main())
