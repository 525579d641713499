"""Elements narrower than a byte: what their byte in memory looks like, and how ONNX files pack them.

In memory, and in safetensors files (which are mapped into memory), each element has a byte: a signed integer
sign-extended, anything else zero-extended. An array whose bytes are otherwise still means the numbers of its low bits,
but code that reads whole bytes would see others; `extended` makes it right. ONNX files pack elements without gaps, the
first one in the lowest bits of the first byte (https://onnx.ai/onnx/technical/int4.html).
"""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np

SIGNED = {np.dtype(ml_dtypes.int2): 2, np.dtype(ml_dtypes.int4): 4}
"""Signed integers of less than 8 bits, and their bits."""

UNSIGNED = {np.dtype(ml_dtypes.uint2): 2, np.dtype(ml_dtypes.uint4): 4}
"""Unsigned integers of less than 8 bits, and their bits."""

WIDTHS = {
    **SIGNED,
    **UNSIGNED,
    np.dtype(ml_dtypes.float4_e2m1fn): 4,
    np.dtype(ml_dtypes.float6_e2m3fn): 6,
    np.dtype(ml_dtypes.float6_e3m2fn): 6,
}
"""The bits of every type of less than 8."""


def is_integer(dtype: np.dtype) -> bool:
    """Whether these are integers of less than 8 bits."""
    return dtype in SIGNED or dtype in UNSIGNED


def is_extended(array: np.ndarray) -> bool:
    """Whether every byte of an array of such elements is extended as it should be; true for other arrays."""
    width = WIDTHS.get(array.dtype)
    if width is None or not array.size:
        return True
    if array.dtype in SIGNED:
        numbers, limit = array.view(np.int8), 1 << (width - 1)
        return bool(numbers.min() >= -limit and numbers.max() < limit)
    return bool(array.view(np.uint8).max() < 1 << width)


def extended(array: np.ndarray) -> np.ndarray:
    """The array, or a copy with the same numbers if a byte of it is not extended as it should be."""
    if is_extended(array):
        return array
    signed = array.dtype in SIGNED
    return _extended(array.view(np.uint8), WIDTHS[array.dtype], signed=signed).view(array.dtype)


def packed_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Bytes that a tensor takes in an ONNX file."""
    return -(-prod(shape) * WIDTHS.get(dtype, 8 * dtype.itemsize) // 8)


def unpacked(data: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The tensor that `packed_bytes(shape, dtype)` bytes of an ONNX file hold; a view of them for whole bytes."""
    width = WIDTHS.get(dtype)
    if width is None:
        return data.view(dtype).reshape(shape)
    count = prod(shape)
    if 8 % width == 0:
        shifts = np.arange(0, 8, width, dtype=np.uint8)
        elements = (data[:, None] >> shifts).reshape(-1)[:count]
    else:
        bits = np.unpackbits(data, bitorder="little", count=count * width).reshape(count, width)
        elements = np.packbits(bits, axis=1, bitorder="little").reshape(-1)
    return _extended(elements, width, signed=dtype in SIGNED).view(dtype).reshape(shape)


def _extended(stored: np.ndarray, width: int, *, signed: bool) -> np.ndarray:
    """Bytes whose low bits count, sign- or zero-extended."""
    unused = np.uint8(8 - width)
    raised = stored << unused
    return (raised.view(np.int8) >> unused.view(np.int8)).view(np.uint8) if signed else raised >> unused
