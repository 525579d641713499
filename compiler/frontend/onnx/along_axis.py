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

    A length of less than 0, or of more than there are elements, is an index out of bounds.
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
    steps = positions(node, length, 0)
    lengths = node.add(graph.ReshapeOp(node.operand(1), [batch, 1])).result
    last = node.add(graph.SubOp(lengths, node.constant(np.array(1)))).result
    reversed_steps = node.add(graph.SubOp(last, steps)).result
    is_reversed = node.add(graph.LessOp(steps, lengths)).result
    places = node.add(graph.WhereOp(is_reversed, reversed_steps, steps)).result
    negative = node.add(graph.LessOp(lengths, node.constant(np.array(0)))).result
    places = node.add(graph.WhereOp(negative, node.constant(np.array(length)), places)).result
    tuples = node.add(graph.ReshapeOp(places, [batch, length, 1])).result
    swap = [1, 0, *range(2, node.rank_of(0))]
    data = node.operand(0)
    if time_axis == 0:
        data = node.add(graph.TransposeOp(data, swap)).result
    result = node.add(graph.GatherNdOp(data, tuples, batch_dims=1)).result
    return node.add(graph.TransposeOp(result, swap)).result if time_axis == 0 else result
