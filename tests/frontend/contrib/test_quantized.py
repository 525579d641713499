"""Operators of com.microsoft on quantized tensors, against onnxruntime; integers are equal to the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto

import mlopt
from tests.frontend.all_levels import check_all_levels
from tests.frontend.contrib.support import RANDOM, agree, floats, node_model, refusal, result
from tests.frontend.onnx_models import assert_close, run_mlopt, run_onnxruntime
from tests.onnx_oracle import run_model


def f32(*numbers: float) -> np.ndarray:
    """A vector, or a number if there is one."""
    return np.array(numbers if len(numbers) > 1 else numbers[0], np.float32)


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    """Random numbers of an integer type, over all of its range."""
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


X = floats(3, 4, 6) * 40
A, B = numbers(np.uint8, 3, 4), numbers(np.uint8, 4)
IMAGE = numbers(np.uint8, 2, 3, 6, 7)
IMAGE_SIDE, RESULT_SIDE = (f32(0.0313), np.uint8(120)), (f32(0.0177), np.uint8(110))

CASES: Sequence[tuple[str, Sequence[Any], dict[str, Any]]] = [
    ("QuantizeLinear", (X, f32(0.5), np.uint8(3)), {}),
    ("QuantizeLinear", (X, f32(1, 2, 3, 4), np.array([1, 2, 3, 4], np.int16)), {"axis": 1}),
    ("DequantizeLinear", (numbers(np.uint16, 3, 4), f32(0.5), np.uint16(3)), {}),
    ("QLinearAdd", (A, f32(0.11), np.uint8(7), B, f32(0.23), np.uint8(9), f32(0.37), np.uint8(5)), {}),
    ("QLinearMul", (A, f32(0.11), np.uint8(7), B, f32(0.23), np.uint8(9), f32(1.37), np.uint8(5)), {}),
    ("QLinearSigmoid", (A, f32(0.02), np.uint8(128), f32(1 / 256), np.uint8(0)), {}),
    ("QLinearLeakyRelu", (A, f32(0.02), np.uint8(128), f32(0.03), np.uint8(99)), {"alpha": 0.3}),
    (
        "QLinearAveragePool",
        (IMAGE, *IMAGE_SIDE, *RESULT_SIDE),
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]},
    ),
    (
        "QLinearAveragePool",
        (IMAGE, *IMAGE_SIDE, *RESULT_SIDE),
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1, "ceil_mode": 1},
    ),
    ("QLinearAveragePool", (IMAGE, *IMAGE_SIDE, *RESULT_SIDE), {"kernel_shape": [2, 3], "channels_last": 1}),
    ("QLinearGlobalAveragePool", (IMAGE, *IMAGE_SIDE, *RESULT_SIDE), {}),
    ("QLinearGlobalAveragePool", (IMAGE, *IMAGE_SIDE, *RESULT_SIDE), {"channels_last": 1}),
    (
        "QLinearGlobalAveragePool",
        (numbers(np.int8, 1, 5, 8), f32(0.1), np.int8(-3), f32(0.02), np.int8(4)),
        {},
    ),
    (
        "QLinearConcat",
        (
            *RESULT_SIDE,
            A,
            f32(0.03),
            np.uint8(100),
            A[:, :2],
            f32(0.02),
            np.uint8(110),
            A,
            f32(0.5),
            np.uint8(0),
        ),
        {"axis": 1},
    ),
    (
        "QLinearWhere",
        (A > 99, A, f32(0.03), np.uint8(100), B, f32(0.01), np.uint8(130), f32(0.02), np.uint8(110)),
        {},
    ),
    (
        "QLinearConv",
        (
            *(IMAGE, *IMAGE_SIDE, numbers(np.int8, 4, 3, 2, 2), f32(0.01), np.int8(0)),
            *(f32(1.6), np.uint8(50), RANDOM.integers(-999, 999, 4, np.int32)),
        ),
        {"strides": [2, 1]},
    ),
    ("QGemm", (A, f32(0.02), np.uint8(128), numbers(np.int8, 4, 5), f32(0.03), np.int8(1)), {}),
    (
        "QGemm",
        (
            *(A, f32(0.02), np.uint8(128), numbers(np.int8, 5, 4), f32(0.03), np.int8(1)),
            *(RANDOM.integers(-9999, 9999, 5, np.int32), f32(0.6), np.uint8(120)),
        ),
        {"transB": 1, "alpha": 0.5},
    ),
    (
        "QGemm",
        (
            *(A.T.copy(), f32(0.02), np.uint8(128), numbers(np.int8, 4, 5), f32(0.03, 0.1, 0.2, 0.3, 0.4)),
            *(np.zeros(5, np.int8), None, f32(0.6), np.uint8(120)),
        ),
        {"transA": 1},
    ),
    ("MatMulIntegerToFloat", (numbers(np.uint8, 2, 3, 4), numbers(np.int8, 4, 5), f32(0.02), f32(0.03)), {}),
    (
        "MatMulIntegerToFloat",
        (
            *(A, numbers(np.uint8, 4, 3), f32(0.02), f32(0.03, 0.2, 0.1)),
            *(np.uint8(120), numbers(np.uint8, 3), floats(3)),
        ),
        {},
    ),
    ("DynamicQuantizeMatMul", (X, numbers(np.int8, 6, 5), f32(0.03)), {}),
    (
        "DynamicQuantizeMatMul",
        (X, numbers(np.uint8, 6, 3), f32(0.03, 0.2, 0.1), numbers(np.uint8, 3), floats(3)),
        {},
    ),
    ("DynamicQuantizeMatMul", (np.zeros((2, 6), np.float32), numbers(np.int8, 6, 5), f32(0.03)), {}),
]


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"), CASES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_as_onnxruntime(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]):
    agree(op_type, *inputs, rtol=1e-6, **attributes)


@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 0), (12, 1), (11, 2)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_softmax(opset: int, axis: int, dtype: Any):
    """`opset` is an attribute: the version of the Softmax that it was."""
    x, lowest = numbers(dtype, 3, 4, 5), np.array(np.iinfo(dtype).min, dtype)
    proto, given = node_model(
        "QLinearSoftmax", x, f32(0.05), np.array(9, dtype), f32(1 / 256), lowest, axis=axis
    )
    proto.graph.node[0].attribute.add(name="opset", type=AttributeProto.INT, i=opset)
    assert_close(run_mlopt(proto, given), run_onnxruntime(proto, given))


def test_softmax_by_hand():
    """Powers of 2: one and two thirds of 1 / 0.0053 = 188.68; onnxruntime takes 188 for that, and gives 125."""
    x = np.array([[0, 1], [1, 0]], np.uint8)
    proto, given = node_model("QLinearSoftmax", x, f32(np.log(2)), np.uint8(0), f32(0.0053), np.uint8(0))
    proto.graph.node[0].attribute.add(name="opset", type=AttributeProto.INT, i=13)
    np.testing.assert_array_equal(run_mlopt(proto, given)["y"], [[63, 126], [126, 63]])


def test_zero_points_that_are_left_out_by_hand():
    a, b = np.array([10, 200], np.uint8), np.array([4, 60], np.uint8)
    (found,) = result("QLinearAdd", a, f32(0.5), None, b, f32(2), None, f32(1))
    np.testing.assert_array_equal(found, np.array([13, 220], np.uint8))
    image = np.array([[[10, 20], [30, 41]]], np.uint8)
    (found,) = result("QLinearGlobalAveragePool", image, f32(2), None, f32(1), None)
    np.testing.assert_array_equal(found, np.array([[[30], [71]]], np.uint8))


# Attention

HIDDEN, HEADS = 12, 3
TOKENS = numbers(np.uint8, 2, 5, 8)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("columns", [1, 3 * HIDDEN])
@pytest.mark.parametrize("options", [{}, {"unidirectional": 1}])
def test_attention(dtype: Any, columns: int, options: dict[str, Any]):
    scale, mask = RANDOM.uniform(0.001, 0.01, columns).astype(np.float32), np.array([3, 5], np.int32)
    zero_point = numbers(dtype, columns) if dtype is np.uint8 else np.zeros(columns, dtype)
    if columns == 1:
        scale, zero_point = scale[0], zero_point[0]
    side = (numbers(dtype, 8, 3 * HIDDEN), floats(3 * HIDDEN), f32(0.02), scale, mask)
    agree("QAttention", TOKENS, *side, np.uint8(128), zero_point, num_heads=HEADS, **options)
    past = floats(2, 2, HEADS, 4, HIDDEN // HEADS)
    side = (*side[:4], None)
    options = {**options, "outputs": ["y", "present"]}
    agree("QAttention", TOKENS, *side, np.uint8(128), zero_point, past, num_heads=HEADS, **options)


# The recurrent operator


def lstm_operands(
    directions: int, *, per_column: bool = False, dtype: Any = np.int8, peepholes: bool = False
) -> list[Any]:
    """X, W, R, B, lengths, H, C, P and the parameters of W and R; 5 steps of 2 sequences, 3 to 4 numbers."""
    gates, x = 16, floats(5, 2, 3)
    weights = [numbers(dtype, directions, size, gates) for size in (3, 4)]
    count = (directions, gates) if per_column else (directions,)
    parameters = [
        part
        for _ in range(2)
        for part in (
            RANDOM.uniform(0.002, 0.01, count).astype(np.float32),
            np.zeros(count, dtype) if dtype is np.int8 else np.full(count, 130, dtype),
        )
    ]
    return [
        *(x, *weights, floats(directions, 2 * gates), np.array([5, 3], np.int32)),
        *(floats(directions, 2, 4), floats(directions, 2, 4)),
        *(floats(directions, 12) if peepholes else None, *parameters),
    ]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_lstm(direction: str, per_column: bool, dtype: Any):
    operands = lstm_operands(1 + (direction == "bidirectional"), per_column=per_column, dtype=dtype)
    operands[4] = None
    outputs = ["y", "h", "c"]
    agree("DynamicQuantizeLSTM", *operands, outputs=outputs, direction=direction, hidden_size=4, rtol=1e-4)


def test_lstm_without_what_may_be_left_out():
    operands = lstm_operands(1)
    for index in range(3, 8):
        operands[index] = None
    agree("DynamicQuantizeLSTM", *operands, outputs=["y", "h", "c"], hidden_size=4, rtol=1e-4)


def test_lstm_with_all_operands():
    operands = lstm_operands(1, peepholes=True)
    operands[4] = np.array([5, 5], np.int32)
    agree("DynamicQuantizeLSTM", *operands, outputs=["y", "h", "c"], hidden_size=4, clip=1.5, rtol=1e-4)


def test_lstm_of_sequences_of_several_lengths():
    """After its end a sequence is zero, and its state stays. What its state then is has a part in the quantization of
    the others', in onnxruntime in another way."""
    operands = lstm_operands(1)
    y, h, _ = result("DynamicQuantizeLSTM", *operands, outputs=["y", "h", "c"], hidden_size=4)
    np.testing.assert_array_equal(y[3:, 0, 1], np.zeros((2, 4), np.float32))
    np.testing.assert_array_equal(h[0], np.stack([y[4, 0, 0], y[2, 0, 1]]))
    operands[4] = None
    (whole,) = result("DynamicQuantizeLSTM", *operands, hidden_size=4)
    np.testing.assert_array_equal(y[:4, 0, 0], whole[:4, 0, 0])


def test_lstm_at_all_levels():
    operands = lstm_operands(2)
    operands[4] = None
    proto, given = node_model(
        "DynamicQuantizeLSTM", *operands, outputs=["y", "h", "c"], direction="bidirectional", hidden_size=4
    )
    want = dict(zip("yhc", run_model(proto, dict(given)), strict=True))
    check_all_levels(proto, given, want, rtol=1e-4, mlir=False)


# What is refused


@pytest.mark.parametrize(
    ("op_type", "options", "reason"),
    [
        ("QLinearConv", {"channels_last": 1}, "with channels_last = 1"),
        ("QAttention", {"do_rotary": 1}, "with do_rotary = 1"),
        ("QuantizeLinear", {"output_dtype": TensorProto.STRING}, "with output_dtype string"),
    ],
)
def test_what_is_refused(op_type: str, options: dict[str, Any], reason: str):
    assert refusal(op_type, A, f32(1), **options) == reason


def test_parameters_of_more_than_one_element():
    proto, given = node_model("QLinearSigmoid", A, f32(1, 2), np.uint8(0), f32(1), np.uint8(0))
    with pytest.raises(mlopt.InputError, match="a scale or zero point of one element"):
        run_mlopt(proto, given)
