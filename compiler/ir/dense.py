"""The elements of dense constants as text and as bytes, bit for bit.

xDSL prints infinities, NaN and large whole numbers inside `dense<...>` in hexadecimal and reads them back as
integers, and it packs `i1` otherwise than MLIR. Here a hexadecimal element of a float type is its bit pattern, and
the `dense<"0x...">` form of `i1` holds a bit per element, as in MLIR. In memory an element takes the bytes that
xDSL gives it: one for `i1` and for anything narrower than a byte.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
from typing_extensions import TypeIs
from xdsl.dialects.builtin import ComplexType, DenseIntOrFPElementsAttr, IndexType, IntegerType, Signedness
from xdsl.ir import Attribute

FLOAT_DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
}
"""Name of a float type in the IR → numpy's type of the same bits."""

_BITS = tuple(IntegerType(1, signedness) for signedness in Signedness)
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_FLOAT_LITERAL = re.compile(r"-?[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")


def is_integer(element_type: Attribute) -> TypeIs[IntegerType | IndexType]:
    """Whether elements are integers, `index` included."""
    return isinstance(element_type, IntegerType | IndexType)


def is_complex(element_type: Attribute) -> TypeIs[ComplexType]:
    """Whether elements are complex numbers."""
    return isinstance(element_type, ComplexType)


def is_dense(attribute: Attribute) -> TypeIs[DenseIntOrFPElementsAttr]:
    """Whether an attribute is a constant `dense<...>`."""
    return isinstance(attribute, DenseIntOrFPElementsAttr)


class ElementError(ValueError):
    """A literal that its element type can't hold; the message is one sentence."""


def float_dtype(element_type: Attribute) -> np.dtype | None:
    """The numpy type of a float type, or None if numpy has none (f80, f128, tf32) or it is no float type."""
    return FLOAT_DTYPES.get(element_type.name)


def float_width(element_type: Attribute) -> int:
    """The bits that a float type of `FLOAT_DTYPES` defines; the byte it is stored in may have more."""
    if element_type.name.startswith("f4E"):
        return 4
    if element_type.name.startswith("f6E"):
        return 6
    return 8 * FLOAT_DTYPES[element_type.name].itemsize


def element_bytes(element_type: Attribute) -> int:
    """Bytes that one element takes in a `dense` attribute's data; `ElementError` for a type without data."""
    if is_complex(element_type):
        return 2 * element_bytes(element_type.element_type)
    if is_integer(element_type):
        return 8 if isinstance(element_type, IndexType) else integer_bytes(element_type.width.data)
    dtype = float_dtype(element_type)
    if dtype is None:
        raise ElementError(f"constants of element type {element_type} are not supported")
    return dtype.itemsize


def integer_bytes(width: int) -> int:
    """Bytes of an integer of that many bits: the next power of two, up to 8."""
    size = 1
    while 8 * size < width:
        size *= 2
    if size > 8:
        raise ElementError(f"constants of integers wider than 64 bits are not supported, found i{width}")
    return size


def float_bits(text: str, element_type: Attribute) -> bytes:
    """The stored bytes of one float element from its literal: decimal (rounded to nearest) or hexadecimal bits."""
    dtype = float_dtype(element_type)
    if dtype is None:
        raise ElementError(f"constants of element type {element_type} are not supported")
    digits = text.removeprefix("-")
    if digits[:2] in ("0x", "0X"):
        if digits != text:
            raise ElementError("a hexadecimal float literal is a bit pattern and takes no sign")
        bits = int(digits, 16)
        if bits.bit_length() > float_width(element_type):
            raise ElementError(f"hexadecimal float literal {text} is out of range for type {element_type}")
        return bits.to_bytes(dtype.itemsize, "little")
    with np.errstate(over="ignore", invalid="ignore"):
        return np.float64(float(text)).astype(dtype).tobytes()


def float_text(stored: bytes, element_type: Attribute) -> str:
    """The literal of one float element: as MLIR prints it, decimal if that reads back as the same bits."""
    if float_dtype(element_type) is None:
        raise ElementError(f"constants of element type {element_type} are not supported")
    bits = int.from_bytes(stored, "little")
    with np.errstate(invalid="ignore"):
        value = float(np.frombuffer(stored, FLOAT_DTYPES[element_type.name])[0].astype(np.float64))
    if np.isfinite(value):
        short = f"{value:.5e}"
        mantissa, _, exponent = short.partition("e")
        for text in (f"{mantissa}0e{exponent}", f"{value:.9g}", f"{value:.17g}"):
            if _FLOAT_LITERAL.fullmatch(text) and float_bits(text, element_type) == stored:
                return text
    return f"0x{bits:0{2 * len(stored)}X}"


