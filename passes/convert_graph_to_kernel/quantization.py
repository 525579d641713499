"""Quantize and dequantize: one `kernel.map` each, with scale and zero point broadcast by index maps."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i32
from xdsl.ir import Attribute, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_tiny_float, is_unsigned
from mlopt.passes.convert_graph_to_kernel.conversion import element_of
from mlopt.passes.convert_graph_to_kernel.elementwise import elementwise
from mlopt.passes.convert_graph_to_kernel.scalars import (
    Scalars,
    accumulator,
    highest,
    integer_type,
    lowest,
    signless,
)


@elementwise(graph.QuantizeOp)
def _quantize(
    s: Scalars, op: graph.QuantizeOp, x: SSAValue, scale: SSAValue, *zero_point: SSAValue
) -> SSAValue:
    target = element_of(op.result)
    number = s.widen(x if _is(1, scale) else s.div(x, scale))
    if is_tiny_float(target):
        for zero in zero_point:
            number = s.add(number, s.cast(zero, target, number.type))
        return s.cast(number, number.type, target, saturate=op.saturate is not None)
    number = s.emit(math.RoundEvenOp(number))
    for zero in zero_point:
        if not _is(0, zero):
            number = s.add(number, _number(s, zero, target, number.type))
    # The lowest number wins over NaN; what is then in range converts without saturation.
    number = s.emit(arith.MaxnumfOp(number, s.like(lowest(target), number)))
    number = s.minimum(number, s.like(highest(target), number))
    conversion = arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp
    return s.emit(conversion(number, integer_type(signless(target))))


@elementwise(graph.DequantizeOp)
def _dequantize(
    s: Scalars, op: graph.DequantizeOp, x: SSAValue, scale: SSAValue, *zero_point: SSAValue
) -> SSAValue:
    source, target = element_of(op.input), element_of(op.scale)
    work = accumulator(target)
    # Numbers of up to 16 bits differ exactly in f32; those of 32 bits are subtracted as integers.
    exact: Attribute = i32 if source == i32 else f32
    difference = s.cast(x, source, exact)
    for zero in zero_point:
        if not _is(0, zero):
            difference = s.sub(difference, _number(s, zero, source, exact))
    product = s.mul(s.cast(difference, exact, work), s.widen(scale))
    return s.truncate(product, target)


def _number(s: Scalars, x: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """`x`, of graph-level type `source`, in a type that holds all its numbers; a constant of it if `x` is one."""
    if not (isinstance(x.owner, arith.ConstantOp) and isinstance(x.owner.value, IntegerAttr)):
        return s.cast(x, source, target)
    bits = x.owner.value.value.data
    return s.number(bits % (1 << integer_type(source).bitwidth) if is_unsigned(source) else bits, target)


def _is(number: int, x: SSAValue) -> bool:
    """Whether a scalar is that number as a constant."""
    return (
        isinstance(x.owner, arith.ConstantOp)
        and isinstance(x.owner.value, IntegerAttr | FloatAttr)
        and x.owner.value.value.data == number
    )
