"""Import of quantization, and of operators on quantized tensors.

QuantizeLinear and DequantizeLinear are operations of the graph level; what else there is becomes a formula:

- an integer product (MatMulInteger, ConvInteger) is a matmul or a convolution of the numbers less their zero points, in
  the fastest type that holds every sum exactly (f32, f64; i32 where sums may wrap), and then in i32;
- a quantized product (QLinearMatMul, QLinearConv) is the integer one, times `a_scale * b_scale / y_scale`, rounded by a
  `graph.quantize` of scale 1.

More operators on quantized tensors are in `contrib.quantized`.

The graph level broadcasts scales and zero points as numpy does, so the importer gives one per axis its place (`[c]`
becomes `[c, 1, 1]`), and repeats one per block over the block's elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import NodeProto, TensorProto
from xdsl.dialects.builtin import IntegerType, Signedness, f32, f64, i32
from xdsl.ir import Attribute, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import (
    is_float,
    is_integer,
    is_scale_float,
    is_tiny_float,
    normalize_axis,
    rank_of,
    shape_of,
    tensor_type,
)
from mlopt.frontend.onnx.convolution import convolution
from mlopt.frontend.onnx.elementwise import cast_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.ir.dtypes import from_numpy_dtype, to_numpy_dtype

MICROSOFT = "com.microsoft"
UI8 = IntegerType(8, Signedness.UNSIGNED)
_DIVISION_HAS_TYPE_OF_SCALE = 23
"""Since this version quotients are rounded to the type of the scale; before, f16 is divided in f32."""


# QuantizeLinear and DequantizeLinear


def _type_limit(node: NodeProto) -> str | None:
    """Types that attributes ask for and the IR does not have."""
    for attribute in node.attribute:
        if attribute.name in ("output_dtype", "precision") and attribute.i != TensorProto.UNDEFINED:
            dtype = cast_type(attribute.i)
            try:
                if dtype is not None:
                    from_numpy_dtype(dtype)
            except UnsupportedError:
                return f"with {attribute.name} {TensorProto.DataType.Name(attribute.i).lower()}"
    return None


@importer("QuantizeLinear", since=10, limit=_type_limit)
@importer("QuantizeLinear", since=1, domain=MICROSOFT, limit=_type_limit)
def quantize_linear(node: Node) -> SSAValue:
    """The zero point has the type of the result; without one `output_dtype` has, or it is uint8."""
    scale_type = node.type_of(1).element_type
    if is_scale_float(scale_type):
        scale_type = f32  # which holds all its numbers, and has a division
    if not is_float(scale_type):
        raise node.error(f"a scale {node.type_of(1)} is not supported", UnsupportedError)
    zero_point, declared = _parameter(node, 2), _type_attribute(node, "output_dtype")
    target = declared or UI8
    if zero_point is not None:
        target = tensor_type(zero_point.type).element_type
        if declared not in (None, target):
            raise node.error(f"expected output_dtype {target} as the zero point has it, found {declared}")
    narrow = node.proto.domain == MICROSOFT or node.opset < _DIVISION_HAS_TYPE_OF_SCALE
    work = _type_attribute(node, "precision") or (
        f32 if narrow and to_numpy_dtype(scale_type).itemsize < 4 else scale_type
    )
    saturate = is_tiny_float(target) and node.integer("saturate", 1) == 1
    x, scale = _cast(node, node.operand(0), work), _cast(node, _required_parameter(node, 1), work)
    return node.add(graph.QuantizeOp(x, scale, zero_point, target, saturate=saturate)).result


@importer("DequantizeLinear", since=10, limit=_type_limit)
@importer("DequantizeLinear", since=1, domain=MICROSOFT, limit=_type_limit)
def dequantize_linear(node: Node) -> SSAValue:
    """The result has the type of the scale, or `output_dtype`: computed in the wider of both, then rounded.

    A scale of float8e8m0 is taken in f32, which holds all powers of two that it may be.
    """
    scale = _required_parameter(node, 1)
    scale_type = tensor_type(scale.type).element_type
    target = _type_attribute(node, "output_dtype") or scale_type
    if not is_float(target):
        raise node.error(f"expected a result of f16, bf16 or f32 elements, found {target}")
    if is_scale_float(scale_type):
        scale = _cast(node, scale, f32)
    elif to_numpy_dtype(target).itemsize > to_numpy_dtype(scale_type).itemsize:
        scale = _cast(node, scale, target)
    result = node.add(graph.DequantizeOp(node.operand(0), scale, _parameter(node, 2))).result
    return _cast(node, result, target)


def _type_attribute(node: Node, name: str) -> Attribute | None:
    number = node.integer(name, TensorProto.UNDEFINED)
    if number == TensorProto.UNDEFINED:
        return None
    dtype = cast_type(number)
    if dtype is None:
        raise node.error(f"expected a type as the attribute {name}, found {number}")
    return from_numpy_dtype(dtype)


def _required_parameter(node: Node, index: int) -> SSAValue:
    node.operand(index)
    parameter = _parameter(node, index)
    assert parameter is not None
    return parameter


def _parameter(node: Node, index: int) -> SSAValue | None:
    """A scale or zero point of the first operand, in a shape that broadcasts to it; None if it is left out.

    One element stands for the whole tensor, rank 1 for one per position on `axis`, the rank of the tensor for one per
    block along `axis`.
    """
    parameter = node.optional(index)
    if parameter is None:
        return None
    shape, own = node.shape_of(0), shape_of(parameter)
    if own in ((), (1,)):
        return _reshaped(node, parameter, ())
    block = node.integer("block_size", 0)
    axis = normalize_axis(node.integer("axis", 1), len(shape)) if len(shape) > 1 else 0
    if block == 0 and len(own) == 1:
        return _on_axis(node, parameter, axis, len(shape))
    blocks = list(shape)
    if len(own) == len(shape):
        blocks[axis] = own[axis]
    if block <= 0 or own != tuple(blocks) or own[axis] != -(-shape[axis] // block):
        raise node.error(
            f"expected one number, one per position on axis {axis} or, with a block_size, one per block on it as "
            f"input {index} for {node.type_of(0)}, found {node.type_of(index)} and block_size {block}"
        )
    return repeated(node, parameter, axis, block, shape[axis])


def repeated(node: Node, value: SSAValue, axis: int, count: int, size: int) -> SSAValue:
    """Every position on `axis` `count` times in a row; the axis then ends at `size`."""
    shape = shape_of(value)
    before, after = shape[: axis + 1], shape[axis + 1 :]
    apart = _reshaped(node, value, (*before, 1, *after))
    spread = node.add(graph.ExpandOp(apart, (*before, count, *after))).result
    merged = _reshaped(node, spread, (*before[:-1], before[-1] * count, *after))
    if before[-1] * count == size:
        return merged
    stops = (*before[:-1], size, *after)
    return node.add(graph.SliceOp(merged, [0] * len(stops), stops)).result


# Integer products


@importer("MatMulInteger", since=10)
def matmul_integer(node: Node) -> SSAValue:
    """The product of 8-bit numbers less their zero points, in i32."""
    a_zero_point, b_zero_point = node.optional(2), node.optional(3)
    return integer_matmul(
        *(node, node.operand(0), a_zero_point and parameter_of_rows(node, a_zero_point)),
        *(node.operand(1), b_zero_point and parameter_of_columns(node, b_zero_point)),
    )


@importer("ConvInteger", since=10)
def conv_integer(node: Node) -> SSAValue:
    """The convolution of 8-bit numbers less their zero points, in i32; the padding is the input's zero point."""
    x_zero_point, w_zero_point = node.optional(2), node.optional(3)
    return _integer_conv(
        *(node, node.operand(0), x_zero_point and whole_parameter(node, x_zero_point)),
        *(node.operand(1), w_zero_point and _on_axis(node, w_zero_point, 0, node.rank_of(1))),
    )


