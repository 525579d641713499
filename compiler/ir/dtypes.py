"""Element types of the IR and numpy's: which stands for which, and constants as arrays.

`iN` and `siN` are numpy's signed integers, `uiN` its unsigned ones, `i1` is bool, `index` int64. Integers of 4 and 2
bits, and float types narrower than numpy's own, come from `ml_dtypes`; each element takes a byte (see
`mlopt.weights.sub_byte`).
"""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    AnyDenseElement,
    BFloat16Type,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    RankedStructure,
    Signedness,
    TensorType,
    f4E2M1FN,
    f6E2M3FN,
    f6E3M2FN,
    f8E4M3FN,
    f8E4M3FNUZ,
    f8E5M2,
    f8E5M2FNUZ,
    f8E8M0FNU,
)
from xdsl.ir import Attribute

from mlopt.diagnostics import UnsupportedError, VerifyFailure
from mlopt.dialects.mlopt import WeightAttr
from mlopt.ir.dense import FLOAT_DTYPES, integer_bytes, is_dense, is_i1
from mlopt.weights import WeightStore
from mlopt.weights.sub_byte import extended

MAX_DENSE_ELEMENTS = 64
"""Constants of more elements than this live in the weight store."""

_FROM_NUMPY: dict[str, AnyDenseElement] = {
    "bool": IntegerType(1),
    "float16": Float16Type(),
    "float32": Float32Type(),
    "float64": Float64Type(),
    "bfloat16": BFloat16Type(),
    "float8_e4m3fn": f8E4M3FN,
    "float8_e5m2": f8E5M2,
    "float8_e4m3fnuz": f8E4M3FNUZ,
    "float8_e5m2fnuz": f8E5M2FNUZ,
    "float8_e8m0fnu": f8E8M0FNU,
    "float6_e2m3fn": f6E2M3FN,
    "float6_e3m2fn": f6E3M2FN,
    "float4_e2m1fn": f4E2M1FN,
    "complex64": ComplexType(Float32Type()),
    "complex128": ComplexType(Float64Type()),
    **{f"int{width}": IntegerType(width) for width in (2, 4, 8, 16, 32, 64)},
    **{f"uint{width}": IntegerType(width, Signedness.UNSIGNED) for width in (2, 4, 8, 16, 32, 64)},
}


def to_numpy_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The numpy type of an element type; `UnsupportedError` if there is none."""
    match element_type:
        case IndexType():
            return np.dtype(np.int64)
        case IntegerType() if is_i1(element_type):
            return np.dtype(np.bool_)
        case IntegerType() if element_type.width.data <= 64:
            kind = "u" if element_type.signedness.data == Signedness.UNSIGNED else ""
            width = element_type.width.data
            return np.dtype(f"{kind}int{width if width in (2, 4) else 8 * integer_bytes(width)}")
        case ComplexType(element_type=Float32Type()):
            return np.dtype(np.complex64)
        case ComplexType(element_type=Float64Type()):
            return np.dtype(np.complex128)
        case _:
            dtype = FLOAT_DTYPES.get(element_type.name)
            if dtype is None:
                raise UnsupportedError(f"element type {element_type} has no numpy type")
            return dtype


def integer_range(element_type: Attribute) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    limits = cast(Any, ml_dtypes.iinfo(to_numpy_dtype(element_type)))
    return int(limits.min), int(limits.max)


def largest_number(element_type: Attribute) -> float:
    """The largest finite number of a floating-point type."""
    limits = cast(Any, ml_dtypes.finfo(to_numpy_dtype(element_type)))
    return float(limits.max)


def from_numpy_dtype(dtype: np.dtype[Any]) -> AnyDenseElement:
    """The element type of a numpy type: `uiN` for an unsigned one. `UnsupportedError` if there is none."""
    element_type = _FROM_NUMPY.get(dtype.name)
    if element_type is None:
        raise UnsupportedError(f"numpy type {dtype.name} has no element type")
    return element_type


def typed_array(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The array as it is, unless its elements are raw bytes (numpy's void) of the size of `dtype`: then of that type.

    Numpy's files give such bytes for the types that it does not know itself.
    """
    is_raw = array.dtype.type is np.void and array.dtype.names is None
    return array.view(dtype) if is_raw and array.dtype.itemsize == dtype.itemsize else array


def dense_to_array(attribute: DenseIntOrFPElementsAttr) -> np.ndarray:
    """The values of a constant in its shape, read-only; a view of its bytes except for `i1`."""
    element_type = attribute.type.element_type
    data = attribute.data.data
    if is_i1(element_type):
        array = np.frombuffer(data, np.uint8) != 0
        array.flags.writeable = False
    else:
        array = np.frombuffer(data, to_numpy_dtype(element_type))
    return array.reshape(attribute.type.get_shape())


def array_to_dense(
    array: np.ndarray, type: RankedStructure[AnyDenseElement] | None = None
) -> DenseIntOrFPElementsAttr:
    """A constant with the array's bytes, bit for bit: infinities, NaN payloads and -0.0 too.

    `type` must have the array's shape and element type; if not given, it is the tensor type that has.
    """
    if type is None:
        type = TensorType(from_numpy_dtype(array.dtype), array.shape)
    if tuple(type.get_shape()) != array.shape or to_numpy_dtype(type.element_type) != array.dtype:
        raise ValueError(f"an array {array.dtype}{list(array.shape)} is no constant of type {type}")
    return DenseIntOrFPElementsAttr(type, BytesAttr(np.ascontiguousarray(extended(array)).tobytes()))


def constant_attr(
    array: np.ndarray, weights: WeightStore, name: str
) -> DenseIntOrFPElementsAttr | WeightAttr:
    """The value attribute of a constant: `dense<...>` up to 64 elements, else `#mlopt.weight<...>`.

    The store's entry is called `name`, or has another name if an equal array is stored already or `name` is taken.
    """
    if array.size <= MAX_DENSE_ELEMENTS:
        return array_to_dense(array)
    return WeightAttr(weights.add(array, name))


def constant_array(value: Attribute, weights: WeightStore | None) -> np.ndarray:
    """The array of a constant's value attribute, read-only, as it lies in memory.

    `VerifyFailure` if the attribute is no constant's value, or names a weight that is not stored.
    """
    if is_dense(value):
        return dense_to_array(value)
    if not isinstance(value, WeightAttr):
        raise VerifyFailure(f'expected dense<...> or #mlopt.weight<"...">, found {value}')
    name = value.weight.data
    if weights is None or name not in weights:
        raise VerifyFailure(f'expected a weight called "{name}", but the weights that were given have none')
    return weights.view(name)
