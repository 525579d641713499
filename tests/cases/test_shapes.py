"""Public faults of shapes, operator set versions and the interface (part S) and their kin, with the right values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlopt
from mlopt.diagnostics import InputError, MloptError, UnsupportedError
from mlopt.frontend.onnx import find_unsupported
from tests.cases.models import check, outputs
from tests.frontend.onnx_models import model_of, one_node, run_onnxruntime, value_info


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def node(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, **attributes)


X = np.random.default_rng(0).standard_normal((2, 3, 4), np.float32)


# S01: an operator means what it meant in the version that the model was made for.


@pytest.mark.parametrize(
    ("op_type", "opset", "value"),
    [
        ("Softmax", 11, 1 / 12),  # everything from axis 1 on is one row
        ("Softmax", 13, 0.25),  # the last axis
        ("LogSoftmax", 11, -np.log(12)),
        ("LogSoftmax", 13, -np.log(4)),
    ],
)
def test_s01_softmax_of_zeros(op_type: str, opset: int, value: float):
    x = np.zeros((2, 3, 4), np.float32)
    check(one_node(op_type, {"x": x}, opset=opset), {"x": x}, {"y0": np.full_like(x, value)})


@pytest.mark.parametrize(("opset", "ones"), [(11, 1), (13, 3)])
def test_s01_hardmax_of_zeros(opset: int, ones: int):
    """The first of the largest: of all twelve at opset 11, of each row of four at opset 13."""
    x = np.zeros((2, 3, 4), np.float32)
    want = np.zeros_like(x)
    want[:, :ones, 0] = 1
    check(one_node("Hardmax", {"x": x}, opset=opset), {"x": x}, {"y0": want})


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("opset", [1, 11, 12, 13])
def test_s01_softmax_along_each_axis(opset: int, axis: int):
    """Before opset 13 the axis only says where the columns of a matrix begin. The formulas by hand."""
    rows = X.reshape(int(np.prod(X.shape[:axis])), -1) if opset < 13 else np.moveaxis(X, axis, -1)
    powers = np.exp(rows - rows.max(-1, keepdims=True))
    shares = powers / powers.sum(-1, keepdims=True)
    want = shares.reshape(X.shape) if opset < 13 else np.moveaxis(shares, -1, axis)
    check(one_node("Softmax", {"x": X}, opset=opset, axis=axis), {"x": X}, {"y0": want})


X1 = X[:1, :, None]  # 1 x 3 x 1 x 4
VERSIONS: list[tuple[str, Mapping[str, np.ndarray], Mapping[str, np.ndarray], int, dict[str, Any], np.ndarray]] = [
    ("Squeeze", {"x": X1}, {}, 11, {"axes": [0, 2]}, X[0]),
    ("Squeeze", {"x": X1}, {}, 11, {"axes": [-2]}, X[:1]),
    ("Squeeze", {"x": X1}, {}, 11, {}, X[0]),
    ("Squeeze", {"x": X1}, {"axes": np.array([0, 2])}, 13, {}, X[0]),
    ("Squeeze", {"x": X1}, {}, 13, {}, X[0]),
    ("Unsqueeze", {"x": X}, {}, 11, {"axes": [0, -1]}, X[None, ..., None]),
    ("Unsqueeze", {"x": X}, {"axes": np.array([0, -1])}, 13, {}, X[None, ..., None]),
    ("ReduceSum", {"x": X}, {}, 11, {"axes": [1]}, X.sum(1, keepdims=True)),
    ("ReduceSum", {"x": X}, {"axes": np.array([1])}, 13, {"keepdims": 0}, X.sum(1)),
    ("ReduceSum", {"x": X}, {"axes": np.array([], np.int64)}, 13, {}, X.sum(keepdims=True)),
    ("ReduceSum", {"x": X}, {"axes": np.array([], np.int64)}, 13, {"noop_with_empty_axes": 1}, X),
    ("ReduceMax", {"x": X}, {}, 13, {"axes": [-1]}, X.max(-1, keepdims=True)),
    ("ReduceMax", {"x": X}, {"axes": np.array([-1])}, 18, {}, X.max(-1, keepdims=True)),
    ("Clip", {"x": X}, {}, 6, {"min": -0.5, "max": 0.25}, X.clip(-0.5, 0.25)),
    ("Clip", {"x": X}, {}, 6, {"max": 0.25}, X.clip(None, 0.25)),
    ("Clip", {"x": X}, {"lo": np.float32(-0.5), "hi": np.float32(0.25)}, 11, {}, X.clip(-0.5, 0.25)),
    ("Slice", {"x": X}, {}, 9, {"starts": [1], "ends": [3], "axes": [1]}, X[:, 1:3]),
    ("Slice", {"x": X}, {"s": np.array([1]), "e": np.array([3]), "a": np.array([1])}, 10, {}, X[:, 1:3]),
    ("Pad", {"x": X[0]}, {}, 10, {"pads": [1, 0, 0, 2], "value": 7.0},
     np.pad(X[0], ((1, 0), (0, 2)), constant_values=7)),
    ("Pad", {"x": X[0]}, {"p": np.array([1, 0, 0, 2]), "v": np.float32(7)}, 11, {},
     np.pad(X[0], ((1, 0), (0, 2)), constant_values=7)),
    ("Split", {"x": X}, {}, 11, {"axis": 1, "split": [3]}, X),
    ("Split", {"x": X}, {"s": np.array([3])}, 13, {"axis": 1}, X),
    ("Dropout", {"x": X}, {}, 7, {"ratio": 0.9}, X),
    ("Dropout", {"x": X}, {}, 10, {"ratio": 0.9}, X),
    ("Dropout", {"x": X}, {"ratio": np.float32(0.9)}, 12, {}, X),
    ("Dropout", {"x": X}, {"ratio": np.float32(0.9), "t": np.array(False)}, 13, {}, X),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "constants", "opset", "attributes", "want"), VERSIONS)
def test_s01_attributes_that_became_inputs(
    op_type: str,
    inputs: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    opset: int,
    attributes: dict[str, Any],
    want: np.ndarray,
):
    model = one_node(op_type, inputs, constants, opset=opset, **attributes)
    check(model, inputs, {"y0": want})


@pytest.mark.parametrize(
    ("opset", "attributes"), [(7, {"spatial": 1}), (9, {}), (14, {}), (15, {"training_mode": 0})]
)
def test_s01_batch_normalization(opset: int, attributes: dict[str, Any]):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, by hand."""
    scale, bias, mean, variance = f32(1, 2, 3), f32(0, 1, -1), f32(0.5, 0, -0.5), f32(1, 4, 0.25)
    constants = {"s": scale, "b": bias, "m": mean, "v": variance}
    model = one_node("BatchNormalization", {"x": X}, constants, opset=opset, epsilon=0.0, **attributes)
    column = (1, 3, 1)
    want = (X - mean.reshape(column)) / np.sqrt(variance).reshape(column) * scale.reshape(column)
    check(model, {"x": X}, {"y0": want + bias.reshape(column)})


