"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type, f32, f64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import dense_attr, shape_of
from mlopt.export.builder import Attributes, Builder, Value, cast_attributes, element_of
from mlopt.export.registry import exports
from mlopt.export.types import onnx_type
from mlopt.ir.dtypes import dense_to_array


@exports(graph.BatchNormOp)
def batch_norm(builder: Builder, op: graph.BatchNormOp) -> None:
    builder.node(op, "BatchNormalization", attributes={"epsilon": op.epsilon.value.data})


@exports(graph.LayerNormOp)
def layer_norm(builder: Builder, op: graph.LayerNormOp) -> None:
    if _standard(builder, op, "LayerNormalization"):
        return
    x = _wide(builder, op)
    mean = builder.part("ReduceMean", [x, _axes(builder, op)], attributes={"keepdims": 1})
    _by_definition(builder, op, builder.part("Sub", [x, mean]))


@exports(graph.GroupNormOp)
def group_norm(builder: Builder, op: graph.GroupNormOp) -> None:
    """f16 and bf16 in f32, so that they are rounded once.

    Statistics are in f64: the definition of the operator, which engines follow, is a difference of squares.
    """
    element, epsilon = element_of(op.input), op.epsilon.value.data
    narrow = isinstance(element, Float16Type | BFloat16Type)
    operands = [builder.cast(value, f32 if narrow else element) for value in op.operands]
    attributes: Attributes = {"epsilon": epsilon}
    each_by_itself = op.rows[2] == 1 and len(shape_of(op.input)) > 2 and not isinstance(element, Float64Type)
    operator = "InstanceNormalization" if each_by_itself else "GroupNormalization"
    if not each_by_itself:
        attributes = {**attributes, "num_groups": op.groups.value.data, "stash_type": onnx_type(f64)}
    if narrow:
        wide = builder.part(operator, operands, attributes=attributes)
        builder.node(op, "Cast", [wide], cast_attributes(element))
    else:
        builder.node(op, operator, operands, attributes)


@exports(graph.RmsNormOp)
def rms_norm(builder: Builder, op: graph.RmsNormOp) -> None:
    if _standard(builder, op, "RMSNormalization"):
        return
    _by_definition(builder, op, _wide(builder, op))


@exports(graph.SoftmaxOp)
def softmax(builder: Builder, op: graph.SoftmaxOp) -> None:
    builder.node(op, "Softmax", attributes={"axis": op.axis.value.data})


@exports(graph.LogSoftmaxOp)
def log_softmax(builder: Builder, op: graph.LogSoftmaxOp) -> None:
    builder.node(op, "LogSoftmax", attributes={"axis": op.axis.value.data})


def _standard(builder: Builder, op: graph.LayerNormOp | graph.RmsNormOp, onnx_op: str) -> bool:
    """Add ONNX's operator if it gives the same numbers everywhere; returns whether it does.

    It computes statistics in f32, also for f64, and engines take only a scale and bias of the shape of a row. Numbers
    that are smaller than a row are filled up.
    """
    row = shape_of(op.input)[op.axis.value.data :]
    parameters = [_filled(builder, parameter, row) for parameter in op.operands[1:]]
    known = [parameter for parameter in parameters if parameter is not None]
    if isinstance(element_of(op.input), Float64Type) or len(known) < len(parameters):
        return False
    attributes: Attributes = {
        "axis": op.axis.value.data,
        "epsilon": op.epsilon.value.data,
        "stash_type": 1,
    }
    builder.node(op, onnx_op, [op.input, *known], attributes)
    return True


def _filled(builder: Builder, parameter: SSAValue, row: Sequence[int]) -> SSAValue | Value | None:
    """A parameter in the shape of a row; None if it has another shape and is no short constant."""
    shape = shape_of(parameter)
    if shape == tuple(row):
        return parameter
    array = _numbers(parameter)
    if array is None or len(shape) > len(row):
        return None
    return builder.numbers(np.broadcast_to(array, row).copy(), element_of(parameter))


def _numbers(value: SSAValue) -> np.ndarray | None:
    """The numbers of a constant that stand in the IR."""
    dense = dense_attr(value.owner.value) if isinstance(value.owner, graph.ConstantOp) else None
    return None if dense is None else dense_to_array(dense)


def _wide(builder: Builder, op: graph.LayerNormOp | graph.RmsNormOp) -> Value:
    """The input in the type that it is computed in: f32 for f16 and bf16."""
    element = element_of(op.input)
    return builder.cast(op.input, f32 if isinstance(element, Float16Type | BFloat16Type) else element)


def _axes(builder: Builder, op: graph.LayerNormOp | graph.RmsNormOp) -> Value:
    return builder.ints(range(op.axis.value.data, len(shape_of(op.input))))


def _by_definition(builder: Builder, op: graph.LayerNormOp | graph.RmsNormOp, x: Value) -> None:
    """`x / sqrt(mean(x * x) + epsilon) * scale + bias`, rounded once at the end."""
    square = builder.part("Mul", [x, x])
    mean = builder.part("ReduceMean", [square, _axes(builder, op)], attributes={"keepdims": 1})
    shifted = builder.part("Add", [mean, builder.scalar(op.epsilon.value.data, x.element)])
    root = builder.part("Sqrt", [shifted])
    steps: list[tuple[str, Value]] = [("Div", root)]
    for onnx_op, parameter in zip(("Mul", "Add"), op.operands[1:], strict=False):
        numbers = _numbers(parameter)
        if onnx_op == "Add" or numbers is None or not np.all(numbers == 1):
            steps.append((onnx_op, builder.cast(parameter, x.element)))
    element, result = element_of(op.input), x
    *inner, (last_op, last) = steps
    for onnx_op, operand in inner:
        result = builder.part(onnx_op, [result, operand])
    if element == x.element:
        builder.node(op, last_op, [result, last])
    else:
        builder.node(op, "Cast", [builder.part(last_op, [result, last])], cast_attributes(element))
