"""MatMulNBits and GatherBlockQuantized of com.microsoft: against onnxruntime, and with numpy by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlopt
from tests.frontend.all_levels import check_all_levels
from tests.frontend.contrib.support import RANDOM, agree, floats, node_model, refusal, result
from tests.frontend.onnx_models import run_mlopt


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers along the last dimension, the first in the lowest bits of a byte."""
    apart = numbers.reshape(*numbers.shape[:-1], -1, 8 // bits)
    return (apart << (np.arange(8 // bits, dtype=np.uint8) * bits)).sum(-1).astype(np.uint8)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("depth", [32, 48, 56])
@pytest.mark.parametrize("zero_points", ["none", "packed", "floats"])
def test_packed_weights(bits: int, depth: int, zero_points: str):
    """The last block may go beyond K, as the last zero points may beyond the blocks. In f64 by hand."""
    rows, blocks = 6, -(-depth // 16)
    numbers = RANDOM.integers(0, 1 << bits, (rows, blocks, 16), np.uint8)
    scales, a, bias = floats(rows, blocks), floats(2, 3, depth), floats(rows)
    zeros, given = np.full((rows, blocks), 1 << (bits - 1), np.float32), None
    if zero_points == "packed":
        padded = RANDOM.integers(0, 1 << bits, (rows, -(-blocks * bits // 8) * (8 // bits)), np.uint8)
        zeros, given = padded[:, :blocks].astype(np.float32), packed(padded, bits)
    elif zero_points == "floats":
        given = zeros = RANDOM.uniform(0, 1 << bits, (rows, blocks)).astype(np.float32)
    weights = ((numbers - zeros[..., None]) * scales[..., None].astype(np.float64)).reshape(rows, -1)[
        :, :depth
    ]
    (found,) = result(
        "MatMulNBits",
        *(a, packed(numbers, bits), scales, given, None, bias),
        K=depth,
        N=rows,
        bits=bits,
        block_size=16,
    )
    want = a.astype(np.float64) @ weights.T + bias
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("level", [0, 1])
def test_packed_weights_against_onnxruntime(level: int):
    weights = RANDOM.integers(0, 256, (6, 2, 16), np.uint8)
    scales, zeros = floats(12), RANDOM.integers(0, 256, 6, np.uint8)
    options = {"K": 64, "N": 6, "bits": 4, "block_size": 32, "accuracy_level": level}
    agree("MatMulNBits", floats(3, 64), weights, scales, zeros, **options)
    agree("MatMulNBits", floats(3, 64), weights, scales, **options)


def test_packed_weights_at_all_levels():
    weights, scales = RANDOM.integers(0, 256, (6, 2, 16), np.uint8), floats(12)
    proto, given = node_model("MatMulNBits", floats(3, 64), weights, scales, K=64, N=6, bits=4, block_size=32)
    check_all_levels(proto, given, mlir=False)


# GatherBlockQuantized

TABLE = RANDOM.integers(0, 256, (5, 3, 16), np.uint8)
IDS = np.array([[4, 0], [-1, 2]])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("with_points", [False, True])
def test_rows_of_packed_tables(bits: int, with_points: bool):
    """32 or 16 numbers a row, in blocks of 16; two zero points of 4 bits share a byte."""
    blocks = 128 // bits // 16
    points = RANDOM.integers(0, 256, (5, 3, blocks * bits // 8 or 1), np.uint8) if with_points else None
    options = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 2}
    agree("GatherBlockQuantized", TABLE, IDS, floats(5, 3, blocks), points, **options)


def test_blocks_along_another_axis_by_hand():
    table, scales = RANDOM.integers(0, 256, (4, 32, 3), np.uint8), floats(4, 2, 3)
    options = {"bits": 8, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    (found,) = result("GatherBlockQuantized", table, np.array(2), scales, **options)
    want = (table[2].astype(np.float32) - 128) * np.repeat(scales[2], 16, axis=0)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (1, -2)])
def test_numbers_of_four_bits_by_hand(dtype: Any, axes: tuple[int, int]):
    """Their zero point is 0 if it is left out; a block may be shorter at the end."""
    info = ml_dtypes.iinfo(dtype)
    table = RANDOM.integers(info.min, info.max, (20, 20), np.int8, endpoint=True)
    gathered, quantized = axes[0], axes[1] % 2
    shape = [20, 20]
    shape[quantized] = 2
    scales, points = floats(*shape), RANDOM.integers(0, 8, shape)
    spread = [np.repeat(x, 16, axis=quantized) for x in (scales, points)]
    index = [slice(0, 20)] * 2
    scale, point = (x[tuple(index)] for x in spread)
    options = {"block_size": 16, "gather_axis": axes[0], "quantize_axis": axes[1]}
    for given, zero in ((None, 0), (points.astype(dtype), point)):
        (found,) = result(
            "GatherBlockQuantized", table.astype(dtype), IDS, scales, given, opset=21, **options
        )
        want = np.take(((table - zero) * scale).astype(np.float32), IDS, axis=gathered)
        np.testing.assert_allclose(found, want, rtol=1e-6)


# What is refused, and what does not fit


@pytest.mark.parametrize(
    ("inputs", "options", "reason"),
    [
        (3, {"bits": 3}, "with bits = 3"),
        (5, {}, "with g_idx"),
        (3, {"weight_prepacked": 1}, "with weight_prepacked = 1"),
    ],
)
def test_what_is_refused(inputs: int, options: dict[str, Any], reason: str):
    x = floats(2, 3)
    assert refusal("MatMulNBits", *[x] * inputs, **{"K": 1, "N": 1, "block_size": 16, **options}) == reason


@pytest.mark.parametrize(
    ("options", "scales", "message"),
    [
        ({"quantize_axis": 0}, (5, 3, 2), "a gather_axis 0 that is the quantize_axis is not supported"),
        ({"quantize_axis": 2, "block_size": 0}, (5, 3, 2), "expected a block_size of at least 1"),
        ({"quantize_axis": 2}, (4, 3, 2), "scales as the numbers are on axis 0"),
        ({"quantize_axis": 2}, (5, 3, 3), "expected one scale per block of 16 of 32 numbers"),
        ({"quantize_axis": 3}, (5, 3, 2), "expected an axis in"),
    ],
)
def test_what_does_not_fit(options: dict[str, int], scales: tuple[int, ...], message: str):
    proto, given = node_model(
        "GatherBlockQuantized", TABLE, IDS, floats(*scales), **{"bits": 4, "block_size": 16, **options}
    )
    with pytest.raises(mlopt.InputError, match=message):
        run_mlopt(proto, given)
