"""Casts between all element types, and quantization to 4 and 2 bits: the kernel level gives what the evaluation does.

What the evaluation gives is stated in `tests/interpreter/test_graph_narrow_types.py`.
"""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import i8

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_tiny_float
from mlopt.ir.dtypes import from_numpy_dtype
from mlopt.weights.sub_byte import WIDTHS, extended
from tests.kernel_level import assert_same, converted, module_of

SUB_BYTE = (ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4)
TINY_FLOATS = (
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz),
    *(ml_dtypes.float8_e8m0fnu, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn),
)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
TYPES = (np.bool_, *SUB_BYTE, *TINY_FLOATS, *INTEGERS, *FLOATS)
NUMBERS = (
    *(0, -0.0, 0.5, 1, 1.5, -1.5, 2.5, 3, 6, 7.5, -7.9, -8, -9, 15, 16, 100.7, 3e4, -3e9, 1e30),
    *(np.inf, -np.inf, np.nan, 2.0**-127, 1.4e-39, 1e-7),
)


def values(dtype: type) -> np.ndarray:
    """Every number of a small type; of a large one what casts get wrong first."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return np.array([False, True])
    if kind.itemsize == 1:
        return extended(np.arange(1 << WIDTHS.get(kind, 8), dtype=np.uint8).view(kind))
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            return np.array(NUMBERS).astype(kind)
    info = np.iinfo(kind)
    return np.array([info.min, info.max, 0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 100], kind)


@pytest.mark.parametrize("target", TYPES)
def test_casts_from_every_type(target: type) -> None:
    element = from_numpy_dtype(np.dtype(target))
    modes = ("up", "down", "nearest") if target is ml_dtypes.float8_e8m0fnu else (None,)
    for source, mode, saturate in product(TYPES, modes, (False, True)):
        if saturate and not is_tiny_float(element):
            continue
        assert_same(
            lambda x, mode=mode, saturate=saturate: graph.CastOp(
                x, element, saturate=saturate, round_mode=mode
            ),
            *(values(source),),
            rtol=0,
            atol=0,
        )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target", SUB_BYTE)
def test_quantize(target: type, dtype: type) -> None:
    element = from_numpy_dtype(np.dtype(target))
    x = values(dtype)
    scale = np.array([[1], [0.3], [0]], dtype) * np.ones_like(x)
    x = np.broadcast_to(x, scale.shape)
    zero = np.array([[0], [1], [1]], target)
    assert_same(lambda x, s, z: graph.QuantizeOp(x, s, z, element), x, scale, zero, rtol=0, atol=0)
    for number in (0, 1):
        operands = (x, scale, np.array(number, target))
        assert_same(
            lambda x, s, z: graph.QuantizeOp(x, s, z, element), *operands, constants=[2], rtol=0, atol=0
        )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("source", SUB_BYTE)
def test_dequantize(source: type, dtype: type) -> None:
    x = np.stack([values(source)] * 2)
    scale, zero = np.array([[0.3], [-2]], dtype), values(source)[:2, None]
    assert_same(graph.DequantizeOp, x, scale, zero, rtol=0, atol=0)
    assert_same(graph.DequantizeOp, x, scale, rtol=0, atol=0)
    assert_same(graph.DequantizeOp, x, scale, np.array(values(source)[-1]), constants=[2], rtol=0, atol=0)


@pytest.mark.parametrize("dtype", SUB_BYTE)
def test_they_move_as_bytes(dtype: type) -> None:
    """Transposes, gathers, paddings and selections of them are those of i8, constants included."""
    x = np.resize(values(dtype), (3, 4))
    assert_same(lambda x: graph.TransposeOp(x, [1, 0]), x)
    assert_same(graph.GatherOp, x, np.array([2, -3]), constants=[0])
    assert_same(graph.WhereOp, np.array([True, False, True, False]), x, x[:1])
    kernels = converted(module_of(lambda x: graph.TransposeOp(x, [1, 0]), [x]))
    types = {value.type.element_type for op in kernels.walk() for value in op.results}
    assert types == {i8}


def test_a_cast_to_a_type_that_holds_every_number_is_nothing() -> None:
    """The byte of a small integer is already the wider one."""
    for source, target in ((ml_dtypes.int4, np.int8), (ml_dtypes.uint2, ml_dtypes.int4)):
        element = from_numpy_dtype(np.dtype(target))
        kernels = assert_same(lambda x, element=element: graph.CastOp(x, element), values(source))
        assert [op.name for op in kernels.walk()] == ["builtin.module", "func.func", "func.return"]
