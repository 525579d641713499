"""Exported models with types of few bits: the checker passes; onnxruntime or the importer gives the same numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import mlopt
from mlopt.export import to_onnx
from mlopt.frontend.onnx import import_model
from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore
from tests.onnx_oracle import run_model

X = np.array([[-9, -1.9, 0.5], [1.5, 2.5, 7], [8, 15, 1000]], np.float32)


def exported(text: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """The model of a function of %x (3x3xf32), and what the reference evaluation gives for X."""
    module = parse_module(text, make_context())
    model = to_onnx(module, WeightStore())
    onnx.checker.check_model(model, full_check=True)
    return model, evaluate_module(module, {"x": X})["y"]


def function(body: str, result: str) -> str:
    return f"""
        func.func @main(%x: tensor<3x3xf32> {{mlopt.name = "x"}}) -> (tensor<3x3x{result}> {{mlopt.name = "y"}}) {{
          {body}
          func.return %y : tensor<3x3x{result}>
        }}"""


@pytest.mark.parametrize("element", ["i4", "ui4"])
def test_casts(element: str) -> None:
    """onnxruntime rounds to the nearest of 4 bits, so that the cast goes by way of i32, and then wraps as we do."""
    model, want = exported(
        function(
            f"""%q = graph.cast %x : tensor<3x3xf32> to tensor<3x3x{element}>
                %y = graph.cast %q : tensor<3x3x{element}> to tensor<3x3xi32>""",
            "i32",
        )
    )
    np.testing.assert_array_equal(run_model(model, {"x": X})[0], want)


@pytest.mark.parametrize("element", ["i4", "ui4"])
def test_quantization(element: str) -> None:
    model, want = exported(
        function(
            f"""%s = graph.constant dense<0.5> : tensor<f32>
                %z = graph.constant dense<3> : tensor<{element}>
                %q = graph.quantize %x, %s, %z
                    : (tensor<3x3xf32>, tensor<f32>, tensor<{element}>) -> tensor<3x3x{element}>
                %y = graph.dequantize %q, %s, %z
                    : (tensor<3x3x{element}>, tensor<f32>, tensor<{element}>) -> tensor<3x3xf32>""",
            "f32",
        )
    )
    np.testing.assert_array_equal(run_model(model, {"x": X})[0], want)


def test_scales_along_two_axes_are_blocks_of_one() -> None:
    model, want = exported(
        function(
            """%q = graph.constant dense<[[-8, 7, 1], [2, 3, 4], [-1, 0, 5]]> : tensor<3x3xi4>
               %s = graph.constant dense<[[0.5, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]> : tensor<3x3xf32>
               %z = graph.constant dense<[[1], [2], [3]]> : tensor<3x1xi4>
               %w = graph.dequantize %q, %s, %z : (tensor<3x3xi4>, tensor<3x3xf32>, tensor<3x1xi4>) -> tensor<3x3xf32>
               %y = graph.mul %w, %x : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>""",
            "f32",
        )
    )
    np.testing.assert_array_equal(run_model(model, {"x": X})[0], want)


@pytest.mark.parametrize(
    ("element", "options", "opset"),
    [
        ("i2", "", 25),
        ("ui2", "", 25),
        ("f8E8M0FNU", 'saturate round_mode = "nearest"', 24),
        ("f6E2M3FN", "saturate", 28),
        ("f4E2M1FN", "saturate", 23),
    ],
)
def test_types_that_onnxruntime_lacks(element: str, options: str, opset: int) -> None:
    """The operator set is the one that took them up; read again, the model gives the same."""
    model, want = exported(
        function(
            f"""%q = graph.cast %x {options} : tensor<3x3xf32> to tensor<3x3x{element}>
                %t = graph.transpose %q perm = [1, 0] : (tensor<3x3x{element}>) -> tensor<3x3x{element}>
                %y = graph.cast %t : tensor<3x3x{element}> to tensor<3x3xf32>""",
            "f32",
        )
    )
    assert model.opset_import[0].version == opset
    context = make_context()
    again = import_model(model, context)
    np.testing.assert_array_equal(evaluate_module(again, {"x": X}, context.weights)["y"], want)


def test_an_interface_of_four_bits() -> None:
    x = np.array([-8, 7], ml_dtypes.int4)
    text = """
        func.func @main(%x: tensor<2xi4> {mlopt.name = "x"}) -> (tensor<2xi4> {mlopt.name = "y"}) {
          func.return %x : tensor<2xi4>
        }"""
    model = to_onnx(parse_module(text, make_context()), WeightStore())
    onnx.checker.check_model(model, full_check=True)
    (found,) = mlopt.compile(model).run({"x": x}).values()
    np.testing.assert_array_equal(found, x)
