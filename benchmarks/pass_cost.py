"""What the passes of `O2` at the graph level cost, beside parsing: `python benchmarks/pass_cost.py [--sizes N M]`.

It makes models of so many nodes of the same make: those of `import_time.py`, and `transformer`, blocks of a transformer
with layer norm, attention and gelu taken apart as exporters write them. For each size, a process of its own takes the
median of several runs. A row says how many microseconds a pass takes per node of the model at both sizes, over all its
runs, and the ratio of the two: 1 is linear. Below stands what O2 takes beside parsing the same model: reading the ONNX
file alone (protobuf, in C++), importing it (file to verified graph level), and parsing its graph level from MLIR text.
"""

from __future__ import annotations

import argparse
import gc
import json
import runpy
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

IMPORT_TIME = runpy.run_path(str(Path(__file__).with_name("import_time.py")))
HIDDEN, HEADS, TOKENS = 16, 2, 4


class _Blocks:
    """Nodes of a transformer, one after the other."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {
            "two": np.array(2, np.float32),
            "epsilon": np.array(1e-5, np.float32),
            "one": np.array(1, np.float32),
            "half": np.array(0.5, np.float32),
            "root": np.array(2**0.5, np.float32),
            "scale": np.array((HIDDEN // HEADS) ** -0.5, np.float32),
            "heads": np.array([1, TOKENS, HEADS, HIDDEN // HEADS]),
            "joined": np.array([1, TOKENS, HIDDEN]),
            "last": np.array([-1]),
        }

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        number = len(self.nodes)
        self.nodes.append(helper.make_node(op_type, inputs, [f"v{number}"], f"n{number}", **attributes))
        return f"v{number}"

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        self.constants[name] = np.full(shape, 0.125 + len(self.constants), np.float32)
        return name

    def linear(self, x: str, rows: int, columns: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weight(rows, columns)), self.weight(columns))

    def layer_norm(self, x: str) -> str:
        centered = self.op("Sub", x, self.op("ReduceMean", x, "last"))
        variance = self.op("ReduceMean", self.op("Pow", centered, "two"), "last")
        deviation = self.op("Sqrt", self.op("Add", variance, "epsilon"))
        scaled = self.op("Mul", self.op("Div", centered, deviation), self.weight(HIDDEN))
        return self.op("Add", scaled, self.weight(HIDDEN))

    def attention(self, x: str) -> str:
        q, k, v = (
            self.op("Transpose", self.op("Reshape", self.linear(x, HIDDEN, HIDDEN), "heads"), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        weights = self.op("Softmax", self.op("Mul", self.op("MatMul", q, k), "scale"), axis=-1)
        context = self.op("Transpose", self.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", context, "joined"), HIDDEN, HIDDEN)

    def feed_forward(self, x: str) -> str:
        x = self.linear(x, HIDDEN, HIDDEN)
        gate = self.op("Add", self.op("Erf", self.op("Div", x, "root")), "one")
        return self.linear(self.op("Mul", self.op("Mul", x, gate), "half"), HIDDEN, HIDDEN)

    def block(self, x: str) -> str:
        x = self.op("Add", x, self.attention(self.layer_norm(x)))
        return self.op("Add", x, self.feed_forward(self.layer_norm(x)))


def transformer(count: int) -> onnx.ModelProto:
    """Blocks of about fifty nodes each, until there are `count`."""
    blocks, value = _Blocks(), "x"
    while len(blocks.nodes) < count:
        value = blocks.block(value)
    return IMPORT_TIME["_model"](blocks.nodes, blocks.constants, [1, TOKENS, HIDDEN], value)


MAKES: dict[str, Callable[[int], onnx.ModelProto]] = {**IMPORT_TIME["MAKES"], "transformer": transformer}


def measure(make: str, count: int, repeat: int, level: str) -> dict[str, float]:
    """Seconds of what is done to a model of that many nodes: reading, import, parsing, each pass, all passes."""
    gc.set_threshold(IMPORT_TIME["GARBAGE_THRESHOLD"])

    from mlopt.engine import attach_engine
    from mlopt.frontend.onnx import import_model
    from mlopt.ir import make_context, parse_module, print_module, verify_module
    from mlopt.passes.pipelines import PipelineOptions, at_optimisation_level, phase_passes
    from mlopt.passmanager import PassManager, parse_pipeline

    model = MAKES[make](count)
    file = model.SerializeToString()
    passes = ",".join(phase_passes("graph", at_optimisation_level(level, PipelineOptions())))
    pipeline = parse_pipeline(f"builtin.module({passes})")

    def once() -> Counter[str]:
        seconds: Counter[str] = Counter()

        def timed(what: str, work: Callable[[], Any]) -> Any:
            gc.collect()
            start = time.process_time()  # of the processor: others may use it too
            result = work()
            seconds[what] += time.process_time() - start
            return result

        timed("read ONNX", lambda: onnx.load_from_string(file))
        ctx = make_context()
        attach_engine(ctx)
        module = timed("import ONNX", lambda: import_model(model, ctx))
        text = print_module(module)
        parsed = timed("parse MLIR", lambda: parse_module(text, make_context()))
        timed("verify", lambda: verify_module(parsed))
        results = timed(level, lambda: PassManager(ctx, pipeline, verify_each=False).run(module))
        for result in results:
            seconds[f"  {result.name}"] += result.seconds
        return seconds

    once()
    runs = [once() for _ in range(repeat)]
    return {what: statistics.median(run[what] for run in runs) for what in runs[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What the passes at the graph level cost, beside parsing.")
    parser.add_argument("--make", choices=list(MAKES), action="append", help="of models (default: all)")
    parser.add_argument("--sizes", type=int, nargs=2, default=[500, 5000], metavar="NODES")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of one size (default: 3)")
    parser.add_argument("--level", default="O2", help="the pipeline (default: O2)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure is not None:
        make, count = options.measure.split(":")
        print(json.dumps(measure(make, int(count), options.repeat, options.level)))
        return 0
    small, large = options.sizes
    print(f"{'model':12}{'work':30}{f'us/node {small}':>14}{f'us/node {large}':>14}{'ratio':>8}")
    for make in options.make or MAKES:
        few, many = (_in_a_process(make, count, options.repeat, options.level) for count in (small, large))
        for work, seconds in many.items():
            before, after = 1e6 * few[work] / small, 1e6 * seconds / large
            ratio = f"{after / before:8.2f}" if before else ""
            print(f"{make:12}{work:30}{before:14.1f}{after:14.1f}{ratio}")
        for parsing in ("read ONNX", "import ONNX", "parse MLIR"):
            shares = [f"{each[options.level] / each[parsing]:14.2f}" for each in (few, many)]
            print(f"{make:12}{f'{options.level} / {parsing}':30}{''.join(shares)}", flush=True)
    return 0


def _in_a_process(make: str, count: int, repeat: int, level: str) -> dict[str, float]:
    command = [
        sys.executable,
        __file__,
        f"--measure={make}:{count}",
        f"--repeat={repeat}",
        f"--level={level}",
    ]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
