"""Constants that are only used transposed or reshaped are written like that; others as they are."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from mlopt.export import to_onnx
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore
from tests.onnx_oracle import run_model

W = np.arange(200, dtype=np.float32).reshape(20, 10)


def store() -> WeightStore:
    weights = WeightStore()
    weights.add(W, "w")
    return weights


def exported(body: str) -> onnx.ModelProto:
    """A function of `%x`, 3x10, with a constant `%w`, 20x10, that gives `%y`, 3x20."""
    text = f"""func.func @main(%x: tensor<3x10xf32>) -> tensor<3x20xf32> {{
      %w = graph.constant #mlopt.weight<"w"> : tensor<20x10xf32>
      {body}
      func.return %y : tensor<3x20xf32>
    }}"""
    return to_onnx(parse_module(text, make_context()), store())


def check(model: onnx.ModelProto, operators: list[str], *constants: np.ndarray) -> None:
    assert [node.op_type for node in model.graph.node] == operators
    written = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer if len(tensor.dims) > 1]
    assert len(written) == len(constants)
    for got, want in zip(written, constants, strict=True):
        np.testing.assert_array_equal(got, want)
    x = np.linspace(-1, 1, 30, dtype=np.float32).reshape(3, 10)
    (y,) = run_model(model, {"arg0": x})
    np.testing.assert_allclose(y, x @ W.T, rtol=1e-5)


TRANSPOSE = "%t = graph.transpose %w perm = [1, 0] : (tensor<20x10xf32>) -> tensor<10x20xf32>"
MATMUL = "(tensor<3x10xf32>, tensor<10x20xf32>) -> tensor<3x20xf32>"


def test_a_transposed_weight() -> None:
    check(exported(f"{TRANSPOSE}\n%y = graph.matmul %x, %t : {MATMUL}"), ["MatMul"], W.T)


def test_a_weight_that_is_used_as_it_is_too() -> None:
    """Then it is written once."""
    body = f"""{TRANSPOSE}
      %i = graph.constant dense<0> : tensor<i64>
      %row = graph.gather %w, %i axis = 0 : (tensor<20x10xf32>, tensor<i64>) -> tensor<10xf32>
      %s = graph.sub %row, %row : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
      %z = graph.add %x, %s : (tensor<3x10xf32>, tensor<10xf32>) -> tensor<3x10xf32>
      %y = graph.matmul %z, %t : {MATMUL}"""
    check(exported(body), ["Transpose", "Gather", "Sub", "Add", "MatMul"], W)


def test_movements_of_movements() -> None:
    """Only the first of them is one of a constant that is used in one form."""
    body = f"""%r = graph.reshape %w : tensor<20x10xf32> to tensor<2x10x10xf32>
      %s = graph.reshape %r : tensor<2x10x10xf32> to tensor<20x10xf32>
      %t = graph.transpose %s perm = [1, 0] : (tensor<20x10xf32>) -> tensor<10x20xf32>
      %y = graph.matmul %x, %t : {MATMUL}"""
    check(exported(body), ["Reshape", "Gemm"], W.reshape(2, 10, 10))


def test_a_transposed_weight_that_is_an_output() -> None:
    text = """func.func @main() -> tensor<10x20xf32> {
      %w = graph.constant #mlopt.weight<"w"> : tensor<20x10xf32>
      %t = graph.transpose %w perm = [1, 0] : (tensor<20x10xf32>) -> tensor<10x20xf32>
      func.return %t : tensor<10x20xf32>
    }"""
    model = to_onnx(parse_module(text, make_context()), store())
    (got,) = run_model(model, {})
    np.testing.assert_array_equal(got, W.T)
