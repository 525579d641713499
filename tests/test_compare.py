"""The rule of `--check`: |got - want| <= A + R * M, with M the largest finite |want|."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlopt.compare import compare, compare_all

F32 = np.float32


def floats(*values: float) -> np.ndarray:
    return np.array(values, F32)


@pytest.mark.parametrize(
    ("got", "want", "passes"),
    [
        (floats(1, 2, 100.009), floats(1, 2, 100), True),  # 0.009 <= 1e-6 + 1e-4 * 100
        (floats(1, 2, 100.02), floats(1, 2, 100), False),
        (floats(0, 0.009), floats(0, 100), False),
        (floats(0.0000005), floats(0), True),  # the absolute part
        (floats(0.00001), floats(0), False),
        (floats(np.nan, 1), floats(np.nan, 1), True),
        (floats(1, 1), floats(np.nan, 1), False),
        (floats(np.nan, 1), floats(1, 1), False),
        (floats(np.inf, 1), floats(np.inf, 1), True),
        (floats(-np.inf, 1), floats(np.inf, 1), False),
        (floats(1e30, 1), floats(np.inf, 1), False),
        (floats(np.inf, 1), floats(1e30, 1), False),
        (floats(np.inf, 1.1), floats(np.inf, 1), False),  # M leaves out the infinity
        (floats(), floats(), True),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([2**53 + 1]), np.array([2**53]), False),
        (np.array([0, 255], np.uint8), np.array([255, 0], np.uint8), False),
        (np.array([True]), np.array([False]), False),
        (floats(1), np.array([1.0]), False),  # dtype
        (floats(1), floats(1).reshape(1, 1), False),  # shape
        (np.array([1, 1.001], ml_dtypes.bfloat16), np.array([1, 1], ml_dtypes.bfloat16), True),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 1], ml_dtypes.bfloat16), False),
        (np.array([1 + 1j]), np.array([1 + 1j]), True),
        (np.array([1 + 1j]), np.array([1 - 1j]), False),
    ],
)
def test_the_rule(got: np.ndarray, want: np.ndarray, passes: bool) -> None:
    assert compare("y", got, want).passed is passes


def test_numbers_that_numpy_warns_of() -> None:
    """A signalling NaN is one like others; a difference that overflows fails."""
    signalling = np.array([0x7FA00000], np.uint32).view(np.float32)
    assert compare("y", signalling, floats(np.nan)).passed
    assert not compare("y", signalling, floats(1)).passed
    largest = np.array([np.finfo(np.float64).max])
    assert not compare("y", largest, -largest).passed


def test_the_errors_are_those_of_the_worst_element() -> None:
    comparison = compare("y", floats(1, -4.5), floats(1, -4))
    assert comparison.max_abs_error == pytest.approx(0.5)
    assert comparison.max_rel_error == pytest.approx(0.125)
    assert comparison.reason is not None and "0.5" in comparison.reason


def test_integer_errors_do_not_wrap() -> None:
    comparison = compare("y", np.array([0], np.uint8), np.array([255], np.uint8))
    assert comparison.max_abs_error == 255


def test_tolerances_can_be_given() -> None:
    assert compare("y", floats(1.4), floats(1), rtol=0.5).passed
    assert compare("y", floats(1.4), floats(1), atol=0.5).passed


def test_outputs_without_a_reference_are_left_out() -> None:
    comparisons = compare_all({"a": floats(1), "b": floats(1)}, {"b": floats(2)})
    assert [comparison.name for comparison in comparisons] == ["b"]
