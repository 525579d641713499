"""What casts to and from types of few bits give, stated by hand: ONNX Cast, version 25, and its tables."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlopt.dialects import graph
from mlopt.ir.dtypes import from_numpy_dtype
from tests.graph_values import evaluate_checked, value_of

E8M0 = ml_dtypes.float8_e8m0fnu
LARGEST, SMALLEST = 2.0**127, 2.0**-127


def cast(x: np.ndarray, dtype: type, **options: object) -> np.ndarray:
    op = graph.CastOp(value_of(x), from_numpy_dtype(np.dtype(dtype)), **options)
    (result,) = evaluate_checked(op, x)
    return result


@pytest.mark.parametrize(
    ("target", "want"),
    [
        # The low bits of -9, -8, -1, 0, 7, 8, 15, 16 and 200.
        (ml_dtypes.int4, [7, -8, -1, 0, 7, -8, -1, 0, -8]),
        (ml_dtypes.uint4, [7, 8, 15, 0, 7, 8, 15, 0, 8]),
        (ml_dtypes.int2, [-1, 0, -1, 0, -1, 0, -1, 0, 0]),
        (ml_dtypes.uint2, [3, 0, 3, 0, 3, 0, 3, 0, 0]),
    ],
)
@pytest.mark.parametrize(
    "source", [np.int16, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
)
def test_integers_of_less_than_a_byte_wrap(target: type, want: list[int], source: type) -> None:
    x = np.array([-9, -8, -1, 0, 7, 8, 15, 16, 200], source)
    np.testing.assert_array_equal(cast(x, target).astype(np.int32), want)


def test_fractions_are_cut_off_and_what_is_no_number_is_0() -> None:
    x = np.array([1.9, -1.9, 2.5, np.nan, np.inf, -np.inf], np.float32)
    # Infinities are the largest and smallest i32 first, whose low bits are 1111 and 0000.
    np.testing.assert_array_equal(cast(x, ml_dtypes.int4).astype(np.int32), [1, -1, 2, 0, -1, 0])


@pytest.mark.parametrize("target", [ml_dtypes.int2, ml_dtypes.uint4])
def test_from_bool_and_to_bool(target: type) -> None:
    np.testing.assert_array_equal(cast(np.array([True, False]), target).astype(np.int32), [1, 0])
    np.testing.assert_array_equal(cast(np.array([1, 0], target), np.bool_), [True, False])


@pytest.mark.parametrize(
    ("source", "target", "want"),
    [
        (ml_dtypes.int4, ml_dtypes.uint4, [8, 15, 0, 7]),
        (ml_dtypes.int4, np.uint8, [248, 255, 0, 7]),
        (ml_dtypes.int4, np.int64, [-8, -1, 0, 7]),
        (ml_dtypes.int4, ml_dtypes.int2, [0, -1, 0, -1]),
        (ml_dtypes.int4, ml_dtypes.float8_e4m3fn, [-8, -1, 0, 7]),
        (ml_dtypes.int4, ml_dtypes.float4_e2m1fn, [-6, -1, 0, 6]),  # saturates: there are no infinities
    ],
)
def test_from_four_bits(source: type, target: type, want: list[int]) -> None:
    found = cast(np.array([-8, -1, 0, 7], source), target)
    np.testing.assert_array_equal(found.astype(np.float32), want)


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("up", [2, 2, 2, 4, 0.125, LARGEST]),
        ("down", [1, 1, 2, 2, 0.0625, LARGEST]),
        ("nearest", [1, 2, 2, 4, 0.125, LARGEST]),  # 1.5 and 3 are ties, which go up
    ],
)
def test_rounding_to_powers_of_two(mode: str, want: list[float]) -> None:
    x = np.array([1.25, 1.5, 2, 3, 0.124, LARGEST])
    for dtype in (np.float64, np.float32):
        found = cast(x.astype(dtype), E8M0, round_mode=mode, saturate=True)
        np.testing.assert_array_equal(found.astype(np.float64), want)


def test_rounding_up_sees_the_last_bit_of_f64() -> None:
    x = np.array([np.nextafter(2, 3), np.nextafter(2, 1)])
    np.testing.assert_array_equal(cast(x, E8M0).astype(np.float64), [4, 2])


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_what_is_out_of_range_for_powers_of_two(mode: str) -> None:
    """The table of ONNX Cast: with saturation 0 and infinity are the ends of the range, otherwise NaN."""
    x = np.array([0, -0.0, np.inf, 2.0**128, 2.0**-130, np.nan, -1, -np.inf])
    nan = np.nan
    for saturate, want in (
        (True, [SMALLEST, SMALLEST, LARGEST, LARGEST, SMALLEST, nan, nan, nan]),
        (False, [nan] * 8),
    ):
        found = cast(x, E8M0, round_mode=mode, saturate=saturate).astype(np.float64)
        np.testing.assert_array_equal(found, want)


def test_the_smallest_power_of_two_is_no_zero() -> None:
    x = np.array([0, 255, 127], np.uint8).view(E8M0)
    np.testing.assert_array_equal(cast(x, np.bool_), [True, True, True])
    np.testing.assert_array_equal(cast(x, np.float32), [SMALLEST, np.nan, 1])


def test_saturation_of_the_same_type() -> None:
    """The infinity of f8E5M2 becomes the largest number although the type stays."""
    x = np.array([np.inf, -np.inf, np.nan, 1], ml_dtypes.float8_e5m2)
    found = cast(x, ml_dtypes.float8_e5m2, saturate=True).astype(np.float32)
    np.testing.assert_array_equal(found, [57344, -57344, np.nan, 1])
