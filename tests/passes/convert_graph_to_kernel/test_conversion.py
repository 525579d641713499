"""What the conversion as a whole promises: it is complete, and keeps names, places, interfaces and large constants."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, NameLoc
from xdsl.dialects.func import FuncOp

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph, kernel
from mlopt.dialects.mlopt import WeightAttr
from mlopt.interpreter.kernel import evaluate_module
from mlopt.ir.context import CompilerContext
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.convert_graph_to_kernel import ConvertGraphToKernelPass
from mlopt.passes.convert_graph_to_kernel.conversion import CONVERSIONS
from mlopt.passmanager import no_ops_of


def converted(text: str, context: CompilerContext | None = None) -> ModuleOp:
    """The kernel level of a graph-level text."""
    context = context or make_context()
    module = parse_module(text, context, "model.mlir")
    assert ConvertGraphToKernelPass().run(context, module)
    verify_module(module)
    assert no_ops_of("graph")(module) is None
    return module


def test_every_graph_op_has_a_conversion() -> None:
    assert {op for op in graph.Graph.operations if op not in CONVERSIONS} == set()


def test_nothing_to_convert_is_no_change() -> None:
    context = make_context()
    module = parse_module(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { func.return %x : tensor<2xf32> }", context
    )
    assert not ConvertGraphToKernelPass().run(context, module)


def test_names_and_places_are_kept() -> None:
    module = converted("""
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %hidden = graph.exp %x : tensor<2xf32> loc("encoder/Exp")
        %y = graph.relu %hidden : tensor<2xf32>
        func.return %y : tensor<2xf32>
      }""")
    first, second = (op for op in module.walk() if isinstance(op, kernel.LaunchOp))
    assert (first.kernel_name.data, first.res[0].name_hint) == ("exp", "hidden")
    assert (second.kernel_name.data, second.res[0].name_hint) == ("relu", "y")
    for op in first.walk():
        assert isinstance(op.location, NameLoc) and op.location.desc.data == "encoder/Exp"
    for op in second.walk():
        assert isinstance(op.location, FileLineColLoc) and op.location.line.data == 4


def test_unsigned_interface_types_become_attributes() -> None:
    module = converted("""
      func.func @main(%x: tensor<3xui8> {mlopt.name = "x:0"}, %i: tensor<3xi32>)
          -> (tensor<3xui8> {mlopt.name = "y:0"}) {
        %two = graph.constant dense<[2, 3, 250]> : tensor<3xui8>
        %y = graph.div %x, %two : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xui8>
        func.return %y : tensor<3xui8>
      }""")
    (main,) = (op for op in module.walk() if isinstance(op, FuncOp))
    assert main.arg_attrs is not None and main.res_attrs is not None
    assert [str(attributes) for attributes in main.arg_attrs] == [
        '{mlopt.name = "x:0", mlopt.dtype = "uint8"}',
        "{}",
    ]
    assert [str(type) for type in main.function_type.inputs] == ["tensor<3xi8>", "tensor<3xi32>"]
    inputs = {"x:0": np.array([200, 10, 255], np.uint8), "arg1": np.zeros(3, np.int32)}
    found = evaluate_module(module, inputs, make_context().weights)
    np.testing.assert_array_equal(found["y:0"], np.array([100, 3, 1], np.uint8))
    assert found["y:0"].dtype == np.uint8


def test_weights_stay_in_the_store_and_constants_in_the_text() -> None:
    context = make_context()
    context.weights.add(np.arange(100, dtype=np.float32), "w")
    module = converted(
        """
      func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
        %w = graph.constant #mlopt.weight<"w"> : tensor<100xf32>
        %y = graph.add %x, %w : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
        func.return %y : tensor<100xf32>
      }""",
        context,
    )
    (constant,) = (op for op in module.walk() if isinstance(op, kernel.ConstantOp))
    assert constant.value == WeightAttr("w") and constant.result.name_hint == "w"
    found = evaluate_module(module, {"arg0": np.ones(100, np.float32)}, context.weights)
    np.testing.assert_array_equal(found["result0"], np.arange(100, dtype=np.float32) + 1)


def test_a_weight_of_one_number_stands_in_the_body() -> None:
    context = make_context()
    context.weights.add(np.full(100, 0.5, np.float32), "half")
    module = converted(
        """
      func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
        %w = graph.constant #mlopt.weight<"half"> : tensor<100xf32>
        %y = graph.mul %x, %w : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
        func.return %y : tensor<100xf32>
      }""",
        context,
    )
    assert not any(isinstance(op, kernel.ConstantOp) for op in module.walk())


def test_a_returned_constant_and_argument() -> None:
    module = converted("""
      func.func @main(%x: tensor<2xui8>) -> (tensor<2xui8>, tensor<2xi64>) {
        %c = graph.constant dense<[7, 8]> : tensor<2xi64>
        func.return %x, %c : tensor<2xui8>, tensor<2xi64>
      }""")
    found = evaluate_module(module, {"arg0": np.array([1, 255], np.uint8)}, make_context().weights)
    np.testing.assert_array_equal(found["result0"], np.array([1, 255], np.uint8))
    np.testing.assert_array_equal(found["result1"], [7, 8])


def test_large_window_counts_become_a_weight() -> None:
    context = make_context()
    module = converted(
        """
      func.func @main(%x: tensor<1x1x100xf32>) -> tensor<1x1x100xf32> {
        %y = graph.average_pool %x kernel = [3] pads = [1, 1] : (tensor<1x1x100xf32>) -> tensor<1x1x100xf32>
        func.return %y : tensor<1x1x100xf32>
      }""",
        context,
    )
    (constant,) = (op for op in module.walk() if isinstance(op, kernel.ConstantOp))
    assert constant.value == WeightAttr("count_ow")
    np.testing.assert_array_equal(context.weights.get("count_ow"), [2.0] + [3.0] * 98 + [2.0])


def test_an_unsupported_form_is_refused_with_its_place() -> None:
    text = """
      func.func @main(%x: tensor<2xui64>) -> tensor<2xui64> {
        %y = graph.pow %x, %x : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64> loc("decoder/Pow")
        func.return %y : tensor<2xui64>
      }"""
    with pytest.raises(UnsupportedError, match="the power of ui64 numbers") as error:
        converted(text)
    assert error.value.place is not None and error.value.place.node == "decoder/Pow"
