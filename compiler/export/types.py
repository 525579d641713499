"""Element types of the IR and ONNX's, arrays as ONNX tensors, and types that stand in for others."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from mlopt.dialects.graph.base import is_tiny_float, is_unsigned
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.weights import sub_byte


def onnx_type(element: Attribute) -> int:
    """The ONNX number of an element type; `UnsupportedError` if there is none."""
    return helper.np_dtype_to_tensor_dtype(to_numpy_dtype(element))


def since_opset(element: Attribute) -> int:
    """The operator set in which the standard took up an element type, for those that are newer than the oldest used."""
    return _SINCE.get(to_numpy_dtype(element).name, 1)


_SINCE = {
    **dict.fromkeys(("int4", "uint4"), 21),
    "float4_e2m1fn": 23,
    "float8_e8m0fnu": 24,
    **dict.fromkeys(("int2", "uint2"), 25),
    **dict.fromkeys(("float6_e2m3fn", "float6_e3m2fn"), 28),
}


def is_packed(element: Attribute) -> bool:
    """Whether ONNX has several elements in a byte, where arrays have one."""
    return to_numpy_dtype(element) in sub_byte.WIDTHS


def tensor_proto(array: np.ndarray, name: str) -> TensorProto:
    """The array as an ONNX tensor, bit for bit, little-endian and packed as ONNX has it."""
    return numpy_helper.from_array(array, name)


def type_string(element: Attribute) -> str:
    """An element type as ONNX's schemas name it: `tensor(float)`."""
    return f"tensor({TensorProto.DataType.Name(onnx_type(element)).lower()})"


@cache
def allowed_types(onnx_op: str, opset: int) -> tuple[tuple[str, Collection[str] | None], ...]:
    """For each formal input of an operator its type variable and what that may be.

    The variable is "" and the set has one type where the type is fixed; a variadic input comes last.
    """
    schema = defs.get_schema(onnx_op, opset)
    constraints = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}
    return tuple(
        (formal.type_str, constraints[formal.type_str])
        if formal.type_str in constraints
        else ("", frozenset({formal.type_str}))
        for formal in schema.inputs
    )


@cache
def output_variables(onnx_op: str, opset: int) -> tuple[str, ...]:
    """For each formal output of an operator its type variable, or its fixed type."""
    return tuple(formal.type_str for formal in defs.get_schema(onnx_op, opset).outputs)


def carrier(element: Attribute, allowed: Collection[str]) -> Attribute | None:
    """The first type of `allowed` that holds every number of `element`; None if there is none.

    Signed integers come first, which engines have most operators for, and floats last: sums and products that wrap are
    those of the narrow type in its low bits.
    """
    return next((wide for wide in _wider(element) if type_string(wide) in allowed), None)


def integer_width(element: Attribute) -> int:
    """The bits of an integer type; 0 for another type."""
    match element:
        case IntegerType():
            return element.width.data
        case _:
            return 0


def _wider(element: Attribute) -> tuple[Attribute, ...]:
    """Types that hold every number of `element`, the narrow ones first."""
    width = integer_width(element)
    if width == 1:
        return (IntegerType(8, Signedness.UNSIGNED), IntegerType(32))
    if width > 1:
        wider = [wide for wide in (8, 16, 32, 64) if wide > width]
        unsigned = [IntegerType(wide, Signedness.UNSIGNED) for wide in wider] if is_unsigned(element) else []
        floats = ((11, Float16Type()), (24, Float32Type()), (53, Float64Type()))
        return (*map(IntegerType, wider), *unsigned, *(wide for digits, wide in floats if width <= digits))
    if is_tiny_float(element) or isinstance(element, Float16Type | BFloat16Type):
        return (Float32Type(), Float64Type())
    return (Float64Type(),) if isinstance(element, Float32Type) else ()