def integer_matmul(
    node: Node, a: SSAValue, a_zero_point: SSAValue | None, b: SSAValue, b_zero_point: SSAValue | None
) -> SSAValue:
    work = _exact_type(prod(shape_of(a)[-1:]))
    centered = _centered(node, a, a_zero_point, work), _centered(node, b, b_zero_point, work)
    return _cast(node, node.add(graph.MatMulOp(*centered)).result, i32)


def _integer_conv(
    node: Node, x: SSAValue, x_zero_point: SSAValue | None, weight: SSAValue, w_zero_point: SSAValue | None
) -> SSAValue:
    work = _exact_type(prod(shape_of(weight)[1:]))
    centered = _centered(node, x, x_zero_point, work), _centered(node, weight, w_zero_point, work)
    return _cast(node, convolution(node, *centered), i32)


def _exact_type(count: int) -> Attribute:
    """The type to sum `count` products in of numbers of up to 8 bits less their zero points, exactly.

    None is larger than 255 * 255, so in any order no sum is larger than `count` times that. f32 has all integers up to
    2**24, f64 up to 2**53; where i32 wraps, so must the sum.
    """
    largest = count * 255 * 255
    return f32 if largest <= 1 << 24 else f64 if largest < 1 << 31 else i32


def _centered(node: Node, value: SSAValue, zero_point: SSAValue | None, element: Attribute) -> SSAValue:
    """The difference from the zero point in that type."""
    if not is_integer(tensor_type(value.type).element_type):
        raise node.error(f"a product of {value.type} is not supported", UnsupportedError)
    wide = _cast(node, value, element)
    if zero_point is None:
        return wide
    return node.add(graph.SubOp(wide, _cast(node, zero_point, element))).result


# Quantized products


@importer("QLinearMatMul", since=10)
def qlinear_matmul(node: Node) -> SSAValue:
    """Operands a, b and y are three inputs each (y without the numbers): numbers, scale, zero point."""
    total = integer_matmul(
        *(node, node.operand(0), parameter_of_rows(node, node.operand(2))),
        *(node.operand(3), parameter_of_columns(node, node.operand(5))),
    )
    scales = [parameter_of_rows(node, node.operand(1)), parameter_of_columns(node, node.operand(4))]
    y_scale, y_zero_point = parameter_of_rows(node, node.operand(6)), parameter_of_rows(node, node.operand(7))
    return requantized(node, total, scales, y_scale, y_zero_point)


