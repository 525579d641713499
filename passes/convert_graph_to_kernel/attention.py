"""Attention: a map that scales the query, two contractions, the softmax between them.

Keys are read as they lie, and so are the heads that several heads of the query share: the iteration space has the heads
of the key as one dimension and those of the query that read one of them as another, so that these are rows of the same
product. A destination has one dimension per axis; that of the query's heads is merged by a reshape at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from mlopt.dialects import graph, kernel
from mlopt.dialects.graph.base import GraphOp, is_bool, shape_of
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.convert_graph_to_kernel.contraction import (
    epilogue,
    finish_reshaped,
    outer,
    sum_of_products,
)
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Body, Index, Launch, Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars


@converts(graph.AttentionOp)
def _attention(op: graph.AttentionOp, conversion: Conversion) -> None:
    heads = _Heads(op)
    weights = _weights(op, conversion, _scores(op, conversion, heads))
    width = shape_of(op.value)[-1]
    space = Space({**heads.bounds, "m": heads.queries, "n": width, "k": heads.keys})
    launch = _launch(op, conversion, "attention", [*heads.bounds.values(), heads.queries, width])
    lhs = Operand(launch.use(weights, "weights"), space.access(*heads.bounds, "m", "k"))
    rhs = Operand(launch.use(op.value, "value"), heads.of_key(space, op.value, "k", "n"))
    total = sum_of_products(launch, space, lhs, rhs)
    finish_reshaped(op, conversion, launch, epilogue(launch, outer(space, launch), total))


class _Heads:
    """The dimensions before the queries: those of the batch, and the heads as one or two."""

    def __init__(self, op: graph.AttentionOp):
        *shape, self.queries, self.keys = op.score_shape
        self.bounds = {f"b{i}": size for i, size in enumerate(shape[:-1])}
        self._batch = tuple(self.bounds)
        self._heads = shape[-1:]
        self._groups = op.groups
        if not self._heads:
            return
        if 1 < self._groups < shape[-1]:
            self.bounds |= {"h": shape[-1] // self._groups, "g": self._groups}
        else:
            self.bounds |= {"h": shape[-1]}

    def of_query(self, space: Space, value: SSAValue, *matrix: str) -> kernel.Access:
        """The access of an operand that has a head for each of the query's; `matrix` are the last two dimensions."""
        shape = shape_of(value)
        axes = [*self._batch, *(["h"] if self._heads else []), *matrix][-len(shape) :] if shape else []
        return space.access(*(self._axis(space, axis, size) for axis, size in zip(axes, shape, strict=True)))

    def of_key(self, space: Space, value: SSAValue, *matrix: str) -> kernel.Access:
        """The access of the key or value."""
        axes = [*self._batch, *(["h"] if self._heads else []), *matrix]
        sizes = zip(axes, shape_of(value), strict=True)
        return space.access(*(0 if size == 1 != space.bounds[axis] else axis for axis, size in sizes))

    def _axis(self, space: Space, axis: str, size: int) -> Index:
        if axis == "h" and "g" in self.bounds:
            return 0 if size == 1 else space["h"] * self._groups + space["g"]
        return 0 if size == 1 != space.bounds[axis] else axis


def _launch(op: graph.AttentionOp, conversion: Conversion, name: str, shape: Sequence[int]) -> Launch:
    """A launch of that name into a destination of that shape."""
    launch = conversion.launch(op, [TensorType(element_of(op.result), shape)])
    launch.name = name
    return launch


def _scaled(op: graph.AttentionOp, conversion: Conversion) -> SSAValue:
    """The query times the scale; the query itself if that is 1."""
    scale = op.scale.value.data
    if scale == 1:
        return op.query
    launch = _launch(op, conversion, "scale", shape_of(op.query))
    space = Space.over(shape_of(op.query))

    def body(s: Scalars, x: SSAValue, _: SSAValue) -> SSAValue:
        return s.mul(x, s.like(scale, x))

    x = Operand(launch.use(op.query, "query"), space.identity())
    return _insert(
        op, conversion, launch, launch.map(space, [x], Operand(launch.out, space.identity()), body)
    )


def _scores(op: graph.AttentionOp, conversion: Conversion, heads: _Heads) -> SSAValue:
    """The scores behind the masks, `[batch..., heads, lq, lk]`, or with the heads in two dimensions."""
    query = _scaled(op, conversion)
    space = Space({**heads.bounds, "m": heads.queries, "n": heads.keys, "k": shape_of(op.query)[-1]})
    launch = _launch(op, conversion, "scores", [*heads.bounds.values(), heads.queries, heads.keys])
    lhs = Operand(launch.use(query, "query"), heads.of_query(space, query, "m", "k"))
    rhs = Operand(launch.use(op.key, "key"), heads.of_key(space, op.key, "n", "k"))
    total = sum_of_products(launch, space, lhs, rhs)
    space = outer(space, launch)
    scores = epilogue(launch, space, total)
    ins = [Operand(launch.use(mask, "mask"), heads.of_query(space, mask, "m", "n")) for mask in op.masks]
    if op.causal is not None:
        hidden = np.where(np.tri(heads.queries, heads.keys, dtype=np.bool_), 0, -np.inf)
        future = conversion.constant(op, hidden.astype(to_numpy_dtype(element_of(op.result))), "future")
        ins.append(Operand(launch.use(future, "future"), space.access("m", "n")))
    if ins or op.score_scale.value.data != 1:
        scores = launch.map(space, ins, Operand(scores, space.identity()), _completed(op))
    return _insert(op, conversion, launch, scores)


def _completed(op: graph.AttentionOp) -> Body:
    """A score with what the scale and its masks make of it."""

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        *masks, score = elements
        if op.score_scale.value.data != 1:
            score = s.mul(score, s.like(op.score_scale.value.data, score))
        for mask in masks:
            hides = is_bool(mask.type)
            score = s.select(mask, score, s.like(op.fill_value, score)) if hides else s.add(score, mask)
        return score

    return body


def _weights(op: graph.AttentionOp, conversion: Conversion, scores: SSAValue) -> SSAValue:
    """The softmax of the scores, converted as the operation of that name is."""
    softmax = graph.SoftmaxOp(scores, -1)
    conversion.insert(op, softmax)
    conversion.convert(softmax)
    weights = conversion.value(softmax.result)
    Rewriter.erase_op(softmax)
    if op.nan_to_zero is None:
        return weights
    launch = _launch(op, conversion, "nan_to_zero", shape_of(weights))
    space = Space.over(shape_of(weights))

    def body(s: Scalars, x: SSAValue, _: SSAValue) -> SSAValue:
        return s.select(s.is_nan(x), s.like(0, x), x)

    x = Operand(launch.use(weights, "weights"), space.identity())
    return _insert(
        op, conversion, launch, launch.map(space, [x], Operand(launch.out, space.identity()), body)
    )


def _insert(op: GraphOp, conversion: Conversion, launch: Launch, result: SSAValue) -> SSAValue:
    """Insert a launch of which the result is used by another of this operation."""
    (inserted,) = conversion.insert_launch(op, launch, (), result)
    return inserted
