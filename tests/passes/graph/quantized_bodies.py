"""ONNX models whose convolutions and products are in branches and loops, with inputs to calibrate and to judge by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.frontend.onnx_models import model_of, value_info

node = helper.make_node
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, samples of its inputs, and how many products it has, in bodies and in all."""

    model: onnx.ModelProto
    samples: Sequence[Arrays]
    products: int

    @property
    def calibration(self) -> Arrays:
        """What a calibration file holds."""
        return {name: np.stack([sample[name] for sample in self.samples]) for name in self.samples[0]}


def body(
    name: str, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.GraphProto:
    """A branch or a body; `i` is the number of the trip, `go` and `still_go` bools, all else floats."""

    def declared(value: str) -> onnx.ValueInfoProto:
        scalars = {"i": TensorProto.INT64, "go": TensorProto.BOOL, "still_go": TensorProto.BOOL}
        element = scalars.get(value, TensorProto.FLOAT)
        return helper.make_tensor_value_info(value, element, [] if value in scalars else None)

    return helper.make_graph(nodes, name, [*map(declared, inputs)], [*map(declared, outputs)])


def choice(
    condition: str,
    then: Sequence[onnx.NodeProto],
    t: str,
    other: Sequence[onnx.NodeProto],
    e: str,
    result: str,
) -> onnx.NodeProto:
    """An If called "choice", whose branches end with `t` and `e`."""
    branches = {"then_branch": body("then", then, [], [t]), "else_branch": body("else", other, [], [e])}
    return node("If", [condition], [result], "choice", **branches)


def model(
    nodes: Sequence[onnx.NodeProto], sample: Arrays, outputs: Sequence[str], constants: Arrays
) -> onnx.ModelProto:
    return model_of(nodes, [value_info(*item) for item in sample.items()], outputs, constants)


def branches(rng: np.random.Generator) -> Case:
    """Both branches take what a convolution before them makes; one also adds to it, in the wake of its own."""
    then = [
        node("Conv", ["p", "w1"], ["t0"], "then_conv"),
        node("Relu", ["t0"], ["t1"]),
        node("Add", ["t1", "p"], ["t2"], "then_add"),
        node("MatMul", ["t2", "v"], ["t"], "then_matmul"),
    ]
    other = [node("Conv", ["p", "w2"], ["e"], "else_conv", kernel_shape=[1, 3], pads=[0, 1, 0, 1])]
    nodes = [
        node("Conv", ["x", "w0", "b"], ["p"], "before", pads=[1, 1, 1, 1]),
        choice("c", then, "t", other, "e", "q"),
        node("MatMul", ["q", "v"], ["y"], "behind"),
    ]
    constants = {
        "w0": rng.standard_normal((4, 3, 3, 3)),
        "b": rng.standard_normal(4),
        "w1": rng.standard_normal((4, 4, 1, 1)),
        "w2": rng.standard_normal((4, 4, 1, 3)),
        "v": rng.standard_normal((6, 6)),
    }
    samples = [
        {"x": rng.standard_normal((1, 3, 6, 6)).astype(np.float32), "c": np.array(i % 2 == 0)}
        for i in range(4)
    ]
    return Case(model(nodes, samples[0], ["y", "q"], _floats(constants)), samples, 5)


def counted_loop(rng: np.random.Generator) -> Case:
    """A state of a recurrence, which grows from trip to trip; what it collects, and the state at the end."""
    inside = [
        node("MatMul", ["h", "w"], ["a"], "state"),
        node("MatMul", ["x", "u"], ["b"], "input"),
        node("Add", ["a", "b"], ["next"]),
        node("MatMul", ["next", "v"], ["out"], "output"),
        node("Identity", ["go"], ["still_go"]),
    ]
    names = ["i", "go", "h"], ["still_go", "next", "out"]
    nodes = [
        node("MatMul", ["x", "s"], ["start"], "start"),
        node(
            "Loop", ["trips", "", "start"], ["h_end", "all"], "recurrence", body=body("step", inside, *names)
        ),
    ]
    weights = {name: rng.standard_normal((8, 8)) / 3 for name in ("w", "u", "v", "s")}
    samples = [{"x": rng.standard_normal((2, 8)).astype(np.float32)} for _ in range(3)]
    constants = {**_floats(weights), "trips": np.array(5)}
    return Case(model(nodes, samples[0], ["h_end", "all"], constants), samples, 4)


def loop_with_a_condition(rng: np.random.Generator) -> Case:
    """An image is convolved and added to the first one for as long as a number says: 1 to 5 trips."""
    inside = [
        node("Conv", ["h", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"]),
        node("Add", ["r", "x"], ["next"]),
        node("Sub", ["left", "one"], ["left_then"]),
        node("Greater", ["left_then", "zero"], ["still_go"]),
    ]
    step = body("step", inside, ["i", "go", "h", "left"], ["still_go", "next", "left_then"])
    nodes = [node("Loop", ["", "yes", "x", "times"], ["y", "none"], "refine", body=step)]
    constants = {"w": rng.standard_normal((2, 2, 3, 3)) / 6, "one": np.array(1.0), "zero": np.array(0.0)}
    samples = [
        {"x": rng.standard_normal((1, 2, 5, 5)).astype(np.float32), "times": np.array(i + 1.0, np.float32)}
        for i in range(5)
    ]
    return Case(model(nodes, samples[0], ["y"], {**_floats(constants), "yes": np.array(True)}), samples, 1)


def scan(rng: np.random.Generator) -> Case:
    """A product of each slice, a state, and in every trip a branch by the slice's sum, in which there is another."""
    then = [node("MatMul", ["a", "v"], ["t"], "then_matmul")]
    other = [node("MatMul", ["a", "w"], ["e0"], "else_matmul"), node("Tanh", ["e0"], ["e"])]
    inside = [
        node("MatMul", ["slice", "u"], ["a"], "input"),
        node("ReduceSum", ["slice"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["is_go"]),
        choice("is_go", then, "t", other, "e", "b"),
        node("Add", ["h", "b"], ["next"]),
        node("MatMul", ["next", "w"], ["out"], "output"),
    ]
    step = body("step", inside, ["h", "slice"], ["next", "out"])
    nodes = [node("Scan", ["h0", "x"], ["h_end", "all"], "steps", num_scan_inputs=1, body=step)]
    weights = {name: rng.standard_normal((8, 8)) / 3 for name in ("w", "u", "v")}
    samples = [
        {
            "h0": rng.standard_normal((2, 8)).astype(np.float32),
            "x": rng.standard_normal((6, 2, 8)).astype(np.float32),
        }
        for _ in range(3)
    ]
    return Case(
        model(nodes, samples[0], ["h_end", "all"], _floats({**weights, "zero": np.array(0.0)})), samples, 4
    )


def recurrent(rng: np.random.Generator) -> Case:
    """A GRU, which becomes a loop; its products have names of their own, and are kept by that of the operator."""
    weights = {"m": (8, 8), "w": (1, 24, 8), "r": (1, 24, 8)}
    nodes = [
        node("MatMul", ["x", "m"], ["p"], "before"),
        node("GRU", ["p", "w", "r"], ["y"], "gru", hidden_size=8, linear_before_reset=1),
    ]
    constants = _floats({name: rng.standard_normal(shape) / 3 for name, shape in weights.items()})
    samples = [{"x": rng.standard_normal((6, 1, 8)).astype(np.float32)} for _ in range(2)]
    return Case(model(nodes, samples[0], ["y"], constants), samples, 3)


def _floats(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


CASES = {make.__name__: make for make in (branches, counted_loop, loop_with_a_condition, scan, recurrent)}


class RandomBodies:
    """The text of a `@main` of matrices and a condition: products, movements, sums, in nested loops and branches."""

    TYPE = "tensor<4x4xf32>"

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)
        self._count = 0
        weights = [self._new() for _ in range(3)]
        numbers = [self._rng.normal(0, 0.5, (4, 4)).tolist() for _ in weights]
        lines = [
            f"{name} = graph.constant dense<{array}> : {self.TYPE}"
            for name, array in zip(weights, numbers, strict=True)
        ]
        lines += [f"%n{number} = arith.constant {number} : index" for number in range(3)]
        lines += ["%c = tensor.extract %condition[] : tensor<i1>"]
        self._weights = weights
        inside, result = self._block(["%x", "%y"], 8, depth=2)
        arguments = f"%x: {self.TYPE}, %y: {self.TYPE}, %condition: tensor<i1>"
        end = f"func.return {result} : {self.TYPE}"
        self.text = f"func.func @main({arguments}) -> {self.TYPE} {{\n" + "\n".join(
            [*lines, *inside, end, "}"]
        )

    def _new(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def _block(self, scope: Sequence[str], length: int, depth: int) -> tuple[list[str], str]:
        """Operations on what is in scope, and a result that depends on them, of numbers between -1 and 1."""
        values, lines = [*scope], list[str]()
        for _ in range(length):
            a, b = (values[self._rng.integers(max(0, len(values) - 4), len(values))] for _ in range(2))
            new = self._new()
            weight = self._weights[self._rng.integers(3)]
            pair = f"({self.TYPE}, {self.TYPE}) -> {self.TYPE}"
            kinds = [
                "matmul",
                "matmul",
                "product",
                "transpose",
                "relu",
                "add",
                *["loop", "branch"] * (depth > 0),
            ]
            match kinds[self._rng.integers(len(kinds))]:
                case "matmul":
                    lines.append(f"{new} = graph.matmul {a}, {weight} : {pair}")
                case "product":
                    lines.append(f"{new} = graph.matmul {a}, {b} : {pair}")
                case "transpose":
                    lines.append(f"{new} = graph.transpose {a} perm = [1, 0] : ({self.TYPE}) -> {self.TYPE}")
                case "relu":
                    lines.append(f"{new} = graph.relu {a} : {self.TYPE}")
                case "add":
                    lines.append(f"{new} = graph.add {a}, {b} : {pair}")
                case "loop":
                    carried = self._new()
                    inside, last = self._block([*values, carried], 4, depth - 1)
                    start = f"scf.for {self._new()} = %n0 to %n2 step %n1 iter_args({carried} = {a})"
                    lines += [
                        f"{new} = {start} -> ({self.TYPE}) {{",
                        *inside,
                        f"scf.yield {last} : {self.TYPE}",
                        "}",
                    ]
                case _:
                    (then, t), (other, e) = (self._block(values, 3, depth - 1) for _ in range(2))
                    lines += [
                        f"{new} = scf.if %c -> ({self.TYPE}) {{",
                        *then,
                        f"scf.yield {t} : {self.TYPE}",
                        "} else {",
                    ]
                    lines += [*other, f"scf.yield {e} : {self.TYPE}", "}"]
            values.append(new)
        bounded = self._new()
        return [*lines, f"{bounded} = graph.tanh {values[-1]} : {self.TYPE}"], bounded
