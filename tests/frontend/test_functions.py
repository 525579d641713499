"""Operators that are imported by their definition in the ONNX standard, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from mlopt.frontend.onnx import find_unsupported, import_model, registry
from mlopt.interpreter.graph import evaluate_module
from tests.frontend.onnx_models import assert_close, context, model_of, operations, value_info
from tests.onnx_oracle import run_model

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 6, 4)).astype(np.float32)
LABELS = RANDOM.integers(0, 6, (2, 4))


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), "the node", **attributes)


def assert_as_onnxruntime(one: onnx.NodeProto, arrays: dict[str, np.ndarray], opset: int) -> None:
    outputs = [name for name in one.output if name]
    model = model_of([one], [value_info(name, array) for name, array in arrays.items()], outputs, opset=opset)
    got = evaluate_module(import_model(model, context(), inputs=arrays), arrays)
    assert_close(got, dict(zip(outputs, run_model(model, arrays), strict=True)))


@pytest.mark.parametrize(
    ("one", "opset"),
    [
        (node("Shrink", "x", lambd=0.5, bias=0.25), 9),  # older than the definition
        (node("Shrink", "x"), 18),  # attributes by default
        (node("MeanVarianceNormalization", "x", axes=[0, 2]), 13),
        (node("Selu", "x", alpha=2.0), 22),
        (node("Mish", "x"), 18),  # defined by an operator that has a definition itself
        (node("HardSwish", "x"), 14),
    ],
)
def test_one_operand(one: onnx.NodeProto, opset: int) -> None:
    assert_as_onnxruntime(one, {"x": X}, opset)


@pytest.mark.parametrize("outputs", ["y", "y mean deviation", "y  deviation"])
def test_all_outputs_of_an_operator_whose_importer_gives_one(outputs: str) -> None:
    one = helper.make_node("LayerNormalization", ["x", "scale"], outputs.split(" "), axis=1)
    assert_as_onnxruntime(one, {"x": X, "scale": X[0]}, 17)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("inputs", ["x labels", "x labels weights"])
def test_definitions_that_depend_on_attributes_and_inputs(reduction: str, inputs: str) -> None:
    arrays = {"x": X, "labels": LABELS, "weights": np.arange(6, dtype=np.float32)}
    one = node("NegativeLogLikelihoodLoss", inputs, reduction=reduction, ignore_index=2)
    assert_as_onnxruntime(one, {name: arrays[name] for name in inputs.split()}, 13)


def test_attention_with_a_mask() -> None:
    q, k, v = (RANDOM.standard_normal((1, 2, n, 8)).astype(np.float32) for n in (3, 5, 5))
    mask = np.array(RANDOM.integers(0, 2, (3, 5)) | np.eye(3, 5, dtype=np.int64), np.bool_)
    one = node("Attention", "q k v mask", scale=0.25)
    assert_as_onnxruntime(one, {"q": q, "k": k, "v": v, "mask": mask}, 23)


def test_celu_of_a_number() -> None:
    """The definition has a tensor of one element in it, the result has none more than the operand."""
    assert_as_onnxruntime(node("Celu", "x", alpha=2.0), {"x": np.array(-0.3, np.float32)}, 12)


@pytest.mark.parametrize("size", [(1, 3, 2, 5), (2, 3, 1, 1), (1, 1, 1, 2, 3)])
def test_grids_of_one_image(size: tuple[int, ...]) -> None:
    theta = RANDOM.standard_normal((size[0], len(size) - 2, len(size) - 1)).astype(np.float32)
    assert_as_onnxruntime(node("AffineGrid", "theta size"), {"theta": theta, "size": np.array(size)}, 20)


@pytest.mark.parametrize("size", [(1, 2, 1, 3), (2, 2, 3, 1), (1, 2, 1, 2, 1)])
def test_grids_with_one_position_along_an_axis(size: tuple[int, ...]) -> None:
    """It is at -1, where the standard has it for the depth; onnxruntime has it at 1."""
    theta = RANDOM.standard_normal((size[0], len(size) - 2, len(size) - 1)).astype(np.float32)
    arrays = {"theta": theta, "size": np.array(size)}
    one = node("AffineGrid", "theta size", "y", align_corners=1)
    model = model_of([one], [value_info(*item) for item in arrays.items()], ["y"], opset=20)
    axes = [np.linspace(-1, 1, n) if n > 1 else np.array([-1.0]) for n in size[2:]]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], axis=-1)
    want = np.einsum("nij,...j->n...i", theta, points).astype(np.float32)
    got = evaluate_module(import_model(model, context(), inputs=arrays), arrays)
    assert_close(got, {"y": want})


def test_all_operations_are_at_the_node() -> None:
    model = model_of([node("Shrink", "x")], [value_info("x", X)], ["y"], opset=18)
    places = {str(op.location) for op in operations(import_model(model, context()))}
    assert places == {'loc("the node")'}


def test_unknown_operators_of_a_definition_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(registry._forms, ("", "Less"))
    model = model_of([node("Shrink", "x")], [value_info("x", X)], ["y"], opset=18)
    assert [found.reason for found in find_unsupported(model)] == ["which is defined by Less"]
