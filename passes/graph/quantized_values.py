"""Values of the QDQ form: numbers that `graph.dequantize` makes of integers, with constant scales and zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, f32, i8, i16
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_unsigned, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import integer_range
from mlopt.passes.graph.constants import constant_value
from mlopt.passes.graph.fusion import described

Array: TypeAlias = np.ndarray
EXACT = 1 << 24
"""f32 holds every integer up to this one."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """`(integers - zero) * scale`, of one scale and zero point for the whole tensor."""

    integers: SSAValue
    scale: float
    zero: int

    @property
    def element(self) -> Attribute:
        """The type of the integers."""
        return element_of(self.integers)

    @property
    def largest(self) -> int:
        """The largest magnitude of the integers."""
        low, high = integer_range(self.element)
        return max(-low, high)

    def same_numbers(self, other: Quantized) -> bool:
        """Whether equal integers stand for equal numbers."""
        return (self.element, self.scale, self.zero) == (other.element, other.scale, other.zero)


@dataclass(frozen=True, slots=True)
class QuantizedConstant:
    """Constant `integers * scale`, f64 arrays of one shape: the zero point is subtracted already.

    `source` is the constant that they come from, and `is_plain` says that it holds just these integers as i8 or i16.
    """

    integers: Array
    scale: Array
    source: SSAValue
    is_plain: bool

    def scale_along(self, axes: Sequence[int]) -> Array | None:
        """The scale with extent 1 along `axes`; None if it varies there, and any one if there are no numbers."""
        if not self.scale.size:
            return np.ones([1 if axis in axes else size for axis, size in enumerate(self.scale.shape)])
        first = self.scale
        for axis in axes:
            first = np.take(first, [0], axis=axis)
        return first if bool(np.all(self.scale == first)) else None


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor."""
    return tensor_type(value.type).element_type


def single_number(value: SSAValue | None, ctx: CompilerContext) -> float | None:
    """The number that a constant of one element holds, 0 for an operand left out; None for anything else."""
    if value is None:
        return 0.0
    array = constant_value(value, ctx)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


_WIDTHS: Mapping[Attribute, int] = {
    IntegerType(width, signedness): width
    for width in (8, 16)
    for signedness in (Signedness.SIGNLESS, Signedness.UNSIGNED)
}


def width_of(element: Attribute) -> int | None:
    """The bits of the integers that are looked at here: 8 or 16; None for other elements."""
    return _WIDTHS.get(element)


def is_usable(scale: float, width: int) -> bool:
    """Whether integers of that many bits have products with the scale that are neither infinite nor subnormal."""
    limits = np.finfo(np.float32)
    return float(limits.tiny) <= scale <= float(limits.max) / (1 << width)


def quantized(value: SSAValue, ctx: CompilerContext) -> Quantized | None:
    """What `value` dequantizes: integers of 8 or 16 bits to f32, by constants; None for anything else."""
    op = value.owner
    if not isinstance(op, graph.DequantizeOp) or element_of(value) != f32:
        return None
    return _parameters(op.input, op.scale, op.zero_point, ctx)


def quantized_as(op: graph.QuantizeOp, ctx: CompilerContext) -> Quantized | None:
    """What `op` quantizes f32 numbers to, likewise."""
    return (
        _parameters(op.result, op.scale, op.zero_point, ctx)
        if element_of(op.input) == f32 and rank_of_parameters(op) == 0
        else None
    )


def why_unknown(op: graph.QuantizeOp | graph.DequantizeOp, ctx: CompilerContext) -> str | None:
    """Why there is nothing that `op` quantizes to, or dequantizes, or None."""
    is_known = quantized_as(op, ctx) if isinstance(op, graph.QuantizeOp) else quantized(op.result, ctx)
    if is_known is not None:
        return None
    numbers, integers = (op.input, op.result) if isinstance(op, graph.QuantizeOp) else (op.result, op.input)
    parameters = [value for value in (op.scale, op.zero_point) if value is not None]
    if element_of(numbers) != f32:
        return f"{described(op)} is of {element_of(numbers)}, not f32"
    if width_of(element_of(integers)) is None:
        return f"{described(op)} is of {element_of(integers)}, not integers of 8 or 16 bits"
    if any(constant_value(value, ctx) is None for value in parameters):
        return f"the scale or zero point of {described(op)} is not constant"
    if any(single_number(value, ctx) is None for value in parameters):
        return f"{described(op)} has several scales or zero points"
    return f"products with the scale of {described(op)} would not be normal numbers"


def rank_of_parameters(op: graph.QuantizeOp) -> int:
    """How many elements scale and zero point have beyond one."""
    sizes = [int(np.prod(shape_of(value))) for value in (op.scale, op.zero_point) if value is not None]
    return max(sizes) - 1


def _parameters(
    integers: SSAValue, scale: SSAValue, zero: SSAValue | None, ctx: CompilerContext
) -> Quantized | None:
    width = width_of(element_of(integers))
    factor, start = single_number(scale, ctx), single_number(zero, ctx)
    if width is None or factor is None or start is None or not is_usable(factor, width):
        return None
    return Quantized(integers, factor, int(start))


def quantized_constant(value: SSAValue, ctx: CompilerContext) -> QuantizedConstant | None:
    """The constant that `value` dequantizes, through transposes and reshapes; scale and zero point may vary."""
    op = value.owner
    match op:
        case graph.TransposeOp():
            inner = quantized_constant(op.input, ctx)
            return inner and QuantizedConstant(
                inner.integers.transpose(op.permutation),
                inner.scale.transpose(op.permutation),
                inner.source,
                is_plain=False,
            )
        case graph.ReshapeOp():
            inner, shape = quantized_constant(op.input, ctx), shape_of(op.result)
            return inner and QuantizedConstant(
                inner.integers.reshape(shape), inner.scale.reshape(shape), inner.source, is_plain=False
            )
        case graph.DequantizeOp() if element_of(value) == f32 and isinstance(
            element_of(op.input), IntegerType
        ):
            integers, scale = _in_f64(op.input, ctx), _in_f64(op.scale, ctx)
            zero = np.zeros(()) if op.zero_point is None else _in_f64(op.zero_point, ctx)
            if integers is None or scale is None or zero is None:
                return None
            centered = integers - zero
            is_plain = element_of(op.input) in (i8, i16) and not np.any(zero)
            return QuantizedConstant(centered, np.broadcast_to(scale, centered.shape), op.input, is_plain)
        case _:
            return None


def _in_f64(value: SSAValue, ctx: CompilerContext) -> Array | None:
    array = constant_value(value, ctx)
    return None if array is None else array.astype(np.float64)


def signed(values: Quantized) -> tuple[list[Operation], SSAValue]:
    """The integers as i8 or i16, and the operation that makes them so, if one is needed."""
    if not is_unsigned(values.element):
        return [], values.integers
    cast = graph.CastOp(values.integers, i16)
    return [cast], cast.result


def with_elements(value: SSAValue, element: Attribute) -> TensorType[Attribute]:
    """The type of a tensor with other elements."""
    return TensorType(element, shape_of(value))
