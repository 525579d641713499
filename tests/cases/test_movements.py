"""Public faults of transposes, reshapes and slices (part T), and their kin, with the right values by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import mlopt
from mlopt.compilation import compile_model, load_model
from mlopt.diagnostics import MloptError
from mlopt.export import to_onnx
from mlopt.options import CompileOptions
from tests.cases import models
from tests.cases.models import outputs
from tests.frontend.onnx_models import Arrays, assert_close, model_of, value_info
from tests.onnx_oracle import run_model


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        op_type, ["" if name == "-" else name for name in inputs.split()], [output], **attributes
    )


def model(
    nodes: Sequence[onnx.NodeProto], x: np.ndarray, outputs: str = "y", opset: int = 18, **constants: Any
) -> onnx.ModelProto:
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return model_of(nodes, [value_info("x", x)], outputs.split(), arrays, opset=opset)


def check(proto: onnx.ModelProto, inputs: Arrays, want: Arrays) -> None:
    """Every way there is to run a model, and its export in onnxruntime without optimisation."""
    models.check(proto, inputs, want)
    compilation = compile_model(load_model(proto, CompileOptions(), inputs=inputs), "graph")
    exported = to_onnx(compilation.module, compilation.ctx.weights)
    names = [output.name for output in exported.graph.output]
    assert_close(dict(zip(names, run_model(exported, inputs), strict=True)), want)


@pytest.mark.parametrize("perm", [[0, 1], [1, 0]])
@pytest.mark.parametrize("op_type", ["MatMul", "Gemm"])
def test_t01_a_transpose_that_is_none_before_a_product(perm: list[int], op_type: str):
    """[[1, 5], [3, 9]] for the identity: square shapes don't tell."""
    x, w, bias = f32([1, 2], [3, 4]), f32([1, 0], [0, 2]), f32(0, 1)
    nodes = [node("Transpose", "x", "t", perm=perm)]
    if op_type == "Gemm":
        nodes.append(node("Gemm", "t w b"))
    else:
        nodes += [node("MatMul", "t w", "p"), node("Add", "p b")]
    check(model(nodes, x, w=w, b=bias), {"x": x}, {"y": x.transpose(perm) @ w + bias})


def test_t02_squeeze_of_the_last_axis_twice():
    x = np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1)
    nodes = [node("Squeeze", "x last", "s"), node("Squeeze", "s last")]
    check(model(nodes, x, last=[-1]), {"x": x}, {"y": x.reshape(1, 5)})


@pytest.mark.parametrize(
    ("first", "second", "want"), [([-1], [0], (5, 1)), ([0], [-1], (5, 1)), ([0], [0], (5, 1, 1))]
)
def test_t02_squeeze_and_unsqueeze_by_turns(first: list[int], second: list[int], want: tuple[int, ...]):
    x = np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1)
    nodes = [
        node("Squeeze", "x first", "s"),
        node("Squeeze" if want != (5, 1, 1) else "Unsqueeze", "s second", "u"),
    ]
    nodes.append(node("Squeeze", "u second") if want == (5, 1, 1) else node("Identity", "u"))
    check(model(nodes, x, first=first, second=second), {"x": x}, {"y": x.reshape(want)})


@pytest.mark.parametrize("allowzero", [0, 1])
def test_t03_a_zero_in_a_shape(allowzero: int):
    """With allowzero a 0 is a 0, also where it is merged with another reshape; else it copies an extent."""
    x = np.zeros((0, 6, 2), np.float32)
    nodes = [node("Reshape", "x first", "r"), node("Reshape", "r second", allowzero=allowzero)]
    first, second = ([3, 2, 0], [0, 0, 3]) if allowzero else ([0, 12], [0, 3, 4])
    nodes[0].attribute.append(helper.make_attribute("allowzero", allowzero))
    want = np.zeros((0, 0, 3) if allowzero else (0, 3, 4), np.float32)
    check(model(nodes, x, first=first, second=second), {"x": x}, {"y": want})


def test_t05_a_reshape_of_the_shape_of_another():
    nodes = [node("Reshape", "four one", "s"), node("Reshape", "x s")]
    x = f32([10, 20], [30, 40])
    check(model(nodes, x, four=[[4]], one=[1]), {"x": x}, {"y": f32(10, 20, 30, 40)})


def test_t06_a_transpose_that_others_read_too():
    x = f32([1, -2], [3, 4])
    nodes = [node("Transpose", "x", "t"), node("Transpose", "t", "a"), node("Relu", "t", "b")]
    want = {"a": x, "b": f32([1, 3], [0, 4]), "t": x.T.copy()}
    check(model(nodes, x, "a b t"), {"x": x}, want)


