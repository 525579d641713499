"""`fuse-gelu`: every way of writing it, near misses, and its corners, against onnxruntime without optimisation."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import ml_dtypes
import numpy as np
import pytest

from tests.passes.graph.chains import Chain

RNG = np.random.default_rng(0)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -5.0, 5.0, 30.0, -30.0]


def values(dtype: type = np.float32) -> np.ndarray:
    numbers: np.ndarray = np.concatenate([RNG.standard_normal(14) * 3, SPECIAL])
    return np.asarray(numbers.reshape(2, 12), dtype)


def erf_of(c: Chain, x: str) -> str:
    return c("Erf", c("Div", x, sqrt(2)))


ERF_FORMS: dict[str, Callable[[Chain, str], str]] = {
    "torch": lambda c, x: c("Mul", x, c("Mul", 0.5, c("Add", erf_of(c, x), 1.0))),
    "half first": lambda c, x: c("Mul", c("Mul", x, 0.5), c("Add", 1.0, erf_of(c, x))),
    "half last": lambda c, x: c("Mul", c("Mul", x, c("Add", erf_of(c, x), 1.0)), 0.5),
    "half before": lambda c, x: c("Mul", 0.5, c("Mul", c("Add", erf_of(c, x), 1.0), x)),
    "divided by two": lambda c, x: c("Div", c("Mul", x, c("Add", erf_of(c, x), 1.0)), 2.0),
    "factor inside": lambda c, x: c("Mul", x, c("Add", c("Mul", erf_of(c, x), 0.5), 0.5)),
    "as a sum": lambda c, x: c("Mul", c("Add", c("Mul", x, erf_of(c, x)), x), 0.5),
    "reciprocal root": lambda c, x: c(
        "Mul", c("Mul", 0.5, x), c("Add", c("Erf", c("Mul", 1 / sqrt(2), x)), 1.0)
    ),
}


def cube(c: Chain, x: str) -> str:
    return c("Mul", c("Mul", x, x), x)


def tanh_gelu(c: Chain, x: str, inner: str) -> str:
    return c("Mul", c("Mul", x, 0.5), c("Add", c("Tanh", inner), 1.0))


TANH_FORMS: dict[str, Callable[[Chain, str], str]] = {
    "power": lambda c, x: tanh_gelu(
        c, x, c("Mul", c("Add", x, c("Mul", c("Pow", x, 3.0), 0.044715)), sqrt(2 / pi))
    ),
    "products": lambda c, x: tanh_gelu(
        c, x, c("Mul", sqrt(2 / pi), c("Add", c("Mul", 0.044715, cube(c, x)), x))
    ),
    "factored": lambda c, x: tanh_gelu(
        c,
        x,
        c("Mul", c("Mul", x, sqrt(2 / pi)), c("Add", 1.0, c("Mul", 0.044715, c("Mul", x, x)))),
    ),
    "multiplied out": lambda c, x: tanh_gelu(
        c, x, c("Mul", x, c("Add", c("Mul", c("Mul", x, x), 0.044715 * sqrt(2 / pi)), sqrt(2 / pi)))
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", ERF_FORMS)
def test_erf_forms(form: str, dtype: type) -> None:
    chain = Chain(x=values(dtype))
    outcome = chain.check(ERF_FORMS[form](chain, "x"), passes="fuse-gelu")
    assert outcome.ops == {"gelu": 1}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", TANH_FORMS)
def test_tanh_forms(form: str, dtype: type) -> None:
    chain = Chain(x=values(dtype))
    outcome = chain.check(TANH_FORMS[form](chain, "x"), passes="fuse-gelu")
    assert outcome.ops == {"gelu": 1}
    assert "in its tanh form" in outcome.passed[0]


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 0)])
def test_any_shape(shape: tuple[int, ...]) -> None:
    chain = Chain(x=np.ones(shape, np.float32))
    assert chain.check(ERF_FORMS["half last"](chain, "x"), passes="fuse-gelu").ops == {"gelu": 1}


def test_numbers_of_the_shape_of_x_on_either_side() -> None:
    x = values()
    full = {number: np.full(x.shape, number, np.float32) for number in (0.5, 1.0, 1 / sqrt(2))}
    chain = Chain(x=x)
    erf = chain("Erf", chain("Mul", full[1 / sqrt(2)], "x"))
    y = chain("Mul", chain("Mul", full[0.5], chain("Add", full[1.0], erf)), "x")
    assert chain.check(y, passes="fuse-gelu").ops == {"gelu": 1}


def test_x_is_computed_by_arithmetic_too() -> None:
    """x is the product by 3, not what that is of; nor is the half of x, which is used twice."""
    chain = Chain(x=values())
    x = chain("Mul", "x", 3.0)
    half = chain("Mul", x, 0.5)
    y = chain("Mul", half, chain("Add", chain("Erf", chain("Mul", half, sqrt(2))), 1.0))
    assert chain.check(y, passes="fuse-gelu").ops == {"mul": 1, "gelu": 1}


def test_two_in_a_row() -> None:
    chain = Chain(x=values())
    first = ERF_FORMS["torch"](chain, "x")
    second = TANH_FORMS["power"](chain, first)
    assert chain.check(second, passes="fuse-gelu").ops == {"gelu": 2}


@pytest.mark.parametrize(
    ("factor", "shift", "divisor", "why"),
    [
        (0.6, 1.0, sqrt(2), "the factor of 'erf' (n1) is 0.6, not 0.5"),
        (0.5, 1.1, sqrt(2), "the factor of 'erf' (n1) is 0.55, not 0.5"),
        (0.5, 1.0, 1.4142, "the argument of 'erf' (n1) is not x / sqrt(2)"),
        (0.5, 1.0, -sqrt(2), "the argument of 'erf' (n1) is not x / sqrt(2)"),
    ],
)
def test_other_numbers_are_no_gelu(factor: float, shift: float, divisor: float, why: str) -> None:
    chain = Chain(x=values())
    erf = chain("Erf", chain("Div", "x", divisor))
    y = chain("Mul", chain("Mul", "x", chain("Add", erf, shift)), factor)
    outcome = chain.check(y, chain("Relu", y), passes="fuse-gelu")
    assert "gelu" not in outcome.ops
    assert outcome.missed == [f"not fused: {why}"]


def test_another_cube_is_no_gelu() -> None:
    chain = Chain(x=values())
    inner = chain("Mul", chain("Add", "x", chain("Mul", cube(chain, "x"), 0.045)), sqrt(2 / pi))
    outcome = chain.check(tanh_gelu(chain, "x", inner), passes="fuse-gelu")
    assert "gelu" not in outcome.ops
    assert outcome.missed == ["not fused: the argument of 'tanh' (n6) is not that of a gelu"]


def test_a_function_of_something_else_is_no_gelu() -> None:
    chain = Chain(x=values(), z=values())
    erf = chain("Erf", chain("Div", "z", sqrt(2)))
    y = chain("Mul", chain("Mul", "x", chain("Add", erf, 1.0)), 0.5)
    outcome = chain.check(y, passes="fuse-gelu")
    assert "gelu" not in outcome.ops
    assert not outcome.missed


@pytest.mark.parametrize("inner", [0, 1, 2, 3])
def test_inner_values_that_are_outputs_stay(inner: int) -> None:
    chain = Chain(x=values())
    y = ERF_FORMS["half last"](chain, "x")
    outcome = chain.check(y, f"v{inner}", passes="fuse-gelu")
    assert "gelu" not in outcome.ops
    assert outcome.missed[0].endswith(f"(n{inner}) is also a graph output")


def test_a_constant_that_enlarges_x() -> None:
    chain = Chain(x=values())
    y = chain("Mul", ERF_FORMS["half first"](chain, "x"), np.full((3, 1, 1), 2, np.float32))
    assert chain.check(y, passes="fuse-gelu").ops == {"gelu": 1, "mul": 1}
    chain = Chain(x=values())
    y = chain(
        "Mul", chain("Mul", "x", chain("Add", erf_of(chain, "x"), 1.0)), np.full((3, 1, 1), 0.5, np.float32)
    )
    outcome = chain.check(y, passes="fuse-gelu")
    assert "gelu" not in outcome.ops
    assert "a constant enlarges tensor<2x12xf32> to tensor<3x2x12xf32>" in outcome.missed[0]
