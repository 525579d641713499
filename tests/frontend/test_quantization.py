"""Quantized operators in all their forms: the reference evaluation against onnxruntime; by hand where it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mlopt.diagnostics import InputError, UnsupportedError
from tests.frontend.onnx_models import assert_close, model_of, run_mlopt, run_onnxruntime, value_info

RANDOM = np.random.default_rng(5)
# Halves, numbers beyond every range, and what is no number.
EDGES = np.array(
    [0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 70000, -70000, 1e30, np.inf, -np.inf, np.nan, 0, -0.0], np.float32
)
SMALL_FLOATS = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2fnuz,
)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16)
X = (RANDOM.standard_normal((3, 4, 6)) * 40).astype(np.float32)


def f32(*numbers: float) -> np.ndarray:
    """A vector, or a number if there is one."""
    return np.array(numbers if len(numbers) > 1 else numbers[0], np.float32)


def numbers(dtype: type, *shape: int) -> np.ndarray:
    """Random numbers of an integer type, over all of its range."""
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


def model(
    op_type: str,
    *inputs: Any,
    opset: int = 21,
    outputs: int = 1,
    domain: str = "",
    **attributes: Any,
) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray]]:
    """A model of one node, and its inputs; None is an input that is left out."""
    given = {f"x{index}": np.asarray(array) for index, array in enumerate(inputs) if array is not None}
    operands = [f"x{index}" if array is not None else "" for index, array in enumerate(inputs)]
    names = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, operands, names, "n", domain=domain, **attributes)
    domains = {domain: 1} if domain else None
    infos = [value_info(*item) for item in given.items()]
    proto = model_of([node], infos, names, opset=opset, domains=domains)
    proto.ir_version = 10
    return proto, given


def agree(op_type: str, *inputs: Any, **options: Any) -> None:
    """mlopt's result is onnxruntime's, integers to the last."""
    proto, given = model(op_type, *inputs, **options)
    assert_close(run_mlopt(proto, given), run_onnxruntime(proto, given), rtol=1e-6)


def result(op_type: str, *inputs: Any, **options: Any) -> np.ndarray:
    proto, given = model(op_type, *inputs, **options)
    return run_mlopt(proto, given)["y0"]


# QuantizeLinear


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("scale", [1, 0.3, 0, np.inf, -1])
def test_quantize_edges(dtype: type, scale: float):
    agree("QuantizeLinear", EDGES, f32(scale), np.array(3, dtype))


def test_halves_go_to_the_even_neighbour_and_what_is_out_of_range_saturates():
    x = f32(0.5, 1.5, 2.5, -0.5, -1.5, 300, -300)
    found = result("QuantizeLinear", x, f32(1), np.int8(0))
    np.testing.assert_array_equal(found, np.array([0, 2, 2, 0, -2, 127, -128], np.int8))


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
def test_quantize_to_uint8_by_default(opset: int):
    agree("QuantizeLinear", X, f32(0.5), opset=opset)


@pytest.mark.parametrize("dtype", ["INT8", "UINT8", "INT16", "UINT16"])
def test_the_type_of_the_result_by_attribute(dtype: str):
    agree("QuantizeLinear", X, f32(0.5), output_dtype=getattr(TensorProto, dtype))


@pytest.mark.parametrize(("axis", "count"), [(0, 3), (1, 4), (-1, 6), (None, 4)])
def test_quantize_per_axis(axis: int | None, count: int):
    scale, zero_point = f32(*range(1, count + 1)), np.arange(count, dtype=np.int8)
    attributes = {} if axis is None else {"axis": axis}
    agree("QuantizeLinear", X, scale, zero_point, opset=13, **attributes)
    agree("DequantizeLinear", numbers(np.int8, *X.shape), scale, zero_point, opset=13, **attributes)


def test_a_vector_per_element():
    scale, zero_point = f32(*range(1, len(EDGES) + 1)), np.arange(len(EDGES), dtype=np.uint8)
    agree("QuantizeLinear", EDGES, scale, zero_point, opset=13, axis=0)


def test_one_element_is_for_the_whole_tensor():
    agree("QuantizeLinear", X, np.array([0.5], np.float32), np.array([3], np.uint8), opset=13, axis=2)


@pytest.mark.parametrize(("axis", "block"), [(0, 2), (1, 2), (1, 3), (2, 4), (-1, 6), (2, 5)])
def test_blocks_of_which_the_last_may_be_shorter(axis: int, block: int):
    shape = list(X.shape)
    shape[axis] = -(-shape[axis] // block)
    scale = RANDOM.uniform(0.5, 2, shape).astype(np.float32)
    zero_point = numbers(np.int8, *shape)
    agree("QuantizeLinear", X, scale, zero_point, axis=axis, block_size=block)
    agree("QuantizeLinear", X, scale, None, axis=axis, block_size=block)
    agree("DequantizeLinear", numbers(np.int8, *X.shape), scale, zero_point, axis=axis, block_size=block)


@pytest.mark.parametrize("opset", [19, 21, 23])
def test_half_precision_is_divided_in_single_precision_before_version_23(opset: int):
    x = np.linspace(-20, 20, 4001).astype(np.float16)
    in_half, in_single = (
        np.rint(x / np.float16(0.37)),
        np.rint(x.astype(np.float32) / np.float32(np.float16(0.37))),
    )
    assert (in_half != in_single).any()
    agree("QuantizeLinear", x, np.array(0.37, np.float16), np.array(0, np.int8), opset=opset)


def test_the_precision_of_the_quotient_by_attribute():
    x = np.linspace(-20, 20, 4001).astype(np.float16)
    scale = np.array(0.37, np.float16)
    found = result("QuantizeLinear", x, scale, np.int8(0), opset=23, precision=TensorProto.FLOAT)
    np.testing.assert_array_equal(found, np.rint(x.astype(np.float32) / np.float32(scale)).astype(np.int8))


def test_the_scale_gives_the_precision_where_its_type_is_another():
    x = np.linspace(-20, 20, 401).astype(np.float16)
    agree("QuantizeLinear", x, f32(0.37), np.int8(1), opset=23)


def test_quantize_integers_by_hand():
    found = result("QuantizeLinear", np.array([-7, 3, 5, 900], np.int32), f32(2), np.uint8(3), opset=13)
    np.testing.assert_array_equal(found, np.array([0, 5, 5, 255], np.uint8))  # -3.5 to -4; 1.5 and 2.5 to 2


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_small_floats_there_and_back(dtype: type, saturate: int):
    """They are no inputs or outputs of onnxruntime's in Python, so it is one model."""
    x = f32(0, 1, -1.3, 2.2, 500, -500, 1e6, np.inf, np.nan)
    constants = {"s": f32(2), "z": np.array(0, dtype), "t": f32(0.3), "h": np.array(0.3, np.float16)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "n", saturate=saturate),
        helper.make_node("DequantizeLinear", ["q", "t", "z"], ["y"]),
        helper.make_node("DequantizeLinear", ["q", "t"], ["y1"]),
        helper.make_node("DequantizeLinear", ["q", "h"], ["y2"]),
    ]
    proto = model_of(nodes, [value_info("x", x)], ["y", "y1", "y2"], constants, opset=19)
    proto.ir_version = 9
    assert_close(run_mlopt(proto, {"x": x}), run_onnxruntime(proto, {"x": x}), rtol=1e-6)


