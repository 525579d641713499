"""Attention and MultiHeadAttention of com.microsoft against onnxruntime; by hand where it has no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlopt
from tests.frontend.all_levels import check_all_levels
from tests.frontend.contrib.support import RANDOM, agree, floats, node_model, refusal, result
from tests.frontend.onnx_models import run_mlopt

B, S, T, N, D = 2, 5, 7, 3, 4
X = floats(B, S, 6)
WEIGHTS = floats(6, 3 * N * D)
BIAS = floats(3 * N * D)
PAST = floats(2, B, N, T - S, D)

# Attention


def masks(keys: int) -> dict[str, np.ndarray]:
    """One of each form; the first row of the numbers lets nothing be seen."""
    numbers = RANDOM.integers(-1, 3, (B, keys)).astype(np.int32)
    numbers[0] = 0
    return {
        "none": np.ones((B, keys), np.int32),
        "numbers": numbers,
        "for each query": RANDOM.integers(0, 2, (B, S, keys)).astype(np.int32),
        "lengths": np.array([3, keys], np.int32),
        "ends and starts": np.array([keys, 4, 2, 0], np.int32),
    }


def test_projections_and_heads():
    agree("Attention", X, WEIGHTS, BIAS, num_heads=N)
    agree("Attention", X, WEIGHTS, num_heads=1)
    agree("Attention", X, WEIGHTS, BIAS, num_heads=N, scale=0.25)
    agree("Attention", X, WEIGHTS, BIAS, num_heads=N, outputs=["y", "present"])


def test_values_of_another_width():
    agree("Attention", X, floats(6, 32), floats(32), num_heads=2, qkv_hidden_sizes=[8, 8, 16])
    agree("Attention", X, floats(6, 24), floats(24), num_heads=2, qkv_hidden_sizes=[10, 10, 4])


@pytest.mark.parametrize("form", masks(S))
@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("options", [{}, {"mask_filter_value": -3.5}])
def test_masks(form: str, unidirectional: int, options: dict[str, Any]):
    agree(
        "Attention", X, WEIGHTS, BIAS, masks(S)[form], num_heads=N, unidirectional=unidirectional, **options
    )


@pytest.mark.parametrize("form", masks(T))
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_masks_and_a_past(form: str, unidirectional: int):
    agree(
        "Attention",
        *(X, WEIGHTS, BIAS, masks(T)[form], PAST),
        num_heads=N,
        unidirectional=unidirectional,
        outputs=["y", "present"],
    )


def test_one_query_sees_all_of_the_past():
    past = floats(2, B, N, 6, D)
    agree("Attention", X[:, :1], WEIGHTS, BIAS, None, past, num_heads=N, unidirectional=1, outputs=["y", "p"])


@pytest.mark.parametrize("shape", [(B, N, S, S), (1, N, S, S), (B, 1, S, S), (1, 1, S, S)])
def test_what_is_added_to_the_scores(shape: tuple[int, ...]):
    """The mask is so small that scores keep their digits beside it."""
    side = (masks(S)["numbers"], None, floats(*shape))
    agree("Attention", X, WEIGHTS, BIAS, *side, num_heads=N, unidirectional=1, mask_filter_value=-4.0)


def test_attention_at_all_levels():
    proto, given = node_model(
        "Attention",
        X,
        WEIGHTS,
        BIAS,
        masks(T)["lengths"],
        PAST,
        num_heads=N,
        unidirectional=1,
        outputs=["y", "p"],
    )
    check_all_levels(proto, given)


# MultiHeadAttention

Q, K, V = floats(B, S, N * D), floats(B, T, N * D), floats(B, T, N * 6)
SELF = [floats(B, S, N * D) for _ in range(3)]
PASTS = [floats(B, N, T - S, D) for _ in range(2)]


def test_separate_operands():
    agree("MultiHeadAttention", Q, K, V, num_heads=N)
    agree("MultiHeadAttention", Q, K, V, floats(N * (4 + 4 + 6)), num_heads=N, scale=0.3)
    agree("MultiHeadAttention", *SELF, num_heads=N, unidirectional=1)


@pytest.mark.parametrize("shape", [(B, T), (B, S, T), (B,)])
def test_masks_of_keys(shape: tuple[int, ...]):
    mask = np.array([4, T], np.int32) if shape == (B,) else RANDOM.integers(0, 2, shape).astype(np.int32)
    agree("MultiHeadAttention", Q, K, V, None, mask, num_heads=N)
    agree("MultiHeadAttention", Q, K, V, None, mask, floats(1, N, S, T), num_heads=N, mask_filter_value=-2.0)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("biased", [False, True])
def test_a_past(unidirectional: int, biased: bool):
    bias = BIAS if biased else None
    agree(
        "MultiHeadAttention",
        *(*SELF, bias, None, None, *PASTS),
        num_heads=N,
        unidirectional=unidirectional,
        outputs=["y", "k", "v"],
    )


def test_keys_and_values_by_heads():
    agree("MultiHeadAttention", Q, floats(B, N, T, D), floats(B, N, T, D), num_heads=N)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Of `[B, N, S, D]` in f64, as `[B, S, N D]`."""
    scores = q.astype(np.float64) @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out = (weights / weights.sum(-1, keepdims=True)) @ v
    return out.swapaxes(1, 2).reshape(out.shape[0], out.shape[2], -1)


