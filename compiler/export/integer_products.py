"""Products of integers: MatMulInteger where its sums in i32 can't wrap, else a product of what the factors are cast to.

Convolutions are always cast: onnxruntime has ConvInteger for unsigned inputs only.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i8, i32

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.export.builder import Builder, cast_attributes, element_of
from mlopt.export.contraction import window_attributes
from mlopt.export.registry import exports

_SAFE_DEPTH = (1 << 31) // (128 * 128) - 1
"""This many products of 8-bit numbers fit i32."""


@exports(graph.IntegerMatMulOp)
def integer_matmul(builder: Builder, op: graph.IntegerMatMulOp) -> None:
    is_narrow = element_of(op.lhs) == element_of(op.rhs) == i8
    if is_narrow and 0 < shape_of(op.lhs)[-1] <= _SAFE_DEPTH:
        total = builder.part("MatMulInteger", [op.lhs, op.rhs], i32)
        builder.node(op, "Cast", [total], cast_attributes(f32))
    else:
        builder.node(op, "MatMul", [builder.cast(op.lhs, f32), builder.cast(op.rhs, f32)])


@exports(graph.IntegerConvOp)
def integer_conv(builder: Builder, op: graph.IntegerConvOp) -> None:
    window = op.window
    x, weight = builder.cast(op.input, f32), builder.cast(op.weight, f32)
    attributes = {**window_attributes(window), "group": op.groups}
    pads = window.low + window.high
    if op.padding and any(pads):
        # The paddings of batch and channels stand before those of the spatial axes.
        widths = builder.ints([0, 0, *window.low, 0, 0, *window.high])
        x = builder.part("Pad", [x, widths, builder.scalar(op.padding, f32)])
        attributes = {**attributes, "pads": [0] * len(pads)}
    builder.node(op, "Conv", [x, weight], attributes)