def test_four_bit_floats_by_hand():
    """The numbers are 0, 0.5, 1, 1.5, 2, 3, 4 and 6."""
    found = result(
        "QuantizeLinear", f32(0, 1, 2.4, 2.6, -3, 99), f32(1), opset=23, output_dtype=TensorProto.FLOAT4E2M1
    )
    assert found.dtype == ml_dtypes.float4_e2m1fn
    np.testing.assert_array_equal(found.astype(np.float32), f32(0, 1, 2, 3, -3, 6))


# DequantizeLinear


@pytest.mark.parametrize("dtype", INTEGERS)
def test_dequantize_the_whole_range(dtype: type):
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, -1 if info.min else 1, 0, info.max - 1, info.max], dtype)
    for zero_point in (info.min, 0, info.max):
        agree("DequantizeLinear", x, f32(0.3), np.array(zero_point, dtype))
    agree("DequantizeLinear", x, f32(0.3))
    agree("DequantizeLinear", x, np.array(0.3, np.float16), np.array(info.max, dtype))


def test_dequantize_int32():
    x = np.array([-(2**31), -(2**24) - 1, 0, 2**24 + 1, 2**31 - 1], np.int32)
    agree("DequantizeLinear", x, f32(0.3))
    agree("DequantizeLinear", x, f32(0.3, 0.1, 1, 2, 3), axis=0)


