"""Attention of 16-bit floats: the exact result, rounded once. Of f32 it is in `test_functions.py`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx_models import model_of, run_mlopt, value_info

RANDOM = np.random.default_rng(23)


def numbers(dtype: type, *shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(dtype)


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Scaled dot-product attention with an additive mask, in f64."""
    q, k, v, mask = (array.astype(np.float64) for array in (q, k, v, mask))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def assert_rounded_once(found: np.ndarray, want: np.ndarray) -> None:
    """Half a unit in the last place, and what f32 adds to it."""
    nearest = want.astype(found.dtype)
    next_ = (nearest.view(np.uint16) + np.uint16(1)).view(found.dtype)
    unit = np.abs(next_.astype(np.float64) - nearest.astype(np.float64))
    assert np.all(np.abs(found.astype(np.float64) - want) <= 0.51 * unit)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("opset", [23, 24])
def test_a_causal_mask(dtype: type, opset: int) -> None:
    q, k, v = (numbers(dtype, 2, 3, size, 8) for size in (4, 6, 6))
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    given = {"q": q, "k": k, "v": v}
    model = model_of([node], [value_info(*item) for item in given.items()], ["y"], opset=opset)
    found = run_mlopt(model, given)["y"]
    assert found.dtype == dtype
    mask = np.where(np.tri(4, 6, dtype=np.bool_), 0, -np.inf)
    assert_rounded_once(found, exact(q, k, v, mask))


def test_a_cache_of_keys_and_values() -> None:
    """What is handed on is what came in, bit for bit, in the type of its own input."""
    given = {
        "q": numbers(np.float16, 1, 2, 3, 8),
        "k": numbers(np.float16, 1, 2, 3, 8),
        "v": numbers(np.float32, 1, 2, 3, 8),
        "mask": numbers(np.float16, 3, 7),
        "past_k": numbers(np.float16, 1, 2, 4, 8),
        "past_v": numbers(np.float32, 1, 2, 4, 8),
    }
    node = helper.make_node("Attention", list(given), ["y", "present_k", "present_v"])
    infos = [value_info(*item) for item in given.items()]
    found = run_mlopt(model_of([node], infos, list(node.output), opset=23), given)
    keys = np.concatenate([given["past_k"], given["k"]], axis=2)
    values = np.concatenate([given["past_v"], given["v"]], axis=2)
    np.testing.assert_array_equal(found["present_k"], keys)
    np.testing.assert_array_equal(found["present_v"], values)
    assert [array.dtype for array in found.values()] == [np.float16, np.float16, np.float32]
    assert_rounded_once(found["y"], exact(given["q"], keys, values, given["mask"]))
