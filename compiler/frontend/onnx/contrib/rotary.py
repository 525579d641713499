"""Import of RotaryEmbedding, and of the rotations in GroupQueryAttention.

Pairs of numbers of each head are turned by an angle that grows with the position, whose cosines and sines are in tables
`[positions, pairs]`: `(x, y)` becomes `(x cos - y sin, y cos + x sin)`. Pairs are neighbours (`interleaved`), or one
number of the first half of those that are turned and one of the second. What is beyond the pairs stays.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.frontend.onnx.contrib.attention import by_heads, merged_heads
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.rotary import turned


@importer(
    "RotaryEmbedding",
    since=1,
    domain=MICROSOFT,
    limit=without(attributes={"is_packed_batching": 0, "scale": 1.0}),
)
def rotary_embedding(node: Node) -> SSAValue:
    """Of `[B, S, N D]` or `[B, N, S, D]`, at the positions `[B, S]`, or from one position on."""
    formula, x = Formula(node), node.operand(0)
    if rank_of(x) not in (3, 4) or node.rank_of(2) != 2:
        raise node.error(f"expected rank 3 or 4, and tables of rank 2, found {x.type} and {node.type_of(2)}")
    if rank_of(x) == 3:
        size = max(node.shape_of(2)[1] * 2, 1)
        partial = node.integer("rotary_embedding_dim", 0) > 0
        x = by_heads(formula, x, node.integer("num_heads") if partial else max(shape_of(x)[2] // size, 1))
    batch, _, length, _ = shape_of(x)
    positions = formula.cast(node.operand(1), i64)
    if shape_of(positions) in ((), (1,)):
        start = formula.reshape(positions, (1, 1))
        positions = formula.add(start, node.constant(np.arange(length).reshape(1, length)))
        positions = formula.expand(positions, (batch, length))
    result = rotated(
        formula,
        x,
        (node.operand(2), node.operand(3)),
        positions,
        interleaved=node.integer("interleaved", 0) == 1,
    )
    return merged_heads(formula, result) if node.rank_of(0) == 3 else result


def rotated(
    formula: Formula,
    x: SSAValue,
    tables: tuple[SSAValue, SSAValue],
    positions: SSAValue,
    *,
    interleaved: bool,
) -> SSAValue:
    """`[B, N, S, D]` turned by the angles of the positions `[B, S]`; `tables` are cosines and sines."""
    node, (batch, _, length, depth) = formula.node, shape_of(x)
    pairs, *others = {shape[1] if len(shape) == 2 else depth for shape in map(shape_of, tables)}
    if others or 2 * pairs > depth:
        raise node.error(f"expected two tables of rank 2 of up to {depth // 2} pairs, found {tables[0].type}")
    cosines, sines = (
        formula.reshape(node.add(graph.GatherOp(table, positions, 0)).result, (batch, 1, length, pairs))
        for table in tables
    )
    return turned(formula, x, cosines, sines, interleaved=interleaved)
