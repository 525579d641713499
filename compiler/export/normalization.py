"""Normalizations and softmax."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type, f32

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.export.builder import Attributes, Builder, Value, cast_attributes, element_of
from mlopt.export.registry import exports


@exports(graph.BatchNormOp)
def batch_norm(builder: Builder, op: graph.BatchNormOp) -> None:
    builder.node(op, "BatchNormalization", attributes={"epsilon": op.epsilon.value.data})


@exports(graph.LayerNormOp)
def layer_norm(builder: Builder, op: graph.LayerNormOp) -> None:
    if _is_standard(op):
        builder.node(op, "LayerNormalization", attributes=_attributes(op))
        return
    x = _wide(builder, op)
    mean = builder.part("ReduceMean", [x, _axes(builder, op)], attributes={"keepdims": 1})
    _by_definition(builder, op, builder.part("Sub", [x, mean]))


@exports(graph.RmsNormOp)
def rms_norm(builder: Builder, op: graph.RmsNormOp) -> None:
    if _is_standard(op):
        builder.node(op, "RMSNormalization", attributes=_attributes(op))
        return
    _by_definition(builder, op, _wide(builder, op))


@exports(graph.SoftmaxOp)
def softmax(builder: Builder, op: graph.SoftmaxOp) -> None:
    builder.node(op, "Softmax", attributes={"axis": op.axis.value.data})


@exports(graph.LogSoftmaxOp)
def log_softmax(builder: Builder, op: graph.LogSoftmaxOp) -> None:
    builder.node(op, "LogSoftmax", attributes={"axis": op.axis.value.data})


def _is_standard(op: graph.LayerNormOp | graph.RmsNormOp) -> bool:
    """Whether ONNX's operator gives the same numbers everywhere.

    It computes statistics in f32, also for f64, and engines take only a scale and bias of the shape of a row.
    """
    row = shape_of(op.input)[op.axis.value.data :]
    parameters = op.operands[1:]
    is_double = isinstance(element_of(op.input), Float64Type)
    return not is_double and all(shape_of(parameter) == row for parameter in parameters)


def _attributes(op: graph.LayerNormOp | graph.RmsNormOp) -> Attributes:
    return {"axis": op.axis.value.data, "epsilon": op.epsilon.value.data, "stash_type": 1}


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
    result = builder.part("Div", [x, builder.part("Sqrt", [shifted])])
    for onnx_op, parameter in zip(("Mul", "Add"), op.operands[1:], strict=False):
        result = builder.part(onnx_op, [result, builder.cast(parameter, x.element)])
    builder.node(op, "Cast", [result], cast_attributes(element_of(op.input)))
