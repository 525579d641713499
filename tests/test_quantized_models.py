"""Quantized models, compiled and run: what onnxruntime or numpy by hand gives, as vector code for `mlir-opt` too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import mlopt
from mlopt.cli.main import main
from tests.frontend.onnx_models import model_of, run_onnxruntime, value_info
from tests.mlir_opt import check_with_mlir_opt

MODELS = Path(__file__).parent / "models"
RANDOM = np.random.default_rng(3)
EDGES = np.array(
    [0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 7e4, -7e4, 1e30, np.inf, -np.inf, np.nan, -0.0], np.float32
)


def f32(number: float) -> np.ndarray:
    return np.array(number, np.float32)


def ui8(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 255, shape, np.uint8, endpoint=True)


ZERO, MIDDLE, IMAGE, MATRIX = np.uint8(9), np.uint8(120), ui8(2, 4, 9, 8), ui8(33, 65)
X_SIDE, A_SIDE = {"x": IMAGE, "xs": f32(0.02), "xz": MIDDLE}, {"x": MATRIX, "xs": f32(0.02), "xz": MIDDLE}
Y_SIDE = {"ys": f32(1.6), "yz": MIDDLE}
PER_FEATURE = {"ws": np.array([0.1, 0.02, 0.03, 0.004], np.float32), "wz": np.zeros(4, np.uint8)}
FLOATS = (RANDOM.standard_normal((33, 65)) * 40).astype(np.float32)
ROWS = {"s": RANDOM.uniform(0.2, 2, 65).astype(np.float32), "z": RANDOM.integers(-99, 99, 65, np.int8)}
BLOCKS = {
    "s": RANDOM.uniform(0.2, 2, (33, 9)).astype(np.float32),
    "z": RANDOM.integers(-9, 9, (33, 9), np.int8),
}

CASES = {
    "edges-int8": ("QuantizeLinear", {"x": EDGES, "s": f32(1), "z": np.int8(0)}, {}),
    "edges-uint8": ("QuantizeLinear", {"x": EDGES, "s": f32(1), "z": ZERO}, {}),
    "edges-int16": ("QuantizeLinear", {"x": EDGES, "s": f32(1), "z": np.int16(-7)}, {}),
    "edges-uint16": ("QuantizeLinear", {"x": EDGES, "s": f32(1), "z": np.uint16(50000)}, {}),
    "quantize-axis": ("QuantizeLinear", {"x": FLOATS, **ROWS}, {"axis": 1}),
    "quantize-blocks": ("QuantizeLinear", {"x": FLOATS, **BLOCKS}, {"axis": 1, "block_size": 8}),
    "dequantize-axis": ("DequantizeLinear", {"x": MATRIX.view(np.int8), **ROWS}, {"axis": -1}),
    "dequantize-blocks": ("DequantizeLinear", {"x": MATRIX.view(np.int8), **BLOCKS}, {"block_size": 8}),
    "matmul-integer": ("MatMulInteger", {"x": MATRIX, "b": ui8(65, 17), "xz": MIDDLE, "bz": ZERO}, {}),
    "conv-integer": (
        *("ConvInteger", {"x": IMAGE, "w": ui8(6, 4, 3, 3), "xz": MIDDLE, "wz": ZERO}),
        {"pads": [1, 2, 0, 1], "strides": [2, 1]},
    ),
    "conv-integer-groups": ("ConvInteger", {"x": IMAGE, "w": ui8(6, 2, 3, 3), "xz": MIDDLE}, {"group": 2}),
    "conv-integer-depthwise": (
        *("ConvInteger", {"x": IMAGE, "w": ui8(4, 1, 3, 3), "xz": MIDDLE}),
        {"group": 4, "pads": [1, 1, 1, 1]},
    ),
    "qlinear-matmul": (
        *("QLinearMatMul", {**A_SIDE, "b": ui8(65, 17), "bs": f32(0.03), "bz": ZERO, **Y_SIDE}),
        {},
    ),
    "qlinear-conv": (
        "QLinearConv",
        {**X_SIDE, "w": ui8(4, 4, 3, 3), **PER_FEATURE, **Y_SIDE, "b": np.array([5, -700, 90, 0], np.int32)},
        {"pads": [1, 1, 1, 1]},
    ),
    "matmul-integer-long": (
        "MatMulInteger",
        {"x": ui8(3, 700), "b": ui8(700, 5), "xz": MIDDLE, "bz": ZERO},
        {},
    ),
    "dynamic": ("DynamicQuantizeLinear", {"x": FLOATS}, {}),
}


def check(proto: onnx.ModelProto, inputs: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> None:
    """The compiled model gives `want`, to the last bit for integers, and nothing runs as scalar code."""
    model = mlopt.compile(proto)
    found = model.run(inputs)
    assert found.keys() == want.keys()
    for name, right in want.items():
        assert found[name].dtype == right.dtype
        np.testing.assert_allclose(found[name], right, rtol=1e-6 if right.dtype.kind == "f" else 0)
    assert model.executable.scalar_loops == 0
    check_with_mlir_opt(model.ir("memref"))


@pytest.mark.parametrize("constant", [False, True], ids=["inputs", "constants"])
@pytest.mark.parametrize("case", CASES)
def test_operators(case: str, constant: bool) -> None:
    """Scales, zero points and weights as inputs, and as constants."""
    op_type, operands, attributes = CASES[case]
    arrays = {name: np.asarray(array) for name, array in operands.items()}
    inputs = {"x": arrays["x"]} if constant else arrays
    constants = {name: array for name, array in arrays.items() if name not in inputs}
    outputs = ["y", "ys_out", "yz_out"] if op_type.startswith("Dynamic") else ["y"]
    node = helper.make_node(op_type, list(arrays), outputs, "n", **attributes)
    proto = model_of([node], [value_info(*item) for item in inputs.items()], outputs, constants, opset=21)
    proto.ir_version = 10
    check(proto, inputs, run_onnxruntime(proto, inputs))


def test_per_channel_weights_stay_with_their_scales_when_transposed() -> None:
    weights = np.array([[1, 2], [3, 4], [5, 6]], np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1),
        helper.make_node("Transpose", ["d"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    x, constants = np.ones(2, np.float32), {"w": weights, "s": np.array([1, 10], np.float32)}
    proto = model_of(nodes, [value_info("x", x)], ["y"], constants)
    check(proto, {"x": x}, {"y": np.array([21, 43, 65], np.float32)})


def test_quantizing_twice_keeps_both_scales() -> None:
    """2.6 in steps of 1 is 3, which in steps of 2 is 4 (1.5, a half, goes to the even 2)."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "one"], ["a"]),
        helper.make_node("DequantizeLinear", ["a", "one"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "two"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "two"], ["y"]),
    ]
    x = np.array([2.6, 1.2, 300], np.float32)
    proto = model_of(nodes, [value_info("x", x)], ["y"], {"one": f32(1), "two": f32(2)})
    check(proto, {"x": x}, {"y": np.array([4, 0, 256], np.float32)})


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("optimize", [False, True])
def test_small_floats_with_a_constant_zero_point(dtype: type, optimize: bool) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = {"s": f32(0.5), "z": np.array(0, dtype)}
    proto = model_of(nodes, [value_info("x", EDGES)], ["y"], constants, opset=19)
    proto.ir_version = 9
    options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=optimize))
    found = mlopt.compile(proto, options=options).run({"x": EDGES})["y"]
    np.testing.assert_array_equal(found, run_onnxruntime(proto, {"x": EDGES})["y"])


def test_a_quantized_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MobileNet with quantize and dequantize around its convolutions, as onnxruntime's quantizer writes it."""
    model, arrays = MODELS / "mobilenetv2_035_int8_qdq.onnx", MODELS / "mobilenetv2_035_int8_qdq.npz"
    report = tmp_path / "report.json"
    options = ["--inputs", str(arrays), "--check", str(arrays), "--report", str(report)]
    assert main(["run", str(model), *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(": ok")
    written = json.loads(report.read_text())
    assert written["ops"]["scalar_loops"] == 0
    # Weights are dequantized when the model is compiled: no run has them in its arena.
    memory = written["memory"]
    assert memory["arena_bytes"] <= 0.25 * memory["imported_no_reuse_bytes"]
    assert memory["max_live_bytes"] <= memory["imported_max_live_bytes"]
