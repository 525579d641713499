"""`fuse-linear`: every form against onnxruntime without optimisation, bit by bit against the parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.passes.graph.fuse_linear import FuseLinearPass
from tests.passes.graph.chains import Chain

DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]

ACTIVATIONS: dict[str, Callable[[Chain, str], str]] = {
    "relu": lambda c, x: c("Relu", x),
    "clip": lambda c, x: c("Clip", x, -0.5, 1.0),
    "clip below": lambda c, x: c("Clip", x, 0.25),
    "leaky_relu": lambda c, x: c("LeakyRelu", x, alpha=0.2),
    "sigmoid": lambda c, x: c("Sigmoid", x),
    "tanh": lambda c, x: c("Tanh", x),
    "gelu": lambda c, x: c("Gelu", x),
    "gelu by tanh": lambda c, x: c("Gelu", x, approximate="tanh"),
    "hard_sigmoid": lambda c, x: c("HardSigmoid", x, alpha=0.3, beta=0.4),
    "hard_swish": lambda c, x: c("HardSwish", x),
}


def random(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str, dtype: Any) -> None:
    chain = Chain(22, x=random(2, 5, 7, dtype=dtype))
    sums = chain("Add", chain("MatMul", "x", random(7, 6, dtype=dtype)), random(6, dtype=dtype, seed=1))
    outcome = chain.check(ACTIVATIONS[activation](chain, sums), passes="fuse-linear")
    assert outcome.ops == {"linear": 1}
    assert [remark.rpartition(" ")[2] for remark in outcome.passed] == ["bias", "activation"]
    assert not outcome.missed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("bias", [(6,), (1, 6), (1, 1, 6)])
def test_bias_and_residual(bias: tuple[int, ...], swapped: bool, dtype: Any) -> None:
    chain = Chain(
        x=random(2, 5, 7, dtype=dtype), b=random(*bias, dtype=dtype), r=random(2, 5, 6, dtype=dtype)
    )
    order = -1 if swapped else 1
    biased = chain("Add", *[chain("MatMul", "x", random(7, 6, dtype=dtype)), "b"][::order])
    y = chain("Relu", chain("Add", *[biased, "r"][::order]))
    assert chain.check(y, passes="fuse-linear").ops == {"linear": 1}


GEMMS = {
    "plain": {},
    "transposed": {"transA": 1, "transB": 1},
    "scaled": {"alpha": 0.5, "beta": 2.0},
    "rounded": {"alpha": 0.3, "beta": -1.7},
}


@pytest.mark.parametrize("options", GEMMS.values(), ids=GEMMS)
def test_gemm(options: dict[str, Any]) -> None:
    """As a model has them: `fold-batch-norm` takes the scale into the weight, `fold-constants` that of the bias."""
    x, w = random(5, 7), random(7, 6)
    chain = Chain(x=x.T.copy() if "transA" in options else x)
    y = chain("Gemm", "x", w.T.copy() if "transB" in options else w, random(6, seed=1), **options)
    outcome = chain.check(y, passes="fold-batch-norm,fold-constants,fuse-linear")
    assert outcome.ops["linear"] == 1
    assert not {"matmul", "add", "mul"} & outcome.ops.keys()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (1, 1), (3,), (2, 0, 3)])
@pytest.mark.parametrize("columns", [0, 1, 4])
def test_shapes_of_nothing_and_one(shape: tuple[int, ...], columns: int) -> None:
    chain = Chain(x=random(*shape))
    y = chain("Tanh", chain("Add", chain("MatMul", "x", random(shape[-1], columns)), random(columns, seed=1)))
    assert chain.check(y, passes="fuse-linear").ops == {"linear": 1}


def parts(element: str, activation: str, rows: int = 2) -> str:
    of = f"tensor<{rows}x3x{element}>"
    return f"""func.func @main(%x: {of}, %w: tensor<3x3x{element}>, %b: tensor<3x{element}>, %r: {of}) -> {of} {{
      %m = graph.matmul %x, %w : ({of}, tensor<3x3x{element}>) -> {of}
      %a = graph.add %m, %b : ({of}, tensor<3x{element}>) -> {of}
      %c = graph.add %r, %a : ({of}, {of}) -> {of}
      %y = graph.{activation} %c : {of}
      func.return %y : {of}
    }}"""


def fused_equals_parts(text: str, *inputs: np.ndarray) -> None:
    """The fused module gives the same bits; NaN may differ in their payload."""
    module = parse_module(text, make_context())
    named = {f"arg{index}": array for index, array in enumerate(inputs)}
    (want,) = evaluate_module(module, named).values()
    assert FuseLinearPass().run(make_context(), module)
    verify_module(module)
    assert "graph.add" not in str(module)
    (got,) = evaluate_module(module, named).values()
    assert got.dtype == want.dtype
    numbers = want == want
    np.testing.assert_array_equal(got == got, numbers)
    assert got[numbers].tobytes() == want[numbers].tobytes()
    assert not FuseLinearPass().run(make_context(), module)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "swish", "gelu", "hard_swish"])
@pytest.mark.parametrize(
    ("element", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)]
)
def test_special_values(activation: str, element: str, dtype: Any) -> None:
    """Infinities, NaN, signed zeros; 300 * 300 overflows in f16, whatever is added."""
    x = np.array([[np.inf, 0, 1], [300, 0, 0], [-0.0, -0.0, -0.0], [1, 1e4, -1e4]]).astype(dtype)
    w = np.array([[300, 1, 0], [0, 1, -np.inf], [-0.0, np.nan, 1]]).astype(dtype)
    b, r = np.array([-1e4, 1, -0.0]).astype(dtype), np.full((4, 3), -0.0).astype(dtype)
    text = parts(element, activation, 4) if activation != "swish" else parts(element, "SWISH", 4)
    text = text.replace("graph.SWISH %c", "graph.swish %c alpha = 1.702")
    fused_equals_parts(text, x, w, b, r)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integers_wrap(dtype: Any) -> None:
    high = np.iinfo(dtype).max
    x, w = np.array([[high, 2, 1], [-high, 1, 0]], dtype), np.array([[2, 0, 1]] * 3, dtype)
    b, r = np.array([high, -5, 0], dtype), np.full((2, 3), high, dtype)
    fused_equals_parts(parts(f"i{8 * np.dtype(dtype).itemsize}", "relu"), x, w, b, r)


def test_rounded_as_the_parts_in_f16() -> None:
    """By hand: 2048 + 1 is 2048 in f16, and 2048 + 2 is 2050, so each step is rounded; 2048 + 1 + 1 at once is 2050."""
    text = parts("f16", "relu", 1)
    module = parse_module(text, make_context())
    FuseLinearPass().run(make_context(), module)
    ones = np.ones((1, 3), np.float16)
    inputs = {"arg0": 2048 * ones, "arg1": np.eye(3, dtype=np.float16), "arg2": ones[0], "arg3": ones}
    (got,) = evaluate_module(module, inputs).values()
    np.testing.assert_array_equal(got, 2048 * ones)


MISSES: dict[str, tuple[Callable[[Chain], str], str]] = {
    "a column": (
        lambda c: c("Add", c("MatMul", "x", random(7, 5)), random(5, 1)),
        "is no bias of 'matmul'",
    ),
    "itself": (lambda c: c("Add", *[c("MatMul", "x", random(7, 5))] * 2), "is added to itself"),
    "enlarged": (
        lambda c: c("Add", c("MatMul", "x", random(7, 5)), random(2, 1, 1, 5)),
        "what is added enlarges",
    ),
    "activation first": (
        lambda c: c("Add", c("Relu", c("MatMul", "x", random(7, 5))), random(5)),
        "comes before the addition",
    ),
    "a batch of weights": (
        lambda c: c("Add", c("MatMul", "x", random(2, 7, 5)), random(5)),
        "is no matrix",
    ),
}


@pytest.mark.parametrize("miss", MISSES)
def test_near_misses(miss: str) -> None:
    build, reason = MISSES[miss]
    chain = Chain(x=random(2, 5, 7))
    outcome = chain.check(build(chain), passes="fuse-linear")
    assert "add" in outcome.ops
    assert reason in outcome.missed[0]


def test_a_residual_that_depends_on_the_product() -> None:
    chain = Chain(x=random(5, 5))
    product = chain("MatMul", "x", random(5, 5))
    total = chain("ReduceSum", chain("Tanh", product), chain.ints(0), keepdims=1)
    outcome = chain.check(chain("Add", product, chain("Mul", total, product)), passes="fuse-linear")
    assert "linear" not in outcome.ops
    assert "is also used by" in outcome.missed[0]
