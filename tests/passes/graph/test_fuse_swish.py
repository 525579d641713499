"""`fuse-swish`: every way of writing it, near misses, and its corners, against onnxruntime without optimisation."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.passes.graph.chains import Chain

RNG = np.random.default_rng(0)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -3.0, 3.0, 90.0, -90.0, 1e4, -1e4]
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def values(dtype: type = np.float32) -> np.ndarray:
    numbers: np.ndarray = np.concatenate([RNG.standard_normal(12) * 3, SPECIAL])
    return np.asarray(numbers.reshape(2, 12), dtype)


def one_over(c: Chain, exponent: str) -> str:
    return c("Div", 1.0, c("Add", c("Exp", exponent), 1.0))


SWISHES: dict[str, Callable[[Chain, str], str]] = {
    "x first": lambda c, x: c("Mul", x, c("Sigmoid", x)),
    "x last": lambda c, x: c("Mul", c("Sigmoid", x), x),
    "alpha": lambda c, x: c("Mul", x, c("Sigmoid", c("Mul", x, 1.702))),
    "negative alpha": lambda c, x: c("Mul", x, c("Sigmoid", c("Neg", c("Mul", 0.5, x)))),
    "quotient": lambda c, x: c("Div", x, c("Add", 1.0, c("Exp", c("Neg", x)))),
    "reciprocal": lambda c, x: c("Mul", x, c("Reciprocal", c("Add", 1.0, c("Exp", c("Mul", x, -1.702))))),
    "one over": lambda c, x: c("Mul", one_over(c, c("Neg", x)), x),
}

HARD_SWISHES: dict[str, Callable[[Chain, str], str]] = {
    "divided": lambda c, x: c("Div", c("Mul", x, c("Clip", c("Add", x, 3.0), 0.0, 6.0)), 6.0),
    "multiplied": lambda c, x: c("Mul", c("Mul", c("Clip", c("Add", 3.0, x), 0.0, 6.0), 1 / 6), x),
    "gate": lambda c, x: c("Mul", x, c("Clip", c("Add", c("Div", x, 6.0), 0.5), 0.0, 1.0)),
    "relu and minimum": lambda c, x: c("Div", c("Mul", x, c("Min", c("Relu", c("Add", x, 3.0)), 6.0)), 6.0),
    "maximum and minimum": lambda c, x: c(
        "Mul", x, c("Div", c("Min", 6.0, c("Max", 0.0, c("Add", x, 3.0))), 6.0)
    ),
    "minimum and maximum": lambda c, x: c(
        "Mul", x, c("Div", c("Max", c("Min", c("Add", x, 3.0), 6.0), 0.0), 6.0)
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", SWISHES)
def test_forms(form: str, dtype: type) -> None:
    chain = Chain(x=values(dtype))
    outcome = chain.check(SWISHES[form](chain, "x"), passes="fuse-swish")
    assert outcome.ops == {"swish": 1}
    assert outcome.passed[0].endswith("into 'swish'")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", HARD_SWISHES)
def test_hard_forms(form: str, dtype: type) -> None:
    chain = Chain(x=values(dtype))
    assert chain.check(HARD_SWISHES[form](chain, "x"), passes="fuse-swish").ops == {"hard_swish": 1}


def test_hard_sigmoid() -> None:
    chain = Chain(x=values())
    y = chain("Mul", "x", chain("HardSigmoid", "x", alpha=1 / 6, beta=0.5))
    assert chain.check(y, passes="fuse-swish").ops == {"hard_swish": 1}


def test_a_hard_swish_is_exact_near_its_corner() -> None:
    """Just above -3, `x / 6 + 0.5` loses all its digits, `x + 3` none."""
    x = np.nextafter(np.float32(-3), np.float32(0)) * np.ones(4, np.float32)
    chain = Chain(x=x)
    y = HARD_SWISHES["divided"](chain, "x")
    assert chain.check(y, passes="fuse-swish", rtol=1e-6).ops == {"hard_swish": 1}


@pytest.mark.parametrize("shape", [(), (1,), (0, 3)])
@pytest.mark.parametrize("form", [SWISHES["x first"], HARD_SWISHES["divided"]])
def test_any_shape(form: Callable[[Chain, str], str], shape: tuple[int, ...]) -> None:
    chain = Chain(x=np.ones(shape, np.float32))
    assert sum(chain.check(form(chain, "x"), passes="fuse-swish").ops.values()) == 1


def test_a_gate_of_something_else_is_no_swish() -> None:
    chain = Chain(x=values(), z=values())
    outcome = chain.check(chain("Mul", "x", chain("Sigmoid", "z")), passes="fuse-swish")
    assert outcome.ops == {"sigmoid": 1, "mul": 1}
    assert not outcome.missed


def test_a_shift_in_the_sigmoid_is_no_swish() -> None:
    chain = Chain(x=values())
    outcome = chain.check(chain("Mul", "x", chain("Sigmoid", chain("Add", "x", 1.0))), passes="fuse-swish")
    assert "swish" not in outcome.ops
    assert "the sigmoid is not of a multiple of its other operand" in outcome.missed[0]


def test_another_sum_is_no_sigmoid() -> None:
    chain = Chain(x=values())
    outcome = chain.check(
        chain("Div", "x", chain("Add", 2.0, chain("Exp", chain("Neg", "x")))), passes="fuse-swish"
    )
    assert "swish" not in outcome.ops


@pytest.mark.parametrize(
    ("shift", "upper", "divisor"), [(2.0, 6.0, 6.0), (3.0, 5.0, 6.0), (3.0, 6.0, 5.0), (3.0, 6.0, 6.001)]
)
def test_other_numbers_are_no_hard_swish(shift: float, upper: float, divisor: float) -> None:
    chain = Chain(x=values())
    gate = chain("Clip", chain("Add", "x", shift), 0.0, upper)
    outcome = chain.check(chain("Div", chain("Mul", "x", gate), divisor), passes="fuse-swish")
    assert "hard_swish" not in outcome.ops
    assert len(outcome.missed) == 1
    assert "come to" in outcome.missed[0]


@pytest.mark.parametrize("upper", [6, 5])
@pytest.mark.parametrize("gate_first", [False, True])
def test_integers_are_divided_otherwise(gate_first: bool, upper: int) -> None:
    """What is left of 7 * 6 / 6 and 7 * (6 / 6) is the same, of 1 * 4 / 6 it is not: nothing is fused or looked at."""
    chain = Chain(x=np.arange(-9, 9, dtype=np.int32))
    gate = chain("Min", chain("Max", chain("Add", "x", 3), 0), upper)
    y = chain("Mul", "x", chain("Div", gate, 6)) if gate_first else chain("Div", chain("Mul", "x", gate), 6)
    outcome = chain.check(y, passes="fuse-swish", rtol=0)
    assert outcome.ops["hard_swish"] == 0
    assert not outcome.missed


def test_another_lower_bound_is_no_hard_swish() -> None:
    chain = Chain(x=values())
    gate = chain("Clip", chain("Add", "x", 3.0), -1.0, 6.0)
    outcome = chain.check(chain("Div", chain("Mul", "x", gate), 6.0), passes="fuse-swish")
    assert "hard_swish" not in outcome.ops


@pytest.mark.parametrize("inner", [0, 1])
def test_inner_values_that_are_outputs_stay(inner: int) -> None:
    chain = Chain(x=values())
    outcome = chain.check(SWISHES["alpha"](chain, "x"), f"v{inner}", passes="fuse-swish")
    assert "swish" not in outcome.ops
    assert outcome.missed[0].endswith(f"(n{inner}) is also a graph output")


def test_a_constant_that_enlarges_x() -> None:
    chain = Chain(x=values())
    gate = chain("Sigmoid", chain("Mul", "x", np.full((3, 1, 1), 2.0, np.float32)))
    outcome = chain.check(chain("Mul", "x", gate), passes="fuse-swish")
    assert "swish" not in outcome.ops
    assert "a constant enlarges tensor<2x12xf32> to tensor<3x2x12xf32>" in outcome.missed[0]


def test_a_long_sum_below_is_not_expanded() -> None:
    """Formulas are looked for in as many operations as they have: deep ones end neither in an error nor in a miss."""
    c = Chain(x=values())
    y = "x"
    for _ in range(400):
        y = c("Mul", c("Add", y, "x"), c("Sigmoid", y))
    outcome = c.check(y, passes="fuse-swish")
    assert outcome.ops["swish"] == 0
    assert not outcome.missed
