"""What `graph.attention` means: numbers by hand, and onnxruntime's operator of that name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlopt.dialects import graph
from tests.graph_values import evaluate_checked, value_of
from tests.onnx_oracle import run_node

EYE = np.eye(2, dtype=np.float32)


def attend(*arrays: np.ndarray, **options: Any) -> np.ndarray:
    op = graph.AttentionOp(*map(value_of, arrays), **options)
    (result,) = evaluate_checked(op, *arrays)
    return result


def test_two_queries_by_hand() -> None:
    """Scores 1 and 0: weights e / (e + 1) = 0.7310586 and 1 / (e + 1) = 0.2689414."""
    np.testing.assert_allclose(
        attend(EYE, EYE, EYE), [[0.7310586, 0.2689414], [0.2689414, 0.7310586]], rtol=1e-6
    )


def test_the_scale_is_of_the_scores() -> None:
    """Scores log(3) and 0: weights 3/4 and 1/4."""
    for which in ("scale", "score_scale"):
        found = attend(EYE, EYE, EYE, **{which: float(np.log(3))})
        np.testing.assert_allclose(found, [[0.75, 0.25], [0.25, 0.75]], rtol=1e-6)


def test_a_query_sees_no_later_key() -> None:
    found = attend(EYE, EYE, EYE, causal=True)
    np.testing.assert_allclose(found, [[1, 0], [0.2689414, 0.7310586]], rtol=1e-6)


def test_without_further_keys_the_first_queries_see_least() -> None:
    """Two queries and three keys: the second query does not see the third key."""
    key = np.zeros((3, 2), np.float32)
    value = np.array([[2], [4], [9]], np.float32)
    np.testing.assert_allclose(attend(EYE, key, value, causal=True), [[2], [3]], rtol=1e-6)


@pytest.mark.parametrize(
    "mask", [np.float32([[0, -np.inf], [0, 0]]), np.array([[True, False], [True, True]])]
)
def test_masks_hide_keys(mask: np.ndarray) -> None:
    np.testing.assert_allclose(attend(EYE, EYE, EYE, mask), [[1, 0], [0.2689414, 0.7310586]], rtol=1e-6)


def test_masks_are_applied_in_order() -> None:
    """Hidden is -1 to begin with, and 0 once the other mask is added: as much as what is seen."""
    query, added, shown = np.zeros((1, 2), np.float32), np.float32([[0, 1]]), np.array([[True, False]])
    first = attend(query, EYE, EYE, shown, added, fill=-1.0)
    np.testing.assert_allclose(first, [[0.5, 0.5]], rtol=1e-6)
    last = attend(query, EYE, EYE, added, shown, fill=-1.0)
    np.testing.assert_allclose(last, [[0.7310586, 0.2689414]], rtol=1e-6)


def test_a_row_that_is_hidden_is_nan_or_zero() -> None:
    mask = np.float32([[-np.inf, -np.inf], [0, -np.inf]])
    np.testing.assert_array_equal(attend(EYE, EYE, EYE, mask), [[np.nan, np.nan], [1, 0]])
    np.testing.assert_array_equal(attend(EYE, EYE, EYE, mask, nan_to_zero=True), [[0, 0], [1, 0]])


def test_heads_read_the_head_of_their_group() -> None:
    """Of four heads the first two read the first of two heads of keys and values, which have one row each."""
    query = np.ones((4, 1, 1), np.float32)
    found = attend(query, np.ones((2, 1, 1), np.float32), np.float32([[[3]], [[5]]]))
    np.testing.assert_array_equal(found.ravel(), [3, 3, 5, 5])


def test_halves_are_rounded_after_each_step() -> None:
    """A mask of the lowest number in all of a row: the scores are lost beside it, and the weights are equal."""
    lowest = np.full((1, 2), np.finfo(np.float16).min)
    found = attend(np.float16([[1, 0]]), EYE.astype(np.float16), EYE.astype(np.float16), lowest)
    np.testing.assert_array_equal(found, np.float16([[0.5, 0.5]]))


@pytest.mark.parametrize(("heads", "options"), [(4, {}), (2, {}), (1, {}), (2, {"is_causal": 1})])
def test_onnxruntime_agrees(heads: int, options: dict[str, int]) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal(shape).astype(np.float32)
               for shape in ((2, 4, 3, 8), (2, heads, 5, 8), (2, heads, 5, 6)))  # fmt: skip
    (want,) = run_node("Attention", [q, k, v], opset=23, scale=0.3, **options)
    found = attend(q, k, v, scale=0.3, causal=bool(options))
    np.testing.assert_allclose(found, want, rtol=2e-6, atol=2e-6)
