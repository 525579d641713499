"""TfIdfVectorizer: counts against onnxruntime and by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlopt
from mlopt.frontend.onnx import find_unsupported, import_model
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import assert_close, context, one_node, run_mlopt, run_onnxruntime

POOL: dict[str, Any] = {
    "mode": "TF",
    "ngram_counts": [0, 3, 9],
    "ngram_indexes": [0, 2, 1, 7, 4, 5, 3],
    "pool_int64s": [2, 3, 5, 1, 2, 2, 2, 5, 3, 1, 2, 3],
    "min_gram_length": 1,
    "max_gram_length": 3,
    "max_skip_count": 0,
}
"""Three 1-grams, three 2-grams and the 3-gram (1, 2, 3); nothing is counted in element 6 of the result."""

WEIGHTS = [0.5, 2.0, 3.0, -1.0, 5.0, 7.0, 11.0]
"""One per n-gram."""

TOKENS = np.array([[1, 2, 3, 2, 2, 1, 2, 2, 3, 5], [5, 5, 2, 5, 3, 1, 9, 2, 9, 3]])


def model(x: np.ndarray, **attributes: Any):
    return one_node("TfIdfVectorizer", {"x": x}, opset=9, **{**POOL, **attributes})


@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 2), (2, 3), (1, 3), (3, 3)])
@pytest.mark.parametrize("skips", [0, 1, 4, 20])
def test_lengths_and_skips(lengths: tuple[int, int], skips: int):
    proto = model(TOKENS, min_gram_length=lengths[0], max_gram_length=lengths[1], max_skip_count=skips)
    assert_close(run_mlopt(proto, {"x": TOKENS}), run_onnxruntime(proto, {"x": TOKENS}))


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("weights", [{}, {"weights": WEIGHTS}])
def test_modes(mode: str, weights: dict[str, Any]):
    proto = model(TOKENS, mode=mode, max_skip_count=1, **weights)
    assert_close(run_mlopt(proto, {"x": TOKENS}), run_onnxruntime(proto, {"x": TOKENS}))


@pytest.mark.parametrize("x", [TOKENS[0], TOKENS.astype(np.int32), TOKENS[:, :1], TOKENS[:, :2]])
def test_shapes_and_types(x: np.ndarray):
    proto = model(x, max_skip_count=2)
    assert_close(run_mlopt(proto, {"x": x}), run_onnxruntime(proto, {"x": x}))


def test_by_hand():
    """(1, 2) is there twice with a distance of 1, once with 2; (2, 2) twice with each; (1, 2, 3) once."""
    proto = model(TOKENS[0], max_skip_count=1)
    (counts,) = run_mlopt(proto, {"x": TOKENS[0]}).values()
    np.testing.assert_array_equal(counts, np.array([5, 1, 2, 1, 4, 0, 0, 3], np.float32))


@pytest.mark.parametrize("x", [np.zeros((2, 0), np.int64), np.full((2, 3), 77)])
def test_nothing_is_found(x: np.ndarray):
    np.testing.assert_array_equal(run_mlopt(model(x), {"x": x})["y0"], np.zeros((2, 8), np.float32))


def test_all_levels():
    check_all_levels(model(TOKENS, mode="TFIDF", weights=WEIGHTS, max_skip_count=3), {"x": TOKENS}, BY_HAND)


# With four distances, counted in Python from the definition.
BY_HAND = {
    "y0": np.array(
        [
            [
                sum(
                    all(row[start + item * distance] == token for item, token in enumerate(gram))
                    for distance in range(1, 2 if len(gram) == 1 else 5)
                    for start in range(10 - (len(gram) - 1) * distance)
                )
                * weight
                for gram, weight in zip(
                    [(2,), (5,), (3,), (1, 2, 3), (2, 2), (5, 3), (None,), (1, 2)],
                    [WEIGHTS[i] for i in (0, 2, 1, 6, 4, 5, 0, 3)],
                    strict=True,
                )
            ]
            for row in TOKENS
        ],
        np.float32,
    )
}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"mode": "XX"}, 'expected mode "TF", "IDF" or "TFIDF"'),
        ({"ngram_counts": [0, 4, 9]}, "expected n-grams of 2 items in the pool, found 5"),
        ({"ngram_counts": [0, 9, 3]}, "expected ascending ngram_counts"),
        ({"ngram_indexes": [0, 1]}, "expected 7 ngram_indexes"),
        ({"pool_int64s": [2, 3, 5, 1, 2, 1, 2, 5, 3, 1, 2, 3]}, "expected distinct n-grams"),
        ({"mode": "IDF", "weights": [1.0]}, "expected 7 weights, one for each n-gram, found 1"),
        ({"min_gram_length": 3, "max_gram_length": 2}, "lengths of at least 1 in ascending order"),
    ],
)
def test_attributes_that_do_not_fit(attributes: dict[str, Any], message: str):
    with pytest.raises(mlopt.InputError, match=message):
        import_model(model(TOKENS, **attributes), context())


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"pool_strings": ["a"] * 12}, "with pool_strings"),
        ({"ngram_indexes": [0, 1, 2, 3, 3, 4, 5]}, "with several n-grams for one element of the result"),
    ],
)
def test_what_is_refused(attributes: dict[str, Any], reason: str):
    assert [found.reason for found in find_unsupported(model(TOKENS, **attributes))] == [reason]
