"""Import of GroupQueryAttention: several heads of queries to each head of keys and values, and a cache of these.

Shapes: B batches, S new tokens, N heads of queries and M of keys, D numbers a head, P tokens of room in the past, L of
room in the present, which is the larger of P and `total_sequence_length`.

Row b has `seqlens_k[b] + 1` tokens with the new ones, which may be fewer than L; its past are those in front of the new
ones, or none if all tokens are new (S is `total_sequence_length`). The numbers of tokens may be known at run time only:
then the present is a gather at positions that are computed from them. Where a row has no token, the present is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.frontend.onnx.contrib.attention import by_heads, hidden, merged_heads, score_scale
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.contrib.rotary import rotated
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer

_limit = without(
    attributes={"k_quant_type": "NONE", "v_quant_type": "NONE", "sliding_window_cache": 0, "qk_output": 0},
    inputs={12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight", 16: "query_seqlens"},
    outputs={3: "the output output_qk"},
)


@dataclass(frozen=True)
class _Sizes:
    """See above; `past` is how many tokens each row had before, `[B, 1]`."""

    new: int
    total: int
    room: int
    past: SSAValue


@importer("GroupQueryAttention", since=1, domain=MICROSOFT, limit=_limit, outputs=3)
def group_query_attention(node: Node) -> Sequence[SSAValue]:
    """Queries, keys and values `[B, S, heads D]`, or all in the first; the result and the present, `[B, M, L, D]`."""
    formula = Formula(node)
    heads, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    if groups < 1 or heads < 1 or heads % groups:
        raise node.error(f"expected num_heads a multiple of kv_num_heads, found {heads} and {groups}")
    q, k, v = _separate(formula, heads, groups)
    caches = node.optional(3), node.optional(4)
    if (caches[0] is None) != (caches[1] is None) or any(c is not None and rank_of(c) != 4 for c in caches):
        raise node.error("expected both past_key and past_value of rank 4, or none of them")
    sizes = _sizes(formula, shape_of(q)[2], 0 if caches[0] is None else shape_of(caches[0])[2])
    if node.integer("do_rotary", 0):
        q, k = (_turned(formula, x, sizes) for x in (q, k))
    k, v = (_present(formula, cache, new, sizes) for cache, new in zip(caches, (k, v), strict=True))
    return _attended(formula, q, k, v, sizes), k, v


def _separate(formula: Formula, heads: int, groups: int) -> tuple[SSAValue, SSAValue, SSAValue]:
    node, query = formula.node, formula.node.operand(0)
    key, value = node.optional(1), node.optional(2)
    if key is not None and value is not None:
        return (
            by_heads(formula, query, heads),
            by_heads(formula, key, groups),
            by_heads(formula, value, groups),
        )
    packed = by_heads(formula, query, heads + 2 * groups)
    bounds = (0, heads, heads + groups, heads + 2 * groups)
    q, k, v = (formula.part(packed, 1, bounds[i], bounds[i + 1]) for i in range(3))
    return q, k, v


def _sizes(formula: Formula, new: int, room: int) -> _Sizes:
    node, total = formula.node, formula.node.known_int(6, "total_sequence_length")
    batch = node.shape_of(0)[0]
    if total < new or node.shape_of(5) not in ((batch,), (batch, 1)):
        raise node.error(
            f"expected a total_sequence_length of at least {new} and {batch} lengths as seqlens_k, "
            f"found {total} and {node.type_of(5)}"
        )
    if new == total:
        past = node.constant(np.zeros((batch, 1), np.int64))
    else:
        lengths = formula.reshape(formula.cast(node.operand(5), i64), (batch, 1))
        past = formula.sub(lengths, node.constant(np.array(new - 1)))
    return _Sizes(new, total, max(room, total), past)


def _turned(formula: Formula, x: SSAValue, sizes: _Sizes) -> SSAValue:
    node, given = formula.node, formula.node.optional(9)
    positions = formula.add(sizes.past, node.constant(np.arange(sizes.new))) if given is None else given
    tables = node.operand(7), node.operand(8)
    return rotated(formula, x, tables, positions, interleaved=node.integer("rotary_interleaved", 0) == 1)


def _present(formula: Formula, cache: SSAValue | None, new: SSAValue, sizes: _Sizes) -> SSAValue:
    """The past of each row and behind it the new tokens, `[B, M, L, D]`."""
    node, batch = formula.node, shape_of(new)[0]
    if cache is None and sizes.new == sizes.room:
        return new
    room = 0 if cache is None else shape_of(cache)[2]
    both = new if cache is None else formula.concat([cache, new], 2)
    positions = np.arange(sizes.room)
    behind = formula.sub(node.constant(positions), sizes.past)  # [B, L]: 0 and up are new tokens
    is_new = node.add(graph.GreaterEqualOp(behind, node.constant(np.array(0)))).result
    is_past_end = node.add(graph.GreaterEqualOp(behind, node.constant(np.array(sizes.new)))).result
    of_new = formula.add(behind, node.constant(np.array(room)))
    of_past = node.constant(np.minimum(positions, shape_of(both)[2] - 1))
    source = node.add(graph.WhereOp(is_new, of_new, of_past)).result
    source = node.add(graph.WhereOp(is_past_end, node.constant(np.array(0)), source)).result
    tuples = formula.reshape(source, (batch, sizes.room, 1))
    gathered = node.add(graph.GatherNdOp(formula.swap(both, 1, 2), tuples, 1)).result
    gone = formula.reshape(is_past_end, (batch, 1, sizes.room, 1))
    kept = formula.swap(gathered, 1, 2)
    return node.add(graph.WhereOp(gone, formula.number(0, new), kept)).result


def _attended(formula: Formula, q: SSAValue, k: SSAValue, v: SSAValue, sizes: _Sizes) -> SSAValue:
    node = formula.node
    batch, heads, new, depth = shape_of(q)
    groups, each = shape_of(k)[1], heads // shape_of(k)[1]
    grouped = formula.reshape(q, (batch, groups, each, new, depth))
    keys, values = (formula.reshape(x, (batch, groups, 1, sizes.room, shape_of(x)[3])) for x in (k, v))
    scores = formula.scaled(formula.matmul(grouped, formula.swap(keys, 3, 4)), score_scale(node, depth))
    scores = formula.reshape(scores, (batch, heads, new, sizes.room))
    cap = node.number("softcap", 0.0)
    if cap > 0:
        scores = formula.scaled(node.add(graph.TanhOp(formula.scaled(scores, 1 / cap))).result, cap)
    addend = node.optional(10)
    if addend is not None:
        scores = formula.add(scores, formula.padded(addend, 3, sizes.room - shape_of(addend)[3]))
    scores = hidden(formula, scores, _visible(formula, sizes))
    weights = formula.reshape(_softmax(formula, scores), (batch, groups, each, new, sizes.room))
    mixed = formula.matmul(weights, values)
    return merged_heads(formula, formula.reshape(mixed, (batch, heads, new, shape_of(v)[3])))


def _visible(formula: Formula, sizes: _Sizes) -> SSAValue:
    """`[B, 1, S, L]`: the tokens up to the query, of these the last `local_window_size`; all tokens if not causal."""
    node, batch = formula.node, shape_of(sizes.past)[0]
    past = formula.reshape(sizes.past, (batch, 1, 1, 1))
    causal, window = node.integer("causal", 1) == 1, node.integer("local_window_size", -1)
    last = np.arange(sizes.new).reshape(-1, 1) if causal else np.array([[sizes.new - 1]])
    positions = node.constant(np.arange(sizes.room))
    ends = formula.add(past, node.constant(last))
    visible = node.add(graph.LessEqualOp(positions, ends)).result
    if window > 0:
        starts = formula.sub(ends, node.constant(np.array(window)))
        visible = node.add(graph.AndOp(visible, node.add(graph.GreaterOp(positions, starts)).result)).result
    return visible


def _softmax(formula: Formula, scores: SSAValue) -> SSAValue:
    """With one more number in each sum, `smooth_softmax` or of each head (`head_sink`), that nothing else is of."""
    node, sink = formula.node, formula.node.optional(11)
    *outer, room = shape_of(scores)
    if sink is None and not node.integer("smooth_softmax", 0):
        return node.add(graph.SoftmaxOp(scores, -1)).result
    column = formula.number(0, scores) if sink is None else formula.reshape(sink, (outer[1], 1, 1))
    joined = formula.concat([scores, formula.expand(column, (*outer, 1))], 3)
    return formula.part(node.add(graph.SoftmaxOp(joined, -1)).result, 3, 0, room)
