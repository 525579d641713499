"""Import of Conv."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.windows import window_attributes


@importer("Conv", since=1)
def conv(node: Node) -> SSAValue:
    """The kernel's shape is that of the weight; the attribute, if there is one, must agree."""
    input, weight = node.shape_of(0), node.shape_of(1)
    if len(input) < 3 or len(weight) != len(input):
        raise node.error(
            f"expected an input of rank 3 or more and a weight of that rank, "
            f"found {node.type_of(0)} and {node.type_of(1)}"
        )
    kernel = list(weight[2:])
    declared = node.integers("kernel_shape")
    if declared is not None and declared != kernel:
        raise node.error(f"expected kernel_shape {kernel} as the weight has it, found {declared}")
    window = window_attributes(node, input[2:], kernel)
    op = graph.ConvOp(
        node.operand(0),
        node.operand(1),
        node.optional(2),
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.integer("group", 1),
    )
    return node.add(op).result
