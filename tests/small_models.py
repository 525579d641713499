"""A small ONNX model with a symbolic dimension, for tests of the commands and of the Python API."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 24
CLASSES = 3


def classifier(x: str = "x", y: str = "y", *, width: int = WIDTH) -> onnx.ModelProto:
    """`hidden = relu(x A + a); y = softmax((relu(hidden B + hidden)) C)` for `x` f32 [batch, 8].

    `a` is small enough to stand in the IR; the others are weights beside it.
    """
    weights = classifier_weights(width)
    nodes = [
        helper.make_node("MatMul", [x, "A"], ["xA"], "fc1/MatMul"),
        helper.make_node("Add", ["xA", "a"], ["fc1"], "fc1/Add"),
        helper.make_node("Relu", ["fc1"], ["hidden"], "fc1/Relu"),
        helper.make_node("MatMul", ["hidden", "B"], ["hB"], "fc2/MatMul"),
        helper.make_node("Add", ["hB", "hidden"], ["residual"], "fc2/Add"),
        helper.make_node("Relu", ["residual"], ["relu"], "fc2/Relu"),
        helper.make_node("MatMul", ["relu", "C"], ["logits"], "head/MatMul"),
        helper.make_node("Softmax", ["logits"], ["soft"], "head/Softmax", axis=-1),
        helper.make_node("Exp", ["soft"], [y], "head/Exp"),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", 8])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def classifier_weights(width: int = WIDTH) -> dict[str, np.ndarray]:
    """The weights of `classifier`."""
    generator = np.random.default_rng(7)
    shapes = {"A": (8, width), "a": (width,), "B": (width, width), "C": (width, CLASSES)}
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def classify(x: np.ndarray) -> np.ndarray:
    """What `classifier` computes, by numpy in double precision, rounded once at the end."""
    w = {name: array.astype(np.float64) for name, array in classifier_weights().items()}
    hidden = np.maximum(x @ w["A"] + w["a"], 0)
    logits = np.maximum(hidden @ w["B"] + hidden, 0) @ w["C"]
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.exp(powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def batch_of(size: int, seed: int = 0) -> np.ndarray:
    """An input of `classifier`."""
    return np.random.default_rng(seed).standard_normal((size, 8)).astype(np.float32)