def test_s01_a_function_of_the_model_has_the_version_that_it_says():
    """onnxruntime 1.32 gives 0.25 here, by the rules of the model's version; the function was written for opset 11."""
    function = helper.make_function(
        "own", "F", ["a"], ["r"], [helper.make_node("Softmax", ["a"], ["r"])], [helper.make_opsetid("", 11)]
    )
    x = np.zeros((2, 3, 4), np.float32)
    call = helper.make_node("F", ["x"], ["y"], domain="own")
    model = model_of([call], [value_info("x", x)], ["y"], opset=13, domains={"own": 1})
    model.functions.append(function)
    check(model, {"x": x}, {"y": np.full_like(x, 1 / 12)})


# S02: an input that is left out stays out, and the ones after it keep their places.


def test_s02_clip_without_a_minimum():
    x = f32(-5, 0.5, 9)
    for operands, want in (
        (["x", "", "one"], f32(-5, 0.5, 1)),
        (["x", "one", ""], f32(1, 1, 9)),
        (["x", "", ""], x),
    ):
        model = model_of([node("Clip", operands)], [value_info("x", x)], ["y"], {"one": np.float32(1)})
        check(model, {"x": x}, {"y": want})


INDICES = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "four": np.array([4])}


@pytest.mark.parametrize(
    ("op_type", "operands", "want"),
    [
        ("Slice", ["x", "zero", "two", "", "two"], X[:2:2]),
        ("Slice", ["x", "one", "four", "two", ""], X[:, :, 1:4]),
        ("ReduceSum", ["x", ""], X.sum(keepdims=True)),
        ("Squeeze", ["x", ""], X),
        ("Dropout", ["x", "", ""], X),
        ("Pad", ["x", "pads", "", "two"], np.pad(X, ((0, 0), (0, 0), (1, 0)))),
    ],
)
def test_s02_other_operators_with_an_empty_name(op_type: str, operands: list[str], want: np.ndarray):
    constants = {**INDICES, "pads": np.array([1, 0])}
    opset = 18
    model = model_of([node(op_type, operands)], [value_info("x", X)], ["y"], constants, opset=opset)
    check(model, {"x": X}, {"y": want})


