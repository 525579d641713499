"""Import of operators that read at computed positions."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("Gather", since=1)
def gather(node: Node) -> SSAValue:
    """Slices along `axis`."""
    return node.add(graph.GatherOp(node.operand(0), node.operand(1), node.integer("axis", 0))).result


@importer("GatherElements", since=11)
def gather_elements(node: Node) -> SSAValue:
    """Single elements along `axis`."""
    return node.add(graph.GatherElementsOp(node.operand(0), node.operand(1), node.integer("axis", 0))).result


@importer("GatherND", since=11)
def gather_nd(node: Node) -> SSAValue:
    """Slices at index tuples; there are batch dimensions since version 12."""
    return node.add(graph.GatherNdOp(node.operand(0), node.operand(1), node.integer("batch_dims", 0))).result