def test_packed_operands_by_hand():
    packed = floats(B, S, N, 3, D)
    q, k, v = (packed[:, :, :, index].swapaxes(1, 2) for index in range(3))
    (found,) = result("MultiHeadAttention", packed, num_heads=N)
    np.testing.assert_allclose(found, attention(q, k, v), rtol=0, atol=1e-5)
    pairs = floats(B, T, N, 2, D)
    k, v = (pairs[:, :, :, index].swapaxes(1, 2) for index in range(2))
    (found,) = result("MultiHeadAttention", Q, pairs, num_heads=N)
    np.testing.assert_allclose(
        found, attention(Q.reshape(B, S, N, D).swapaxes(1, 2), k, v), rtol=0, atol=1e-5
    )


def test_multi_head_attention_at_all_levels():
    proto, given = node_model(
        "MultiHeadAttention", *(*SELF, BIAS, None, None, *PASTS), num_heads=N, outputs=["y", "k", "v"]
    )
    check_all_levels(proto, given, mlir=False)


# What is refused, and what does not fit


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "reason"),
    [
        ("Attention", (X, WEIGHTS), {"do_rotary": 1}, "with do_rotary = 1"),
        ("Attention", (X, WEIGHTS), {"past_present_share_buffer": 1}, "with past_present_share_buffer = 1"),
        ("Attention", (X, WEIGHTS, *[None] * 4, X), {}, "with past_sequence_length"),
        ("MultiHeadAttention", (*SELF, *[None] * 6, X), {}, "with cache_indirection"),
        ("MultiHeadAttention", SELF, {"outputs": ["y", "k", "v", "qk"]}, "with more than 3 outputs"),
    ],
)
def test_what_is_refused(op_type: str, inputs: Any, options: dict[str, Any], reason: str):
    assert refusal(op_type, *inputs, num_heads=N, **options) == reason


@pytest.mark.parametrize(("queries", "keys"), [(4, 3), (3, 4)])
def test_a_future_among_other_keys_is_refused(queries: int, keys: int):
    """onnxruntime itself aligns the two differently with more keys than queries and with fewer."""
    q, kv = floats(1, queries, N * D), floats(1, keys, N * D)
    model, _ = node_model("MultiHeadAttention", q, kv, kv, num_heads=N, unidirectional=1)
    with pytest.raises(mlopt.MloptError, match="unidirectional with as many keys as queries alone"):
        mlopt.compile(model)


@pytest.mark.parametrize(
    ("op_type", "inputs", "options", "message"),
    [
        ("Attention", (X, floats(6, 35)), {}, "expected queries, keys and values of 3 heads side by side"),
        ("Attention", (X, floats(6, 33)), {}, "expected queries, keys and values of 3 heads side by side"),
        ("Attention", (X, WEIGHTS, None, np.ones((B, 4), np.int32)), {}, "expected a mask of 2 or 4 numbers"),
        ("Attention", (X[0], WEIGHTS), {}, "expected ranks 3 and 2"),
        (
            "Attention",
            (X, WEIGHTS, None, None, PAST[0]),
            {},
            "expected keys and values of rank 4 as the past",
        ),
        ("MultiHeadAttention", (Q,), {}, "expected key and value, or the query packed with them"),
        ("MultiHeadAttention", (floats(B, S, N, 2, D),), {}, "expected three values packed"),
        ("MultiHeadAttention", (floats(B, S, N, 3, D), None, None, BIAS), {}, "expected no bias"),
        ("MultiHeadAttention", (*SELF, *[None] * 3, PASTS[0]), {}, "expected both past_key and past_value"),
        ("MultiHeadAttention", (floats(B, S, 10), K, V), {}, "a last dimension that 3 heads make up"),
        ("MultiHeadAttention", SELF, {"num_heads": 0}, "expected num_heads of at least 1"),
    ],
)
def test_what_does_not_fit(op_type: str, inputs: Any, options: dict[str, Any], message: str):
    proto, given = node_model(op_type, *inputs, **{"num_heads": N, **options})
    with pytest.raises(mlopt.InputError, match=message):
        run_mlopt(proto, given)