# S03: an initializer that is an input too is a default value.


def test_s03_a_default_may_be_overridden():
    x, c = f32(3), f32(5)
    nodes = [node("Add", ["c", "c"], ["s"]), node("Mul", ["x", "s"])]
    inputs = [value_info("x", x), value_info("c", c)]
    model = model_of(nodes, inputs, ["y"], {"c": f32(2)})
    assert outputs(model, {"x": x})["y"] == 12
    assert outputs(model, {"x": x, "c": c})["y"] == 30
    compiled = mlopt.compile(model)
    assert [compiled.run(given)["y"][0] for given in ({"x": x}, {"x": x, "c": c}, {"x": x})] == [12, 30, 12]


def test_s03_names_order_and_number_never_change():
    """Inputs that nothing uses stay; an output may be an input."""
    x = f32(1, -2)
    inputs = [value_info(name, x) for name in ("b", "unused:0", "a")]
    nodes = [node("Add", ["a", "b"], ["s"])]
    model = model_of(nodes, inputs, ["s", "b"])
    compiled = mlopt.compile(model)
    assert [spec.name for spec in compiled.inputs] == ["b", "unused:0", "a"]
    assert [spec.name for spec in compiled.outputs] == ["s", "b"]


def test_s03_weights_that_are_listed_as_inputs_still_fold():
    """Models of IR version 3 list every weight as an input; nobody feeds them."""
    x, w = f32(1, 2), np.eye(2, dtype=np.float32) * 3
    nodes = [node("Add", ["w", "w"], ["ww"]), node("MatMul", ["x", "ww"])]
    model = model_of(nodes, [value_info("x", x), value_info("w", w)], ["y"], {"w": w})
    model.ir_version = 3
    check(model, {"x": x}, {"y": 6 * x})
    assert "graph.add" not in mlopt.compile(model).ir("graph")


# S05: -1 in a shape that is an input.


def test_s05_a_shape_given_at_run_time():
    shape = np.array([2, -1])
    model = model_of([node("Reshape", ["x", "s"])], [value_info("x", X), value_info("s", shape)], ["y"])
    check(model, {"x": X, "s": shape}, {"y": X.reshape(2, 12)})
    with pytest.raises(UnsupportedError, match='needs the shape "s" at compile time'):
        mlopt.compile(model)
    compiled = mlopt.compile(model, inputs={"x": X, "s": shape})
    other = np.array([-1, 3])
    np.testing.assert_array_equal(compiled.run({"x": X, "s": other})["y"], X.reshape(8, 3))


