"""Public faults F06, F08 and F12: sums, activations and residuals after products and convolutions.

The right values are by hand, and every way of running the model must give them.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from mlopt.compilation import compile_model, load_model
from mlopt.options import CompileOptions
from tests.cases.models import check
from tests.frontend.onnx_models import Arrays, model_of, value_info

F32 = np.float32
EYE = np.eye(2, dtype=F32)


def array(*rows: object) -> np.ndarray:
    return np.array(rows, F32)


def model(
    nodes: list[tuple[str, list[str], str]], inputs: Arrays, constants: dict[str, np.ndarray], *outputs: str
) -> onnx.ModelProto:
    made = [helper.make_node(op_type, operands, [name], f"n_{name}") for op_type, operands, name in nodes]
    return model_of(made, [value_info(*item) for item in inputs.items()], list(outputs), constants, opset=18)


def fused(proto: onnx.ModelProto, inputs: Arrays) -> bool:
    compilation = compile_model(load_model(proto, CompileOptions(), inputs=inputs), "graph")
    text = str(compilation.module)
    return "graph.linear" in text or "residual(" in text or "activation = " in text


# F06: the bias does not broadcast one way into the product.

BIASES = {
    "a: enlarges the rows": (
        array([1, 1]),
        np.ones((2, 3), F32),
        array([0], [10], [20], [30]),
        array([2] * 3, [12] * 3, [22] * 3, [32] * 3),
    ),
    "b: a column on a square": (array([1, 2], [3, 4]), EYE, array([10], [20]), array([11, 12], [23, 24])),
    "c: of rank 5": (
        array([1, 2], [3, 4]),
        EYE,
        np.array([10, 20], F32).reshape(1, 1, 1, 1, 2),
        np.array([[11, 22], [13, 24]], F32).reshape(1, 1, 1, 2, 2),
    ),
    "enlarges the columns": (array([1], [2]), np.ones((1, 1), F32), array([1, 2]), array([2, 3], [3, 4])),
    "one number for all": (array([1, 2], [3, 4]), EYE, np.array(10, F32), array([11, 12], [13, 14])),
}


@pytest.mark.parametrize("bias_is_input", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("case", BIASES)
def test_f06_what_is_no_bias(case: str, swapped: bool, bias_is_input: bool) -> None:
    x, w, bias, want = BIASES[case]
    inputs = {"x": x, "b": bias} if bias_is_input else {"x": x}
    constants = {"w": w} if bias_is_input else {"w": w, "b": bias}
    nodes = [
        ("MatMul", ["x", "w"], "m"),
        ("Add", ["b", "m"] if swapped else ["m", "b"], "y"),
    ]
    proto = model(nodes, inputs, constants, "y")
    check(proto, inputs, {"y": want})
    assert not fused(proto, inputs)


CONVOLUTION_BIASES = {
    "enlarges the channels": (array(10, 20).reshape(2, 1, 1), array([11, 12], [21, 22]).reshape(1, 2, 1, 2)),
    "enlarges the batch": (array(10, 20).reshape(2, 1, 1, 1), array([11, 12], [21, 22]).reshape(2, 1, 1, 2)),
    "along the last dimension": (array(10, 20), array(11, 22).reshape(1, 1, 1, 2)),
    "of rank 5": (array(10).reshape(1, 1, 1, 1, 1), array(11, 12).reshape(1, 1, 1, 1, 2)),
}


@pytest.mark.parametrize("case", CONVOLUTION_BIASES)
def test_f06_what_is_no_bias_of_a_convolution(case: str) -> None:
    """x [1, 1, 1, 2] = [1, 2], convolved by 1."""
    b, want = CONVOLUTION_BIASES[case]
    x = array(1, 2).reshape(1, 1, 1, 2)
    constants = {"w": np.ones((1, 1, 1, 1), F32), "b": b}
    proto = model([("Conv", ["x", "w"], "c"), ("Add", ["c", "b"], "y")], {"x": x}, constants, "y")
    check(proto, {"x": x}, {"y": want})
    assert not fused(proto, {"x": x})


# F08: a value inside the group is an output too.


@pytest.mark.parametrize("extra", ["m", "s", "both"])
def test_f08_values_inside_that_are_outputs(extra: str) -> None:
    """m = x @ w = [1, -5], s = m + 1 = [2, -4], y = relu(s) = [2, 0]."""
    inputs = {"x": array([1, 5])}
    constants = {"w": array([1, 0], [0, -1]), "b": array(1, 1)}
    nodes = [("MatMul", ["x", "w"], "m"), ("Add", ["m", "b"], "s"), ("Relu", ["s"], "y")]
    values = {"m": array([1, -5]), "s": array([2, -4]), "y": array([2, 0])}
    outputs = ("m", "s", "y") if extra == "both" else (extra, "y")
    check(model(nodes, inputs, constants, *outputs), inputs, {name: values[name] for name in outputs})


@pytest.mark.parametrize("extra", ["c", "s", "a", "all"])
def test_f08_of_a_convolution(extra: str) -> None:
    """c = 2 x = [2, -10], s = c + r = [3, -9], a = relu(s) = [3, 0], y = a + c = [5, -10]."""
    x = array(1, -5).reshape(1, 1, 2)
    inputs = {"x": x, "r": np.ones((1, 1, 2), F32)}
    nodes = [
        ("Conv", ["x", "w"], "c"),
        ("Add", ["c", "r"], "s"),
        ("Relu", ["s"], "a"),
        ("Add", ["a", "c"], "y"),
    ]
    numbers = {"c": [2, -10], "s": [3, -9], "a": [3, 0], "y": [5, -10]}
    values = {name: np.array(row, F32).reshape(1, 1, 2) for name, row in numbers.items()}
    outputs = ("c", "s", "a", "y") if extra == "all" else (extra, "y")
    proto = model(nodes, inputs, {"w": np.full((1, 1, 1), 2, F32)}, *outputs)
    check(proto, inputs, {name: values[name] for name in outputs})


# F12: what is added depends on the product by another way.


@pytest.mark.parametrize("op_type", ["MatMul", "Conv"])
def test_f12_a_residual_that_depends_on_the_product(op_type: str) -> None:
    """a = x @ 1 = [1, -2, 3], s = sum(relu(a)) = 4, t = a * s = [4, -8, 12], y = relu(a + t) = [5, 0, 15]."""
    x = array(1, -2, 3)
    x = x.reshape(3, 1) if op_type == "MatMul" else x.reshape(1, 1, 3)
    w = np.ones((1, 1) if op_type == "MatMul" else (1, 1, 1), F32)
    nodes = [
        (op_type, ["x", "w"], "a"),
        ("Relu", ["a"], "p"),
        ("ReduceSum", ["p"], "s"),
        ("Mul", ["a", "s"], "t"),
        ("Add", ["a", "t"], "u"),
        ("Relu", ["u"], "y"),
    ]
    proto = model(nodes, {"x": x}, {"w": w}, "y")
    check(proto, {"x": x}, {"y": array(5, 0, 15).reshape(x.shape)})


@pytest.mark.parametrize("op_type", ["MatMul", "Conv"])
def test_f12_the_product_is_its_own_residual(op_type: str) -> None:
    """y = relu(a + a) = [2, 0, 6]."""
    x = array(1, -2, 3)
    x = x.reshape(3, 1) if op_type == "MatMul" else x.reshape(1, 1, 3)
    w = np.ones((1, 1) if op_type == "MatMul" else (1, 1, 1), F32)
    nodes = [(op_type, ["x", "w"], "a"), ("Add", ["a", "a"], "u"), ("Relu", ["u"], "y")]
    proto = model(nodes, {"x": x}, {"w": w}, "y")
    check(proto, {"x": x}, {"y": array(2, 0, 6).reshape(x.shape)})
