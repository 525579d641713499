"""The operator set of an export: the oldest that has all that is written, as it is written."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from mlopt.diagnostics import InputError, UnsupportedError
from mlopt.export import to_onnx
from mlopt.export.opsets import NEWEST, OLDEST, choose_opset
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore
from tests.export.test_whole_models import exported

FLOAT, DOUBLE, BOOL, INT8, INT4 = (f"tensor({name})" for name in ("float", "double", "bool", "int8", "int4"))

OF_MODELS = {
    "resnet18s_dyn": (18, 8),
    "bilstm_tagger": (18, 8),
    "mobilenetv2_035_int8_qdq": (18, 8),
    "vit_tiny_dyn": (20, 9),  # Gelu
    "clip_tiny_dyn": (23, 11),  # Attention
}


@pytest.mark.parametrize("name", OF_MODELS)
def test_the_operator_sets_of_models(name: str) -> None:
    model = exported(name)
    assert (model.opset_import[0].version, model.ir_version) == OF_MODELS[name]


def oldest(operator: str, types: list[str], result: str = FLOAT, **attributes: object) -> int:
    """The operator set for a node that takes values of these types ("" for one left out)."""
    names = [f"x{index}" if type else "" for index, type in enumerate(types)]
    graph = onnx.GraphProto(node=[helper.make_node(operator, names, ["y"], **attributes)])
    return choose_opset(graph, {**dict(zip(names, types, strict=True)), "y": result}, None)


@pytest.mark.parametrize(
    ("node", "version"),
    [
        (("Relu", [FLOAT]), OLDEST),
        (("Gelu", [FLOAT]), 20),
        (("Attention", [FLOAT] * 3), 23),
        (("ReduceMax", [FLOAT]), 18),
        (("ReduceMax", [BOOL], BOOL), 20),
        (("QuantizeLinear", [FLOAT, FLOAT, INT8], INT8), 18),
        (("QuantizeLinear", [FLOAT, FLOAT], INT8, {"output_dtype": TensorProto.INT8}), 21),
        (("DequantizeLinear", [INT4, FLOAT]), 21),
        (("DequantizeLinear", [INT8, FLOAT], FLOAT, {"block_size": 1}), 21),
        (("Identity", ["tensor(float8e5m2)"], "tensor(float8e5m2)"), 19),
        (("AveragePool", [FLOAT], FLOAT, {"kernel_shape": [2]}), 18),
        (("AveragePool", [FLOAT], FLOAT, {"kernel_shape": [2], "dilations": [2]}), 19),
        (("AveragePool", [FLOAT], FLOAT, {"kernel_shape": [2], "ceil_mode": 0}), 18),
        (("AveragePool", [FLOAT], FLOAT, {"kernel_shape": [2], "ceil_mode": 1}), 22),
        (("GroupNormalization", [FLOAT] * 3, FLOAT, {"num_groups": 2}), 21),
        (("GridSample", [FLOAT, FLOAT]), 20),
        (("Pad", [FLOAT, "tensor(int64)"], FLOAT, {"mode": "edge"}), 18),
        (("Pad", [FLOAT, "tensor(int64)"], FLOAT, {"mode": "wrap"}), 19),
        (("Resize", [FLOAT, "", FLOAT], FLOAT, {"coordinate_transformation_mode": "asymmetric"}), 18),
        (("Resize", [FLOAT, "", FLOAT], FLOAT, {"coordinate_transformation_mode": "half_pixel_symmetric"}), 19),
    ],
)  # fmt: skip
def test_the_oldest_that_has_a_node(node: tuple, version: int) -> None:
    operator, types, *rest = node
    assert oldest(operator, types, *rest[:1], **(rest[1] if len(rest) > 1 else {})) == version


TEXT = """func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %b = tensor.extract %c[] : tensor<i1>
  %y = scf.if %b -> (tensor<4xf32>) {
    %g = graph.gelu %x approximate = "none" : tensor<4xf32>
    scf.yield %g : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}"""


def test_nodes_in_branches_count_and_errors_name_operators() -> None:
    module = parse_module(TEXT, make_context())
    assert to_onnx(module, WeightStore()).opset_import[0].version == 20
    message = r"operator set 19 does not have all that is written: Gelu \(needs 20\)"
    with pytest.raises(UnsupportedError, match=message):
        to_onnx(module, WeightStore(), opset=19)
    for opset in (20, 23):
        model = to_onnx(module, WeightStore(), opset=opset)
        onnx.checker.check_model(model, full_check=True)
        assert model.opset_import[0].version == opset


@pytest.mark.parametrize("opset", [0, OLDEST - 1, NEWEST + 1])
def test_operator_sets_that_are_not_written(opset: int) -> None:
    with pytest.raises(
        InputError, match=f"expected an operator set from {OLDEST} to {NEWEST}, found {opset}"
    ):
        to_onnx(parse_module(TEXT, make_context()), WeightStore(), opset=opset)


def test_what_no_node_needs_does_not_count() -> None:
    """A node that leads to no output is not written."""
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %g = graph.gelu %x approximate = "none" : tensor<4xf32>
      %y = graph.relu %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    assert to_onnx(parse_module(text, make_context()), WeightStore()).opset_import[0].version == OLDEST
