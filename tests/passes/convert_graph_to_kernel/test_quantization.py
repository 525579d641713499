"""Quantize and dequantize: the kernel-level form gives what the reference evaluation does, special values included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith

from mlopt.dialects import graph
from mlopt.ir.dtypes import from_numpy_dtype
from tests.kernel_level import assert_same

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
SMALL_FLOATS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn)
EDGES = (0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 65000, -65000, np.inf, -np.inf, np.nan, 0, -0.0, 1.3)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target", [*INTEGERS, *SMALL_FLOATS])
def test_quantize(target: type, dtype: type) -> None:
    element = from_numpy_dtype(np.dtype(target))
    x, scale = np.array(EDGES, dtype), np.array([[1], [0.3], [0]], dtype)
    scale, zero = scale * np.ones_like(x), np.array(0 if target in SMALL_FLOATS else 100, target)
    x = np.broadcast_to(x, scale.shape)
    assert_same(lambda x, s, z: graph.QuantizeOp(x, s, z, element), x, scale, zero, rtol=0, atol=0)
    assert_same(lambda x, s: graph.QuantizeOp(x, s, None, element), x, scale, rtol=0, atol=0)


@pytest.mark.parametrize("target", SMALL_FLOATS)
def test_quantize_to_small_floats_with_saturation(target: type) -> None:
    element = from_numpy_dtype(np.dtype(target))
    x, scale = np.array(EDGES, np.float32), np.array(0.5, np.float32)
    assert_same(lambda x, s: graph.QuantizeOp(x, s, None, element, saturate=True), x, scale, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("source", [*INTEGERS, np.int32])
def test_dequantize(source: type, dtype: type) -> None:
    info = np.iinfo(source)
    x = np.array([[info.min, info.min + 1, 0, 1, info.max - 1, info.max]] * 3, source)
    scale = np.array([[1], [0.3], [-2]], dtype)
    zero = np.array([[info.min], [3], [info.max]], source)
    assert_same(graph.DequantizeOp, x, scale, zero, rtol=0, atol=0)
    assert_same(graph.DequantizeOp, x, scale, rtol=0, atol=0)


@pytest.mark.parametrize("source", SMALL_FLOATS)
def test_dequantize_small_floats(source: type) -> None:
    x = np.array([0, 0.5, -1.5, 6], source)
    for dtype in FLOATS:
        assert_same(graph.DequantizeOp, x, np.array(0.3, dtype), rtol=0, atol=0)
        operands = (x, np.array(0.3, dtype), np.array(1, source))
        assert_same(graph.DequantizeOp, *operands, rtol=0, atol=0)
        assert_same(graph.DequantizeOp, *operands, constants=[1, 2], rtol=0, atol=0)


def test_a_scale_of_one_and_a_zero_point_of_zero_cost_nothing() -> None:
    element = from_numpy_dtype(np.dtype(np.int8))
    one, zero = np.array(1, np.float32), np.array(0, np.int8)
    kernels = assert_same(
        lambda x, s, z: graph.QuantizeOp(x, s, z, element),
        *(np.array(EDGES, np.float32), one, zero),
        constants=[1, 2],
    )
    assert not [op for op in kernels.walk() if isinstance(op, arith.DivfOp | arith.AddfOp | arith.SIToFPOp)]
    kernels = assert_same(graph.DequantizeOp, np.array([-128, 127], np.int8), one, zero, constants=[2])
    assert not [op for op in kernels.walk() if isinstance(op, arith.SubfOp)]
