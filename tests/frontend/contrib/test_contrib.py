"""Activations, products, normalizations and the embedding of com.microsoft, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlopt
from mlopt.frontend.onnx import supported_operators
from tests.frontend.contrib.support import MICROSOFT, RANDOM, agree, floats, node_model, refusal, result
from tests.frontend.onnx_models import run_mlopt

X = floats(2, 5, 8)
H = floats(8)


# Activations


@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu", "FastGelu"])
def test_activations(op_type: str):
    agree(op_type, X * 3)


def test_activations_of_sums_and_parameters():
    agree("BiasGelu", X, H)
    agree("FastGelu", X, H)
    agree("QuickGelu", X, alpha=1.0)
    agree("QuickGelu", X, alpha=-0.5)


# Products


@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_transposed_matrices(trans: tuple[int, int]):
    a, b = floats(2, 3, 4), floats(2, 4, 5)
    operands = [x.swapaxes(1, 2).copy() if flag else x for x, flag in zip((a, b), trans, strict=True)]
    agree("FusedMatMul", *operands, transA=trans[0], transB=trans[1], alpha=0.25)
    agree("TransposeMatMul", *operands, transA=trans[0], transB=trans[1])


@pytest.mark.parametrize("trans", [0, 1])
def test_batches_that_are_not_in_front(trans: int):
    """The first dimension, that of the rows, comes behind those of the batches."""
    a = floats(6, 2, 3, 4) if trans == 0 else floats(4, 2, 3, 6)
    b = floats(5, 2, 3, 4) if trans else floats(4, 2, 3, 5)
    agree("FusedMatMul", a, floats(2, 3, 4, 5), transBatchA=1, transA=trans)
    agree("FusedMatMul", floats(2, 3, 6, 4), b, transBatchB=1, transB=trans)


def test_vectors_are_not_transposed():
    agree("FusedMatMul", floats(4), floats(2, 4, 5), transA=1, alpha=2.0)
    agree("FusedMatMul", floats(2, 4, 5), floats(5), transB=1)


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5)])
def test_transposed_matrices_times_a_vector_by_hand(shape: tuple[int, ...]):
    """onnxruntime reads the numbers of A in the order in which they stand there, as `[5, 4]`."""
    a, b = floats(*shape), floats(4)
    (found,) = result("FusedMatMul", a, b, transA=1)
    np.testing.assert_allclose(found, a.swapaxes(-1, -2) @ b, rtol=0, atol=1e-5)


ACTIVATIONS = [
    ("Relu", ()),
    ("Sigmoid", ()),
    ("Tanh", ()),
    ("LeakyRelu", (0.25,)),
    ("HardSigmoid", (0.4, 0.3)),
    ("Clip", (-0.5, 1.0)),
]


@pytest.mark.parametrize(("name", "parameters"), ACTIVATIONS)
def test_activations_of_fused_operators(name: str, parameters: tuple[float, ...]):
    image, weight = floats(1, 3, 7, 6), floats(4, 3, 3, 2)
    options: dict[str, Any] = {"activation": name, "pads": [1, 1, 0, 0], "strides": [2, 1]}
    if parameters:
        options["activation_params"] = list(parameters)
    agree("FusedConv", image, weight, floats(4), **options)
    named = dict(zip(("activation_alpha", "activation_beta"), parameters, strict=False))
    if name != "Clip":  # onnxruntime's FusedGemm has no Clip
        agree("FusedGemm", floats(3, 4), floats(5, 4), floats(5), transB=1, activation=name, **named)


def test_a_sum_before_the_activation():
    image, weight = floats(1, 3, 7, 6), floats(4, 3, 3, 3)
    agree("FusedConv", image, weight, None, floats(1, 4, 5, 4), activation="Relu")
    agree("FusedConv", image, weight, floats(4), floats(1, 4, 5, 4))


# Normalizations


@pytest.mark.parametrize("shape", [(2, 5, 8), (1, 5, 8), (5, 8)])
def test_a_skip_that_broadcasts(shape: tuple[int, ...]):
    agree("SkipLayerNormalization", X, floats(*shape), H, epsilon=1e-3)


@pytest.mark.parametrize("beta", [None, floats(8)])
@pytest.mark.parametrize("bias", [None, floats(8)])
@pytest.mark.parametrize("outputs", [["y"], ["y", "", "", "sum"]])
def test_sums_before_a_normalization(beta: Any, bias: Any, outputs: list[str]):
    agree("SkipLayerNormalization", X, floats(2, 5, 8), H, beta, bias, outputs=outputs)
    agree("SkipSimplifiedLayerNormalization", X, floats(2, 5, 8), H, bias, outputs=outputs)


def test_normalizations_in_the_standard_domain():
    agree("LayerNormalization", X, floats(5, 8), floats(5, 8), domain="", opset=12, axis=1, epsilon=1e-3)
    agree("SimplifiedLayerNormalization", X, H, domain="", opset=12)
    agree("SimplifiedLayerNormalization", X, floats(5, 8), domain="", opset=18, axis=1, epsilon=1e-2)


def test_the_epsilon_of_sums_is_smaller():
    small = X * np.float32(1e-6)
    agree("SkipLayerNormalization", small, small, H)
    agree("SkipSimplifiedLayerNormalization", small, small, H)


# The embedding

WORDS, POSITIONS, SEGMENTS = floats(11, 8), floats(7, 8), floats(2, 8)
IDS = RANDOM.integers(0, 11, (2, 5)).astype(np.int32)
KINDS = RANDOM.integers(0, 2, (2, 5)).astype(np.int32)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [None, np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32)])
@pytest.mark.parametrize("positions", [None, np.array([[4, 3, 2, 1, 0]], np.int32), IDS % 7])
def test_embeddings(segments: bool, mask: Any, positions: Any):
    kinds, table = (KINDS, SEGMENTS) if segments else (None, None)
    operands = (IDS, kinds, WORDS, POSITIONS, table, H, floats(8), mask, positions)
    agree("EmbedLayerNormalization", *operands, outputs=["y", "lengths", "sum"], epsilon=1e-3)
    agree("EmbedLayerNormalization", *operands, outputs=["y", "lengths"])


# What is refused


def test_every_operator_is_tested():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    operators = {op_type for domain, op_type, _ in supported_operators() if domain == MICROSOFT}
    assert [op_type for op_type in sorted(operators) if f'"{op_type}"' not in text] == []


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "reason"),
    [
        ("FusedConv", 2, {"activation": "Swish"}, "with activation = Swish"),
        ("FusedGemm", 2, {"activation": "Elu"}, "with activation = Elu"),
        ("SkipLayerNormalization", 3, {"outputs": ["y", "mean"]}, "with the output mean"),
        ("SkipSimplifiedLayerNormalization", 3, {"outputs": ["y", "", "s"]}, "with the output inv_std_var"),
    ],
)
def test_what_is_refused(op_type: str, inputs: int, options: dict[str, Any], reason: str):
    assert refusal(op_type, *[X] * inputs, **options) == reason


def test_an_activation_without_its_parameters():
    proto, given = node_model("FusedConv", floats(1, 3, 4, 4), floats(2, 3, 1, 1), activation="LeakyRelu")
    with pytest.raises(mlopt.InputError, match="expected 1 parameters of the activation LeakyRelu, found 0"):
        run_mlopt(proto, given)
