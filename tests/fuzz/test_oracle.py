"""What the oracle says about programs of one node: the right value, and how far rounding may move it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import helper

from tests.fuzz.oracle import NoValue, evaluate_step
from tests.fuzz.program import Array, Value

F32_EPS = float(np.finfo(np.float32).eps)


def value(name: str, *arrays: Array, error: float = 0.0) -> Value:
    return Value(name, arrays, "input", error)


def evaluated(op_type: str, operands: Sequence[Value], **attributes: object) -> tuple[Array, float]:
    """The result of a node in its only run, and its error."""
    node = helper.make_node(op_type, [operand.name for operand in operands], ["y"], "n", **attributes)
    (found,), (error,) = evaluate_step(node, operands, 21, 1)
    return found[0], error


@pytest.mark.parametrize("op_type", ["InstanceNormalization", "GroupNormalization"])
def test_norms_of_one_number(op_type: str) -> None:
    """The difference from the mean is 0, but computed as x * a + (b - mean * a): with a = 1 / sqrt(1e-5) = 316."""
    x = value("x", np.array([[[10.3]]], np.float32))
    one, bias = value("s", np.ones(1, np.float32)), value("b", np.array([0.1], np.float32))
    attributes = {"num_groups": 1} if op_type == "GroupNormalization" else {}
    found, error = evaluated(op_type, [x, one, bias], **attributes)
    assert error == pytest.approx(2 * F32_EPS * 10.3 * 1e5**0.5, rel=1e-3)
    assert abs(found.item() - 0.1) <= error


def test_powers_of_negative_numbers() -> None:
    """An exponent that is exact is not moved: (-3) ** 2.0001 would be no number."""
    found, error = evaluated(
        "Pow",
        [value("x", np.array([-3, 2], np.float32)), value("e", np.float32(2) * np.ones((), np.float32))],
    )
    assert found.tolist() == [9, 4]
    assert 0 < error < 100 * F32_EPS


def test_comparison_of_numbers_that_may_be_equal() -> None:
    """1 and 1 + 1e-6 are equal, or not, if one of them may be off by 1e-6."""
    a, b = np.ones(2, np.float32), np.array([1 + 1e-6, 2], np.float32)
    assert evaluated("Equal", [value("a", a), value("b", b)])[0].tolist() == [False, False]
    with pytest.raises(NoValue):
        evaluated("Equal", [value("a", a, error=1e-6), value("b", b)])


def test_test_of_a_number_that_may_be_zero() -> None:
    """1e-7 is true, but may be 0."""
    x = np.array([1e-7, 1], np.float32)
    assert evaluated("Cast", [value("x", x)], to=9)[0].tolist() == [True, True]
    with pytest.raises(NoValue):
        evaluated("Cast", [value("x", x, error=1e-7)], to=9)


def test_single_precision_of_onnxruntime() -> None:
    """Shrink of doubles: -0.75996885 + 1 in double precision; the error allows for single precision."""
    found, error = evaluated("Shrink", [value("x", np.array(-0.75996885))], bias=1.0)
    assert found == 1 - 0.75996885
    assert 1e-8 < error < 1e-7


def test_functions_that_are_defined_by_an_exponential() -> None:
    """exp(x) - 1 has the roundings of a number of size 1, however small it is."""
    x = np.array([-1e-4], np.float32)
    found, error = evaluated("Elu", [value("x", x)])
    assert abs(found.item() - np.expm1(-1e-4)) <= F32_EPS
    assert error >= 2 * F32_EPS


@pytest.mark.parametrize("op_type", ["Gelu", "Swish", "Mish"])
def test_functions_that_are_gates(op_type: str) -> None:
    """x * gate(x): a gate of 1e-7 is the difference of two numbers of size 1, of which each is off by its rounding."""
    x = value("x", np.array([-5.2], np.float32))
    node = helper.make_node(op_type, ["x"], ["y"], "n")
    (found,), (error,) = evaluate_step(node, [x], 24, 1)
    assert abs(found[0].item()) < 0.05
    assert error >= 2 * F32_EPS * 5.2


@pytest.mark.parametrize("distance", [0.1, 0.5, 1.0])
def test_numbers_of_one_tensor_that_may_be_equal(distance: float) -> None:
    """Two numbers that are nearer than what they may be off, wherever they lie, may be one to `Unique`."""
    error = 1e-6
    for low in np.linspace(1, 1 + 16 * error, 33):
        x = np.array([low, low + distance * error])
        with pytest.raises(NoValue):
            evaluated("Unique", [value("x", x, error=error)])
