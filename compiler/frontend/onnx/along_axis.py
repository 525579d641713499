"""Import of operators along an axis: cumulative sums and products, TopK, ReverseSequence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.positions import positions
from mlopt.frontend.onnx.registry import importer


@importer("CumSum", since=11)
def cum_sum(node: Node) -> SSAValue:
    """Sums up to each element; the axis is an input."""
    return _cumulative(node, graph.CumSumOp)


@importer("CumProd", since=26)
def cum_prod(node: Node) -> SSAValue:
    """Products up to each element; the axis is an input."""
    return _cumulative(node, graph.CumProdOp)


def _cumulative(node: Node, op: type[graph.CumSumOp | graph.CumProdOp]) -> SSAValue:
    exclusive, reverse = (bool(node.integer(name, 0)) for name in ("exclusive", "reverse"))
    return node.add(
        op(node.operand(0), node.known_int(1, "axis"), exclusive=exclusive, reverse=reverse)
    ).result


@importer("TopK", since=1, outputs=2)
def top_k_1(node: Node) -> Sequence[SSAValue]:
    """k is an attribute; the largest, sorted."""
    return _top_k(node, node.integer("k"))


@importer("TopK", since=10, outputs=2)
def top_k(node: Node) -> Sequence[SSAValue]:
    """k is an input; the smallest since version 11. Results that need not be sorted are sorted too."""
    return _top_k(node, node.known_int(1, "k"))


def _top_k(node: Node, k: int) -> Sequence[SSAValue]:
    smallest = node.opset >= 11 and not node.integer("largest", 1)
    op = node.add(graph.TopKOp(node.operand(0), node.integer("axis", -1), k, smallest=smallest))
    return op.values, op.indices


@importer("ReverseSequence", since=10)
def reverse_sequence(node: Node) -> SSAValue:
    """The first elements along the time axis in reverse order, as many as each batch entry says, gathered.

    Batch and time are one axis for that. A length below 0, or above the number of elements, is an index out of bounds.
    """
    batch_axis, time_axis = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch_axis, time_axis} != {0, 1} or node.rank_of(0) < 2:
        raise node.error(
            f"expected rank 2 or more with 0 and 1 as batch and time axis, found {node.type_of(0)}, {batch_axis} "
            f"and {time_axis}"
        )
    batch, length = node.shape_of(0)[batch_axis], node.shape_of(0)[time_axis]
    if node.shape_of(1) != (batch,):
        raise node.error(f"expected {batch} sequence lengths, found {node.type_of(1)}")
    by_time = time_axis == 0
    steps = positions(node, length, 1 if by_time else 0)
    batches = positions(node, batch, 0 if by_time else 1)
    lengths = node.operand(1)
    if not by_time:
        lengths = node.add(graph.ReshapeOp(lengths, [batch, 1])).result
    places = _reversed(node, steps, lengths)
    stride, offset, other = (batch, batches, places) if by_time else (length, places, batches)
    rows = node.add(graph.MulOp(other, node.constant(np.array(stride)))).result
    rows = node.add(graph.AddOp(rows, offset)).result
    wrong = [
        node.add(graph.LessOp(lengths, node.constant(np.array(0)))).result,
        node.add(graph.GreaterOp(lengths, node.constant(np.array(length)))).result,
    ]
    is_wrong = node.add(graph.OrOp(*wrong)).result
    rows = node.add(graph.WhereOp(is_wrong, node.constant(np.array(batch * length)), rows)).result
    merged = node.add(graph.ReshapeOp(node.operand(0), [batch * length, *node.shape_of(0)[2:]])).result
    return node.add(graph.GatherOp(merged, rows, 0)).result


def _reversed(node: Node, steps: SSAValue, lengths: SSAValue) -> SSAValue:
    """For each step and length: which step comes there when so many are reversed."""
    last = node.add(graph.SubOp(lengths, node.constant(np.array(1)))).result
    reversed_steps = node.add(graph.SubOp(last, steps)).result
    is_reversed = node.add(graph.LessOp(steps, lengths)).result
    return node.add(graph.WhereOp(is_reversed, reversed_steps, steps)).result
