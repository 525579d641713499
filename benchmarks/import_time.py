"""How the time of import and compilation grows with a model: `python benchmarks/import_time.py [--compile]`.

It makes models of 500 and 5000 nodes of the same make: a chain of elementwise operators and matrix products; shape
arithmetic (Shape, Gather, Concat, Reshape), which is evaluated during the import; branches (If) between the nodes of a
chain. For each size, a process of its own takes the median of several imports; the ratio is that of the times per node.
With `--compile`, each pass of a whole compilation has its row too.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GARBAGE_THRESHOLD = 200_000
"""Objects between two garbage collections, as the commands set it (`mlopt.cli.guard`)."""


def chain(count: int) -> onnx.ModelProto:
    """Add, Mul, MatMul and Relu in turn, with weights that the layers share or have to themselves."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {"scale": np.array([0.5], np.float32)}
    for index in range(count):
        value, result, name = f"v{index}", [f"v{index + 1}"], f"n{index}"
        match index % 4:
            case 0:
                constants[f"b{index}"] = np.full(128, index, np.float32)
                nodes.append(helper.make_node("Add", [value, f"b{index}"], result, name))
            case 1:
                nodes.append(helper.make_node("Mul", [value, "scale"], result, name))
            case 2:
                constants[f"w{index}"] = np.full((128, 128), index, np.float32)
                nodes.append(helper.make_node("MatMul", [value, f"w{index}"], result, name))
            case _:
                nodes.append(helper.make_node("Relu", [value], result, name))
    return _model(nodes, constants, [2, 128], f"v{count}")


def shapes(count: int) -> onnx.ModelProto:
    """Reshapes to and from shapes that are computed from the shape of their operand."""
    nodes: list[onnx.NodeProto] = []
    constants = {"zero": np.array([0]), "one": np.array([1]), "six": np.array([6])}
    value = "v"
    for index in range(max(1, count // 6)):
        s, rows, columns, shape, flat, result = (f"{what}{index}" for what in ("s", "r", "c", "t", "f", "o"))
        nodes += [
            helper.make_node("Shape", [value], [s], f"shape{index}"),
            helper.make_node("Gather", [s, "zero"], [rows], f"rows{index}"),
            helper.make_node("Gather", [s, "one"], [columns], f"columns{index}"),
            helper.make_node("Concat", [columns, rows], [shape], f"concat{index}", axis=0),
            helper.make_node("Reshape", [value, shape], [flat], f"reshape{index}"),
            helper.make_node("Relu", [flat], [result], f"relu{index}"),
        ]
        value = result
    return _model(nodes, constants, [2, 3], value)


def branches(count: int) -> onnx.ModelProto:
    """A chain in which every fifth node is an If on a value of the run, of two nodes a branch."""
    nodes: list[onnx.NodeProto] = []
    value = "v0"
    for index in range(max(1, count // 8)):
        total, positive, result = f"t{index}", f"p{index}", f"o{index}"
        arms = [
            helper.make_graph(
                [
                    helper.make_node(op_type, [value], [f"{op_type}{index}"]),
                    helper.make_node("Neg", [f"{op_type}{index}"], [f"{op_type}r{index}"]),
                ],
                op_type,
                [],
                [helper.make_tensor_value_info(f"{op_type}r{index}", TensorProto.FLOAT, None)],
            )
            for op_type in ("Abs", "Exp")
        ]
        nodes += [
            helper.make_node("ReduceSum", [value], [total], f"sum{index}", keepdims=0),
            helper.make_node("Greater", [total, "zero"], [positive], f"greater{index}"),
            helper.make_node(
                "If", [positive], [result], f"if{index}", then_branch=arms[0], else_branch=arms[1]
            ),
            helper.make_node("Relu", [result], [f"a{index}"], f"relu{index}"),
        ]
        value = f"a{index}"
    return _model(nodes, {"zero": np.array(0, np.float32)}, [2, 3], value)


MAKES: dict[str, Callable[[int], onnx.ModelProto]] = {"chain": chain, "shapes": shapes, "branches": branches}


def _model(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], shape: Sequence[int], output: str
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(nodes[0].input[0], TensorProto.FLOAT, shape)]
    graph = helper.make_graph(
        nodes,
        "model",
        inputs,
        [onnx.ValueInfoProto(name=output)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def measure(make: str, count: int, repeat: int, whole: bool) -> dict[str, float]:
    """Seconds of what is done to a model of that many nodes: `import`, and the passes if `whole`."""
    gc.set_threshold(GARBAGE_THRESHOLD)

    from mlopt.compilation import compile_model, load_model
    from mlopt.frontend.onnx import import_model
    from mlopt.interpreter.graph import evaluate
    from mlopt.ir.registration import make_context
    from mlopt.options import CompileOptions

    model = MAKES[make](count)

    def imported() -> Any:
        ctx = make_context()
        ctx.evaluator = evaluate
        return import_model(model, ctx)

    def timed(work: Callable[[], Any]) -> float:
        start = time.process_time()  # of the processor: others may use it too
        work()
        return time.process_time() - start

    timed(imported)
    seconds = {"import": statistics.median(timed(imported) for _ in range(repeat))}
    if whole:
        compilation = compile_model(load_model(model, CompileOptions()))
        seconds["load_model"] = compilation.import_seconds
        for result in compilation.passes:
            seconds[result.name] = seconds.get(result.name, 0.0) + result.seconds
        seconds["compile_model"] = compilation.compile_seconds
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How import and compilation grow with the number of nodes.")
    parser.add_argument("--make", choices=list(MAKES), action="append", help="of models (default: all)")
    parser.add_argument("--sizes", type=int, nargs=2, default=[500, 5000], metavar="NODES")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="imports of one size (default: 5)")
    parser.add_argument("--compile", action="store_true", help="time the passes too")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure is not None:
        make, count = options.measure.split(":")
        print(json.dumps(measure(make, int(count), options.repeat, options.compile)))
        return 0
    small, large = options.sizes
    print(f"{'model':10}{'work':34}{f'us/node {small}':>14}{f'us/node {large}':>14}{'ratio':>8}")
    for make in options.make or MAKES:
        flags = [f"--repeat={options.repeat}", *(["--compile"] if options.compile else [])]
        few, many = (
            json.loads(
                subprocess.run(
                    [sys.executable, __file__, f"--measure={make}:{count}", *flags],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                ).stdout
            )
            for count in (small, large)
        )
        for work, seconds in many.items():
            before, after = 1e6 * few.get(work, 0.0) / small, 1e6 * seconds / large
            if work == "import" or options.compile:
                ratio = f"{after / before:8.2f}" if before else ""
                print(f"{make:10}{work:34}{before:14.1f}{after:14.1f}{ratio}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
