"""Reductions over axes, and arg_max."""

from __future__ import annotations

from math import prod

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, is_integer, shape_of
from mlopt.export.builder import Builder, element_of
from mlopt.export.registry import exports
from mlopt.export.types import integer_width

OPERATORS: dict[type[graph.ReductionOp], str] = {
    graph.ReduceMaxOp: "ReduceMax",
    graph.ReduceMeanOp: "ReduceMean",
    graph.ReduceMinOp: "ReduceMin",
    graph.ReduceProdOp: "ReduceProd",
    graph.ReduceSumOp: "ReduceSum",
}
"""What each reduction is in ONNX."""


@exports(*OPERATORS)
def reduction(builder: Builder, op: graph.ReductionOp) -> None:
    axes = get_ints(op.properties, "axes") or ()
    if not axes:
        builder.node(op, "Identity")
        return
    operands, keepdims = (
        [builder.value(op.input), builder.ints(axes)],
        {"keepdims": int(op.keepdims is not None)},
    )
    element = element_of(op.input)
    if isinstance(op, graph.ReduceMeanOp) and is_integer(element) and integer_width(element) < 32:
        # The sum of narrow integers wraps, and ONNX has their mean in wider ones only.
        total = builder.part("ReduceSum", operands, attributes=keepdims)
        count = prod(shape_of(op.input)[axis] for axis in axes)
        builder.node(op, "Div", [total, builder.scalar(count, element)])
        return
    builder.node(op, OPERATORS[type(op)], operands, keepdims)


@exports(graph.ArgMaxOp)
def arg_max(builder: Builder, op: graph.ArgMaxOp) -> None:
    builder.node(
        op,
        "ArgMax",
        attributes={
            "axis": op.axis.value.data,
            "keepdims": int(op.keepdims is not None),
            "select_last_index": int(op.select_last is not None),
        },
    )
