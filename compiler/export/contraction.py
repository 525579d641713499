"""Matrix multiplication, linear layers, convolution and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph import Window
from mlopt.dialects.graph.base import tensor_type
from mlopt.export.builder import NONE, Attributes, Builder, Value, element_of, shape_of
from mlopt.export.registry import EXPORTERS, exports, exports_plainly

Node: TypeAlias = tuple[str, Sequence[SSAValue | Value], Attributes]
"""An ONNX operator, its operands and its attributes."""

exports_plainly({graph.MatMulOp: "MatMul", graph.DetOp: "Det"})


@exports(graph.LinearOp)
def linear(builder: Builder, op: graph.LinearOp) -> None:
    """Gemm where that is the same: for matrices of f32 and f64, of which it adds to the sums what MatMul rounds first.

    Gemm adds the residual if there is no bias, and takes a weight before it is transposed.
    """
    addends = [value for value in (op.bias, op.residual) if value is not None]
    is_matrix = len(shape_of(op.input)) == 2 and 0 not in shape_of(op.input) + shape_of(op.result)
    if not is_matrix or not addends or element_of(op.input) not in (f32, f64):
        nodes: list[Node] = [("MatMul", (op.input, op.weight), NONE)]
    else:
        transpose = op.weight.owner
        transposed = isinstance(transpose, graph.TransposeOp)
        weight = transpose.input if isinstance(transpose, graph.TransposeOp) else op.weight
        nodes = [("Gemm", (op.input, weight, addends.pop(0)), {"transB": 1} if transposed else NONE)]
    finish(builder, op, [*nodes, *(("Add", (addend,), NONE) for addend in addends)], op.activation)


@exports(graph.ConvOp)
def convolution(builder: Builder, op: graph.ConvOp) -> None:
    operands = [op.input, op.weight, *([] if op.bias is None else [op.bias])]
    attributes = {**window_attributes(op.window), "group": op.groups}
    nodes: list[Node] = [("Conv", operands, attributes)]
    if op.residual is not None:
        nodes.append(("Add", (op.residual,), NONE))
    finish(builder, op, nodes, op.activation)


def finish(
    builder: Builder, op: graph.GraphOp, nodes: Sequence[Node], activation: graph.ActivationAttr | None
) -> None:
    """A chain of nodes, each taking the result of the one before as its first operand, and the activation of that.

    The activation is exported as the operation that it stands for.
    """
    value: list[Value] = []
    for onnx_op, operands, attributes in nodes[:-1]:
        value = [builder.part(onnx_op, [*value, *operands], attributes=attributes)]
    onnx_op, operands, attributes = nodes[-1]
    if activation is None:
        builder.node(op, onnx_op, [*value, *operands], attributes)
        return
    (result,) = op.results
    applied = activation.operation(tensor_type(result.type))
    argument, *bounds = applied.operands
    builder.values[argument] = builder.part(onnx_op, [*value, *operands], attributes=attributes)
    for bound, number in zip(bounds, activation.numbers, strict=True):
        builder.values[bound] = builder.scalar(number, element_of(result))
    builder.values[applied.results[0]] = builder.value(result)
    EXPORTERS[type(applied)](builder, applied)


def window_attributes(window: Window) -> Attributes:
    """The attributes of a window as Conv and the pools have them."""
    return {
        "kernel_shape": window.kernel,
        "strides": window.strides,
        "pads": window.low + window.high,
        "dilations": window.dilations,
    }
