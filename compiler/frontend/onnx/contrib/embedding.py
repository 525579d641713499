"""Import of EmbedLayerNormalization: what a BERT begins with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.contrib.limits import MICROSOFT
from mlopt.frontend.onnx.contrib.normalization import EPSILON
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("EmbedLayerNormalization", since=1, domain=MICROSOFT, outputs=3)
def embed_layer_norm(node: Node) -> Sequence[SSAValue]:
    """The normalized sum of the embeddings of words, positions and segments; the length of each row; that sum.

    Positions count up from 0 unless they are given. The length is how many elements of the mask are 1; 0 without one.
    """
    formula = Formula(node)
    if node.rank_of(0) != 2:
        raise node.error(f"expected input_ids of rank 2, found {node.type_of(0)}")
    batch, size = node.shape_of(0)
    positions = node.optional(8)
    if positions is None:
        positions = node.constant(np.arange(size, dtype=np.int64))
    total = formula.add(_looked_up(node, 2, node.operand(0)), _looked_up(node, 3, positions))
    segments = node.optional(1)
    if segments is not None:
        total = formula.add(total, _looked_up(node, 4, segments))
    epsilon = node.number("epsilon", EPSILON)
    op = graph.LayerNormOp(total, node.operand(5), node.operand(6), axis=-1, epsilon=epsilon)
    return node.add(op).result, _lengths(formula, batch), total


def _looked_up(node: Node, table: int, ids: SSAValue) -> SSAValue:
    return node.add(graph.GatherOp(node.operand(table), ids, 0)).result


def _lengths(formula: Formula, batch: int) -> SSAValue:
    node, mask = formula.node, formula.node.optional(7)
    if mask is None:
        return node.constant(np.zeros(batch, np.int32))
    ones = node.add(graph.EqualOp(mask, formula.number(1, mask))).result
    return formula.sum(formula.cast(ones, i32), [1])
