"""Ranges, and the shape of a tensor. Constants become initializers where they are used (`exporter`)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i32, i64

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_int
from mlopt.export.builder import Builder, element_of
from mlopt.export.registry import exports
from mlopt.interpreter.graph import evaluate
from mlopt.interpreter.graph.movement import number
from mlopt.ir.dtypes import to_numpy_dtype


@exports(graph.RangeOp)
def range_(builder: Builder, op: graph.RangeOp) -> None:
    """ONNX Range takes the end for the length: integers say it exactly, other ranges become their numbers."""
    element, length = element_of(op.result), op.length.value.data
    if element in (i32, i64):
        dtype = to_numpy_dtype(element)
        start, delta = int(number(op.start, dtype)), int(number(op.delta, dtype))
        end, limits = start + length * delta, np.iinfo(dtype)
        if delta != 0 and limits.min <= end <= limits.max:
            builder.node(op, "Range", [builder.scalar(value, element) for value in (start, end, delta)])
            return
    builder.node(op, "Identity", [builder.numbers(evaluate(op, [])[0], element)])


@exports(graph.ShapeOp)
def shape(builder: Builder, op: graph.ShapeOp) -> None:
    if op.start is None and op.end is None:
        builder.node(op, "Shape")
        return
    start = get_int(op.properties, "start")
    builder.node(op, "Shape", attributes={"start": start, "end": start + len(op.dimensions())})