# S06: branches whose outputs are no results of nodes.


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("is_constant", [True, False])
def test_s06_a_branch_returns_an_initializer_or_what_it_captures(condition: bool, is_constant: bool):
    x = f32(9, 9)
    own = helper.make_graph(
        [], "own", [], [helper.make_tensor_value_info("i", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(f32(1, 2), "i")],
    )  # fmt: skip
    sum_of = helper.make_graph(
        [node("Add", ["x", "x"], ["s"])],
        "sum",
        [],
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, [2])],
    )
    captured = helper.make_graph(
        [], "captured", [], [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    )
    cond = np.array(condition)
    inputs = [value_info("x", x)] if is_constant else [value_info("x", x), value_info("c", cond)]
    constants = {"c": cond} if is_constant else {}
    given = {"x": x} if is_constant else {"x": x, "c": cond}
    for other, value in ((sum_of, f32(18, 18)), (captured, x)):
        model = model_of([node("If", ["c"], then_branch=own, else_branch=other)], inputs, ["y"], constants)
        check(model, given, {"y": f32(1, 2) if condition else value})


# S07: rank 0 and rank 1 are two things.


def test_s07_a_mean_of_a_scalar():
    s = np.array(5, np.float32)
    nodes = [node("ReduceMean", ["s"], ["m"]), node("Mul", ["m", "two"])]
    model = model_of(nodes, [value_info("s", s)], ["y"], {"two": f32(2)})
    check(model, {"s": s}, {"y": f32(10)})


@pytest.mark.parametrize(
    ("a", "b", "bias"),
    [
        (f32([1, 2, 3], [4, 5, 6]), f32(1, 1, 1), f32(10, 20)),  # 16, 35
        (f32(1, 2, 3), f32([1, 2], [3, 4], [5, 6]), f32(1, 1)),
        (f32(1, 2, 3), f32(1, 1, 1), np.array(1, np.float32)),
        (X, np.ones((2, 4, 3), np.float32), f32(1, 2, 3)),
        (X, f32(1, 2, 3, 4), f32(1, 2, 3)),
        (f32([1, 2, 3]), f32([1], [2], [3]), f32(1)),
    ],
)
def test_s07_products_of_every_rank(a: np.ndarray, b: np.ndarray, bias: np.ndarray):
    nodes = [node("MatMul", ["a", "b"], ["p"]), node("Add", ["p", "bias"])]
    model = model_of(nodes, [value_info("a", a)], ["y"], {"b": b, "bias": bias})
    check(model, {"a": a}, {"y": a @ b + bias})


@pytest.mark.parametrize(
    "op_type", ["Relu", "Neg", "Sigmoid", "ReduceSum", "ArgMax", "Identity", "Shape", "Size"]
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_s07_ranks_are_kept_apart(op_type: str, shape: tuple[int, ...]):
    if op_type == "ArgMax" and not shape:
        return
    x = np.full(shape, 0.5, np.float32)
    model = one_node(op_type, {"x": x})
    check(model, {"x": x}, run_onnxruntime(model, {"x": x}))


# S08: inputs are looked at before they are used.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": np.zeros(16, np.float32)}, r'input "x" has the shape \[16\], expected \[4, 4\]'),
        ({"x": np.zeros(10, np.float32)}, r'input "x"'),
        ({"x": np.zeros((4, 4))}, r'input "x" has the type float64, expected float32'),
        ({"x": np.zeros((4, 4), np.int32)}, r'input "x" has the type int32, expected float32'),
        ({}, r'input "x" is missing'),
        ({"x": np.zeros((4, 4), np.float32), "z": np.zeros(1)}, r'no input "z"'),
        ({"X": np.zeros((4, 4), np.float32)}, r'"x"'),
    ],
)
def test_s08_inputs_that_do_not_fit(given: dict[str, np.ndarray], message: str):
    model = one_node("Relu", {"x": np.zeros((4, 4), np.float32)})
    compiled = mlopt.compile(model)
    with pytest.raises(InputError, match=message):
        compiled.run(given)


def test_s08_one_dimension_with_two_values():
    x = np.zeros((2, 3), np.float32)
    inputs = [value_info("a", x, ["n", 3]), value_info("b", x, ["n", 3])]
    compiled = mlopt.compile(model_of([node("Add", ["a", "b"])], inputs, ["y"]), dims={"n": 2})
    with pytest.raises(InputError, match=r'dimension "n" is 2 by .*"a" and 1 by .*"b"'):
        compiled.run({"a": x, "b": x[:1]})


# S09: all that is not supported is said at once.


def test_s09_every_unsupported_operator_in_one_message():
    body = helper.make_graph(
        [node("RandomNormalLike", ["v"], ["r"]), node("Identity", ["cond"], ["again"])], "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2]),
        ],
        [onnx.ValueInfoProto(name="again"), onnx.ValueInfoProto(name="r")],
    )  # fmt: skip
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], "first", domain="com.example"),
        helper.make_node("Mystery", ["a"], ["b"], "second", domain="com.example"),
        helper.make_node("StringNormalizer", ["x"], ["d"], "strings"),
        helper.make_node("Loop", ["trips", "", "b"], ["y"], "loop", body=body),
    ]
    x = f32(1, 2)
    model = model_of(
        nodes, [value_info("x", x)], ["y", "d"], {"trips": np.array(3)}, domains={"com.example": 4}
    )
    with pytest.raises(MloptError) as error:
        mlopt.compile(model)
    for part in (
        "3 unsupported operators",
        "com.example.Mystery (opset 4): 2 nodes (first, second)",
        "ai.onnx.StringNormalizer (opset 18)",
        "ai.onnx.RandomNormalLike (opset 18)",
    ):
        assert part in str(error.value)
    assert [(u.op_type, u.count) for u in find_unsupported(model)] == [
        ("Mystery", 2),
        ("StringNormalizer", 1),
        ("RandomNormalLike", 1),
    ]