def test_the_type_of_the_dequantized_by_attribute():
    """The product of a half-precision scale in single precision, and the reverse rounded once."""
    x = np.array([-100, 3, 127], np.int8)
    half, single = np.array(0.3, np.float16), f32(0.3)
    wide = result("DequantizeLinear", x, half, opset=23, output_dtype=TensorProto.FLOAT)
    np.testing.assert_array_equal(wide, x.astype(np.float32) * np.float32(half))
    narrow = result("DequantizeLinear", x, single, opset=23, output_dtype=TensorProto.FLOAT16)
    np.testing.assert_array_equal(narrow, (x.astype(np.float32) * single).astype(np.float16))


# Products


@pytest.mark.parametrize("a_type", [np.int8, np.uint8])
@pytest.mark.parametrize("b_type", [np.int8, np.uint8])
def test_matmul_integer(a_type: type, b_type: type):
    if (a_type, b_type) == (np.int8, np.uint8):  # onnxruntime has none: by hand
        a, b = np.array([[-128, 127]], np.int8), np.array([[255], [254]], np.uint8)
        found = result("MatMulInteger", a, b, np.int8(127), np.uint8(255))
        np.testing.assert_array_equal(found, np.array([[0]], np.int32))
        return
    a, b = numbers(a_type, 2, 5, 7), numbers(b_type, 2, 7, 3)
    agree("MatMulInteger", a, b)
    agree("MatMulInteger", a, b, np.array(100, a_type))
    agree("MatMulInteger", a, b, np.array(100, a_type), np.array(9, b_type))
    agree("MatMulInteger", a, b[0], None, numbers(b_type, 3))


