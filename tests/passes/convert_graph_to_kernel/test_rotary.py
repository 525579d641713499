"""`graph.rotary_embedding` at the kernel level: one launch of two maps, with the reference evaluation's numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlopt.dialects import graph
from mlopt.dialects.kernel import LaunchOp, MapOp
from mlopt.interpreter.graph import evaluate_module
from tests.kernel_level import assert_same, module_of

RNG = np.random.default_rng(0)
TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 1e-6, np.float64: 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("shape", "cos", "sin"),
    [
        ((2, 3, 5, 8), (5, 4), (2, 1, 5, 4)),
        ((3, 2), (3, 1), (1,)),
        ((6,), (3,), ()),
        ((0, 4), (2,), (0, 2)),
        ((2, 0), (2, 0), (0,)),
    ],
)
def test_pairs_are_turned(
    shape: tuple[int, ...], cos: tuple[int, ...], sin: tuple[int, ...], interleaved: bool, dtype: type
) -> None:
    arrays = [np.asarray(RNG.standard_normal(each)).astype(dtype) for each in (shape, cos, sin)]
    rtol = TOLERANCE[dtype]
    kernels = assert_same(
        lambda *values: graph.RotaryEmbeddingOp(*values, interleaved=interleaved),
        *arrays,
        rtol=rtol,
        atol=rtol,
    )
    assert len([op for op in kernels.walk() if isinstance(op, LaunchOp)]) == 1
    assert len([op for op in kernels.walk() if isinstance(op, MapOp)]) == 2


def test_special_values() -> None:
    special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([np.repeat(special, 6), np.tile(special, 6)])
    cos, sin = np.resize(special, 36), np.resize(special[::-1], 36)
    assert_same(graph.RotaryEmbeddingOp, x, cos, sin, rtol=0, atol=0)


def test_by_hand() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    cos, sin = np.array([0.0, 1.0], np.float32), np.array([1.0, 0.0], np.float32)
    halves = evaluate_module(
        module_of(graph.RotaryEmbeddingOp, [x, cos, sin]), {"arg0": x, "arg1": cos, "arg2": sin}
    )
    np.testing.assert_array_equal(halves["result0"], [-3.0, 2.0, 1.0, 4.0])
