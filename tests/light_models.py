"""The nine architectures that the onnx package has without weights, with random ones: `python -m tests.light_models`.

light_models [NAME ...]    compile and run these, or all; what differs from onnxruntime, times, memory

In the package every weight is the same number, which leaves all outputs equal. Here each has random numbers of a size
that keeps activations in their range: `sqrt(2 / n)` for sums of n products, near 1 for scales and variances, near 0 for
the rest. What goes into the last Softmax is an output too, as behind it most numbers are near 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, numpy_helper
from rich.console import Console
from rich.table import Table

import mlopt
from tests.onnx_oracle import run_model

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = (
    *("squeezenet", "shufflenet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("bvlc_alexnet", "zfnet512", "vgg19"),
)
TOLERANCE = 1e-4
"""How much of the largest number of an output the outputs may differ."""


def light_model(name: str, seed: int = 0) -> ModelProto:
    """The architecture `name` with random weights; the same for the same seed."""
    model, random = onnx.load(FOLDER / f"light_{name}.onnx"), np.random.default_rng(seed)
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = [node for node in graph.node if node.op_type == "ConstantOfShape" and node.input[0] in shapes]
    replaced = {node.input[0] for node in weights}
    kept = [tensor for tensor in graph.initializer if tensor.name not in replaced]
    for node in weights:
        consumer, position = _consumer(graph, node.output[0])
        shape = tuple(int(extent) for extent in shapes[node.input[0]])
        array = _random_weight(random, consumer.op_type, position, shape).astype(np.float32)
        kept.append(numpy_helper.from_array(array, node.output[0]))
    inputs = [value for value in graph.input if value.name not in replaced]
    nodes = [node for node in graph.node if node not in weights]
    for repeated, values in ((graph.initializer, kept), (graph.input, inputs), (graph.node, nodes)):
        values = [type(value).FromString(value.SerializeToString()) for value in values]
        del repeated[:]
        repeated.extend(values)
    softmax = [node for node in nodes if node.op_type == "Softmax"]
    if softmax:
        graph.output.append(onnx.ValueInfoProto(name=softmax[-1].input[0]))
    model.ir_version = max(model.ir_version, 8)  # older ones want initializers to be inputs
    return model


def _consumer(graph: GraphProto, name: str) -> tuple[NodeProto, int]:
    """The node that uses a weight, and as which of its inputs; it may be reshaped on its way."""
    for node in graph.node:
        if name in node.input:
            if node.op_type in ("Reshape", "Unsqueeze"):
                return _consumer(graph, node.output[0])
            return node, list(node.input).index(name)
    raise LookupError(name)


def _random_weight(
    random: np.random.Generator, op_type: str, position: int, shape: Sequence[int]
) -> np.ndarray:
    if op_type in ("Conv", "Gemm") and position == 1:
        count = prod(shape[1:]) if op_type == "Conv" else max(shape)
        return random.standard_normal(shape) * np.sqrt(2 / count)
    if (op_type, position) in (("BatchNormalization", 1), ("BatchNormalization", 4), ("Mul", 1)):
        return random.uniform(0.5, 1.5, shape)
    return random.standard_normal(shape) * 0.05


def example(model: ModelProto) -> dict[str, np.ndarray]:
    """A random image."""
    weights = {tensor.name for tensor in model.graph.initializer}
    (value,) = (value for value in model.graph.input if value.name not in weights)
    shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
    return {value.name: np.random.default_rng(1).standard_normal(shape, np.float32)}


def largest_error(model: ModelProto, compiled: mlopt.Model, inputs: dict[str, np.ndarray]) -> float:
    """How far from onnxruntime any output is, as a part of its largest number."""
    got = compiled.run(inputs)
    names = [output.name for output in model.graph.output]
    want = dict(zip(names, run_model(model, inputs), strict=True))
    return max(float(np.abs(got[name] - right).max() / np.abs(right).max()) for name, right in want.items())


def main() -> int:
    """See the module's docstring. 1 if an output differs by more than the tolerance."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.light_models", description="the light models of onnx"
    )
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=", ".join(NAMES))
    names: Sequence[str] = parser.parse_args().names
    if unknown := set(names) - set(NAMES):
        parser.error(f"expected names of {', '.join(NAMES)}, found {', '.join(sorted(unknown))}")
    table = Table("model", "nodes", "MB", "compile s", "run ms", "arena MB", "error")
    failed = False
    for name in names:
        model = light_model(name)
        inputs = example(model)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(model, path)
            start = time.perf_counter()
            compiled = mlopt.compile(path)
            seconds = time.perf_counter() - start
            error = largest_error(model, compiled, inputs)
            start = time.perf_counter()
            compiled.run(inputs)
            run = time.perf_counter() - start
            size = path.stat().st_size
        failed |= not error <= TOLERANCE
        numbers = (size / 1e6, seconds, 1e3 * run, compiled.executable.arena_bytes / 1e6)
        table.add_row(name, str(len(model.graph.node)), *(f"{n:.1f}" for n in numbers), f"{error:.1e}")
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