@pytest.mark.parametrize("count", [0, 1, 258, 259, 33025, 33026])
def test_the_largest_sums_are_exact(count: int):
    """The counts are those where the type that holds them changes; i32 wraps beyond."""
    a, b = np.full((2, count), 255, np.uint8), np.full((count, 3), 255, np.uint8)
    b[:, 1] = 0
    found = result("MatMulInteger", a, b)
    wrapped = (count * 255 * 255 + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(found, np.array([[wrapped, 0, wrapped]] * 2, np.int32))
    found = result("MatMulInteger", a[:, 1:], b[1:], np.uint8(0), np.uint8(254))
    np.testing.assert_array_equal(found[0], [255 * n * max(count - 1, 0) for n in (1, -254, 1)])


def test_matmul_integer_zero_points_of_rows_and_stacks_by_hand():
    a, b = numbers(np.uint8, 2, 3, 4), numbers(np.uint8, 2, 4, 5)
    rows, stacked, columns = numbers(np.uint8, 3), numbers(np.uint8, 2, 3, 1), numbers(np.uint8, 2, 1, 5)
    wide_a, wide_b = a.astype(np.int32), b.astype(np.int32)
    np.testing.assert_array_equal(
        result("MatMulInteger", a[0], b[0], rows), (wide_a[0] - rows[:, None].astype(np.int32)) @ wide_b[0]
    )
    np.testing.assert_array_equal(
        result("MatMulInteger", a, b, stacked, columns),
        (wide_a - stacked.astype(np.int32)) @ (wide_b - columns.astype(np.int32)),
    )


@pytest.mark.parametrize(
    "attributes",
    [{}, {"pads": [1, 2, 0, 1], "strides": [2, 1]}, {"dilations": [2, 1]}, {"auto_pad": "SAME_UPPER"}],
    ids=str,
)
def test_conv_integer(attributes: dict[str, Any]):
    """The padding counts as the zero point, not as 0."""
    x, weight = numbers(np.uint8, 2, 4, 6, 7), numbers(np.uint8, 6, 4, 3, 3)
    agree("ConvInteger", x, weight, **attributes)
    agree("ConvInteger", x, weight, np.uint8(100), np.uint8(9), **attributes)
    agree("ConvInteger", x, weight[:, :2], np.uint8(100), group=2, **attributes)
    agree("ConvInteger", x, weight[:4, :1], np.uint8(100), group=4, **attributes)


def test_conv_integer_zero_points_of_features_by_hand():
    x = np.array([[[1, 2, 3]]], np.uint8)
    weight = np.array([[[5, 6]], [[7, 8]]], np.uint8)
    found = result("ConvInteger", x, weight, np.uint8(2), np.array([5, 6], np.uint8), pads=[1, 0])
    # x - 2 is [0 (padding), -1, 0, 1]; the weights less their zero points are [0, 1] and [1, 2].
    np.testing.assert_array_equal(found, np.array([[[-1, 0, 1], [-2, -1, 2]]], np.int32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_qlinear_matmul(dtype: type):
    a, b = numbers(dtype, 2, 5, 7), numbers(dtype, 7, 3)
    a_side = (a, f32(0.02), np.array(20, dtype))
    y_side = (f32(0.6), np.array(50, dtype))
    agree("QLinearMatMul", *a_side, b, f32(0.03), np.array(9, dtype), *y_side)
    agree("QLinearMatMul", *a_side, b, f32(0.03, 0.3, 0.01), numbers(dtype, 3), *y_side)


def test_qlinear_matmul_scales_of_rows_by_hand():
    a, b = np.array([[1, 2], [3, 4]], np.uint8), np.array([[5, 6], [7, 8]], np.uint8)
    rows = (f32(1, 2), np.array([1, 2], np.uint8))
    # a - zero points: [[0, 1], [1, 2]]; product with b: [[7, 8], [19, 22]]; row 1 times 2.
    found = result("QLinearMatMul", a, *rows, b, f32(1), np.uint8(0), f32(2, 4), np.array([10, 20], np.uint8))
    # halves to even: 3.5 to 4, 4; 9.5 to 10, 11
    np.testing.assert_array_equal(found, np.array([[14, 14], [30, 31]], np.uint8))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_qlinear_conv(dtype: type, group: int):
    x, weight = numbers(dtype, 1, 4, 6, 7), numbers(dtype, 4, 4 // group, 3, 3)
    bias = RANDOM.integers(-9999, 9999, 4, np.int32)
    x_side, y_side = (x, f32(0.02), np.array(20, dtype)), (f32(1.6), np.array(50, dtype))
    weights = (weight, f32(0.03), np.array(9, dtype))
    agree("QLinearConv", *x_side, *weights, *y_side, group=group)
    agree("QLinearConv", *x_side, *weights, *y_side, bias, group=group, pads=[1, 0, 2, 1], strides=[1, 2])
    per_feature = (weight, f32(0.03, 0.01, 0.2, 0.1), np.array([0] * 4, dtype))
    agree("QLinearConv", *x_side, *per_feature, *y_side, bias, group=group)


@pytest.mark.parametrize(
    "x",
    [X, np.abs(X), -np.abs(X) - 1, np.zeros((2, 3), np.float32), f32(0, 2, -3, -2.5, 1.34, 0.5), f32(5.0)],
    ids=["mixed", "positive", "negative", "zeros", "vector", "number"],
)
def test_dynamic_quantize_linear(x: np.ndarray):
    agree("DynamicQuantizeLinear", x, outputs=3)


# What is refused


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ((X, f32(1, 2, 3)), {}, r"\[3, 4, 6\]|broadcasts"),
        ((X, np.ones((3, 2, 6), np.float32)), {"axis": 1, "block_size": 4}, "with a block_size"),
        ((X, np.ones((3, 4, 6), np.float32)), {"axis": 1}, "with a block_size"),
        ((X, f32(1), np.zeros(3, np.uint8)), {}, "zero point"),
        ((X, f32(1)), {"axis": 3, "block_size": 1}, None),
    ],
)
def test_shapes_that_do_not_fit(inputs: Sequence[Any], attributes: dict[str, Any], message: str | None):
    proto, given = model("QuantizeLinear", *inputs, **attributes)
    if message is None:  # an axis that nothing uses
        run_mlopt(proto, given)
        return
    with pytest.raises(InputError, match=message):
        run_mlopt(proto, given)


# Integers of 4 and 2 bits, which onnxruntime does not hand out, and scales that are powers of two: by hand


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        # x / 0.5 rounded to even is 0, 2, -2, 7, -9, 20, -20, and NaN is the lowest number.
        (ml_dtypes.int4, [0, 2, -2, 7, -8, 7, -8, -8]),
        (ml_dtypes.uint4, [0, 2, 0, 7, 0, 15, 0, 0]),
        (ml_dtypes.int2, [0, 1, -2, 1, -2, 1, -2, -2]),
        (ml_dtypes.uint2, [0, 2, 0, 3, 0, 3, 0, 0]),
    ],
)
@pytest.mark.parametrize("by_attribute", [False, True])
def test_integers_of_less_than_a_byte_saturate(dtype: type, want: list[int], by_attribute: bool):
    x = f32(0.2, 0.75, -1.25, 3.5, -4.5, 10, -10, np.nan)
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    operands = (x, f32(0.5)) if by_attribute else (x, f32(0.5), np.array(0, dtype))
    attributes = {"output_dtype": number} if by_attribute else {}
    found = result("QuantizeLinear", *operands, opset=25, **attributes)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.int32), want)


