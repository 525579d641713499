"""A reduction that gives the shape it is reshaped to gives the same numbers, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir import make_context, parse_module, verify_module
from mlopt.passes.graph.eliminate_reshapes import EliminateReshapesPass

SHAPES = [((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((1, 3, 1), (0, 2)), ((2, 0, 4), (1,)), ((3,), (0,))]


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"])
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f16", np.float16), ("i8", np.int8)])
def test_no_number_changes(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...], keeps: bool, element: str, dtype: type
) -> None:
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    dropped = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    first, last = (kept, dropped) if keeps else (dropped, kept)

    def tensor(sizes: tuple[int, ...]) -> str:
        return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"

    text = f"""func.func @main(%x: {tensor(shape)}) -> {tensor(last)} {{
      %r = graph.{name} %x axes = {list(axes)} {"keepdims" if keeps else ""} : ({tensor(shape)}) -> {tensor(first)}
      %y = graph.reshape %r : {tensor(first)} to {tensor(last)}
      func.return %y : {tensor(last)}
    }}"""
    module = parse_module(text, make_context())
    x = np.random.default_rng(2).integers(-5, 6, shape).astype(dtype)
    (want,) = evaluate_module(module, {"arg0": x}).values()
    assert EliminateReshapesPass().run(make_context(), module)
    verify_module(module)
    assert "graph.reshape" not in str(module)
    (got,) = evaluate_module(module, {"arg0": x}).values()
    assert got.shape == last
    np.testing.assert_array_equal(got, want)


def test_a_reduction_that_has_neither_shape_stays() -> None:
    """And no other one is made beside it, which would hold on to its operand."""
    text = """func.func @main(%x: tensor<6x2x4xf32>) -> tensor<2x3x4xf32> {
      %r = graph.reduce_sum %x axes = [1] : (tensor<6x2x4xf32>) -> tensor<6x4xf32>
      %y = graph.reshape %r : tensor<6x4xf32> to tensor<2x3x4xf32>
      func.return %y : tensor<2x3x4xf32>
    }"""
    module = parse_module(text, make_context())
    before = str(module)
    assert not EliminateReshapesPass().run(make_context(), module)
    verify_module(module)
    assert str(module) == before
