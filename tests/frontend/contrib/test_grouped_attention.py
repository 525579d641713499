"""RotaryEmbedding and GroupQueryAttention of com.microsoft, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlopt
from tests.frontend.all_levels import check_all_levels
from tests.frontend.contrib.support import agree, floats, node_model, refusal
from tests.frontend.onnx_models import run_mlopt

ANGLES = np.arange(16)[:, None] / 10 ** (np.arange(8) / 8)
COSINES, SINES = (table(ANGLES).astype(np.float32) for table in (np.cos, np.sin))
"""Tables of 16 positions and 8 pairs."""


# RotaryEmbedding


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [np.array([3]), np.array([[0, 1, 2, 3, 4], [9, 3, 0, 15, 1]])])
def test_rotations(interleaved: int, positions: np.ndarray):
    tables = (positions, COSINES[:, ::2].copy(), SINES[:, ::2].copy())
    agree("RotaryEmbedding", floats(2, 5, 24), *tables, interleaved=interleaved)
    agree("RotaryEmbedding", floats(2, 3, 5, 8), *tables, interleaved=interleaved)
    partial = {"num_heads": 2, "rotary_embedding_dim": 8}
    agree("RotaryEmbedding", floats(2, 5, 24), *tables, interleaved=interleaved, **partial)


# GroupQueryAttention: 4 heads of queries and 2 of keys and values, of 16 numbers each.


def operands(
    new: int, *, room: int | None = None, total: int, lengths: list[int], packed: bool = False
) -> list[Any]:
    """The first nine inputs: S new tokens, a cache of that room, the tokens of each row."""
    batch = len(lengths)
    parts = [floats(batch, new, heads * 16) for heads in (4, 2, 2)]
    separate = [np.concatenate(parts, axis=2), None, None] if packed else parts
    caches = [None, None] if room is None else [floats(batch, 2, room, 16) for _ in range(2)]
    return [
        *(*separate, *caches),
        *(np.array(lengths, np.int32) - 1, np.array(total, np.int32), COSINES, SINES),
    ]


def grouped(inputs: list[Any], **options: Any) -> None:
    options = {"num_heads": 4, "kv_num_heads": 2, "outputs": ["y", "k", "v"], **options}
    agree("GroupQueryAttention", *inputs, **options)


@pytest.mark.parametrize("rotary", [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}])
@pytest.mark.parametrize("packed", [False, True])
def test_a_prompt(rotary: dict[str, int], packed: bool):
    grouped(operands(5, total=5, lengths=[5, 5], packed=packed), **rotary)


@pytest.mark.parametrize("rotary", [{}, {"do_rotary": 1}])
@pytest.mark.parametrize("lengths", [[7, 7], [7, 4], [3, 6]])
@pytest.mark.parametrize("room", [6, 7, 9])
def test_one_more_token(rotary: dict[str, int], lengths: list[int], room: int):
    """Rows have pasts of their own; a cache with room for more keeps it."""
    grouped(operands(1, room=room, total=7, lengths=lengths), **rotary)


@pytest.mark.parametrize("room", [4, 9])
def test_several_more_tokens(room: int):
    grouped(operands(3, room=room, total=7, lengths=[7]), do_rotary=1)


def test_a_prompt_into_a_cache():
    grouped(operands(5, room=8, total=5, lengths=[5, 5]), do_rotary=1)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.3},
        {"softcap": 2.0},
        {"local_window_size": 3},
        {"smooth_softmax": 1},
        {"causal": 0},
    ],
)
def test_scores(options: dict[str, Any]):
    grouped(operands(5, total=5, lengths=[5, 5]), **options)
    grouped(operands(1, room=6, total=7, lengths=[7, 5]), **options)


def test_positions_additions_and_sinks():
    inputs = operands(1, room=6, total=7, lengths=[7, 5])
    grouped([*inputs, np.array([[6], [4]])], do_rotary=1)
    grouped([*inputs, None, floats(2, 4, 1, 7)])
    grouped([*inputs, None, floats(1, 1, 1, 7)], softcap=1.5)
    grouped([*inputs, None, None, floats(4)])


def test_all_levels():
    options = {"num_heads": 4, "kv_num_heads": 2, "outputs": ["y", "k", "v"], "do_rotary": 1}
    proto, given = node_model("GroupQueryAttention", *operands(1, room=9, total=7, lengths=[7, 4]), **options)
    check_all_levels(proto, given, mlir=False)


# What is refused, and what does not fit


@pytest.mark.parametrize(
    ("options", "more", "reason"),
    [
        ({"k_quant_type": "PER_TENSOR"}, (), "with k_quant_type = PER_TENSOR"),
        ({"sliding_window_cache": 1}, (), "with sliding_window_cache = 1"),
        ({}, (*[None] * 5, floats(16)), "with q_norm_weight"),
        ({"outputs": ["y", "k", "v", "qk"]}, (), "with the output output_qk"),
    ],
)
def test_what_is_refused(options: dict[str, Any], more: tuple[Any, ...], reason: str):
    inputs = operands(1, room=6, total=7, lengths=[7])
    assert refusal("GroupQueryAttention", *inputs, *more, num_heads=4, kv_num_heads=2, **options) == reason


def test_scaled_rotations_are_refused():
    inputs = (floats(2, 5, 24), np.array([3]), COSINES, SINES)
    assert refusal("RotaryEmbedding", *inputs, scale=2.0) == "with scale = 2.0"


@pytest.mark.parametrize(
    ("options", "position", "value", "message"),
    [
        ({"num_heads": 3}, 6, np.array(5, np.int32), "expected num_heads a multiple of kv_num_heads"),
        ({}, 6, np.array(4, np.int32), "expected a total_sequence_length of at least 5"),
        ({}, 5, np.array([1, 2, 3], np.int32), "2 lengths as seqlens_k"),
        ({}, 3, floats(2, 2, 6, 16), "expected both past_key and past_value"),
        ({"do_rotary": 1}, 7, floats(16, 9), "expected two tables of rank 2 of up to 8 pairs"),
    ],
)
def test_what_does_not_fit(options: dict[str, Any], position: int, value: np.ndarray, message: str):
    inputs = operands(5, total=5, lengths=[5, 5])
    inputs[position] = value
    proto, given = node_model(
        "GroupQueryAttention", *inputs, **{"num_heads": 4, "kv_num_heads": 2, **options}
    )
    with pytest.raises(mlopt.InputError, match=message):
        run_mlopt(proto, given)
