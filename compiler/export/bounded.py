"""Operations whose results have a size that depends on data: the ONNX operator, and zeros up to the bound."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.export.builder import Builder, Value
from mlopt.export.registry import exports


@exports(graph.NonZeroOp)
def nonzero(builder: Builder, op: graph.NonZeroOp) -> None:
    _bounded(builder, builder.part("NonZero", [op.input], i64), op.indices, 1, op.count)


@exports(graph.UniqueOp)
def unique(builder: Builder, op: graph.UniqueOp) -> None:
    attributes = {"sorted": int(op.in_order is None)}
    if op.axis is not None:
        attributes["axis"] = op.axis.value.data
    elements = (tensor_type(op.input.type).element_type, i64, i64, i64)
    values, indices, inverse, counts = builder.parts("Unique", [op.input], elements, attributes)
    builder.result(op.inverse, "Identity", [inverse])
    count = _bounded(builder, values, op.values, attributes.get("axis", 0), op.count)
    for value, result in ((indices, op.indices), (counts, op.counts)):
        _fill(builder, value, result, 0, count)


@exports(graph.NonMaxSuppressionOp)
def non_max_suppression(builder: Builder, op: graph.NonMaxSuppressionOp) -> None:
    one = builder.ints([1])
    limit = builder.part(
        "Min", [builder.part("Reshape", [op.limit, one]), builder.ints([op.most.value.data])]
    )
    thresholds = [value for value in (op.iou_threshold, op.score_threshold) if value is not None]
    operands = [op.boxes, op.scores, limit, *(builder.part("Reshape", [value, one]) for value in thresholds)]
    attributes = {"center_point_box": int(op.center is not None)}
    selected = builder.part("NonMaxSuppression", operands, i64, attributes)
    _bounded(builder, selected, op.selected, 0, op.count)


@exports(graph.RequireEqualOp)
def require_equal(builder: Builder, op: graph.RequireEqualOp) -> None:
    """The number of elements of a vector, which is made in the one size and then reshaped to the other."""
    one = builder.ints([1])
    lhs, rhs = (builder.part("Reshape", [value, one]) for value in (op.lhs, op.rhs))
    vector = builder.part("ConstantOfShape", [lhs], f32)
    builder.result(op.result, "Size", [builder.part("Reshape", [vector, rhs], attributes={"allowzero": 1})])


def _bounded(builder: Builder, value: Value, result: SSAValue, axis: int, count: SSAValue) -> Value:
    """Give a result in its bound, and its extent, which is returned as a vector."""
    size = builder.part("Shape", [value], i64, {"start": axis, "end": axis + 1})
    builder.result(count, "Reshape", [size, builder.ints([])])
    _fill(builder, value, result, axis, size)
    return size


def _fill(builder: Builder, value: Value, result: SSAValue, axis: int, size: Value) -> None:
    """Give a result: the value, and zeros behind it as far as they are missing."""
    shape = shape_of(result)
    missing = builder.part("Sub", [builder.ints([shape[axis]]), size])
    before, after = [0] * (len(shape) + axis), [0] * (len(shape) - 1 - axis)
    pads: Sequence[Value] = [builder.ints(before), missing, *([builder.ints(after)] if after else [])]
    builder.result(result, "Pad", [value, builder.part("Concat", pads, attributes={"axis": 0})])
