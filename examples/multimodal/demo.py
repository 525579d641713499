"""The multimodal example: compile it as imported and optimised, run both, compare, and show a table.

    python examples/multimodal/demo.py
    python examples/multimodal/demo.py --set enable_fusion=false

The switches are those of the configuration: enable_fusion, enable_inplace (true or false), memory_reuse_strategy
(none, conservative or aggressive).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any

import make_model
import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

import mlopt
from mlopt.cli.guard import guarded
from mlopt.compare import Comparison, compare
from mlopt.dialects.kernel import LaunchOp
from mlopt.files import write_text
from mlopt.ir.locations import node_names
from mlopt.options import apply_config
from mlopt.save import save_model

HERE = Path(__file__).parent
REPEAT = 10
LEVELS = ("graph", "kernel", "memref")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return guarded(lambda: _main(argv), program="demo.py")


def _main(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=HERE / "config.json", help="the model's configuration")
    parser.add_argument(
        "--output", type=Path, default=Path("demo_output"), help="folder for the model and its IR"
    )
    parser.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="SWITCH=VALUE",
        help="override a switch of the configuration",
    )
    arguments = parser.parse_args(argv)
    run(arguments.config, arguments.output, dict(arguments.set))
    return 0


def _setting(text: str) -> tuple[str, bool | str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected SWITCH=VALUE, found '{text}'")
    return name, {"true": True, "false": False}.get(value, value)


def run(config_path: Path, output: Path, overrides: dict[str, Any]) -> None:
    """Write the model, compile it twice, run both, print the table, and leave the IR of each level in `output`.

    Raises `MloptError` for a wrong configuration or switch, and if the outputs of the two differ.
    """
    console = Console(highlight=False)
    config = make_model.read_config(config_path)
    options = apply_config({"optimization": config["optimization"]}, mlopt.CompileOptions(), config_path)
    options = apply_config({"optimization": overrides}, options, Path("--set"))
    output.mkdir(parents=True, exist_ok=True)
    path = output / "multimodal.onnx"
    with console.status("writing the model"):
        make_model.write(make_model.build(config), path)

    plain = mlopt.PipelineOptions(optimize=False, memory_reuse="none")
    with console.status("compiling, as imported and optimised"):
        before = mlopt.compile(path, options=mlopt.CompileOptions(pipeline=plain))
        after = mlopt.compile(path, options=options)
    for level in LEVELS[:-1]:
        write_text(output / f"{level}.mlir", after.ir(level))
    save_model(after.compilation.module, after.compilation.ctx.weights, output / f"{LEVELS[-1]}.mlir")

    inputs = make_inputs(before)
    with console.status("running"):
        want, got = before.run(inputs), after.run(inputs)
        seconds = measure(before, after, inputs)
    differences = [compare(name, got[name], want[name]) for name in want]

    console.print(build_table(before.report(), after.report(), seconds, differences))
    switches = config["optimization"] | overrides
    console.print("with " + " ".join(f"{name}={str(value).lower()}" for name, value in switches.items()))
    print_memory(console, after.report()["memory"])
    print_fusions(console, after)
    console.print(f"\nThe model and its IR at the three levels are in {output}/; try", soft_wrap=True)
    if not which("mlopt"):
        console.print(f"  . {os.path.relpath(Path(sys.prefix) / 'bin' / 'activate')}", soft_wrap=True)
    console.print(f"  mlopt run {output}/memref.mlir", soft_wrap=True)
    console.print(f"  mlopt memory {output}/multimodal.onnx --svg {output}/memory.svg", soft_wrap=True)
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


def build_table(
    before: dict[str, Any],
    after: dict[str, Any],
    seconds: tuple[float, float],
    differences: Sequence[Comparison],
) -> Table:
    """The comparison as a table of at most 80 columns."""
    table = Table(title="Multimodal example")
    for heading in ("", "as imported", "optimised", "ratio"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)

    def row(name: str, first: float, second: float, form: str = "{:,}") -> None:
        ratio = f"{second / first:.2f}" if first else ""
        table.add_row(name, form.format(first), form.format(second), ratio)

    memory = before["memory"], after["memory"]
    row("operators", before["ops"]["imported"], after["ops"]["graph"])
    row("kernels run", before["ops"]["kernel_launches"], after["ops"]["kernel_launches"])
    row("kernel functions", before["ops"]["kernel_functions"], after["ops"]["kernel_functions"])
    table.add_section()
    row("peak memory, no reuse", memory[0]["imported_no_reuse_bytes"], memory[1]["no_reuse_bytes"], "{:,} B")
    row("peak memory, reuse", memory[0]["imported_max_live_bytes"], memory[1]["max_live_bytes"], "{:,} B")
    row("peak memory, planned", memory[0]["arena_bytes"], memory[1]["arena_bytes"], "{:,} B")
    row("  of it workspaces", *(workspaces(each) for each in memory), "{:,} B")
    row("bytes through memory", before["traffic"]["imported_bytes"], after["traffic"]["bytes"], "{:,} B")
    table.add_section()
    row("time of a run", 1e3 * seconds[0], 1e3 * seconds[1], "{:.2f} ms")
    table.add_row("largest difference", "", f"{max(d.max_abs_error for d in differences):.2g}", "")
    return table


def workspaces(memory: dict[str, Any]) -> int:
    """The part of the arena that is there for workspaces: what they add to the peak, or, without reuse, to the sum."""
    return max(memory["workspace_bytes"], memory["arena_bytes"] - memory["no_reuse_bytes"])


def print_memory(console: Console, memory: dict[str, Any]) -> None:
    """The planned arena against the imported model, whose own column is planned without any reuse."""
    arena = memory["arena_bytes"]
    console.print(
        f"planned: {arena / memory['imported_no_reuse_bytes']:.2f} of the imported model without reuse, "
        f"{arena / memory['imported_max_live_bytes']:.2f} of it with reuse"
    )


def print_fusions(console: Console, model: mlopt.Model) -> None:
    """One line per kernel that several nodes of the model were fused into."""
    fused = [
        (launch.kernel_name.data, nodes)
        for launch in model.compilation.levels["kernel"].walk()
        if isinstance(launch, LaunchOp) and len(nodes := node_names(launch.location)) > 1
    ]
    console.print(f"\n{len(fused)} fusions:" if fused else "\nno fusions")
    width = max((len(name) for name, _ in fused), default=0)
    for name, nodes in fused:
        console.print(Padding(f"{name:{width}}  {joined(nodes)}", (0, 0, 0, 2), expand=False))


def joined(nodes: Sequence[str]) -> str:
    """Names of nodes, what they have in common written once: `vision/fc2: MatMul + Add`."""
    paths = [node.split("/") for node in nodes]
    shared = 0
    while all(len(path) > shared + 1 and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    rest = " + ".join("/".join(path[shared:]) for path in paths)
    return f"{'/'.join(paths[0][:shared])}: {rest}" if shared else rest


if __name__ == "__main__":
    sys.exit(main())
