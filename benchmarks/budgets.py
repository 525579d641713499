"""Models in a part of their arena, spilling allowed: `python benchmarks/budgets.py [--parts P,...] [MODEL.onnx ...]`.

A row per model and budget. Inputs come from the `.npz` file beside a model, because they can decide shapes; if it has
outputs too, the results are compared with them, with all that is dead poisoned. Without models, those in `tests/models`
are taken.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import mlopt
from mlopt.arrays import read_npz

MODELS = Path(__file__).parents[1] / "tests" / "models"

LEGEND = """\
arena: bytes that the default pipeline plans, or (the budget) a part of that; by: what each step took away of what is
live at once, or the least that must be; spilled, moved: bytes of the second memory, and of the copies to it and back;
time: modelled, beside the launches before with workspaces at their least; s: processor seconds to compile; error: the
largest, beside the largest output.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Models in a part of their arena.")
    parser.add_argument("--parts", default="0.8,0.6,0.5")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    options = parser.parse_args(arguments)
    head = f"{'model':34} {'arena':>9} {'spilled':>9} {'moved':>9} {'time':>8} {'s':>6} {'error':>8}"
    print(f"{head}  by")
    for path in options.models or sorted(MODELS.glob("*.onnx")):
        for line in rows(path, [float(part) for part in options.parts.split(",")]):
            print(line, flush=True)
    print(LEGEND, end="")


def rows(path: Path, parts: Sequence[float]) -> list[str]:
    """The lines of a model: as it is, and in parts of its arena."""
    values = path.with_suffix(".npz")
    inputs = dict(read_npz(values, "in")) if values.exists() else None
    arena = mlopt.compile(path, inputs=inputs).memory.arena_bytes
    lines = [f"{path.stem[:34]:34} {arena:9}"]
    for part in parts:
        budget = int(part * arena)
        pipeline = mlopt.PipelineOptions(memory_budget=budget, spill_budget="any")
        start = time.process_time()
        try:
            options = mlopt.CompileOptions(pipeline=pipeline, poison=True)
            model = mlopt.Model(path, options, inputs=inputs)
        except mlopt.MloptError as error:
            least = re.findall(r"at least (\d+) are", error.message)
            seconds = time.process_time() - start
            lines.append(
                f"{f'  {part:.0%}':34} {budget:9} {'':28} {seconds:6.1f} {'':8}  at least {', '.join(least)}"
            )
            continue
        seconds = time.process_time() - start
        spill = model.memory.spill
        said = [str(remark["message"]) for remark in model.report()["remarks"]]
        summary = next(message for message in said if "live at once fit into" in message)
        by = re.findall(r"(order|tiles|second runs|spilling|smaller workspaces) ([+-]\d+) bytes", summary)
        rise = re.search(r"([+-][\d.]+%) modelled time", summary)
        lines.append(
            f"{f'  {part:.0%}':34} {budget:9} {spill.arena_bytes:9} {spill.moved_bytes:9} "
            f"{rise[1] if rise else '':>8} {seconds:6.1f} {_error(model, values):8}  "
            f"{', '.join(f'{name} {gained}' for name, gained in by)}"
        )
    return lines


def _error(model: mlopt.Model, values: Path) -> str:
    wanted = dict(read_npz(values, "out")) if values.exists() else {}
    if not wanted:
        return ""
    found = model.run(dict(read_npz(values, "in")))
    errors = [
        _largest(found[name].astype(np.float64) - want) / (_largest(want) or 1)
        for name, want in wanted.items()
    ]
    return f"{max(errors):.1e}"


def _largest(array: np.ndarray) -> float:
    return float(np.max(np.abs(array), initial=0))


if __name__ == "__main__":
    main()
