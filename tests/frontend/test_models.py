"""Whole models: outputs against those stored beside them (onnxruntime), and the costs of the model as imported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr

from mlopt.frontend.onnx import import_model
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.locations import node_names
from mlopt.ir.verifier import verify_module
from tests.frontend.onnx_models import context, operations

MODELS = Path(__file__).parents[1] / "models"


def arrays(name: str, prefix: str) -> dict[str, np.ndarray]:
    with np.load(MODELS / f"{name}.npz") as file:
        return {key.removeprefix(prefix): file[key] for key in file if key.startswith(prefix)}


@pytest.mark.parametrize("name", ["bert_tiny_dyn", "resnet18s_legacy17"])
def test_outputs_are_those_of_onnxruntime(name: str):
    ctx = context()
    inputs = arrays(name, "in:")
    module = import_model(MODELS / f"{name}.onnx", ctx, inputs=inputs)
    verify_module(module)
    outputs = evaluate_module(module, inputs, ctx.weights)
    want = arrays(name, "out:")
    assert outputs.keys() == want.keys()
    for output, right in want.items():
        np.testing.assert_allclose(outputs[output], right, rtol=0, atol=1e-5 * np.abs(right).max())


# Bytes: each intermediate tensor's shape in onnxruntime, summed and traced by hand-written code of its own.
@pytest.mark.parametrize(
    ("name", "ops", "no_reuse", "max_live", "count"),
    [
        ("bert_tiny_dyn", 128, 1743488, 215040, ("MatMul", 16)),
        ("resnet18s_legacy17", 49, 469504, 131072, ("Conv", 20)),
    ],
)
def test_costs_as_imported(name: str, ops: int, no_reuse: int, max_live: int, count: tuple[str, int]):
    module = import_model(MODELS / f"{name}.onnx", context(), inputs=arrays(name, "in:"))
    costs = module.attributes["mlopt.imported"]
    assert isinstance(costs, DictionaryAttr)
    by_name = costs.data["by_name"]
    assert isinstance(by_name, DictionaryAttr)

    def number(attribute: object) -> int:
        assert isinstance(attribute, IntegerAttr)
        return attribute.value.data

    assert number(costs.data["ops"]) == ops
    assert number(costs.data["no_reuse_bytes"]) == no_reuse
    assert number(costs.data["max_live_bytes"]) == max_live
    assert number(by_name.data[count[0]]) == count[1]
    assert sum(number(n) for n in by_name.data.values()) == ops


def test_dimensions_by_number_give_the_same_module_as_by_inputs():
    path = MODELS / "bert_tiny_dyn.onnx"
    by_inputs = import_model(path, context(), inputs=arrays("bert_tiny_dyn", "in:"))
    by_number = import_model(path, context(), dims={"s18": 2, "s41": 16, "s43": 2})
    assert str(by_inputs) == str(by_number)


def test_every_operation_has_its_node_as_location():
    module = import_model(MODELS / "bert_tiny_dyn.onnx", context(), inputs=arrays("bert_tiny_dyn", "in:"))
    names = [node_names(op.location) for op in operations(module)]
    assert all(len(parts) == 1 for parts in names)
    assert names[0] == ["node_Shape_2"]
    assert ["node_layer_norm"] in names


def test_weights_are_named_after_the_initializers_and_equal_ones_are_stored_once():
    ctx = context()
    import_model(MODELS / "bert_tiny_dyn.onnx", ctx, inputs=arrays("bert_tiny_dyn", "in:"))
    assert ctx.weights.shape("m.embeddings.word_embeddings.weight") == (2048, 128)
    contents = {(ctx.weights.get(name).dtype, ctx.weights.get(name).tobytes()) for name in ctx.weights}
    assert len(contents) == len(ctx.weights)
