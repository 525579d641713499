"""Names, constants and what is refused in exported models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import mlopt
from mlopt.diagnostics import InputError, UnsupportedError
from mlopt.export import bound_inputs, to_onnx
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore
from tests.frontend.onnx_models import one_node
from tests.onnx_oracle import run_model


def export(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    ctx = make_context()
    for name, array in weights.items():
        ctx.weights.add(array, name)
    model = to_onnx(parse_module(text, ctx, "m.mlir"), ctx.weights)
    onnx.checker.check_model(model, full_check=True)
    return model


def initializers(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def test_names_of_the_interface_are_exact_and_of_values_unique() -> None:
    model = export("""
        func.func @main(%a: tensor<2xf32> {mlopt.name = "x:0"}, %unused: tensor<3xui8> {mlopt.name = "dead"})
            -> (tensor<2xf32> {mlopt.name = "y/1"}, tensor<2xf32> {mlopt.name = "hidden"}) {
          %hidden = graph.relu %a : tensor<2xf32> loc("fc1")
          %hidden_1 = graph.exp %hidden : tensor<2xf32> loc("fc1")
          %s = graph.neg %hidden_1 : tensor<2xf32> loc(fused["a", "b", "c"])
          %t = graph.abs %s : tensor<2xf32>
          func.return %t, %s : tensor<2xf32>, tensor<2xf32>
        }""")
    assert [value.name for value in model.graph.input] == ["x:0", "dead"]
    assert [value.name for value in model.graph.output] == ["y/1", "hidden"]
    assert [list(node.output) for node in model.graph.node] == [
        ["hidden_1"],
        ["hidden_1_1"],
        ["hidden"],
        ["y/1"],
    ]
    assert [node.name for node in model.graph.node] == ["fc1", "fc1_1", "a...c", "Abs_y/1"]
    types = [value.type.tensor_type.elem_type for value in model.graph.input]
    assert types == [TensorProto.FLOAT, TensorProto.UINT8]
    assert [value.name for value in model.graph.value_info] == ["hidden_1", "hidden_1_1"]


def test_outputs_that_are_inputs_constants_or_the_same() -> None:
    model = export("""
        func.func @main(%x: tensor<2xf32> {mlopt.name = "x"})
            -> (tensor<2xf32> {mlopt.name = "x"}, tensor<2xf32> {mlopt.name = "copy"},
                tensor<2xi64> {mlopt.name = "c"}, tensor<2xf32> {mlopt.name = "r"}, tensor<2xf32> {mlopt.name = "s"}) {
          %c = graph.constant dense<[3, -4]> : tensor<2xi64>
          %r = graph.relu %x : tensor<2xf32>
          func.return %x, %x, %c, %r, %r : tensor<2xf32>, tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2xf32>
        }""")
    x = np.float32([-1, 2])
    for got, want in zip(run_model(model, {"x": x}), (x, x, [3, -4], [0, 2], [0, 2]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_weights_keep_their_names_and_equal_constants_are_one() -> None:
    weight = np.arange(70, dtype=np.float32)
    model = export(
        """
        func.func @main(%x: tensor<70xf32> {mlopt.name = "x"}) -> (tensor<70xf32> {mlopt.name = "y"}) {
          %w = graph.constant #mlopt.weight<"fc1.weight"> : tensor<70xf32>
          %v = graph.constant #mlopt.weight<"fc1.weight"> : tensor<70xf32>
          %dead = graph.constant dense<1> : tensor<3xi32>
          %a = graph.add %x, %w : (tensor<70xf32>, tensor<70xf32>) -> tensor<70xf32>
          %b = graph.mul %a, %v : (tensor<70xf32>, tensor<70xf32>) -> tensor<70xf32>
          func.return %b : tensor<70xf32>
        }""",
        **{"fc1.weight": weight},
    )
    found = initializers(model)
    assert list(found) == ["fc1.weight"]
    np.testing.assert_array_equal(found["fc1.weight"], weight)


@pytest.mark.parametrize(
    ("element", "values", "want"),
    [
        ("f32", '"0x0100A0FF000000800000807F"', b"\x01\x00\xa0\xff\0\0\0\x80\0\0\x80\x7f"),
        ("f16", '"0x017E0080"', b"\x01\x7e\0\x80"),
        ("bf16", '"0xC17F0080"', b"\xc1\x7f\0\x80"),
        ("f8E5M2", '"0x7D807C"', b"\x7d\x80\x7c"),
        ("i1", "[true, false]", b"\x01\x00"),
        ("ui8", "[255, 0]", b"\xff\x00"),
        ("i4", "[1, -2, 3]", b"\xe1\x03"),
        ("f4E2M1FN", "[1.0, -6.0, 0.5]", b"\xf2\x01"),
    ],
)
def test_constants_keep_their_bits(element: str, values: str, want: bytes) -> None:
    """NaN payloads, -0.0 and infinities; ONNX packs types of 4 bits, the first element low."""
    size = {"f32": 3, "f8E5M2": 3, "i4": 3, "f4E2M1FN": 3}.get(element, 2)
    model = export(f"""
        func.func @main() -> (tensor<{size}x{element}> {{mlopt.name = "y"}}) {{
          %c = graph.constant dense<{values}> : tensor<{size}x{element}>
          func.return %c : tensor<{size}x{element}>
        }}""")
    assert model.graph.initializer[0].raw_data == want


def test_inputs_that_decided_shapes_say_so() -> None:
    text = """
        func.func @main(%s: tensor<2xi64> {mlopt.name = "shape", mlopt.value = dense<[3, 1]> : tensor<2xi64>},
                        %x: tensor<3xf32> {mlopt.name = "x"}) -> (tensor<3x1xf32> {mlopt.name = "y"}) {
          %y = graph.reshape %x : tensor<3xf32> to tensor<3x1xf32>
          func.return %y : tensor<3x1xf32>
        }"""
    assert bound_inputs(parse_module(text, make_context(), "m.mlir")) == ["shape"]
    assert [bool(value.doc_string) for value in export(text).graph.input] == [True, False]


def test_what_the_author_says_is_kept() -> None:
    """Through the text of the graph level too; a model of which nothing is said has no such attribute."""
    x = np.float32([-1, 2])
    model = one_node("Relu", {"x": x})
    assert "mlopt.metadata" not in mlopt.compile(model).ir("graph")
    model.doc_string, model.domain, model.model_version = 'a "model"\nof two lines', "org.example", 7
    model.graph.doc_string, model.graph.input[0].doc_string = "the graph", "pixels, RGB"
    model.graph.output[0].doc_string = "scores"
    onnx.helper.set_model_props(model, {"license": "none", "a key: odd": "naïve"})
    ctx = make_context()
    exported = to_onnx(parse_module(mlopt.compile(model).ir("graph"), ctx, "m.mlir"), ctx.weights)
    for name in ("doc_string", "domain", "model_version", "metadata_props"):
        assert getattr(exported, name) == getattr(model, name)
    assert exported.graph.doc_string == "the graph"
    assert [value.doc_string for value in (*exported.graph.input, *exported.graph.output)] == [
        "pixels, RGB",
        "scores",
    ]
    np.testing.assert_array_equal(run_model(exported, {"x": x})[0], [0, 2])


def refusal(kind: type[InputError], body: str, **names: Any) -> str:
    signature = '(%x: tensor<2xf32> {mlopt.name = "x"})'
    result = f'-> (tensor<2xf32> {{mlopt.name = "{names.get("output", "y")}"}})'
    with pytest.raises(kind) as caught:
        export(f"func.func @main{signature} {result} {{\n{body}\n}}")
    return caught.value.message


def test_what_has_no_form_in_onnx_is_named() -> None:
    message = refusal(UnsupportedError, "%y = math.exp %x : tensor<2xf32>\nfunc.return %y : tensor<2xf32>")
    assert message == "'math.exp' has no form in ONNX"


def test_types_without_a_wider_one_are_named() -> None:
    with pytest.raises(UnsupportedError, match=r"'graph.max_pool': ONNX MaxPool takes no i64 elements"):
        export("""
            func.func @main(%x: tensor<1x1x4xi64>) -> tensor<1x1x2xi64> {
              %y = graph.max_pool %x kernel = [2] strides = [2] : (tensor<1x1x4xi64>) -> tensor<1x1x2xi64>
              func.return %y : tensor<1x1x2xi64>
            }""")


def test_interfaces_that_onnx_can_t_have() -> None:
    body = "%y = graph.relu %x : tensor<2xf32>\nfunc.return %y : tensor<2xf32>"
    assert '"x" is the name of an input and of another output' in refusal(InputError, body, output="x")
    assert "empty name" in refusal(InputError, body, output="")


def test_a_module_without_main() -> None:
    with pytest.raises(InputError, match="no function @main"):
        to_onnx(parse_module("module {}", make_context(), "m.mlir"), WeightStore())