def test_zero_points_of_four_bits():
    x, scale, zero = f32(-4, -3, 0, 3, 4), f32(1), np.array(-5, ml_dtypes.int4)
    found = result("QuantizeLinear", x, scale, zero, opset=21)
    np.testing.assert_array_equal(found.astype(np.int32), [-8, -8, -5, -2, -1])
    back = result("DequantizeLinear", found, scale, zero, opset=21)
    np.testing.assert_array_equal(back, [-3, -3, 0, 3, 4])


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint2])
def test_blocks_of_integers_of_less_than_a_byte(dtype: type):
    """Six numbers in blocks of 4 and what is left, along axis 1."""
    x = np.array([[1, 0, 1, 0, 1, 1], [0, 1, 1, 0, 0, 1]], dtype)
    scale, zero = np.array([[2, 3], [4, 5]], np.float32), np.array([[1, 0], [0, 1]], dtype)
    found = result("DequantizeLinear", x, scale, zero, opset=25, axis=1, block_size=4)
    np.testing.assert_array_equal(found, [[0, -2, 0, -2, 3, 3], [0, 4, 4, 0, -5, 0]])


@pytest.mark.parametrize("output", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_scales_that_are_powers_of_two(output: int):
    """As microscaling formats have them, one for each block; 2^-20 is below the normal numbers of f16."""
    x = np.array([[1, 2, -3, 4]], ml_dtypes.float4_e2m1fn)
    scale = np.array([[2.0**-20, 2]]).astype(ml_dtypes.float8_e8m0fnu)
    found = result("DequantizeLinear", x, scale, opset=25, axis=1, block_size=2, output_dtype=output)
    assert found.dtype == helper.tensor_dtype_to_np_dtype(output)
    want = np.array([[2.0**-20, 2.0**-19, -6, 8]], found.dtype)
    np.testing.assert_array_equal(found, want)
    wide = np.array([[2.0**-20, 2.0**-19, -6, 8]], np.float32)
    again = result(
        *("QuantizeLinear", wide, scale), opset=25, axis=1, block_size=2, output_dtype=TensorProto.FLOAT4E2M1
    )
    np.testing.assert_array_equal(again, x)


def test_a_scale_of_powers_of_two_is_no_type_of_the_result():
    proto, given = model("DequantizeLinear", np.int8(3), np.array(2, ml_dtypes.float8_e8m0fnu), opset=25)
    with pytest.raises(InputError, match="expected a result of f16, bf16 or f32 elements, found f8E8M0FNU"):
        run_mlopt(proto, given)


def test_two_types_for_the_result():
    proto, given = model("QuantizeLinear", X, f32(1), np.int8(0), output_dtype=TensorProto.UINT8)
    with pytest.raises(InputError, match="expected output_dtype i8 as the zero point has it, found ui8"):
        run_mlopt(proto, given)


def test_types_without_a_form():
    proto, given = model("QuantizeLinear", X, f32(1), output_dtype=TensorProto.STRING)
    with pytest.raises(UnsupportedError, match="with output_dtype string"):
        run_mlopt(proto, given)
    proto, given = model("QuantizeLinear", X, np.int32(2), np.int8(0), opset=23)
    with pytest.raises(UnsupportedError, match="a scale tensor<i32> is not supported"):
        run_mlopt(proto, given)


def test_products_of_small_floats():
    """The standard has them; cast to i32 their sums would lose what is behind the point."""
    a, zero = np.ones((2, 2), ml_dtypes.float8_e4m3fn), np.array(0, ml_dtypes.float8_e4m3fn)
    proto, given = model("QLinearMatMul", a, f32(1), zero, a, f32(1), zero, f32(1), zero)
    with pytest.raises(UnsupportedError, match="a product of tensor<2x2xf8E4M3FN> is not supported"):
        run_mlopt(proto, given)


def test_scales_of_the_wrong_shape_in_products():
    a, b = numbers(np.uint8, 2, 3), numbers(np.uint8, 3, 4)
    two, zero = np.ones((1, 2), np.float32), np.uint8(0)
    image, weight = numbers(np.uint8, 1, 1, 3), numbers(np.uint8, 2, 1, 1)
    for proto, given in (
        model("QLinearConv", image, two, zero, weight, f32(1), zero, f32(1), zero),
        model("QLinearConv", image, f32(1), zero, weight, two, zero, f32(1), zero),
        model("QLinearMatMul", a, f32(1), zero, b, f32(1, 2, 3), zero, f32(1), zero),
    ):
        with pytest.raises(InputError, match="expected"):
            run_mlopt(proto, given)
