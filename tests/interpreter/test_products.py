"""Products of matrices in the pieces that BLAS is fast with: against numpy, and by counting calls."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.target import NumpyTarget
from mlopt.ir import make_context, parse_module
from tests.interpreter.memref_text import load
from tests.interpreter.test_memref_contractions import einsum_module, with_workspace

RNG = np.random.default_rng(41)


def scratch_of(text: str) -> int:
    (main,) = (op for op in parse_module(text, make_context()).ops if op.name == "func.func")
    return NumpyTarget().scratch_need(main).preferred


@pytest.mark.parametrize(
    ("m", "n", "k", "calls"),
    [
        (64, 250, 60, 1),  # below a million multiplications
        (64, 30, 600, 2),  # rows in halves
        (130, 384, 96, 5),  # 26 rows each
        (32, 512, 128, 4),  # pieces of all columns would have 11 rows: halves of both
        (5, 1000, 300, 2),  # too few rows to cut: 512 columns and 488
        (200, 200, 200, 8),
        (201, 200, 200, 1),  # more than eight million: shared between threads
    ],
)
def test_products_too_large_for_one_thread_are_made_in_pieces(m: int, n: int, k: int, calls: int) -> None:
    """OpenBLAS takes one thread for up to a million multiplications, and two pay above eight."""
    text = einsum_module("mk,kn->mn", {"m": m, "k": k, "n": n}, "0.0")
    x, w = RNG.standard_normal((m, k)).astype(np.float32), RNG.standard_normal((k, n)).astype(np.float32)
    executable = load(text)
    assert executable.steps == calls
    assert scratch_of(text) == 0
    np.testing.assert_allclose(executable.run({"x": x, "w": w})["y"], x @ w, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("equation", "extents", "calls", "without"),
    [
        ("mk,nk->mn", {"m": 32, "n": 100, "k": 128}, 2, 1),  # a copy of x with m innermost, one product
        ("mk,nk->mn", {"m": 32, "n": 1000, "k": 128}, 6, 8),  # the copy, and five pieces of all rows
        ("bmk,bnk->bmn", {"b": 6, "m": 65, "n": 65, "k": 32}, 2, 1),
        ("km,nk->mn", {"m": 32, "n": 1000, "k": 128}, 5, 5),  # m is innermost as it is
        ("mk,nk->mn", {"m": 16, "n": 16, "k": 32}, 1, 1),  # so small that BLAS does not pack
        ("mk,nk->mn", {"m": 2, "n": 500, "k": 128}, 1, 1),  # too few rows
        ("mk,nk->mn", {"m": 300, "n": 300, "k": 300}, 1, 1),  # shared between threads
    ],
)
def test_factors_that_lie_across_the_product_are_turned(
    equation: str, extents: dict[str, int], calls: int, without: int
) -> None:
    """Where both factors have the summed dimension innermost.

    Without scratch for the copy, OpenBLAS takes one thread for up to 2 ** 19 multiplications.
    """
    text = einsum_module(equation, extents, "0.0")
    left, right = equation.split("->")[0].split(",")
    x, w = (RNG.standard_normal([extents[d] for d in dims]).astype(np.float32) for dims in (left, right))
    want = np.einsum(equation, x, w)
    need = scratch_of(text)
    is_turned = left.endswith("mk") and calls > 1
    assert need == (x.nbytes if is_turned else 0)
    for nbytes, count in ((need, calls), (max(need - 64, 0), without)):
        executable = load(with_workspace(text, nbytes), poison=True)
        assert executable.engine_scratch_bytes == 0
        np.testing.assert_allclose(executable.run({"x": x, "w": w})["y"], want, rtol=1e-4, atol=1e-3)
        assert load(with_workspace(text, nbytes)).steps == count


def test_turning_takes_less_modelled_time() -> None:
    """So that workspaces grow for it."""
    text = einsum_module("bmk,bnk->bmn", {"b": 6, "m": 65, "n": 65, "k": 32}, "0.0")
    (main,) = (op for op in parse_module(text, make_context()).ops if op.name == "func.func")
    need = NumpyTarget().scratch_need(main)
    assert need.nanoseconds is not None
    assert need.nanoseconds(need.preferred) < need.nanoseconds(0)
