"""Products of integers: every level gives the exact sums, which numpy computes in 64-bit integers."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import SSAValue

import mlopt
from mlopt.dialects import graph
from mlopt.interpreter import kernel
from mlopt.weights import WeightStore
from tests.kernel_level import assert_same

RNG = np.random.default_rng(7)


def numbers(dtype: type, *shape: int) -> np.ndarray:
    """Numbers of all 8-bit values, the extreme ones included."""
    return RNG.integers(-128, 128, shape).astype(dtype)


@pytest.mark.parametrize(
    "shapes", [((3, 1, 2, 5), (4, 5, 3)), ((5,), (5, 2)), ((2, 5), (5,)), ((2, 0), (0, 3))]
)
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: type) -> None:
    left, right = shapes
    assert_same(graph.IntegerMatMulOp, numbers(np.int8, *left), numbers(dtype, *right), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("weight", "group"),
    [((6, 4, 3, 2), 1), ((4, 1, 3, 2), 4), ((8, 2, 3, 2), 2), ((4, 1, 1, 1), 4), ((6, 4, 1, 1), 1)],
)
@pytest.mark.parametrize("pad_value", [0, -128, 5])
def test_conv(weight: tuple[int, ...], group: int, pad_value: int) -> None:
    def conv(x: SSAValue, w: SSAValue) -> graph.IntegerConvOp:
        options = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}
        return graph.IntegerConvOp(x, w, **options, group=group, pad_value=pad_value)

    assert_same(conv, numbers(np.int8, 2, 4, 9, 8), numbers(np.int8, *weight), rtol=0, atol=0)


def test_sums_are_those_of_integers() -> None:
    """1024 products of the largest magnitude are 2**24, the last sum that f32 is sure to hold; numpy's in i64."""
    depth = (1 << 24) // (128 * 128)
    x, y = numbers(np.int8, 3, depth), numbers(np.int8, depth, 4)
    x[0], y[:, 0] = -128, -128
    module = assert_same(graph.IntegerMatMulOp, x, y, rtol=0, atol=0)
    want = x.astype(np.int64) @ y.astype(np.int64)
    (found,) = kernel.evaluate_module(module, {"arg0": x, "arg1": y}, WeightStore()).values()
    np.testing.assert_array_equal(found, want)
    assert found[0, 0] == 1 << 24
    (found,) = mlopt.compile(str(module)).run({"arg0": x, "arg1": y}).values()
    np.testing.assert_array_equal(found, want)