@pytest.mark.parametrize("axis", [-4, -3, -2, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("perm", list(permutations(range(3))))
def test_t07_a_transpose_through_unsqueeze(axis: int, perm: tuple[int, ...]):
    """A transpose, a new axis, and the transpose that undoes the first around it."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    new = axis % 4
    places = [place for place in range(4) if place != new]
    undo = list(np.argsort(perm))
    back = [new if place == new else places[undo[places.index(place)]] for place in range(4)]
    nodes = [
        node("Transpose", "x", "t", perm=list(perm)),
        node("Unsqueeze", "t axis", "u"),
        node("Relu", "u", "r"),
        node("Transpose", "r", perm=back),
    ]
    want = {"y": np.expand_dims(x.transpose(perm), axis).transpose(back)}
    assert want["y"].shape == np.expand_dims(x, axis).shape
    assert_close(outputs(model(nodes, x, axis=[axis]), {"x": x}), want)


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
@pytest.mark.parametrize("perm", list(permutations(range(3))))
def test_t07_a_transpose_through_slice_and_reduction(axis: int, perm: tuple[int, ...]):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    nodes = [
        node("Transpose", "x", "t", perm=list(perm)),
        node("Slice", "t one end axis", "s"),
        node("ReduceMax", "s axis", "m", keepdims=0),
        node("Transpose", "m", perm=[1, 0]),
    ]
    moved = x.transpose(perm)
    want = {"y": moved.take(range(1, moved.shape[axis]), axis).max(axis).T.copy()}
    constants = {"one": [1], "end": [2**31], "axis": [axis]}
    assert_close(outputs(model(nodes, x, **constants), {"x": x}), want)


INT64_MIN = -(2**63)
SLICES: list[tuple[list[tuple[int, int, int]], list[int]]] = [
    ([(9, 0, -3)], [9, 6, 3]),
    ([(-1, INT64_MIN, -1)], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    ([(2, 8, 1), (-3, -1, 1)], [5, 6]),
    ([(9, 0, -3), (-1, INT64_MIN, -1)], [3, 6, 9]),
    ([(0, 2**63 - 1, 4)], [0, 4, 8]),
    ([(-4, 100, 1)], [6, 7, 8, 9]),
    ([(100, -100, -1)], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    ([(5, 5, 1)], []),
    ([(7, 3, 1)], []),
    ([(8, 2, -2), (1, 3, 1), (1, 0, -1)], [4]),
]


@pytest.mark.parametrize(("slices", "want"), SLICES)
def test_t08_slices(slices: list[tuple[int, int, int]], want: list[int]):
    x = np.arange(10, dtype=np.float32)
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, list[int]] = {"axis": [0]}
    for index, (start, end, step) in enumerate(slices):
        constants |= {f"a{index}": [start], f"b{index}": [end], f"c{index}": [step]}
        value, result = "x" if index == 0 else f"s{index - 1}", f"s{index}"
        nodes.append(node("Slice", f"{value} a{index} b{index} axis c{index}", result))
    nodes.append(node("Relu", f"s{len(slices) - 1}"))
    check(model(nodes, x, **constants), {"x": x}, {"y": f32(*want)})


def test_t08_a_slice_without_axes_and_steps():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for start, end in (([1, -3], [3, 6]), ([1], [3])):
        want = x[1:3, -3:] if len(start) == 2 else x[1:3]
        check(model([node("Slice", "x a b")], x, a=start, b=end), {"x": x}, {"y": want})


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
def test_t07_a_reduction_that_is_reshaped(axis: int, keepdims: int):
    """To the shape it has with its dimensions, or without; and one that is read as it is, too."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    kept, dropped = x.max(axis, keepdims=True), x.max(axis)
    want = {"y": dropped if keepdims else kept, "m": kept if keepdims else dropped}
    constants = {"axis": [axis], "shape": want["y"].shape}
    nodes = [node("ReduceMax", "x axis", "m", keepdims=keepdims), node("Reshape", "m shape")]
    check(model(nodes, x, **constants), {"x": x}, {"y": want["y"]})
    check(model(nodes, x, "y m", **constants), {"x": x}, want)


def test_t09_the_last_of_a_shape():
    x = np.zeros((2, 7), np.float32)
    nodes = [node("Shape", "x", "s"), node("Gather", "s last")]
    check(model(nodes, x, last=-1), {"x": x}, {"y": np.array(7)})


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_t09_indices_that_count_from_the_end_of_data(dtype: type):
    x, indices = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([-1, 0, -3, 2], dtype)
    inputs = [value_info("x", x), value_info("i", indices)]
    for op_type in ("Gather", "GatherElements"):
        index = indices if op_type == "Gather" else np.tile(indices[:, None], 4)[:3]
        want = x[indices] if op_type == "Gather" else np.take_along_axis(x, index, 0)
        inputs = [value_info("x", x), value_info("i", index)]
        proto = model_of([node(op_type, "x i")], inputs, ["y"])
        given = {"x": x, "i": index}
        assert_close(mlopt.compile(proto).run(given), {"y": want})
        constant = model_of([node(op_type, "x i")], inputs[:1], ["y"], {"i": index})
        check(constant, {"x": x}, {"y": want})


@pytest.mark.parametrize("index", [3, -4, 2**31, -(2**63)])
def test_t09_an_index_out_of_range_is_an_error(index: int):
    x, indices = np.zeros((3, 4), np.float32), np.array([index])
    inputs = [value_info("x", x), value_info("i", indices)]
    compiled = mlopt.compile(model_of([node("Gather", "x i")], inputs, ["y"]))
    with pytest.raises(MloptError, match="out of bounds"):
        compiled.run({"x": x, "i": indices})
    with pytest.raises(MloptError, match="out of bounds"):
        mlopt.compile(model([node("Gather", "x i")], x, i=indices))
