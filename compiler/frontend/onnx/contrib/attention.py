"""Import of Attention and MultiHeadAttention: `softmax(scale * Q K^T + mask) V` by heads.

Shapes: B batches, S queries, T keys (those of the past first, P of them), N heads, D numbers a head.

A mask is what is added to the scores: 0, or `mask_filter_value` where a key is not to be seen. It is given as numbers,
of which those above 0 let a key be seen, `[B, T]` or `[B, S, T]`; as the length of each row, `[B]`; or as ends and then
starts, `[2 B]`. Where the future is not to be seen (`unidirectional`), the scores are the lowest number of their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from xdsl.ir import SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import FLOAT, rank_of, require_elements, shape_of, tensor_type
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.ir.dtypes import largest_number

_attention_limit = without(
    attributes={"do_rotary": 0, "past_present_share_buffer": 0}, inputs={6: "past_sequence_length"}
)


@importer("Attention", since=1, domain=MICROSOFT, limit=_attention_limit, outputs=2)
def attention(node: Node) -> Sequence[SSAValue]:
    """Self-attention with its projections: one product gives queries, keys and values side by side.

    `past` and `present` hold keys and values, `[2, B, N, P or T, D]`.
    """
    formula, bias = Formula(node), node.optional(2)
    if node.rank_of(0) != 3 or node.rank_of(1) != 2:
        raise node.error(f"expected ranks 3 and 2, found {node.type_of(0)} and {node.type_of(1)}")
    projected = formula.matmul(node.operand(0), node.operand(1))
    if bias is not None:
        projected = formula.add(projected, bias)
    mask, past, addend = (node.optional(index) for index in (3, 4, 5))
    return self_attention(formula, projected, mask=mask, past=past, addend=addend)


def self_attention(
    formula: Formula,
    projected: SSAValue,
    *,
    mask: SSAValue | None,
    past: SSAValue | None,
    addend: SSAValue | None = None,
) -> Sequence[SSAValue]:
    """The result and `present`, from queries, keys and values side by side, `[B, S, 3 N D]`."""
    node, heads, width = formula.node, _heads(formula.node), shape_of(projected)[-1]
    sizes = node.integers("qkv_hidden_sizes") or [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width or sizes[0] != sizes[1] or any(size % heads for size in sizes):
        raise node.error(
            f"expected queries, keys and values of {heads} heads side by side, found {projected.type}"
        )
    starts = (0, sizes[0], 2 * sizes[0])
    q, k, v = (
        by_heads(formula, formula.part(projected, 2, start, start + size), heads)
        for start, size in zip(starts, sizes, strict=True)
    )
    if past is not None:
        if rank_of(past) != 5 or shape_of(past)[0] != 2:
            raise node.error(f"expected keys and values of rank 4 as the past, found {past.type}")
        k, v = (
            formula.concat([formula.reshape(formula.part(past, 0, i, i + 1), shape_of(past)[1:]), new], 2)
            for i, new in enumerate((k, v))
        )
    result = _attended(formula, q, k, v, mask=mask, addend=addend)
    if shape_of(k) != shape_of(v):
        return [result]
    return [result, formula.concat([formula.reshape(value, (1, *shape_of(value))) for value in (k, v)], 0)]


_multi_head_limit = without(inputs={8: "past_sequence_length", 9: "cache_indirection"})


@importer("MultiHeadAttention", since=1, domain=MICROSOFT, limit=_multi_head_limit, outputs=3)
def multi_head_attention(node: Node) -> Sequence[SSAValue]:
    """Queries, keys and values `[B, S or T, N D]`; or packed: `[B, S, N, 3, D]`, or keys with values `[B, T, N, 2, D]`.

    Keys and values may also come by heads, `[B, N, T, D]`. `present` is the past and the new ones.
    """
    formula, heads = Formula(node), _heads(node)
    q, k, v = _separate(formula, heads)
    if node.integer("unidirectional", 0) and shape_of(q)[2] != shape_of(k)[2]:
        message = "unidirectional with as many keys as queries alone: which of others are in the future is not defined"
        raise node.error(message, UnsupportedError)
    pasts = node.optional(6), node.optional(7)
    if (pasts[0] is None) != (pasts[1] is None):
        raise node.error("expected both past_key and past_value, or none of them")
    k, v = (
        new if past is None else formula.concat([past, new], 2)
        for past, new in zip(pasts, (k, v), strict=True)
    )
    result = _attended(formula, q, k, v, mask=node.optional(4), addend=node.optional(5))
    return [result, k, v]


def _separate(formula: Formula, heads: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Queries, keys and values by heads, each with its part of the bias."""
    node = formula.node
    query, key, value = node.operand(0), node.optional(1), node.optional(2)
    bias = node.optional(3)
    packed = query if rank_of(query) == 5 else key if key is not None and rank_of(key) == 5 else None
    if packed is None and (key is None or value is None):
        raise node.error("expected key and value, or the query packed with them")
    if packed is not None and bias is not None:
        raise node.error("expected no bias for packed operands")
    if packed is not None:
        parts = _unpacked(formula, packed)
        separate = [*([] if packed is query else [by_heads(formula, query, heads)]), *parts]
        if len(separate) != 3:
            raise node.error(f"expected three values packed, or two with a query apart, found {packed.type}")
        return separate[0], separate[1], separate[2]
    assert key is not None and value is not None
    start = 0
    by_head: list[SSAValue] = []
    for x in (query, key, value):
        if rank_of(x) == 4:
            by_head.append(x)
            start += shape_of(x)[1] * shape_of(x)[3]
            continue
        if rank_of(x) != 3:
            raise node.error(
                f"expected queries, keys and values of rank 3, or by heads of rank 4, found {x.type}"
            )
        size = shape_of(x)[2]
        if bias is not None:
            x = formula.add(x, formula.part(bias, 0, start, start + size))
        start += size
        by_head.append(by_heads(formula, x, heads))
    return by_head[0], by_head[1], by_head[2]


