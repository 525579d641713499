"""The kernel dialect as the narrow waist: a loop with a carried tensor, and attention with an online softmax.

Each goes from kernel-level text through memref to numpy. Right values are computed with plain numpy here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlopt
from mlopt.interpreter import kernel
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.weights import WeightStore
from tests.mlir_opt import check_with_mlir_opt

HERE = Path(__file__).parent
LOOP = (HERE / "loop.mlir").read_text()
ATTENTION = (HERE / "attention_online_softmax.mlir").read_text()


def loop_by_numpy(x: np.ndarray, trips: int, limit: float) -> tuple[np.ndarray, int]:
    accumulator, count = x, 0
    while count < trips:
        accumulator, count = np.float32(0.5) * accumulator + x, count + 1
        if not accumulator.max() < limit:
            break
    return accumulator, count


@pytest.mark.parametrize(("trips", "limit"), [(0, 9.0), (1, 9.0), (5, 99.0), (50, 3.0), (3, -99.0)])
def test_loop_with_a_carried_tensor(trips: int, limit: float) -> None:
    x = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    inputs = {"x": x, "trips": np.array(trips, np.int64), "limit": np.array(limit, np.float32)}
    want, count = loop_by_numpy(x, trips, limit)
    for outputs in (mlopt.compile(LOOP).run(inputs), reference(LOOP, inputs)):
        np.testing.assert_allclose(outputs["acc"], want, rtol=1e-6)
        assert outputs["count"] == count


def test_loop_may_run_again() -> None:
    """The carried buffer is overwritten; the input it starts from is not."""
    x = np.ones((3, 5), np.float32)
    inputs = {"x": x, "trips": np.array(4, np.int64), "limit": np.array(99, np.float32)}
    model = mlopt.compile(LOOP)
    first, second = model.run(inputs), model.run(inputs)
    np.testing.assert_array_equal(first["acc"], second["acc"])
    np.testing.assert_array_equal(x, np.ones((3, 5), np.float32))


def attention_by_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)) @ v


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_attention_with_an_online_softmax(scale: float) -> None:
    generator = np.random.default_rng(2)
    q, k = (scale * generator.standard_normal((n, 6)).astype(np.float32) for n in (7, 12))
    v = generator.standard_normal((12, 5)).astype(np.float32)
    inputs = {"q": q.astype(np.float32), "k": k.astype(np.float32), "v": v}
    want = attention_by_numpy(inputs["q"], inputs["k"], v)
    for outputs in (mlopt.compile(ATTENTION).run(inputs), reference(ATTENTION, inputs)):
        np.testing.assert_allclose(outputs["y"], want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("text", [LOOP, ATTENTION], ids=["loop", "attention"])
def test_upstream_accepts_the_memref_level(text: str) -> None:
    check_with_mlir_opt(mlopt.compile(text).ir("memref"))


@pytest.mark.parametrize("text", [LOOP, ATTENTION], ids=["loop", "attention"])
def test_nothing_runs_as_scalar_code(text: str) -> None:
    assert mlopt.compile(text).executable.scalar_loops == 0


def reference(text: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return kernel.evaluate_module(parse_module(text, make_context(), "<text>"), inputs, WeightStore())
