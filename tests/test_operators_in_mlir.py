"""Operators whose bodies use rarer operations and types of upstream dialects: `mlir-opt` accepts their memref level."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import mlopt
from tests.frontend.onnx_models import one_node
from tests.mlir_opt import check_with_mlir_opt

X = np.linspace(0.1, 1, 12, dtype=np.float32).reshape(3, 4)
BYTES = np.arange(12, dtype=np.uint8).reshape(3, 4)


@pytest.mark.parametrize(
    ("op_type", "inputs", "opset", "attributes"),
    [
        ("Mod", [X, X], 28, {}),
        ("Cast", [X], 25, {"to": TensorProto.FLOAT8E4M3FNUZ}),
        ("Cast", [X.astype(ml_dtypes.float4_e2m1fn)], 25, {"to": TensorProto.FLOAT16}),
        ("BitShift", [BYTES, BYTES], 18, {"direction": "RIGHT"}),
        ("BitShift", [BYTES.astype(np.int8), BYTES.astype(np.int8)], 28, {"direction": "RIGHT"}),
        ("BitCast", [X], 26, {"to": TensorProto.UINT32}),
        *(
            (op, [X], 22, {})
            for op in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan")
        ),
    ],
)
def test_mlir_opt_accepts(
    op_type: str, inputs: list[np.ndarray], opset: int, attributes: dict[str, Any]
) -> None:
    operands = {f"x{index}": array for index, array in enumerate(inputs)}
    model = mlopt.compile(one_node(op_type, operands, opset=opset, **attributes))
    check_with_mlir_opt(model.ir("memref"))


def test_mlir_opt_accepts_an_input_bound_to_its_value() -> None:
    inputs = {"x0": X, "x1": np.array([4, 3])}
    text = mlopt.compile(one_node("Reshape", inputs), inputs=inputs).ir("memref")
    assert "mlopt.value = dense<[4, 3]> : tensor<2xi64>" in text
    check_with_mlir_opt(text)
