"""The multimodal example: compile it as imported and optimised, run both, compare, and show a table.

    python examples/multimodal/demo.py
    python examples/multimodal/demo.py --set enable_fusion=false
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import make_model
import numpy as np
from rich.console import Console
from rich.table import Table

import mlopt
from mlopt.compare import compare
from mlopt.diagnostics import Severity
from mlopt.options import apply_config

HERE = Path(__file__).parent
REPEAT = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=HERE / "config.json", help="the model's configuration")
    parser.add_argument("--output", type=Path, default=Path("demo_output"), help="folder for the model and its IR")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SWITCH=VALUE",
        help="override a switch of the configuration: enable_fusion, enable_inplace, memory_reuse_strategy",
    )
    arguments = parser.parse_args()
    try:
        run(arguments.config, arguments.output, dict(item.split("=", 1) for item in arguments.set))
    except mlopt.MloptError as error:
        print(f"{f'{error.place}: ' if error.place else ''}error: {error.message}", file=sys.stderr)
        return error.exit_code
    return 0


def run(config_path: Path, output: Path, overrides: dict[str, str]) -> None:
    """Write the model, compile it twice, run both, print the table, and leave the IR of each level in `output`."""
    console = Console()
    config = make_model.load_config(config_path)
    switches = config["optimization"] | {name: _value(text) for name, text in overrides.items()}
    output.mkdir(parents=True, exist_ok=True)
    path = output / "multimodal.onnx"
    with console.status("writing the model"):
        path.write_bytes(make_model.build(config).SerializeToString())

    plain = mlopt.PipelineOptions(optimize=False, memory_reuse="none")
    optimised = apply_config({"optimization": switches}, mlopt.CompileOptions(), config_path)
    with console.status("compiling, as imported and optimised"):
        before = mlopt.compile(path, options=replace(mlopt.CompileOptions(), pipeline=plain))
        after = mlopt.compile(path, options=optimised)
    for level in ("graph", "kernel", "memref"):
        (output / f"{level}.mlir").write_text(after.ir(level))

    inputs = make_inputs(before)
    with console.status("running"):
        want, got = before.run(inputs), after.run(inputs)
        seconds_before, seconds_after = measure(before, after, inputs)
    differences = [compare(name, got[name], want[name]) for name in want]

    console.print(build_table(before.report(), after.report(), seconds_before, seconds_after))
    console.print(f"switches: {json.dumps(switches)}")
    largest = max(difference.max_rel_error for difference in differences)
    console.print(f"largest difference, optimised against imported: {largest:.2g} of the largest output")
    print_fusions(console, after)
    console.print(f"\nThe model and its IR at the three levels are in {output}/.")
    for difference in differences:
        if difference.reason is not None:
            raise mlopt.RunError(f"output '{difference.name}' {difference.reason}")


def make_inputs(model: mlopt.Model) -> dict[str, np.ndarray]:
    """Seeded inputs: a normal image, tokens of the vocabulary."""
    generator = np.random.default_rng(0)
    return {
        spec.name: (
            generator.standard_normal(spec.shape).astype(spec.dtype)
            if spec.dtype.kind == "f"
            else generator.integers(0, make_model.VOCABULARY, spec.shape).astype(spec.dtype)
        )
        for spec in model.inputs
    }


def measure(before: mlopt.Model, after: mlopt.Model, inputs: dict[str, np.ndarray]) -> tuple[float, float]:
    """Median seconds of a run of each, measured in turn so that both see the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEAT):
        for model, seconds in zip((before, after), times, strict=True):
            start = time.perf_counter()
            model.run(inputs)
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def build_table(before: dict[str, Any], after: dict[str, Any], seconds_before: float, seconds_after: float) -> Table:
    """The comparison as a table."""
    table = Table(title="Multimodal example")
    for heading in ("", "as imported", "optimised", "ratio"):
        table.add_column(heading, justify="left" if not heading else "right")

    def row(name: str, first: float, second: float, form: str = "{:,}", ratio: bool = True) -> None:
        table.add_row(name, form.format(first), form.format(second), f"{second / first:.2f}" if ratio and first else "")

    row("operators", before["ops"]["imported"], after["ops"]["graph"])
    row("kernels run", before["ops"]["kernel_launches"], after["ops"]["kernel_launches"])
    row("kernel functions", before["ops"]["kernel_functions"], after["ops"]["kernel_functions"])
    memory_before, memory_after = before["memory"], after["memory"]
    imported = memory_before["imported_no_reuse_bytes"]
    row("peak memory, imported without reuse → planned", imported, memory_after["arena_bytes"], "{:,} B")
    row(
        "peak memory, imported with reuse → planned",
        memory_before["imported_max_live_bytes"],
        memory_after["arena_bytes"],
        "{:,} B",
    )
    row("of it workspaces", memory_before["workspace_bytes"], memory_after["workspace_bytes"], "{:,} B", ratio=False)
    row("bytes through memory", before["traffic"]["bytes"], after["traffic"]["bytes"], "{:,} B")
    row("time of a run", 1e3 * seconds_before, 1e3 * seconds_after, "{:.2f} ms")
    return table


def print_fusions(console: Console, model: mlopt.Model) -> None:
    """One line per fusion that happened."""
    remarks = [remark for remark in model.compilation.ctx.remarks if remark.severity is Severity.REMARK]
    fused = [remark for remark in remarks if remark.message.startswith("fused")]
    console.print(f"\n{len(fused)} fusions:")
    for remark in fused:
        console.print(f"  {remark.message}", highlight=False)


def _value(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


if __name__ == "__main__":
    sys.exit(main())