@importer("QLinearConv", since=10)
def qlinear_conv(node: Node) -> SSAValue:
    """The bias, in i32, has the scale of the products; the padding is the input's zero point."""
    rank = node.rank_of(3)
    total = _integer_conv(
        *(node, node.operand(0), whole_parameter(node, node.operand(2))),
        *(node.operand(3), _on_axis(node, node.operand(5), 0, rank)),
    )
    bias = node.optional(8)
    if bias is not None:
        total = node.add(graph.AddOp(total, _on_axis(node, bias, 1, rank))).result
    scales = [whole_parameter(node, node.operand(1)), _on_axis(node, node.operand(4), 1, rank)]
    y_scale, y_zero_point = whole_parameter(node, node.operand(6)), whole_parameter(node, node.operand(7))
    return requantized(node, total, scales, y_scale, y_zero_point)


def scaled_sum(
    node: Node, total: SSAValue, scales: Sequence[SSAValue], divisor: SSAValue | None = None
) -> SSAValue:
    """`total`, in i32, times the product of the scales over the divisor, in f32.

    The factor is computed first, as onnxruntime does: it is the same for a row, a column or the whole.
    """
    factor, *others = (_cast(node, scale, f32) for scale in scales)
    for scale in others:
        factor = node.add(graph.MulOp(factor, scale)).result
    if divisor is not None:
        factor = node.add(graph.DivOp(factor, _cast(node, divisor, f32))).result
    return node.add(graph.MulOp(_cast(node, total, f32), factor)).result


def requantized(
    node: Node, total: SSAValue, scales: Sequence[SSAValue], y_scale: SSAValue, y_zero_point: SSAValue
) -> SSAValue:
    """Sums of products of numbers with these scales as numbers of the scale and zero point of y."""
    number = scaled_sum(node, total, scales, y_scale)
    one = node.constant(np.array(1, np.float32))
    target = tensor_type(y_zero_point.type).element_type
    return node.add(graph.QuantizeOp(number, one, y_zero_point, target)).result


@importer("DynamicQuantizeLinear", since=11, outputs=3)
def dynamic_quantize_linear(node: Node) -> Sequence[SSAValue]:
    """Numbers, scale and zero point."""
    return dynamically_quantized(node, node.operand(0))


def dynamically_quantized(node: Node, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """To uint8, with the scale and zero point that the smallest and largest number and 0 ask for.

    The definition in the standard divides by 0 if all numbers are 0; the scale is then 1, as in onnxruntime.
    """
    axes = range(rank_of(x))
    zero, one, top = (node.constant(np.array(number, np.float32)) for number in (0, 1, 255))
    low = node.add(graph.MinOp(node.add(graph.ReduceMinOp(x, axes)).result, zero)).result
    high = node.add(graph.MaxOp(node.add(graph.ReduceMaxOp(x, axes)).result, zero)).result
    step = node.add(graph.DivOp(node.add(graph.SubOp(high, low)).result, top)).result
    flat = node.add(graph.EqualOp(low, high)).result
    scale = node.add(graph.WhereOp(flat, one, step)).result
    start = node.add(graph.NegOp(node.add(graph.DivOp(low, scale)).result)).result
    zero_point = node.add(graph.QuantizeOp(start, one, None, UI8)).result
    return node.add(graph.QuantizeOp(x, scale, zero_point, UI8)).result, scale, zero_point


# Shapes and types


def whole_parameter(node: Node, value: SSAValue) -> SSAValue:
    """A scale or zero point of a whole tensor, with rank 0."""
    if shape_of(value) not in ((), (1,)):
        raise node.error(f"expected a scale or zero point of one element, found {value.type}")
    return _reshaped(node, value, ())


def _on_axis(node: Node, value: SSAValue, axis: int, rank: int) -> SSAValue:
    """A vector with one element per position on `axis` of a tensor of that rank; a single one is for all of it."""
    shape = shape_of(value)
    if shape in ((), (1,)):
        return _reshaped(node, value, ())
    if len(shape) != 1:
        raise node.error(f"expected a scale or zero point of rank 0 or 1, found {value.type}")
    return _reshaped(node, value, (*shape, *[1] * (rank - axis - 1)))


def parameter_of_rows(node: Node, value: SSAValue) -> SSAValue:
    """One number for a matrix, or one per row: a vector, or a column in each matrix of a stack."""
    return _on_axis(node, value, 0, 2) if len(shape_of(value)) < 2 else value


def parameter_of_columns(node: Node, value: SSAValue) -> SSAValue:
    """One number for a matrix, or one per column: a vector, or a row in each matrix of a stack."""
    return _on_axis(node, value, 0, 1) if len(shape_of(value)) < 2 else value


def _reshaped(node: Node, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    return value if shape_of(value) == tuple(shape) else node.add(graph.ReshapeOp(value, shape)).result


def _cast(node: Node, value: SSAValue, element: Attribute) -> SSAValue:
    if tensor_type(value.type).element_type == element:
        return value
    return node.add(graph.CastOp(value, element)).result
