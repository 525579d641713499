"""`fuse-group-norm` gives what its parts give, by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.passes.graph.fuse_group_norm import FuseGroupNormPass

RNG = np.random.default_rng(11)
TOLERANCE = {"f64": 1e-12, "f32": 1e-6, "f16": 4e-3}
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16}


def module_text(shape: tuple[int, ...], groups: int, element: str, *, swapped: bool) -> str:
    images, channels = shape[:2]
    x = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    rows = f"tensor<{images}x{groups}x{int(np.prod(shape)) // (images * groups)}x{element}>"
    each, vector = f"tensor<{channels}{'x1' * (len(shape) - 2)}x{element}>", f"tensor<{groups}x{element}>"
    bias = np.arange(channels).reshape(channels, *[1] * (len(shape) - 2)).astype(float).tolist()
    product = f"%scale, %back : ({each}, {x})" if swapped else f"%back, %scale : ({x}, {each})"
    total = f"%bias, %scaled : ({each}, {x})" if swapped else f"%scaled, %bias : ({x}, {each})"
    return f"""func.func @main(%x: {x}, %scale: {each}) -> {x} {{
      %one = graph.constant dense<1.0> : {vector}
      %zero = graph.constant dense<0.0> : {vector}
      %bias = graph.constant dense<{bias}> : {each}
      %rows = graph.reshape %x : {x} to {rows}
      %norm = graph.group_norm %rows, %one, %zero groups = {groups} epsilon = 1.000000e-03
        : ({rows}, {vector}, {vector}) -> {rows}
      %back = graph.reshape %norm : {rows} to {x}
      %scaled = graph.mul {product} -> {x}
      %y = graph.add {total} -> {x}
      func.return %y : {x}
    }}"""


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 4, 3, 5), 2), ((1, 6, 2), 3), ((1, 3, 1, 1), 1), ((2, 2, 4), 2)]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_one_operation_of_the_same_numbers(
    shape: tuple[int, ...], groups: int, element: str, swapped: bool
) -> None:
    module = parse_module(module_text(shape, groups, element, swapped=swapped), make_context())
    x = (3 + RNG.standard_normal(shape)).astype(DTYPES[element])
    scale = RNG.standard_normal((shape[1], *[1] * (len(shape) - 2))).astype(DTYPES[element])
    assert FuseGroupNormPass().run(make_context(), module)
    verify_module(module)
    assert "graph.add" not in str(module)
    rows = x.astype(np.float64).reshape(shape[0], groups, -1)
    norm = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-3)
    want = norm.reshape(shape) * scale + np.arange(shape[1]).reshape(scale.shape)
    (got,) = evaluate_module(module, {"arg0": x, "arg1": scale}).values()
    assert got.dtype == DTYPES[element]
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[element] * max(1, np.abs(want).max()))
    assert not FuseGroupNormPass().run(make_context(), module)


def test_other_counts_of_images_are_left() -> None:
    """What is scaled are two images of two channels, what was normalized is one of four."""
    text = """func.func @main(%x: tensor<1x4x6xf32>, %s: tensor<2x1xf32>) -> tensor<2x2x6xf32> {
      %one = graph.constant dense<1.0> : tensor<4xf32>
      %zero = graph.constant dense<0.0> : tensor<4xf32>
      %b = graph.constant dense<1.0> : tensor<2x1xf32>
      %n = graph.group_norm %x, %one, %zero groups = 4 epsilon = 1.000000e-03
        : (tensor<1x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6xf32>
      %r = graph.reshape %n : tensor<1x4x6xf32> to tensor<2x2x6xf32>
      %m = graph.mul %r, %s : (tensor<2x2x6xf32>, tensor<2x1xf32>) -> tensor<2x2x6xf32>
      %y = graph.add %m, %b : (tensor<2x2x6xf32>, tensor<2x1xf32>) -> tensor<2x2x6xf32>
      func.return %y : tensor<2x2x6xf32>
    }"""
    assert not FuseGroupNormPass().run(make_context(), parse_module(text, make_context()))
