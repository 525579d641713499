"""What the oracle says about programs of one node: the right value, and how far rounding may move it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

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


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1)])
@pytest.mark.parametrize("op_type", ["ReduceL1", "ReduceSum"])
def test_sums_of_numbers_that_are_off_alike(op_type: str, signs: tuple[int, int]) -> None:
    """A sum is off by as much as both numbers together, whichever way they are."""
    x = value("x", np.array(signs) * np.array([0.3, 0.4]), error=1e-4)
    assert evaluated(op_type, [x, value("axes", np.array([0]))])[1] >= 2e-4


def test_remainder_of_a_division_by_what_may_be_zero() -> None:
    """3 mod 1e-7 is less than 1e-7, but no number if the divisor is 0."""
    x, divisor = value("x", np.array([3.0, 4])), np.array([1e-7, 3])
    assert evaluated("Mod", [x, value("d", divisor)], fmod=1)[0][1] == 1
    with pytest.raises(NoValue):
        evaluated("Mod", [x, value("d", divisor, error=1e-7)], fmod=1)


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_logarithms_beside_special_numbers(special: float) -> None:
    """By the definition all are NaN; onnxruntime says so of single precision."""
    x = np.array([1, special, 2], np.float32)
    assert np.isnan(evaluated("LogSoftmax", [value("x", x)])[0]).all()
    with pytest.raises(NoValue):
        evaluated("LogSoftmax", [value("x", x.astype(np.float64))])


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


@pytest.mark.parametrize("stash", [1, 11])
def test_variances_that_are_differences_of_squares(stash: int) -> None:
    """Where numbers are near each other, onnxruntime loses digits in single precision, and the right value does not."""
    numbers = np.array([0.9912, 1.0107, 3, 5], np.float32)
    rows = numbers.astype(np.float64).reshape(2, 2)
    want = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-9)
    operands = [number("x", numbers.reshape(1, 4, 1, 1)), number("s", np.ones(4)), number("b", np.zeros(4))]
    found, error = evaluated("GroupNormalization", operands, num_groups=2, epsilon=1e-9, stash_type=stash)
    np.testing.assert_allclose(found.reshape(2, 2), want, rtol=F32_EPS)
    largest = float(np.max(numbers[:2])) / float(rows[0].std())
    assert error >= 2 * F32_EPS * largest
    assert (error > 5e-5) == (stash == 1)


def test_mean_and_variance_of_numbers_that_are_equal() -> None:
    """Zeros give 0, where onnxruntime has 0 / 0; of other equal numbers, rounding decides whether something is left."""
    x = np.array([[0, 0, 0], [2, 1, 0]], np.float32).reshape(1, 2, 3, 1)
    found, error = evaluated("MeanVarianceNormalization", [value("x", x)])
    want = np.array([0, 0, 0, 1.5**0.5, 0, -(1.5**0.5)])
    np.testing.assert_allclose(found.ravel(), want, rtol=F32_EPS)
    over_deviation = 2 / (2 / 3) ** 0.5
    assert 2 * F32_EPS * over_deviation < error < 20 * F32_EPS
    with pytest.raises(NoValue):
        evaluated("MeanVarianceNormalization", [value("x", x + np.float32(0.3))])


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


def off(array: object, error: float = 1e-6, name: str = "x") -> Value:
    """A double-precision operand that may be off by `error`."""
    return value(name, np.asarray(array, np.float64), error=error)


SEVEN = np.arange(7.0)
PAIRS = [*combinations(range(7), 2)]


@pytest.mark.parametrize("distance", [0.0, 1e-7, 1e-6, 2e-6])
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin", "Hardmax", "Unique", "TopK", "MaxPool"])
def test_any_two_elements_of_which_rounding_decides(op_type: str, distance: float) -> None:
    """Wherever two stand that lie nearer together than what they may be off, their order has no right value."""
    axis = {} if op_type in ("Unique", "MaxPool") else {"axis": 0}
    for first, second in PAIRS:
        x = -SEVEN if op_type == "ArgMin" else SEVEN.copy()
        x[first], x[second] = (x[6] + (-5 if op_type == "ArgMin" else 5),) * 2
        x[second] += distance
        operands = [off(x)]
        outputs = ["y"]
        if op_type == "TopK":
            operands.append(Value("k", (np.array([7]),), "constant", structural=True))
            outputs = ["", "y"]
        if op_type == "MaxPool":
            operands, outputs, axis = [off(x[None, None])], ["y", "i"], {"kernel_shape": [7]}
        node = helper.make_node(op_type, [operand.name for operand in operands], outputs, "n", **axis)
        with pytest.raises(NoValue):
            evaluate_step(node, operands, 21, 1)


@pytest.mark.parametrize("distance", [0.0, 1e-7, 1e-6, 2e-6])
@pytest.mark.parametrize("op_type", ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"])
def test_any_two_operands_of_which_rounding_decides(op_type: str, distance: float) -> None:
    for index, sign in product(range(7), (1, -1)):
        y = SEVEN + 10
        y[index] = SEVEN[index] + sign * distance
        with pytest.raises(NoValue):
            evaluated(op_type, [off(SEVEN), off(y, name="y")])


@pytest.mark.parametrize(
    ("op_type", "at", "attributes"),
    [
        ("Floor", 2.0, {}),
        ("Ceil", 2.0, {}),
        ("Round", 2.5, {}),
        ("Sign", 0.0, {}),
        ("NonZero", 0.0, {}),
        ("Cast", 2.0, {"to": 7}),
        ("ThresholdedRelu", 1.0, {"alpha": 1.0}),
    ],
)
def test_any_element_that_rounding_decides(op_type: str, at: float, attributes: dict[str, object]) -> None:
    for index, distance in product(range(7), (0.0, 1e-6, -1e-6)):
        x = SEVEN + 10.3
        x[index] = at + distance
        with pytest.raises(NoValue):
            evaluated(op_type, [off(x)], **attributes)


def test_remainders_of_numbers_that_may_be_off() -> None:
    """What remains of 6 divided by 2 is 0, or nearly 2."""
    for x, y in ((6.0, 2.0), (1.0, 1.0), (-3.0, 1.5)):
        with pytest.raises(NoValue):
            evaluated("Mod", [off([x]), off([y], name="y")], fmod=1)


def test_window_of_numbers_that_are_equal_but_for_rounding() -> None:
    """0.54 - 0.46 * cos(2 * pi / 3) and the same of 4 * pi / 3: one number to `Unique`, or two."""
    size = Value("n", (np.array(3),), "constant", structural=True)
    node = helper.make_node("HammingWindow", ["n"], ["w"], "n")
    ((window,),), (error,) = evaluate_step(node, [size], 21, 1)
    assert window[1] == window[2]
    with pytest.raises(NoValue):
        evaluated("Unique", [value("w", window, error=error)])


def test_both_factors_may_be_off_in_any_direction() -> None:
    """(3 + 1e-6) * (2 + 1e-6) is off by 5e-6, not by nothing as (3 + 1e-6) * (2 - 1e-6) nearly is."""
    for x, y in product((3.0, -3.0), (2.0, -2.0)):
        error = evaluated("Mul", [off([x]), off([y], name="y")])[1]
        assert 4 * 5e-6 <= error <= 4.1 * 5e-6
        assert evaluated("Div", [off([x]), off([y], name="y")])[1] >= 4 * 1.24e-6


ONE = np.ones(1, np.float32)


def number(name: str, x: object) -> Value:
    return value(name, np.asarray(x, np.float32))


CANCELLING = {
    "MatMul": ([number("a", [[100, -99]]), number("b", [[1], [1]])], {}, 199.0),
    "Gemm": ([number("a", [[100]]), number("b", [[1]]), number("c", [[49]])], {"beta": -2.0}, 198.0),
    "Conv": ([number("x", [[[100, -99]]]), number("w", [[[1, 1]]])], {}, 199.0),
    "ReduceSum": ([number("x", [100, -99])], {}, 199.0),
    "ReduceMean": ([number("x", [100, -98])], {}, 99.0),
    "BatchNormalization": (
        [
            *(number(name, [[100]] if name == "x" else [100 if name == "m" else 1]) for name in "xsbm"),
            value("v", ONE),
        ],
        {"epsilon": 0.0},
        201.0,
    ),
    "LayerNormalization": ([number("x", [[99, 101]]), number("s", [1, 1]), number("b", [5, -7])], {}, 108.0),
    "RotaryEmbedding": (
        [number("x", [[[[100, 100]]]]), number("c", [[[1]]]), number("s", [[[1]]])],
        {},
        100.0,
    ),
    "ReduceLogSum": ([number("x", [100, -98.99])], {}, 198.99 / 1.01),
    "ReduceLogSumExp": ([number("x", [0.0, -18.0])], {}, 1.0),
    "LogSoftmax": ([number("x", [0.0])], {}, 1.0),
    "HardSwish": ([number("x", [-2.9])], {}, 3.0),
    "HardSigmoid": ([number("x", [-2.4])], {}, 1.5),
    "Gelu": ([number("x", [-100])], {}, 100.0),
    "Det": ([number("x", [[3, 4], [6, 8.5]])], {}, 52.0),
    "GridSample": ([number("x", [[[[100, -98]]]]), number("g", [[[[0, 0]]]])], {}, 200.0),
    "Attention": (
        [
            number(name, [[[[100, -100]], [[0, 0]]]] if name == "q" else [[[[1, 1]], [[1, 1]]]])
            for name in "qkv"
        ],
        {"scale": 1.0},
        1 + 2 * 200.0,
    ),
}
"""Operands whose terms nearly cancel, and the size of what is rounded in between."""


@pytest.mark.parametrize("op_type", CANCELLING)
def test_errors_are_relative_to_what_is_rounded_in_between(op_type: str) -> None:
    """However the terms are summed, a result is off by units in their last place, however small it is."""
    operands, attributes, size = CANCELLING[op_type]
    node = helper.make_node(op_type, [operand.name for operand in operands], ["y"], "n", **attributes)
    _, (error,) = evaluate_step(node, operands, 23, 1)
    assert 2 * F32_EPS * size <= error * 1.0001
    assert error < 30 * F32_EPS * size


def test_scores_that_are_hidden_do_not_count() -> None:
    """What -10000 does to a score that has no weight is nothing; a row of such scores is rounded as these are."""
    q, k, v = (number(name, np.ones((1, 1, 1, 2))) for name in "qkv")
    k, v = (number(operand.name, np.repeat(operand.arrays[0], 2, 2)) for operand in (k, v))

    def error(mask: Sequence[float]) -> float:
        node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"], "n")
        return evaluate_step(node, [q, k, v, number("m", [mask])], 23, 1)[1][0]

    assert error([0, -1e4]) < 40 * F32_EPS
    assert error([-1e4, -1e4]) > 1e4 * F32_EPS
