"""Attention: ONNX's operator where it gives the same numbers everywhere, else its parts.

ONNX's operator gives rows of 0 where a mask hides all keys, and engines take the lowest number of a type for -inf in
masks; so it is taken without masks, or with constant ones that leave each query a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import Float32Type, i1
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import broadcast_shapes, is_bool
from mlopt.export.builder import Attributes, Builder, Value, element_of, shape_of
from mlopt.export.registry import exports
from mlopt.ir.dtypes import to_numpy_dtype

_HIDDEN = -1e30
"""What is added to a score that counts is above this."""

_SHAPE: Attributes = {"allowzero": 1}
"""Of a Reshape whose shape says the size of every dimension."""

_HEADS_INNER = (0, 2, 1, 3)
"""The order between `[b, l, h, d]` and `[b, h, l, d]`."""


@exports(graph.AttentionOp)
def attention(builder: Builder, op: graph.AttentionOp) -> None:
    if not _is_standard(builder, op):
        _parts(builder, op)
        return
    attributes: Attributes = {"scale": _scale(op), "is_causal": int(op.causal is not None)}
    operands = (op.query, op.key, op.value)
    rows = [_rows(operand) for operand in operands]
    result = _result_rows(op)
    if result is None or None in rows:
        builder.node(op, "Attention", attributes=attributes)
        return
    heads, key_heads, _ = (shape_of(operand)[1] for operand in operands)
    attributes = {**attributes, "q_num_heads": heads, "kv_num_heads": key_heads}
    builder.declare(result)
    builder.given.add(result)
    builder.result(result, "Attention", [*(row for row in rows if row is not None), *op.masks], attributes)


def _scale(op: graph.AttentionOp) -> float:
    return op.scale.value.data * op.score_scale.value.data


def _is_standard(builder: Builder, op: graph.AttentionOp) -> bool:
    """Whether ONNX's operator gives the same numbers, and engines take these operands.

    16-bit floats are rounded elsewhere there, and the scale is a number in f32, whose root multiplies query and key:
    one above 1 would overflow in other places. Dimensions of the batch and of matrices don't broadcast.
    """
    operands = [shape_of(operand) for operand in (op.query, op.key, op.value)]
    return (
        isinstance(element_of(op.query), Float32Type)
        and op.nan_to_zero is None
        and 0 < op.scale.value.data <= 1
        and 0 < _scale(op) <= 1
        and len({shape[0] for shape in operands}) == 1
        and all(len(shape) == 4 and all(shape) for shape in operands)
        and len(op.masks) <= 1
        and not (op.masks and op.causal is not None)
        and all(_leaves_keys(builder, op, mask) for mask in op.masks)
    )


def _leaves_keys(builder: Builder, op: graph.AttentionOp, mask: SSAValue) -> bool:
    """Is a mask a constant that covers the whole matrix and lets each query see a key?

    A mask of i1 is none: in ONNX it adds -inf, which does not hide NaN.
    """
    array = builder.constant(mask)
    if array is None or array.shape[-2:] != op.score_shape[-2:] or array.dtype == np.bool_:
        return False
    best = array.max(axis=-1)
    return bool(np.all(np.isfinite(best) & (best > _HIDDEN)))


def _rows(value: SSAValue) -> SSAValue | None:
    """What is `[b, l, h * d]` and becomes the value, `[b, h, l, d]`, by a reshape and a transpose; None if nothing."""
    transpose = value.owner
    if not isinstance(transpose, graph.TransposeOp) or not isinstance(transpose.input.owner, graph.ReshapeOp):
        return None
    batch, heads, length, depth = shape_of(value)
    source = transpose.input.owner.input
    split = _order_of_many((batch, length, heads, depth), _HEADS_INNER)
    same = _order_of_many(shape_of(transpose.input), transpose.permutation) == split
    return source if same and shape_of(source) == (batch, length, heads * depth) else None


def _result_rows(op: graph.AttentionOp) -> SSAValue | None:
    """What the result, `[b, h, l, d]`, is as `[b, l, h * d]`, if it is used in no other way."""
    transpose = _only_user(op.result)
    if not isinstance(transpose, graph.TransposeOp) or transpose.permutation != _HEADS_INNER:
        return None
    reshape = _only_user(transpose.result)
    batch, heads, length, depth = shape_of(op.result)
    if not isinstance(reshape, graph.ReshapeOp) or shape_of(reshape.result) != (batch, length, heads * depth):
        return None
    return reshape.result


def _only_user(value: SSAValue) -> object:
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def _order_of_many(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """The dimensions of a shape that are not 1, and their order in a transpose, counted without those that are."""
    many = [axis for axis, size in enumerate(shape) if size != 1]
    return [shape[axis] for axis in many], [many.index(axis) for axis in order if axis in many]


def _parts(builder: Builder, op: graph.AttentionOp) -> None:
    element = element_of(op.result)
    query: SSAValue | Value = op.query
    if op.scale.value.data != 1:
        query = builder.part("Mul", [query, builder.scalar(op.scale.value.data, element)])
    groups = _Groups(builder, op)
    product = builder.part("MatMul", [groups.merged(query, shape_of(op.query)), _transposed_key(builder, op)])
    batches = [shape_of(operand)[:-3] for operand in (op.query, op.key)]
    shape = (*broadcast_shapes(*batches), *op.score_shape[-3:])
    scores = groups.split(product, shape)
    if op.score_scale.value.data != 1:
        scores = builder.part("Mul", [scores, builder.scalar(op.score_scale.value.data, element)])
    for mask in op.masks:
        if is_bool(element_of(mask)):
            scores = builder.part("Where", [mask, scores, builder.scalar(op.fill_value, element)], element)
        else:
            scores = builder.part("Add", [scores, mask])
        shape = broadcast_shapes(shape, shape_of(mask))
    if op.causal is not None:
        visible = np.tri(*shape[-2:], dtype=np.bool_)
        future = np.where(visible, 0, -np.inf).astype(to_numpy_dtype(element))
        scores = builder.part("Add", [scores, builder.numbers(future, element)])
    weights = builder.part("Softmax", [scores], attributes={"axis": len(shape) - 1})
    if op.nan_to_zero is not None:
        is_nan = builder.part("IsNaN", [weights], i1)
        weights = builder.part("Where", [is_nan, builder.scalar(0, element), weights], element)
    operands = [groups.merged(weights, shape), op.value]
    if not groups.count:
        builder.node(op, "MatMul", operands)
    else:
        total = builder.part("MatMul", operands)
        builder.node(op, "Reshape", [total, builder.ints(shape_of(op.result))], _SHAPE)


class _Groups:
    """Heads of the query that read one head of key and value, as rows of one matrix."""

    def __init__(self, builder: Builder, op: graph.AttentionOp):
        self._builder = builder
        heads = shape_of(op.query)[-3:-2]
        self.count = op.groups if heads and 1 < op.groups < heads[0] else 0

    def merged(self, value: SSAValue | Value, shape: Sequence[int]) -> SSAValue | Value:
        """`[..., h, m, n]` as `[..., hk, h / hk * m, n]`."""
        if not self.count:
            return value
        *batch, heads, rows, columns = shape
        target = (*batch, heads // self.count, self.count * rows, columns)
        return self._builder.part("Reshape", [value, self._builder.ints(target)], attributes=_SHAPE)

    def split(self, value: Value, shape: Sequence[int]) -> Value:
        """The other way round, to `shape`."""
        if not self.count:
            return value
        return self._builder.part("Reshape", [value, self._builder.ints(shape)], attributes=_SHAPE)


def _transposed_key(builder: Builder, op: graph.AttentionOp) -> Value:
    """The key with its last two dimensions exchanged, in one transpose with one that made it."""
    key, order = op.key, tuple(range(len(shape_of(op.key))))
    if isinstance(key.owner, graph.TransposeOp):
        key, order = key.owner.input, key.owner.permutation
    order = (*order[:-2], order[-1], order[-2])
    if order == tuple(range(len(order))):
        return builder.value(key)
    return builder.part("Transpose", [key], attributes={"perm": order})
