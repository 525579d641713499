"""Import of RotaryEmbedding: pairs of numbers of each head turned by the angles of their positions.

What is beyond the pairs that are turned stays. Tables hold cosines and sines, one per pair.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("RotaryEmbedding", since=23)
def rotary_embedding(node: Node) -> SSAValue:
    """Of `[b, n, s, d]`, or of `[b, s, n * d]` with n as `num_heads`.

    The tables are `[b, s, pairs]`, or `[p, pairs]` with the positions in them, `[b, s]`, as fourth operand.
    """
    formula, x, shape = Formula(node), node.operand(0), node.shape_of(0)
    if len(shape) not in (3, 4):
        raise node.error(f"expected rank 3 or 4, found {x.type}")
    positions = node.optional(3)
    tables = [node.operand(i) for i in (1, 2)]
    if positions is not None:
        tables = [node.add(graph.GatherOp(table, positions, 0)).result for table in tables]
    if any(len(shape_of(table)) != 3 for table in tables):
        raise node.error(
            f"expected rank {3 if positions is None else 2} for the tables, found {node.type_of(1)}"
        )
    batch, length, pairs = shape_of(tables[0])
    heads = 1
    if len(shape) == 3:
        heads = node.integer("num_heads", 0)
        if heads < 1 or shape[2] % heads:
            raise node.error(f"expected num_heads that {shape[2]} is a multiple of, found {heads}")
        x = formula.reshape(x, (shape[0], shape[1], heads, shape[2] // heads))
    size = node.integer("rotary_embedding_dim", 0) or shape_of(x)[3]
    if size != 2 * pairs:
        raise node.error(f"expected tables of {size // 2} pairs, found {pairs}")
    apart = (batch, length, 1, pairs) if len(shape) == 3 else (batch, 1, length, pairs)
    cosines, sines = (formula.reshape(table, apart) for table in tables)
    interleaved = node.integer("interleaved", 0) == 1
    return formula.reshape(turned(formula, x, cosines, sines, interleaved=interleaved), shape)


def turned(
    formula: Formula, x: SSAValue, cosines: SSAValue, sines: SSAValue, *, interleaved: bool
) -> SSAValue:
    """`x` with as many pairs turned along the last dimension as the tables have; the rest stays."""
    size, whole = 2 * shape_of(cosines)[-1], shape_of(x)[-1]
    last = len(shape_of(x)) - 1
    pairs = formula.part(x, last, 0, size)
    result = formula.node.add(graph.RotaryEmbeddingOp(pairs, cosines, sines, interleaved=interleaved)).result
    return result if size == whole else formula.concat([result, formula.part(x, last, size, whole)], last)
