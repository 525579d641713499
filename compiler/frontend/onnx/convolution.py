"""Import of Conv."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.windows import window_attributes


@importer("Conv", since=1)
def conv(node: Node) -> SSAValue:
    """Input, weight and an optional bias."""
    return convolution(node, node.operand(0), node.operand(1), node.optional(2))


def convolution(node: Node, input: SSAValue, weight: SSAValue, bias: SSAValue | None = None) -> SSAValue:
    """A convolution of these values with the attributes of the node.

    The kernel's shape is that of the weight; the attribute, if there is one, must agree.
    """
    shape, weight_shape = shape_of(input), shape_of(weight)
    if len(shape) < 3 or len(weight_shape) != len(shape):
        raise node.error(
            f"expected an input of rank 3 or more and a weight of that rank, "
            f"found {input.type} and {weight.type}"
        )
    kernel = list(weight_shape[2:])
    declared = node.integers("kernel_shape")
    if declared is not None and declared != kernel:
        raise node.error(f"expected kernel_shape {kernel} as the weight has it, found {declared}")
    window = window_attributes(node, shape[2:], kernel)
    op = graph.ConvOp(
        input,
        weight,
        bias,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.integer("group", 1),
    )
    return node.add(op).result
