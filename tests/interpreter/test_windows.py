"""Windows reduced axis by axis, slabs, the model of time: against numpy, and by counting calls."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import mlopt
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import ScratchNeed, make_context, parse_module
from tests.frontend.onnx_models import assert_close, model_of, run_onnxruntime, value_info
from tests.interpreter.memref_text import load
from tests.interpreter.test_memref_contractions import (
    conv_module,
    einsum_module,
    pool_module,
    with_workspace,
)

RNG = np.random.default_rng(23)
SIZE = 32


def need_of(text: str) -> ScratchNeed:
    (main,) = (op for op in parse_module(text, make_context()).ops if op.name == "func.func")
    return NumpyTarget().scratch_need(main)


def pooled(
    x: np.ndarray, ufunc: np.ufunc, kernel: int, stride: int, border: int, number: float
) -> np.ndarray:
    wide = np.pad(x, ((0, 0), (0, 0), (border, border), (border, border)), constant_values=number)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), axis=(2, 3))
    return ufunc.reduce(windows[:, :, ::stride, ::stride], axis=(4, 5))


POOLS = [("maximumf", "0xFF800000", -np.inf, np.maximum), ("addf", "0.0", 0.0, np.add)]


@pytest.mark.parametrize(("kernel", "stride", "border"), [(3, 2, 1), (3, 1, 1), (5, 3, 2), (4, 1, 0)])
@pytest.mark.parametrize(("name", "init", "number", "ufunc"), POOLS)
def test_windows_take_a_call_per_row_and_column_of_the_window(
    name: str, init: str, number: float, ufunc: np.ufunc, kernel: int, stride: int, border: int
) -> None:
    """Twice `kernel` calls with all the scratch, `kernel` squared without; some more in blocks; the same pools."""
    text = pool_module(name, init, init, SIZE, kernel, stride, border)
    need = need_of(text)
    assert need.minimum == 0 < need.preferred
    x = RNG.standard_normal((2, 3, SIZE, SIZE)).astype(np.float32)
    x[1, 2, 0, 31] = np.nan
    want = pooled(x, ufunc, kernel, stride, border, number)
    steps: list[int] = []
    for nbytes in (need.preferred, need.preferred // 2, 64):
        executable = load(with_workspace(text, -(-nbytes // 64) * 64), poison=True)
        assert executable.engine_scratch_bytes == 0
        np.testing.assert_allclose(executable.run({"x": x})["y"], want, rtol=1e-5, atol=1e-5)
        steps.append(load(with_workspace(text, -(-nbytes // 64) * 64)).steps)
    assert steps[0] == 2 * kernel
    assert steps[0] < steps[1]
    assert steps[2] == kernel * kernel


def test_padding_that_changes_something_is_reduced_tap_by_tap() -> None:
    """A sum over padding of 1.5 is no sum over rows of what is inside."""
    text = pool_module("addf", "0.0", "1.5", SIZE, 3, 2, 1)
    x = RNG.standard_normal((2, 3, SIZE, SIZE)).astype(np.float32)
    got = load(text).run({"x": x})["y"]
    np.testing.assert_allclose(got, pooled(x, np.add, 3, 2, 1, 1.5), rtol=1e-5, atol=1e-5)


def test_a_slab_serves_several_blocks() -> None:
    """A strided 7 by 7 convolution in 60 KB: im2col of 2 of 32 rows takes 147 * 64 * 4 bytes, the slab 828 a row.

    16 blocks are packed and multiplied; what is left of the scratch holds 26 rows of the source, which 5 blocks read.
    """
    text = conv_module(1, 3, 16, 64, 7, 2, 3)
    generator = np.random.default_rng(3)
    x, w = (generator.standard_normal(s).astype(np.float32) for s in ((1, 1, 3, 64, 64), (1, 16, 3, 7, 7)))
    plans = [load(with_workspace(text, size), {"w": w}) for size in (46 << 10, 60 << 10, 1 << 20)]
    want = plans[2].run({"x": x})["y"]
    for executable in plans[:2]:
        np.testing.assert_allclose(executable.run({"x": x})["y"], want, rtol=1e-4, atol=1e-4)
    blocks = 16
    assert plans[0].steps >= 3 * blocks
    assert 2 * blocks < plans[1].steps < 3 * blocks - 4


def test_more_scratch_takes_less_modelled_time() -> None:
    """A strided 7 by 7 convolution: blocks of one row, of half of the rows, all at once."""
    need = need_of(conv_module(1, 3, 16, 64, 7, 2, 3))
    assert need.nanoseconds is not None
    sizes = (need.minimum, need.preferred // 2, need.preferred)
    times = [need.nanoseconds(size) for size in sizes]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.5 * times[-1]


def test_modelled_time_is_that_of_the_calls() -> None:
    """A product of a million multiplications takes a microsecond for the call and 1/60 ns for each."""
    need = need_of(einsum_module("mk,kn->mn", {"m": 100, "k": 100, "n": 100}, "0.0"))
    assert need.nanoseconds is not None
    assert need.nanoseconds(0) == pytest.approx(1000 + 1e6 / 60, rel=0.02)


@pytest.mark.parametrize("operator", ["AveragePool", "MaxPool"])
def test_padding_in_front_of_a_buffer_is_no_part_of_what_stands_there(operator: str) -> None:
    """The workspace holds what is between the steps right behind their result, and no more.

    The first tap of the second step begins a column before that: it must not be taken for one of the result's.
    """
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node(operator, ["x"], ["p"], **window),
        helper.make_node("Concat", ["w", "p"], ["c"], axis=1),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    x, w = RNG.standard_normal((1, 24, 56, 56), np.float32), RNG.standard_normal((1, 112, 28, 28), np.float32)
    model = model_of(nodes, [value_info("w", w), value_info("x", x)], ["y"])
    compiled = mlopt.compile(model)
    assert compiled.executable.engine_scratch_bytes == 0
    assert_close(compiled.run({"w": w, "x": x}), run_onnxruntime(model, {"w": w, "x": x}))