def _unpacked(formula: Formula, packed: SSAValue) -> list[SSAValue]:
    """`[B, S, N, count, D]` as values `[B, N, S, D]`."""
    batch, size, heads, count, depth = shape_of(packed)
    parts = (formula.part(packed, 3, index, index + 1) for index in range(count))
    return [formula.swap(formula.reshape(part, (batch, size, heads, depth)), 1, 2) for part in parts]


def _heads(node: Node) -> int:
    heads = node.integer("num_heads")
    if heads < 1:
        raise node.error(f"expected num_heads of at least 1, found {heads}")
    return heads


def by_heads(formula: Formula, x: SSAValue, heads: int) -> SSAValue:
    """`[B, S, N D]` as `[B, N, S, D]`."""
    shape = shape_of(x)
    if len(shape) != 3 or shape[2] % heads:
        raise formula.node.error(
            f"expected rank 3 and a last dimension that {heads} heads make up, found {x.type}"
        )
    batch, size, width = shape
    return formula.swap(formula.reshape(x, (batch, size, heads, width // heads)), 1, 2)


def merged_heads(formula: Formula, x: SSAValue) -> SSAValue:
    """`[B, N, S, D]` as `[B, S, N D]`."""
    batch, heads, size, depth = shape_of(x)
    return formula.reshape(formula.swap(x, 1, 2), (batch, size, heads * depth))


def score_scale(node: Node, depth: int) -> float:
    """The attribute, or one over the root of a head's size."""
    return node.number("scale", 0.0) or 1 / sqrt(depth)


def hidden(formula: Formula, scores: SSAValue, visible: SSAValue) -> SSAValue:
    """The lowest number where nothing is to be seen."""
    require_elements(FLOAT, tensor_type(scores.type), "the scores")
    lowest = formula.number(-largest_number(tensor_type(scores.type).element_type), scores)
    return formula.node.add(graph.WhereOp(visible, scores, lowest)).result


def _attended(
    formula: Formula, q: SSAValue, k: SSAValue, v: SSAValue, *, mask: SSAValue | None, addend: SSAValue | None
) -> SSAValue:
    """`[B, S, N D]` from queries, keys and values by heads."""
    node = formula.node
    batch, _, queries, depth = shape_of(q)
    keys = shape_of(k)[2]
    scores = formula.scaled(formula.matmul(q, formula.swap(k, 2, 3)), score_scale(node, depth))
    if mask is not None:
        scores = formula.add(scores, _mask(formula, mask, (batch, queries, keys), scores))
    if addend is not None:
        scores = formula.add(scores, addend)
    if node.integer("unidirectional", 0) and queries > 1:
        scores = hidden(formula, scores, node.constant(np.tri(queries, keys, keys - queries, np.bool_)))
    weights = node.add(graph.SoftmaxOp(scores, -1)).result
    return merged_heads(formula, formula.matmul(weights, v))


def _mask(formula: Formula, mask: SSAValue, shape: tuple[int, int, int], scores: SSAValue) -> SSAValue:
    """What is added to the scores, `[B, 1, 1 or S, T]`."""
    node, own, (batch, queries, keys) = formula.node, shape_of(mask), shape
    if own in ((batch, keys), (batch, queries, keys)):
        seen = node.add(graph.GreaterOp(mask, formula.number(0, mask))).result
        seen = formula.reshape(seen, (batch, 1, queries if len(own) == 3 else 1, keys))
    elif own in ((batch,), (2 * batch,)):
        positions = formula.array(np.arange(keys), mask)
        ends, *starts = (
            formula.reshape(formula.part(mask, 0, first, first + batch), (batch, 1, 1, 1))
            for first in range(0, own[0], batch)
        )
        seen = node.add(graph.LessOp(positions, ends)).result
        for start in starts:
            seen = node.add(graph.AndOp(seen, node.add(graph.GreaterEqualOp(positions, start)).result)).result
    else:
        raise node.error(
            f"expected a mask of {batch} or {2 * batch} numbers, [{batch}, {keys}] or [{batch}, {queries}, {keys}], "
            f"found {mask.type}"
        )
    filtered = formula.number(node.number("mask_filter_value", -10000.0), scores)
    return node.add(graph.WhereOp(seen, formula.number(0, scores), filtered)).result
