"""Windows over channels-last tensors: evaluated as channels-first ones are, and the same at the kernel level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.channels_last import channels_last, kernel_first
from mlopt.interpreter.graph import evaluate_module
from mlopt.interpreter.graph.registry import Array
from tests.kernel_level import Build, assert_same, module_of

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 1e-5, np.float64: 1e-12}


def random(*shape: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def last(x: np.ndarray) -> Array:
    moved: Array = np.ascontiguousarray(x.transpose(channels_last(x.ndim)))
    return moved


CONVOLUTIONS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], Mapping[str, Sequence[int]], int]] = {
    "pointwise": ((2, 3, 5, 4), (6, 3, 1, 1), {}, 1),
    "same": ((1, 3, 7, 6), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}, 1),
    "strided": ((2, 4, 9, 6), (6, 4, 3, 2), {"strides": [2, 3], "pads": [1, 0, 2, 1]}, 1),
    "dilated": ((1, 4, 9, 9), (3, 4, 3, 3), {"dilations": [2, 3], "pads": [2, 0, 2, 3]}, 1),
    "grouped": ((2, 4, 5, 5), (6, 2, 3, 3), {"pads": [1, 1, 1, 1]}, 2),
    "depthwise": ((2, 5, 6, 7), (5, 1, 3, 3), {"strides": [2, 1], "pads": [1, 1, 1, 1]}, 5),
    "multiplier": ((1, 3, 5, 5), (6, 1, 3, 3), {}, 3),
    "one dimension": ((2, 3, 9), (4, 3, 3), {"strides": [2], "pads": [1, 0]}, 1),
    "three dimensions": ((1, 2, 4, 5, 3), (3, 2, 2, 3, 1), {"pads": [1, 0, 0, 0, 1, 0]}, 1),
    "empty batch": ((0, 3, 5, 5), (4, 3, 3, 3), {}, 1),
}


@pytest.mark.parametrize("epilogue", [False, True])
@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_convolution(form: str, *, epilogue: bool) -> None:
    """Against the channels-first form, whose own evaluation is tested against onnxruntime."""
    shape, kernel, window, groups = CONVOLUTIONS[form]
    x, w, b = random(*shape), random(*kernel, seed=1), random(kernel[0], seed=2)
    activation = graph.ActivationAttr("relu") if epilogue else None

    def first(*values: SSAValue) -> graph.ConvOp:
        return graph.ConvOp(*values, **window, group=groups, activation=activation)

    def build(*values: SSAValue) -> graph.ChannelsLastConvOp:
        return graph.ChannelsLastConvOp(*values, **window, group=groups, activation=activation)

    given = [x, w]
    if epilogue:
        given += [b, random(*evaluate(first, x, w).shape, seed=3)]
    arranged = [
        last(x),
        np.ascontiguousarray(w.transpose(kernel_first(w.ndim))),
        *given[2:3],
        *map(last, given[3:]),
    ]
    np.testing.assert_allclose(
        evaluate(build, *arranged), last(evaluate(first, *given)), rtol=1e-5, atol=1e-5
    )
    assert_same(build, *arranged, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
def test_types_of_convolutions(dtype: type) -> None:
    tolerance = TOLERANCE.get(dtype, 0)
    arrays = random(1, 5, 5, 4, dtype=dtype), random(3, 3, 4, 3, dtype=dtype, seed=1)
    assert_same(graph.ChannelsLastConvOp, *arrays, rtol=tolerance, atol=tolerance)


POOLS: Mapping[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "halves": ((2, 3, 6, 4), {"kernel": [2, 2], "strides": [2, 2]}),
    "padded": ((1, 4, 7, 6), {"kernel": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "ceiled": ((1, 4, 7, 6), {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": True}),
    "one dimension": ((2, 3, 9), {"kernel": [3], "dilations": [2]}),
    "three dimensions": ((1, 2, 4, 5, 3), {"kernel": [2, 3, 1]}),
}
KINDS: Mapping[str, tuple[type[graph.PoolOp], type[graph.PoolOp], dict[str, Any]]] = {
    "max": (graph.MaxPoolOp, graph.ChannelsLastMaxPoolOp, {}),
    "average": (graph.AveragePoolOp, graph.ChannelsLastAveragePoolOp, {}),
    "all": (graph.AveragePoolOp, graph.ChannelsLastAveragePoolOp, {"count_include_pad": True}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", POOLS)
def test_pool(form: str, kind: str) -> None:
    """Against the channels-first form; NaN and infinities included."""
    shape, window = POOLS[form]
    first_op, last_op, flags = KINDS[kind]
    x = random(*shape)
    x.flat[3], x.flat[7] = np.nan, np.inf

    def build(value: SSAValue) -> graph.PoolOp:
        return last_op(value, **window, **flags)

    def first(value: SSAValue) -> graph.PoolOp:
        return first_op(value, **window, **flags)

    want = evaluate(first, x)
    np.testing.assert_allclose(evaluate(build, last(x)), last(want), rtol=1e-6)
    assert_same(build, last(x), rtol=1e-6, atol=1e-6)


def evaluate(build: Build, *arrays: np.ndarray) -> np.ndarray:
    """What an operation with one result means."""
    module = module_of(build, arrays)
    (result,) = evaluate_module(module, {f"arg{i}": array for i, array in enumerate(arrays)}).values()
    return result
