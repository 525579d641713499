"""`fuse-attention`: scaled dot-product attention from its parts, in the forms that exporters write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, prod
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Block, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.graph.constants import constant_value, is_constant
from mlopt.passes.graph.fusion import Fusion, Group, Miss, described, either_way, fuse, uniform_value
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

_DEPTH = 8
"""How many operations between the product and the softmax are looked at."""

Shape: TypeAlias = tuple[int, ...]


class FuseAttentionPass(Pass):
    """Fuse scaled dot-product attention into `graph.attention`.

    The group is matmul(softmax(matmul(q, k^T)), v) with the softmax along the keys, and between its parts:

    1. Multiplications and divisions by one number: of the query; of the key, if the query is scaled too, or computed
       for this alone, and then it takes over that scale; and of the scores before a mask.
    2. Masks: what is added to the scores, and where(m, scores, number) or where(m, number, scores).
    3. Reshapes of the scores that split dimensions of the batch for a mask, and merge them again.
    4. where(is_nan(weights), 0, weights), as torch exports it, and reshapes of the weights.
    5. Casts of 16-bit floats to f32 before the softmax, and back behind it.

    Transposes of the key are undone, and heads that are repeated for the query (expand, reshape) are read where they
    are. A constant mask that is 0 up to the diagonal and -inf above it becomes `causal`; no other is taken for one. A
    constant mask of zeros is left out.

    Where a scale is moved from the key to the query, results change by rounding. Not fused: parts that are used
    elsewhere, a softmax along another dimension, scores that are multiplied by more than one number or behind a mask,
    weights that are changed behind the softmax, key and value that are both constant (two linear layers). Reports a
    remark for each that was fused, and for each near miss.
    """

    name = "fuse-attention"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse(ctx, op, [FuseAttention(ctx, self.name)])


class _Mask(NamedTuple):
    """A mask of the scores, which had `shape` where it was applied.

    `fill` is the score where a mask of i1 hides it, None for one that is added; `shows` says that such a mask is false
    there, not true.
    """

    value: SSAValue
    shape: Shape
    fill: float | None = None
    shows: bool = True


@dataclass(slots=True)
class _Scores:
    """What stands between a product and the softmax of its scores, from the product on."""

    product: graph.MatMulOp
    ops: list[Operation] = field(default_factory=list[Operation])
    masks: list[_Mask] = field(default_factory=list[_Mask])
    shapes: list[Shape] = field(default_factory=list[Shape])
    scale: float = 1.0
    """Of the query and the key."""
    own_scale: float = 1.0
    problem: str | None = None


class FuseAttention(Fusion):
    """matmul(softmax(matmul(q * a, transpose(k) * b) * c + mask), v) -> attention(q, k, v, mask), scales a * b and c"""

    statistic: ClassVar[str] = "attentions-fused"
    roots: ClassVar = (graph.MatMulOp,)

    def match(self, op: Operation) -> Group | Miss | None:
        if not isinstance(op, graph.MatMulOp):
            return None
        ops: list[Operation] = [op]
        weights, nan_to_zero = self._weights(op.lhs, ops)
        softmax = weights.owner
        if not isinstance(softmax, graph.SoftmaxOp):
            return self._changed_weights(op, softmax)
        ops.append(softmax)
        widened = softmax.input
        if isinstance(cast := widened.owner, graph.CastOp):
            ops.append(cast)
            widened = cast.input
        scores = self._scores(widened, _DEPTH)
        if scores is None or any(
            other.parent is not op.parent for other in (*ops, *scores.ops, scores.product)
        ):
            return None
        if _are_linears(scores, op):
            return None
        scores.shapes += [shape_of(other.results[0]) for other in ops if isinstance(other, graph.ReshapeOp)]
        ops += [*reversed(scores.ops), scores.product]
        query = self._unscaled(scores.product.lhs, scores, ops)
        key = self._key(scores, ops, may_unscale=query is not scores.product.lhs or _is_computed_for(query))
        if softmax.axis.value.data != rank_of(softmax.input) - 1:
            return Miss("the softmax is not along the keys")
        if not _computes_alike(widened, softmax, op.lhs):
            return Miss("the softmax is of another type than the products")
        if scores.problem is not None:
            return Miss(scores.problem)
        return self._group(op, ops, query, key, scores, nan_to_zero=nan_to_zero)

    def _changed_weights(self, product: graph.MatMulOp, op: Operation | Block) -> Miss | None:
        """What to say of a product with what `op` makes of attention weights; None if they are none."""
        if not isinstance(op, graph.BinaryOp | graph.WhereOp):
            return None
        softmaxes = [x.owner for x in op.operands if isinstance(x.owner, graph.SoftmaxOp)]
        scores = self._scores(softmaxes[0].input, _DEPTH) if softmaxes else None
        if scores is None or _are_linears(scores, product):
            return None
        return Miss(f"the weights are changed by {described(op)} behind the softmax")

    def _weights(self, value: SSAValue, ops: list[Operation]) -> tuple[SSAValue, bool]:
        """What becomes `value` by a reshape, a cast and where(is_nan(x), 0, x), of which it appends the operations.

        And whether it was made 0 where it was NaN.
        """
        nan_to_zero = False
        for _ in range(_DEPTH):
            match op := value.owner:
                case graph.ReshapeOp() | graph.CastOp():
                    ops.append(op)
                    value = op.input
                case graph.WhereOp() if isinstance(is_nan := op.condition.owner, graph.IsNanOp):
                    x = op.false_value
                    zero = uniform_value(op.true_value, self.ctx) == 0
                    if is_nan.input != x or x.type != value.type or not zero:
                        break
                    ops += [op, is_nan]
                    value, nan_to_zero = x, True
                case _:
                    break
        return value, nan_to_zero

    def _scores(self, value: SSAValue, depth: int) -> _Scores | None:
        """What leads from a product to `value`; None if nothing of this kind does."""
        match op := value.owner:
            case graph.MatMulOp() if rank_of(op.lhs) > 1 and rank_of(op.rhs) > 1:
                return _Scores(op, shapes=[shape_of(value)])
            case graph.AddOp() | graph.MulOp() | graph.DivOp() | graph.WhereOp() | graph.ReshapeOp() if depth:
                scores = self._behind(op, depth - 1)
            case _:
                return None
        if scores is not None:
            scores.ops.append(op)
        return scores

    def _behind(
        self, op: graph.AddOp | graph.MulOp | graph.DivOp | graph.WhereOp | graph.ReshapeOp, depth: int
    ) -> _Scores | None:
        """The scores that an operation changes, with what it does to them."""
        match op:
            case graph.AddOp():
                for inner, other in either_way(op):
                    if (scores := self._scores(inner, depth)) is not None:
                        return self._masked(scores, op, inner, _Mask(other, shape_of(inner)))
                return None
            case graph.WhereOp():
                for inner, filled in ((op.true_value, op.false_value), (op.false_value, op.true_value)):
                    if (fill := uniform_value(filled, self.ctx)) is not None and (
                        scores := self._scores(inner, depth)
                    ) is not None:
                        mask = _Mask(op.condition, shape_of(inner), fill, inner == op.true_value)
                        return self._masked(scores, op, inner, mask)
                return None
            case graph.ReshapeOp():
                scores = self._scores(op.input, depth)
                if scores is not None:
                    scores.shapes.append(shape_of(op.result))
                return scores
            case _:
                return self._multiplied(op, depth)

    def _masked(self, scores: _Scores, op: Operation, inner: SSAValue, mask: _Mask) -> _Scores:
        if shape_of(op.results[0]) != mask.shape:
            scores.problem = scores.problem or "a mask has dimensions that the scores do not have"
        fills = {other.fill for other in scores.masks} - {None}
        if mask.fill is not None and fills - {mask.fill}:
            scores.problem = scores.problem or "two masks fill in different numbers"
        if mask.fill == inf:
            scores.problem = scores.problem or "a mask fills in infinity"
        scores.masks.append(mask)
        return scores

    def _multiplied(self, op: graph.MulOp | graph.DivOp, depth: int) -> _Scores | None:
        ways = either_way(op) if isinstance(op, graph.MulOp) else [(op.lhs, op.rhs)]
        for inner, other in ways:
            if (scores := self._scores(inner, depth)) is not None:
                factor = _factor(op, inner, other, self.ctx)
                if factor is None:
                    scores.problem = scores.problem or "the scores are multiplied by more than one number"
                elif scores.masks:
                    scores.problem = scores.problem or "the scores are multiplied behind a mask"
                else:
                    scores.own_scale *= factor
                return scores
        return None

    def _unscaled(self, value: SSAValue, scores: _Scores, ops: list[Operation]) -> SSAValue:
        """The operand of a multiplication by one number that nothing else uses; else the value."""
        op = value.owner
        if (
            isinstance(op, graph.MulOp | graph.DivOp)
            and value.has_one_use()
            and op.parent is scores.product.parent
        ):
            for inner, other in either_way(op) if isinstance(op, graph.MulOp) else [(op.lhs, op.rhs)]:
                if (factor := _factor(op, inner, other, self.ctx)) is not None:
                    scores.scale *= factor
                    ops.append(op)
                    return inner
        return value

    def _key(self, scores: _Scores, ops: list[Operation], *, may_unscale: bool) -> Ordered:
        """The key and the order of its dimensions, from the right operand of the product, in which it is transposed.

        A number that it is multiplied by is left where it is unless the query may take it.
        """
        value = scores.product.rhs
        if may_unscale:
            value = self._unscaled(value, scores, ops)
        transposed, transpose = _ordered(value), value.owner
        if may_unscale and isinstance(transpose, graph.TransposeOp) and value.has_one_use():
            before: list[Operation] = []
            transposed = Ordered(self._unscaled(transpose.input, scores, before), transposed.order)
            ops += [transpose, *before] if before else []
        *batch, columns, rows = transposed.order
        return Ordered(transposed.value, (*batch, rows, columns))

    def _group(
        self,
        op: graph.MatMulOp,
        ops: list[Operation],
        query: SSAValue,
        key: Ordered,
        scores: _Scores,
        *,
        nan_to_zero: bool,
    ) -> Group | Miss:
        product, finest = shape_of(scores.product.result), max(scores.shapes, key=len)
        if shape_of(op.lhs) != product or any(_parts(shape, finest) is None for shape in scores.shapes):
            return Miss("the scores are reshaped to matrices of other rows and columns")
        if rank_of(op.rhs) < 2 or shape_of(op.result)[:-1] != product[:-1]:
            return Miss("the value has more batches than the scores")
        if not (_is_normal(scores.scale, query) and _is_normal(scores.own_scale, query)):
            return Miss("the scale is not a normal number of the type")
        operands = [Moved(query), *_read_once(key, op.rhs)]
        for operand in operands:
            operand.lift(len(product))
        heads, key_heads, value_heads = (operand.shape[-3:-2] for operand in operands)
        if heads != product[-3:-2]:
            return Miss("the heads of the query are broadcast")
        if key_heads != value_heads:
            return Miss("key and value have different numbers of heads")
        if any(value.owner in ops for value in (op.rhs, *(mask.value for mask in scores.masks))):
            return Miss("a part of it is an operand of it too")
        masks = [
            mask for mask in scores.masks if mask.fill is not None or uniform_value(mask.value, self.ctx) != 0
        ]
        moved = [Moved(mask.value) for mask in masks]
        shapes = (*[product] * 3, *(mask.shape for mask in masks))
        for operand, shape in zip((*operands, *moved), shapes, strict=True):
            if (split := _respelled(operand.shape, shape, finest)) is None:
                return Miss("the scores are reshaped across dimensions that an operand broadcasts")
            operand.reshape(split)
        causal = len(masks) == 1 and masks[0].fill is None and self._is_causal(moved[0], product)

        def build() -> Sequence[Operation]:
            new: list[Operation] = []
            attention = graph.AttentionOp(
                *(operand.build(new) for operand in operands),
                *(() if causal else _shown(masks, moved, new)),
                scale=scores.scale,
                score_scale=scores.own_scale,
                fill=next((mask.fill for mask in masks if mask.fill is not None), None),
                causal=causal,
                nan_to_zero=nan_to_zero,
            )
            new.append(attention)
            if attention.result.type != op.result.type:
                new.append(graph.ReshapeOp(attention.result, shape_of(op.result)))
            return new

        return Group(ops, build, "'attention'")

    def _is_causal(self, mask: Moved, scores: Shape) -> bool:
        """Is a mask that is added the constant 0 where the key is not after the query, and -inf elsewhere?"""
        if mask.steps or mask.shape[-2:] != scores[-2:] or prod(mask.shape) != prod(scores[-2:]):
            return False
        array = constant_value(mask.value, self.ctx)
        visible = np.tri(*scores[-2:], dtype=np.bool_)
        return array is not None and bool(np.all(array == np.where(visible, 0, -np.inf)))


def _are_linears(scores: _Scores, product: graph.MatMulOp) -> bool:
    """Are key and value constant, so that the products are linear layers around a softmax?"""
    return is_constant(scores.product.rhs) and is_constant(product.rhs)


def _shown(masks: Sequence[_Mask], values: Sequence[Moved], new: list[Operation]) -> list[SSAValue]:
    """The masks as operands: those of i1 that are true where they hide are turned around."""
    operands: list[SSAValue] = []
    for mask, moved in zip(masks, values, strict=True):
        operand = moved.build(new)
        if not mask.shows:
            new.append(graph.NotOp(operand))
            operand = new[-1].results[0]
        operands.append(operand)
    return operands


class Moved:
    """A value behind reshapes and transposes that are not made yet."""

    def __init__(self, value: SSAValue):
        self.value = value
        self.shape: Shape = shape_of(value)
        self.steps: list[tuple[type[graph.ReshapeOp | graph.TransposeOp], Shape]] = []

    def reshape(self, shape: Shape) -> None:
        """Reshape it, if it has another shape."""
        if shape != self.shape:
            self.steps.append((graph.ReshapeOp, shape))
            self.shape = shape

    def transpose(self, order: Shape) -> None:
        """Put its dimensions in this order."""
        if order != tuple(range(len(order))):
            self.steps.append((graph.TransposeOp, order))
            self.shape = tuple(self.shape[axis] for axis in order)

    def lift(self, rank: int) -> None:
        """Put dimensions of size 1 in front, up to this rank."""
        self.reshape((1,) * (rank - len(self.shape)) + self.shape)

    def build(self, new: list[Operation]) -> SSAValue:
        """Make the operations; the value behind them."""
        value = self.value
        for kind, numbers in self.steps:
            op = kind(value, numbers)
            new.append(op)
            value = op.result
        return value


class Ordered(NamedTuple):
    """A value with its dimensions in another order."""

    value: SSAValue
    order: Shape


def _ordered(value: SSAValue) -> Ordered:
    """What a transpose reads, in the order that it makes; another value as it is."""
    if isinstance(value.owner, graph.TransposeOp):
        return Ordered(value.owner.input, value.owner.permutation)
    return Ordered(value, tuple(range(rank_of(value))))


def _read_once(key: Ordered, value: SSAValue) -> list[Moved]:
    """Key and value, before their heads are repeated, if the same heads are left of both."""
    first, second = _before_repeat(key), _before_repeat(_ordered(value))
    if first is not None and second is not None and first.shape[-3] == second.shape[-3]:
        return [first, second]
    whole = Moved(key.value)
    whole.transpose(key.order)
    return [whole, Moved(value)]


def _before_repeat(operand: Ordered) -> Moved | None:
    """An operand, read before its heads were repeated; None if they were not.

    Heads are the last dimension but two of the order. They are repeated by an expand of a dimension behind them that a
    reshape merges into them, or, if there is one head, by an expand of it.
    """
    value, order = operand.value, operand.order
    if len(order) < 3:
        return None
    axis, shape = order[-3], shape_of(value)
    if isinstance(value.owner, graph.ReshapeOp) and isinstance(
        expand := value.owner.input.owner, graph.ExpandOp
    ):
        before, after = shape_of(expand.input), shape_of(expand.result)
        split = (*shape[:axis], *after[axis : axis + 2], *shape[axis + 1 :])
        if after != split or before != (*split[: axis + 1], 1, *split[axis + 2 :]):
            return None
        source, heads = expand.input, before[axis]
    elif isinstance(expand := value.owner, graph.ExpandOp):
        if shape_of(expand.input) != (*shape[:axis], 1, *shape[axis + 1 :]):
            return None
        source, heads = expand.input, 1
    else:
        return None
    moved = Moved(source)
    moved.reshape((*shape[:axis], heads, *shape[axis + 1 :]))
    moved.transpose(order)
    return moved


def _is_computed_for(query: SSAValue) -> bool:
    """Is a query computed for this product alone, so that what computes it can scale it too, without another copy?"""
    return isinstance(query.owner, Operation) and not is_constant(query) and query.has_one_use()


def _computes_alike(scores: SSAValue, softmax: graph.SoftmaxOp, weights: SSAValue) -> bool:
    """Is a softmax, with casts before and behind it, one in the type of the scores?

    It is without casts, and with casts of 16-bit floats to f32 and back: in f32 it is computed anyway.
    """
    outer, inner, result = (tensor_type(x.type).element_type for x in (scores, softmax.result, weights))
    return outer == result and (
        outer == inner or (isinstance(outer, Float16Type | BFloat16Type) and inner == f32)
    )


def _factor(
    op: graph.MulOp | graph.DivOp, inner: SSAValue, other: SSAValue, ctx: CompilerContext
) -> float | None:
    """What `op` multiplies every element of `inner` by; None if that is not one number, finite and not 0."""
    number = uniform_value(other, ctx)
    if number is None or number == 0 or not isfinite(number) or shape_of(op.result) != shape_of(inner):
        return None
    return 1 / number if isinstance(op, graph.DivOp) else number


def _is_normal(number: float, like: SSAValue) -> bool:
    """Is it, rounded to the element type of `like`, neither 0 or nearly so nor infinite?"""
    limits = cast(Any, ml_dtypes.finfo(to_numpy_dtype(tensor_type(like.type).element_type)))
    return float(limits.smallest_normal) <= abs(number) <= float(limits.max)


def _parts(shape: Shape, finest: Shape) -> list[Shape] | None:
    """For each dimension of a shape but the last two, those of `finest` that it is made of; None if it is not.

    The last two must be the same.
    """
    if shape[-2:] != finest[-2:]:
        return None
    if shape == finest:
        return [(size,) for size in shape[:-2]]
    fine = list(finest[:-2])
    parts: list[Shape] = []
    for size in shape[:-2]:
        part: list[int] = []
        while fine and prod(part) != size:
            part.append(fine.pop(0))
        if prod(part) != size:
            return None
        parts.append(tuple(part))
    if any(size != 1 for size in fine) or (fine and not parts):
        return None
    return [*parts[:-1], (*parts[-1], *fine)] if fine else parts


def _respelled(shape: Shape, scores: Shape, finest: Shape) -> Shape | None:
    """The shape of an operand of scores of a shape, once these have the shape `finest`; None if there is none.

    The operand has dimensions of the scores, aligned at the right, or 1; the last two are its own.
    """
    if scores == finest or len(shape) <= 2:
        return shape
    parts = _parts(scores, finest)
    assert parts is not None
    result: list[int] = []
    first = len(parts) - (len(shape) - 2)
    for size, whole, part in zip(shape[:-2], scores[first:], parts[first:], strict=False):
        if len(part) == 1:
            result.append(size)
        elif size in (1, whole):
            result.extend(part if size == whole else [1] * len(part))
        else:
            return None
    return (*result, *shape[-2:])
