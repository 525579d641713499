"""Does a run take more memory than its arena and its outputs? `python benchmarks/peak_rss.py [--mib N] [--make NAME]`.

Makes models with about N MiB (default 100) of activations, of convolutions, of matrix products, of attention, in half
precision and in 8 bits, and runs each in a process of its own. `over` is the peak of the process's resident memory
during its first run (`VmHWM`, set back before it) above what it had right before: with the model loaded, its inputs
there, its weights read once, and one warm product. That product has the shapes and type of the model's own, because
OpenBLAS packs operands in buffers that it takes from the system once, and the more of them become resident the larger a
product is; `packing` is what such products take in numpy alone. The arena is first touched by that run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

MIB = 2**20

ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": str(2**16)}
"""Lets glibc give back the arrays that are freed before the run: else the run would find them resident."""

Products = list[tuple[tuple[int, ...], tuple[int, ...], str]]
"""Shapes of the operands of matrix products, and their type."""


class Measured(NamedTuple):
    """Bytes: of the arena, of the outputs, what became resident at the peak of a run, and in a warm product."""

    arena: int
    outputs: int
    over: int
    packing: int

    @property
    def ratio(self) -> float:
        """Of the memory that a run took to its arena and its outputs."""
        return self.over / (self.arena + self.outputs)


def convolutions(path: Path, mib: int) -> Products:
    """Three convolutions of 16 channels with relu; an activation has a third of the bytes."""
    side = int((mib * MIB / 3 / 64) ** 0.5)
    nodes = [
        node
        for i in range(3)
        for node in (
            ("Conv", [f"v{i}", f"w{i}"], f"c{i}", {"pads": [1] * 4}),
            ("Relu", [f"c{i}"], f"v{i + 1}", {}),
        )
    ]
    weights = {f"w{i}": _drawn((16, 16, 3, 3)) / 12 for i in range(3)}
    _save(path, nodes, ("v0", (1, 16, side, side)), "v3", weights)
    return [((16, 144), (144, side), "float32")]


def products(path: Path, mib: int, dtype: str = "float32") -> Products:
    """Four products with weights of 512 x 512 and a bias, and relu between them."""
    rows = int(mib * MIB / 3 / 512 / np.dtype(dtype).itemsize)
    nodes: list[_Node] = []
    weights: dict[str, np.ndarray] = {}
    for i in range(4):
        nodes += [
            ("MatMul", [f"v{i}", f"w{i}"], f"p{i}", {}),
            ("Add", [f"p{i}", f"b{i}"], f"s{i}", {}),
            ("Relu", [f"s{i}"], f"v{i + 1}", {}),
        ]
        weights |= {f"w{i}": (_drawn((512, 512)) / 16).astype(dtype), f"b{i}": _drawn((512,)).astype(dtype)}
    _save(path, nodes, ("v0", (rows, 512)), "v4", weights)
    return [((rows, 512), (512, 512), "float32")]


def half_precision(path: Path, mib: int) -> Products:
    """The same in float16, which the engine multiplies in float32."""
    return products(path, mib, "float16")


def attention(path: Path, mib: int) -> Products:
    """One layer of a transformer: layer norm, attention of 8 heads of 32, an MLP with GELU, twice a residual."""
    tokens, heads, wide = 512, 8, 256
    batch = max(1, int(mib * MIB / 6 / 4 / tokens / wide))
    nodes: list[_Node] = [("LayerNormalization", ["x", "g"], "n", {})]
    for name in "qkv":
        nodes += [
            ("MatMul", ["n", f"w{name}"], f"{name}0", {}),
            ("Reshape", [f"{name}0", "split"], f"{name}1", {}),
            ("Transpose", [f"{name}1"], name, {"perm": [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]}),
        ]
    nodes += [
        ("MatMul", ["q", "k"], "a", {}),
        ("Mul", ["a", "scale"], "as", {}),
        ("Softmax", ["as"], "p", {"axis": -1}),
        ("MatMul", ["p", "v"], "h", {}),
        ("Transpose", ["h"], "ht", {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["ht", "join"], "hj", {}),
        ("MatMul", ["hj", "wo"], "o", {}),
        ("Add", ["x", "o"], "r", {}),
        ("LayerNormalization", ["r", "g"], "m", {}),
        ("MatMul", ["m", "up"], "u", {}),
        ("Gelu", ["u"], "e", {}),
        ("MatMul", ["e", "down"], "d", {}),
        ("Add", ["r", "d"], "y", {}),
    ]
    weights = {f"w{name}": _drawn((wide, wide)) / 16 for name in "qkvo"} | {
        "up": _drawn((wide, 4 * wide)) / 16,
        "down": _drawn((4 * wide, wide)) / 32,
        "g": np.ones(wide, np.float32),
        "scale": np.float32(32**-0.5) * np.ones((), np.float32),
        "split": np.array([batch, tokens, heads, wide // heads]),
        "join": np.array([batch, tokens, wide]),
    }
    _save(path, nodes, ("x", (batch, tokens, wide)), "y", weights)
    rows = batch * tokens
    return [
        ((rows, wide), (wide, wide), "float32"),
        ((rows, wide), (wide, 4 * wide), "float32"),
        ((rows, 4 * wide), (4 * wide, wide), "float32"),
        ((tokens, wide // heads), (wide // heads, tokens), "float32"),
        ((tokens, tokens), (tokens, wide // heads), "float32"),
    ]


def quantized(path: Path, mib: int) -> Products:
    """Convolutions of 32 channels in 8 bits, as `QuantizeLinear` and `DequantizeLinear` around each say."""
    side = int((mib * MIB / 3 / 32 / 2) ** 0.5)
    nodes: list[_Node] = [("QuantizeLinear", ["x", "s", "z"], "v0", {})]
    weights: dict[str, np.ndarray] = {
        "s": np.float32([0.05])[0],
        "z": np.uint8([128])[0],
        "ws": np.float32([0.01])[0],
    }
    for i in range(3):
        nodes += [
            ("DequantizeLinear", [f"v{i}", "s", "z"], f"d{i}", {}),
            ("DequantizeLinear", [f"w{i}", "ws"], f"e{i}", {}),
            ("Conv", [f"d{i}", f"e{i}"], f"c{i}", {"pads": [1] * 4}),
            ("QuantizeLinear", [f"c{i}", "s", "z"], f"v{i + 1}", {}),
        ]
        weights[f"w{i}"] = (30 * _drawn((32, 32, 3, 3))).clip(-127, 127).astype(np.int8)
    nodes.append(("DequantizeLinear", ["v3", "s", "z"], "y", {}))
    _save(path, nodes, ("x", (1, 32, side, side)), "y", weights)
    return [((32, 288), (288, side), "float32")]


MAKES: dict[str, Callable[[Path, int], Products]] = {
    "convolutions": convolutions,
    "products": products,
    "attention": attention,
    "half-precision": half_precision,
    "quantized": quantized,
}

_Node = tuple[str, list[str], str, dict[str, object]]
"""Operator, inputs, output, attributes."""


def _drawn(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def _save(
    path: Path,
    nodes: Sequence[_Node],
    given: tuple[str, tuple[int, ...]],
    result: str,
    weights: dict[str, np.ndarray],
) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT16 if any(w.dtype == np.float16 for w in weights.values()) else TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, [output], **rest) for operator, inputs, output, rest in nodes],
        "model",
        [helper.make_tensor_value_info(given[0], kind, given[1])],
        [helper.make_tensor_value_info(result, kind, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def measure(path: Path, warm: Products) -> Measured:
    """Compile, load and run a model once, in this process."""
    import mlopt
    from mlopt.running import seeded_inputs

    model = mlopt.compile(path)
    executable = model.executable
    inputs = seeded_inputs(executable)
    weights = model.compilation.ctx.weights
    for name in weights:
        weights.get(name).sum()
    operands = [(np.ones(a, dtype), np.ones(b, dtype)) for a, b, dtype in warm]
    results = [np.ones((len(a), b.shape[-1]), a.dtype) for a, b in operands]
    before = resident()
    for (a, b), result in zip(operands, results, strict=True):
        np.matmul(a, b, out=result)
    packing = resident() - before
    del operands, results, a, b, result
    before = resident()
    forget_peak()
    outputs = executable.run(inputs)
    return Measured(
        executable.arena_bytes,
        sum(value.nbytes for value in outputs.values()),
        resident("VmHWM") - before,
        packing,
    )


def resident(what: str = "VmRSS") -> int:
    """Bytes of this process that are in memory now, or were at most (`VmHWM`)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return 1024 * int(line.split()[1])


def forget_peak() -> None:
    """Let the peak (`VmHWM`) begin at what is resident now; `OSError` where the system does not allow that."""
    Path("/proc/self/clear_refs").write_text("5")


def measure_in_fresh_process(make: str, mib: int) -> Measured:
    """Make a model, compile and run it, each in a process of its own."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        warm = MAKES[make](path, mib)
        command = [sys.executable, __file__, "--measure", str(path), "--warm", json.dumps(warm)]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **ALLOCATION}
        )
    return Measured(*json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Resident memory of a run beside its arena and outputs.")
    parser.add_argument("--mib", type=int, default=100, help="MiB of activations (default: 100)")
    parser.add_argument("--make", choices=MAKES, action="append", help="of the models (default: all)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--warm", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.warm)))
        return 0
    print(f"{'MiB':16}{'arena':>8}{'outputs':>9}{'over':>8}{'ratio':>7}{'packing':>9}")
    for make in options.make or MAKES:
        got = measure_in_fresh_process(make, options.mib)
        arena, outputs, over, packing = (nbytes / MIB for nbytes in got)
        print(f"{make:16}{arena:8.1f}{outputs:9.1f}{over:8.1f}{got.ratio:7.3f}{packing:9.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
