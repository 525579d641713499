"""How much memory a command takes for a model with large weights: `python benchmarks/compile_memory.py [--mib N]`.

It makes models whose weights have N MiB (default 400), a chain of large matrix products: with plain weights, with
weights that Gemm takes transposed, with the weights in a file of their own, and with weights that are scaled by a
constant, so that folding makes new ones. For each, `mlopt compile` and `mlopt run` work in a process of their own. Its
private bytes are sampled: memory that no file stands behind, swapped out or not (`Anonymous` and `Swap` in `smaps`).
The ratio is that of their peak, less what Python takes without a program, to the bytes of the weights.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper

SIDE = 2048
"""Rows and columns of a weight: 16 MiB of f32."""

ROWS = 4
"""Rows of the model's input."""

INTERVAL = 0.01
"""Seconds between two samples."""

FORMS = ("matmul", "gemm", "external", "scaled")


def make_model(path: Path, form: str, mib: int) -> int:
    """Write a chain of products; returns the bytes of its weights."""
    generator = np.random.default_rng(0)
    count = max(1, mib * 2**20 // (SIDE * SIDE * 4))
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    for index in range(count):
        operands, result, name = [f"v{index}", f"w{index}"], [f"v{index + 1}"], f"layer{index}"
        if form == "gemm":
            nodes.append(helper.make_node("Gemm", operands, result, name, transB=1))
        else:
            if form == "scaled":
                nodes.append(helper.make_node("Mul", [operands[1], "scale"], [f"s{index}"], f"scale{index}"))
                operands[1] = f"s{index}"
            nodes.append(helper.make_node("MatMul", operands, result, name))
        data = generator.standard_normal((SIDE, SIDE), np.float32) / np.float32(SIDE**0.5)
        weights.append(
            helper.make_tensor(f"w{index}", TensorProto.FLOAT, data.shape, data.tobytes(), raw=True)
        )
    weights.append(helper.make_tensor("scale", TensorProto.FLOAT, [], [0.5]))
    interface = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, SIDE])] for name in ("v0", f"v{count}")
    ]
    graph = helper.make_graph(nodes, "chain", *interface, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(
        model, path, save_as_external_data=form == "external", location=f"{path.name}.data", size_threshold=0
    )
    return count * SIDE * SIDE * 4


def peak_private_bytes(command: Sequence[str]) -> int:
    """The most private bytes that a process has while it runs; it must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _private_bytes(process.pid))
        time.sleep(INTERVAL)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return peak


def _private_bytes(pid: int) -> int:
    """Memory that no file stands behind, in bytes; 0 if the process has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    sizes = {line.split()[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    return 1024 * (sizes.get("Anonymous:", 0) + sizes.get("Swap:", 0))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Private memory of mlopt for a model with large weights.")
    parser.add_argument("--mib", type=int, default=400, help="weights in MiB (default: 400)")
    parser.add_argument("--form", choices=FORMS, action="append", help="of the weights (default: all)")
    options = parser.parse_args(arguments)
    mlopt = [sys.executable, "-c", "import sys; from mlopt.cli.main import main; sys.exit(main())"]
    empty = peak_private_bytes([sys.executable, "-c", f"import time; time.sleep({20 * INTERVAL})"])
    with TemporaryDirectory() as folder:
        out = Path(folder, "out.mlir")
        print(f"{'weights':10}{'MiB':>6}  {'command':10}{'private MiB':>12}{'over empty':>12}{'ratio':>8}")
        for form in options.form or FORMS:
            model = Path(folder, f"{form}.onnx")
            weights = make_model(model, form, options.mib)
            for verb, rest in (("compile", ["-o", str(out)]), ("run", [])):
                peak = peak_private_bytes([*mlopt, verb, str(model), *rest])
                over = peak - empty
                print(
                    f"{form:10}{weights / 2**20:6.0f}  {verb:10}{peak / 2**20:12.0f}{over / 2**20:12.0f}"
                    f"{over / weights:8.2f}",
                    flush=True,
                )
            model.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
