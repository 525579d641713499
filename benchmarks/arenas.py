"""Arenas beside what models take as imported: `python benchmarks/arenas.py [MODEL.onnx ...]`.

A row per model, and geometric means. Inputs come from the `.npz` file beside a model, because they can decide shapes.
Nothing is run. Without models, those in `tests/models` are taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

import mlopt
from mlopt.arrays import read_npz
from mlopt.visual.planned import memory_plan

MODELS = Path(__file__).parents[1] / "tests" / "models"

LEGEND = """\
arena: bytes that a run takes; tensors: the most of them that live at once, without workspaces; scratch: what is in
workspaces at the peak; /peak, /sum: the arena, divided by the most that lives at once and by the sum of all tensors,
both of the model as imported; at the peak: the node that runs then.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Arenas beside what models take as imported.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    options = parser.parse_args(arguments)
    print(f"{'model':40} {'arena':>9} {'tensors':>9} {'scratch':>9} {'/peak':>6} {'/sum':>6}  at the peak")
    ratios: list[tuple[float, float]] = []
    for path in options.models or sorted(MODELS.glob("*.onnx")):
        line, pair = row(path)
        ratios.append(pair)
        print(line, flush=True)
    if ratios:
        peak, total = (geometric_mean(column) for column in zip(*ratios, strict=True))
        print(f"{'geometric mean':40} {'':29} {peak:6.3f} {total:6.3f}")
    print(LEGEND, end="")


def row(path: Path) -> tuple[str, tuple[float, float]]:
    """The line of a model, and its arena as parts of the peak and of the sum of what was imported."""
    values = path.with_suffix(".npz")
    model = mlopt.compile(path, inputs=dict(read_npz(values, "in")) if values.exists() else None)
    memory = model.report()["memory"]
    arena = memory["arena_bytes"]
    pair = arena / memory["imported_max_live_bytes"], arena / memory["imported_no_reuse_bytes"]
    plan = memory_plan(model.compilation.levels["memref"])
    scratch = sum(b.buffer.size for b in plan.live_at(plan.peak_moment) if b.is_workspace)
    figures = f"{arena:9} {memory['max_live_bytes']:9} {scratch:9} {pair[0]:6.3f} {pair[1]:6.3f}"
    return f"{path.stem[:40]:40} {figures}  {plan.peak_maker}", pair


if __name__ == "__main__":
    main()