def integer_bytes_of(value: int, element_type: IntegerType | IndexType) -> bytes:
    """The stored bytes of an integer element; `ElementError` if the type can't hold it."""
    if isinstance(element_type, IndexType):
        width, size, low, high = 64, 8, -(1 << 63), 1 << 63
    else:
        width = element_type.width.data
        size = integer_bytes(width)
        low, high = element_type.value_range()
    if not low <= value < high:
        raise ElementError(f"integer literal {value} is out of range for type {element_type}")
    if is_i1(element_type):
        return bytes([value & 1])
    if value >= 1 << (width - 1) and not _is_unsigned(element_type):
        value -= 1 << width
    return value.to_bytes(size, "little", signed=not _is_unsigned(element_type))


def integers(stored: bytes, element_type: IntegerType | IndexType) -> list[int]:
    """The integer values of stored elements."""
    size = 8 if isinstance(element_type, IndexType) else integer_bytes(element_type.width.data)
    table = _UNSIGNED if _is_unsigned(element_type) else _SIGNED
    return np.frombuffer(stored, table[size]).tolist()


def is_i1(element_type: Attribute) -> bool:
    """Whether elements are single bits, which the hexadecimal form packs."""
    return element_type in _BITS


def pack_hex(stored: bytes, element_type: Attribute) -> str:
    """The text of the `dense<"0x...">` form, without quotes."""
    if is_i1(element_type):
        bits = np.frombuffer(stored, np.uint8) & 1
        stored = np.packbits(bits, bitorder="little").tobytes()
    return f"0x{stored.hex().upper()}"


def unpack_hex(text: str, element_type: Attribute, count: int) -> bytes:
    """The stored bytes of `count` elements from the `dense<"0x...">` form, splats included."""
    if not text.startswith("0x"):
        raise ElementError("the string of a dense attribute must start with 0x")
    try:
        raw = bytes.fromhex(text[2:])
    except ValueError:
        raise ElementError(
            "the string of a dense attribute holds a character that is no hexadecimal digit"
        ) from None
    if is_i1(element_type):
        if len(raw) == 1 and raw[0] in (0x00, 0xFF):
            return bytes([raw[0] & 1]) * count
        if len(raw) != (count + 7) // 8:
            raise ElementError(
                f"expected {(count + 7) // 8} bytes for {count} bit-packed i1 elements, found {len(raw)}"
            )
        return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little", count=count).tobytes()
    size = element_bytes(element_type)
    if len(raw) not in (size, size * count):
        raise ElementError(
            f"expected {size * count} bytes for {count} elements of type {element_type}, found {len(raw)}"
        )
    _require_in_range(raw, element_type)
    return raw * count if len(raw) == size else raw


def _require_in_range(stored: bytes, element_type: Attribute) -> None:
    """Raise unless bytes that hold numbers of fewer bits are extended from these."""
    width = 8 if float_dtype(element_type) is None else float_width(element_type)
    if width < 8 and max(stored, default=0) >> width:
        raise ElementError(f"byte {max(stored):#x} is out of range for type {element_type}")
    if not is_integer(element_type) or isinstance(element_type, IndexType) or element_type.bitwidth % 8 == 0:
        return
    low, high = element_type.value_range()
    if not _is_unsigned(element_type):
        high = 1 << (element_type.bitwidth - 1)
    wrong = next((value for value in integers(stored, element_type) if not low <= value < high), None)
    if wrong is not None:
        raise ElementError(f"integer {wrong} is out of range for type {element_type}")


def is_splat(stored: bytes, size: int) -> bool:
    """Whether all elements of `size` bytes have the same bits."""
    if len(stored) <= size:
        return len(stored) == size
    return stored[size:] == stored[:-size]


def _is_unsigned(element_type: IntegerType | IndexType) -> bool:
    return isinstance(element_type, IntegerType) and element_type.signedness.data == Signedness.UNSIGNED
