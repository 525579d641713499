"""`fuse-conv`: every form against onnxruntime without optimisation, and bit by bit against its parts; near misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.passes.graph.fuse_conv import FuseConvPass
from tests.passes.graph.chains import Chain
from tests.passes.graph.test_fuse_linear import ACTIVATIONS, random

FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 6, 7), (4, 3, 3, 3), {}),
    "strided and padded": ((1, 3, 8, 8), (4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "dilated": ((1, 2, 9, 8), (3, 2, 2, 3), {"dilations": [3, 2], "pads": [0, 2, 1, 0]}),
    "groups": ((2, 6, 5, 5), (4, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((1, 4, 5, 5), (4, 1, 3, 3), {"group": 4}),
    "one dimension": ((2, 3, 9), (4, 3, 3), {"strides": [3]}),
    "three dimensions": ((1, 2, 4, 5, 4), (3, 2, 2, 2, 2), {}),
    "no batch": ((0, 3, 5, 5), (4, 3, 3, 3), {}),
    "one element": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
}


def convolution(chain: Chain, form: str, op_type: str = "Conv") -> tuple[str, tuple[int, ...]]:
    """A convolution of `x` without a bias, and the shape of its result."""
    _, weight, options = FORMS[form]
    y = chain(op_type, "x", random(*weight, dtype=chain.dtype, seed=1), **options)
    outputs = chain._right(chain.model(y))  # pyright: ignore[reportPrivateUsage] - only the shape
    return y, outputs[y].shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_bias_residual_and_activation(form: str, dtype: Any) -> None:
    chain = Chain(x=random(*FORMS[form][0], dtype=dtype))
    y, shape = convolution(chain, form)
    chain.inputs["r"] = random(*shape, dtype=dtype, seed=2)
    bias = random(shape[1], *[1] * (len(shape) - 2), dtype=dtype, seed=3)
    y = chain("Relu", chain("Add", "r", chain("Add", y, bias)))
    assert chain.check(y, passes="fuse-conv").ops == {"conv": 1}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str, dtype: Any) -> None:
    chain = Chain(22, x=random(1, 6, 5, 5, dtype=dtype))
    y = chain("Conv", "x", random(4, 3, 3, 3, dtype=dtype), random(4, dtype=dtype), group=2)
    assert chain.check(ACTIVATIONS[activation](chain, y), passes="fuse-conv").ops == {"conv": 1}


@pytest.mark.parametrize("activation", ["relu", "clip", "sigmoid"])
def test_transposed(activation: str) -> None:
    chain = Chain(x=random(1, 4, 5, 5))
    y = chain("ConvTranspose", "x", random(4, 3, 2, 2), strides=[2, 2], group=2, output_padding=[1, 0])
    y = ACTIVATIONS[activation](chain, chain("Add", y, random(6, 1, 1)))
    assert chain.check(y, passes="fuse-conv").ops == {"conv_transpose": 1}


@pytest.mark.parametrize(("element", "dtype"), [("f16", np.float16), ("f32", np.float32), ("i32", np.int32)])
def test_the_same_bits(element: str, dtype: Any) -> None:
    """Also where 16-bit sums overflow: 300 * 300 is infinite in f16, whatever the residual is."""
    x, w, r = f"tensor<1x2x3x{element}>", f"tensor<2x2x1x{element}>", f"tensor<1x2x3x{element}>"
    text = f"""func.func @main(%x: {x}, %w: {w}, %r: {r}) -> {r} {{
      %c = graph.conv %x, %w : ({x}, {w}) -> {r}
      %a = graph.add %c, %r : ({r}, {r}) -> {r}
      %y = graph.relu %a : {r}
      func.return %y : {r}
    }}"""
    module = parse_module(text, make_context())
    numbers = [[[300, 1, -7], [0, 2, 5]]], [[[300], [1]], [[-1], [3]]], [[[-1000, 1, 2], [3, 4, 5]]]
    inputs = {f"arg{index}": np.array(array, dtype) for index, array in enumerate(numbers)}
    (want,) = evaluate_module(module, inputs).values()
    assert FuseConvPass().run(make_context(), module)
    verify_module(module)
    (got,) = evaluate_module(module, inputs).values()
    assert got.tobytes() == want.tobytes()
    assert not FuseConvPass().run(make_context(), module)


MISSES: dict[str, tuple[Callable[[Chain, str], str], str]] = {
    "along the last dimension": (lambda c, y: c("Add", y, random(3)), "is no bias of 'conv'"),
    "one number": (lambda c, y: c("Add", y, random(1)), "is no bias of 'conv'"),
    "itself": (lambda c, y: c("Add", y, y), "is added to itself"),
    "enlarged": (lambda c, y: c("Add", y, random(2, 3, 3, 3)), "what is added enlarges"),
    "activation first": (lambda c, y: c("Add", c("Relu", y), random(3, 1, 1)), "comes before the addition"),
}


@pytest.mark.parametrize("miss", MISSES)
def test_near_misses(miss: str) -> None:
    """The result is a cube, so that a mix-up of dimensions does not show in its shape."""
    build, reason = MISSES[miss]
    chain = Chain(x=random(1, 3, 3, 3))
    outcome = chain.check(build(chain, chain("Conv", "x", random(3, 3, 1, 1))), passes="fuse-conv")
    assert "add" in outcome.ops
    assert reason in outcome.missed[0]


def test_both_sides_are_convolutions() -> None:
    chain = Chain(x=random(1, 3, 4, 4))
    left, right = (chain("Conv", "x", random(3, 3, 1, 1, seed=seed)) for seed in (1, 2))
    outcome = chain.check(chain("Relu", chain("Add", left, right)), passes="fuse-conv")
    assert outcome.ops == {"conv": 2}
