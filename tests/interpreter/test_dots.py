"""Batches of dot products by `np.einsum`: a run is a pixel's channels, or a row's where pixels lie side by side."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import generic, load, module
from tests.interpreter.test_memref_contractions import fill, with_workspace

SIZE, CHANNELS, KERNEL = 11, 24, 3


WIDENED = {"f32": "", "f16": "arith.extf", "i8": "arith.sitofp"}


def depthwise(stride: int, kind: str) -> str:
    """`y[h, w, c] = 0.5 + sum of x[stride * h + i, stride * w + j, c] * k[i, j, c]`, with `x` and `k` of that kind."""
    whole = stride * (SIZE - 1) + KERNEL
    shapes = ((whole, whole, kind), (KERNEL, KERNEL, kind), (SIZE, SIZE, "f32"))
    x, k, y = (f"memref<{h}x{w}x{CHANNELS}x{element}>" for h, w, element in shapes)
    body, factors = "", ["%i0", "%i1"]
    if widen := WIDENED[kind]:
        body = f"%a = {widen} %i0 : {kind} to f32\n%b = {widen} %i1 : {kind} to f32\n"
        factors = ["%a", "%b"]
    body += (
        f"%p = arith.mulf {', '.join(factors)} : f32\n%s = arith.addf %o0, %p : f32\nlinalg.yield %s : f32"
    )
    ins = [("%x", f"{stride} * h + i, {stride} * w + j, c", x), ("%k", "i, j, c", k)]
    text = fill("0.5", "%y", y) + generic("h:p w:p c:p i:r j:r", ins, [("%y", "h, w, c", y)], body)
    return module(text, inputs={"x": x, "k": k}, outputs={"y": y})


@pytest.mark.parametrize(("stride", "is_row"), [(1, True), (2, False)])
@pytest.mark.parametrize("part", [1, 2, 4, 9])
@pytest.mark.parametrize("kind", list(WIDENED))
def test_runs_are_rows_where_pixels_lie_side_by_side(
    stride: int, is_row: bool, part: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of the scratch that is wanted a run is a row of pixels; with less, blocks are cut or runs shorter.

    Narrower numbers are widened once, as they are brought to where the runs are read from.
    """
    runs: list[int] = []
    einsum = np.einsum

    def spy(equation: str, data: np.ndarray, weights: np.ndarray, out: np.ndarray) -> np.ndarray:
        runs.append(weights.shape[-1])
        return einsum(equation, data, weights, out=out)

    monkeypatch.setattr(np, "einsum", spy)
    text = depthwise(stride, kind)
    (main,) = parse_module(text, make_context()).ops
    assert isinstance(main, FuncOp)
    need = NumpyTarget().scratch_need(main)
    size = need.minimum + (need.preferred - need.minimum) // part // 64 * 64
    executable = load(with_workspace(text, size), poison=True)
    rng = np.random.default_rng(part)
    whole = stride * (SIZE - 1) + KERNEL
    dtype = np.dtype({"f32": np.float32, "f16": np.float16, "i8": np.int8}[kind])
    x, k = (
        (rng.standard_normal((n, n, CHANNELS)) * (30 if kind == "i8" else 1)).astype(dtype)
        for n in (whole, KERNEL)
    )
    y = executable.run({"x": x, "k": k})["y"]
    assert executable.engine_scratch_bytes == 0
    if part == 1:
        assert set(runs) == {SIZE * CHANNELS if is_row else CHANNELS}
    want = np.full((SIZE, SIZE, CHANNELS), 0.5)
    end = stride * SIZE
    for i in range(KERNEL):
        for j in range(KERNEL):
            want += k[i, j].astype(np.float64) * x[i : i + end : stride, j : j + end : stride]
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
