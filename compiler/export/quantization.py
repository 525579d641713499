"""Quantize and dequantize: ONNX has one scale for a tensor, one for each position along an axis, or one for each block.

Scales that differ along several axes become blocks of one element: a scale for each number.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_tiny_float, rank_of, shape_of
from mlopt.export.builder import Attributes, Builder, Value, element_of
from mlopt.export.registry import exports
from mlopt.export.types import is_packed, onnx_type
from mlopt.ir.dtypes import to_numpy_dtype


@exports(graph.QuantizeOp)
def quantize(builder: Builder, op: graph.QuantizeOp) -> None:
    """Without a zero point one of 0 says the type, where operator sets without an attribute for it have the rest."""
    operands, attributes = _parameters(builder, op)
    element = element_of(op.result)
    if op.zero_point is None and ("block_size" in attributes or is_packed(element)):
        attributes = {**attributes, "output_dtype": onnx_type(element)}
    elif op.zero_point is None:
        shape = [shape_of(op.input)[axis] for axis in _axes(op, op.scale)]
        operands = [*operands, builder.numbers(np.zeros(shape, to_numpy_dtype(element)), element)]
    if is_tiny_float(element) and not is_packed(element):
        attributes = {**attributes, "saturate": int(op.saturate is not None)}
    builder.node(op, "QuantizeLinear", operands, attributes)


@exports(graph.DequantizeOp)
def dequantize(builder: Builder, op: graph.DequantizeOp) -> None:
    builder.node(op, "DequantizeLinear", *_parameters(builder, op))


def _parameters(
    builder: Builder, op: graph.QuantizeOp | graph.DequantizeOp
) -> tuple[list[SSAValue | Value], Attributes]:
    """The inputs, scale and zero point in a shape that ONNX knows, and the attributes that say which."""
    parameters = [op.scale] if op.zero_point is None else [op.scale, op.zero_point]
    axes = sorted({axis for value in parameters for axis in _axes(op, value)})
    if len(axes) > 1:
        whole = shape_of(op.input)
        operands = [
            value if shape_of(value) == whole else builder.part("Expand", [value, builder.ints(whole)])
            for value in parameters
        ]
        return [op.input, *operands], {"axis": axes[0], "block_size": 1}
    shape = [shape_of(op.input)[axis] for axis in axes]
    operands = [op.input, *(_of_shape(builder, value, shape) for value in parameters)]
    return operands, {"axis": axes[0]} if axes else {}


def _axes(op: graph.QuantizeOp | graph.DequantizeOp, value: SSAValue) -> list[int]:
    """The axes of the input that a scale or zero point, aligned at the right, has more than one number for."""
    offset = rank_of(op.input) - rank_of(value)
    return [offset + axis for axis, size in enumerate(shape_of(value)) if size != 1]


def _of_shape(builder: Builder, value: SSAValue, shape: list[int]) -> SSAValue | Value:
    """A scale or zero point in this shape of rank 0 or 1; one number stands for all."""
    if shape_of(value) == tuple(shape):
        return value
    if prod(shape_of(value)) == prod(shape):
        return builder.part("Reshape", [value, builder.ints(shape)])
    flat = builder.part("Reshape", [value, builder.ints([1])])
    return builder.part("Expand", [flat, builder.ints(shape)])
