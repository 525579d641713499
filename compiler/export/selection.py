"""Elementwise operations of other forms: selection, clip, cast and bitcast."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.export.builder import Builder, cast_attributes, element_of
from mlopt.export.registry import exports, exports_plainly
from mlopt.export.types import onnx_type

exports_plainly({graph.WhereOp: "Where"})


@exports(graph.ClipOp)
def clip(builder: Builder, op: graph.ClipOp) -> None:
    builder.node(op, "Clip", [op.input, op.lower, op.upper])


@exports(graph.CastOp)
def cast(builder: Builder, op: graph.CastOp) -> None:
    attributes = cast_attributes(element_of(op.result), saturate=op.saturate is not None)
    builder.node(op, "Cast", attributes=attributes)


@exports(graph.BitcastOp)
def bitcast(builder: Builder, op: graph.BitcastOp) -> None:
    builder.node(op, "BitCast", attributes={"to": onnx_type(element_of(op.result))}, since=26)
