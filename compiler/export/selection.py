"""Elementwise operations of other forms: selection, clip, cast and bitcast."""

from __future__ import annotations

from math import inf

from xdsl.dialects.builtin import i32

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, is_sub_byte, is_tiny_float
from mlopt.export.builder import Builder, cast_attributes, element_of
from mlopt.export.registry import exports, exports_plainly
from mlopt.export.types import onnx_type

exports_plainly({graph.WhereOp: "Where"})


@exports(graph.ClipOp)
def clip(builder: Builder, op: graph.ClipOp) -> None:
    element = element_of(op.input)
    lower, upper = op.lower, op.upper
    if is_float(element):  # without a bound, ONNX takes the lowest or largest finite number
        lower = builder.scalar(-inf, element) if lower is None else lower
        upper = builder.scalar(inf, element) if upper is None else upper
    builder.node(op, "Clip", [op.input, lower, upper])


@exports(graph.CastOp)
def cast(builder: Builder, op: graph.CastOp) -> None:
    source, target = element_of(op.input), element_of(op.result)
    attributes = cast_attributes(
        target,
        saturate=op.saturate is not None,
        round_mode=None if op.round_mode is None else op.round_mode.data,
    )
    # From floats, ONNX leaves open how integers of less than a byte are rounded: onnxruntime takes the nearest.
    through_i32 = is_sub_byte(target) and (is_float(source) or is_tiny_float(source))
    builder.node(op, "Cast", [builder.cast(op.input, i32) if through_i32 else op.input], attributes)


@exports(graph.BitcastOp)
def bitcast(builder: Builder, op: graph.BitcastOp) -> None:
    builder.node(op, "BitCast", attributes={"to": onnx_type(element_of(op.result))}, since=26)
