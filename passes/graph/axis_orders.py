"""Operations on transposed operands: which of them can run with their dimensions in another order, and how.

The *order* of a value `y` is a permutation `p` such that `y = transpose(y', p)` for the `y'` that is computed
instead: dimension `i` of `y` is dimension `p[i]` of `y'`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_int, get_ints, int_attr, ints_attr, rank_of, shape_of, tensor_type

Order = tuple[int, ...]


def compose(inner: Order, outer: Order) -> Order:
    """The order of `transpose(transpose(x, inner), outer)`."""
    return tuple(inner[axis] for axis in outer)


def inverse(order: Order) -> Order:
    """The order that undoes `order`."""
    result = [0] * len(order)
    for axis, source in enumerate(order):
        result[source] = axis
    return tuple(result)


def reordered(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """The shape of `y'` for a `y` of this shape and order; the same for any list with a number per dimension."""
    return tuple(shape[axis] for axis in inverse(order))


def moves_data(shape: Sequence[int], order: Order) -> bool:
    """Does a transpose of an operand of this shape change the order of its elements?"""
    if 0 in shape:
        return False
    moved = [axis for axis in order if shape[axis] != 1]
    return moved != sorted(moved)


class Orders(NamedTuple):
    """An order for each operand and each result of an operation. None: it is the same in both forms.

    An operand whose order is longer than its rank is one that broadcasts: its shape is filled up with ones in front.
    """

    operands: tuple[Order | None, ...]
    results: tuple[Order | None, ...]


@dataclass(frozen=True, slots=True)
class Reordering:
    """How one kind of operation runs in another order.

    `from_operand(op, index, order)` and `from_result(op, order)` give the orders of everything else, or None if the
    operation can't run so. `rebuild(op, operands, orders)` is the operation on reordered operands.
    """

    from_operand: Callable[[Operation, int, Order], Orders | None]
    from_result: Callable[[Operation, Order], Orders | None]
    rebuild: Callable[[Operation, Sequence[SSAValue], Orders], Operation]


def reordering_of(op: Operation) -> Reordering | None:
    """How `op` runs in another order, or None if it has no other order."""
    for kind in type(op).__mro__:
        if (reordering := _REORDERINGS.get(kind)) is not None:
            return reordering
    return None


# Operations with one order for all: elementwise ones, and those along axes.


def _uniform(op: Operation, order: Order) -> Orders | None:
    """Every operand and result in this order; what broadcasts takes part as if it had the full rank."""
    if len(order) != rank_of(op.results[0]):
        return None
    operands = tuple(None if _is_single(operand) else order for operand in op.operands)
    return Orders(operands, (order,) * len(op.results))


def _uniform_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    return _uniform(op, order) if rank_of(op.operands[index]) == len(order) else None


def _first_only(op: Operation, order: Order) -> Orders | None:
    """The first operand and the result in this order; the others are the same in any order."""
    if len(order) != rank_of(op.results[0]):
        return None
    return Orders((order, *(None for _ in op.operands[1:])), (order,))


def _first_only_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    return _first_only(op, order) if index == 0 else None


def _is_single(value: SSAValue) -> bool:
    """Has the value one element, so that it broadcasts the same way in any order?"""
    return prod(shape_of(value)) == 1


def _recreate(
    properties: Callable[[Operation, Order], Mapping[str, Attribute]] | None = None,
) -> Callable[[Operation, Sequence[SSAValue], Orders], Operation]:
    """Build the operation anew with reordered result types, and other values of some properties."""

    def rebuild(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
        order = orders.operands[0] or orders.results[0]
        types = [
            result.type if own is None else _reordered_type(result, own)
            for result, own in zip(op.results, orders.results, strict=True)
        ]
        changed = dict(op.properties)
        if order is not None and properties is not None:
            changed |= properties(op, order)
        return type(op).create(
            operands=operands,
            properties=changed,
            attributes=op.attributes,
            result_types=types,
        )

    return rebuild


def _reordered_type(value: SSAValue, order: Order) -> Attribute:
    type_ = tensor_type(value.type)
    return TensorType(type_.element_type, reordered(type_.get_shape(), order))


def _axis(op: Operation, order: Order) -> Mapping[str, Attribute]:
    return {"axis": int_attr(order[get_int(op.properties, "axis")])}


def _axes(op: Operation, order: Order) -> Mapping[str, Attribute]:
    return {"axes": ints_attr(sorted(order[axis] for axis in get_ints(op.properties, "axes") or ()))}


def _per_dimension(*names: str) -> Callable[[Operation, Order], Mapping[str, Attribute]]:
    """Properties with one number per dimension."""

    def properties(op: Operation, order: Order) -> Mapping[str, Attribute]:
        lists = {name: get_ints(op.properties, name) for name in names}
        return {
            name: ints_attr(reordered(values, order)) for name, values in lists.items() if values is not None
        }

    return properties


# Reductions: what they take out of the shape, they take out of the order.


def _reduced_axes(op: Operation) -> tuple[int, ...]:
    if isinstance(op, graph.ArgMaxOp):
        return (op.axis.value.data,)
    return get_ints(op.properties, "axes") or ()


def _reduction_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    if "keepdims" in op.properties:
        return Orders((order,), (order,))
    kept = [order[axis] for axis in range(len(order)) if axis not in _reduced_axes(op)]
    rest = tuple(sorted(kept).index(axis) for axis in kept)
    return Orders((order,), (None if _is_identity(rest) else rest,))


def _reduction_from_result(op: Operation, order: Order) -> Orders | None:
    """Without `keepdims` many orders of the operand would do: none is chosen."""
    return Orders((order,), (order,)) if "keepdims" in op.properties else None


def _is_identity(order: Order) -> bool:
    return order == tuple(range(len(order)))


# Reshapes that keep each dimension, or a group of neighbours, together.


def _reshape_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    result = order_after_reshape(shape_of(op.operands[0]), shape_of(op.results[0]), order)
    return None if result is None else Orders((order,), (None if _is_identity(result) else result,))


def _reshape_from_result(op: Operation, order: Order) -> Orders | None:
    source = order_after_reshape(shape_of(op.results[0]), shape_of(op.operands[0]), order)
    return None if source is None or _is_identity(source) else Orders((source,), (order,))


def _rebuild_reshape(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
    shape, order = shape_of(op.results[0]), orders.results[0]
    return graph.ReshapeOp(operands[0], shape if order is None else reordered(shape, order))


def order_after_reshape(shape: Sequence[int], target: Sequence[int], order: Order) -> Order | None:
    """The order of what a value of `shape` in `order` is reshaped to, if groups of dimensions stay together."""
    groups = reshape_groups(shape, target)
    if groups is None:
        return None
    group_of = {
        axis: number for number, (sources, _) in enumerate(groups) for axis in sources if shape[axis] != 1
    }
    moved = [axis for axis in inverse(order) if shape[axis] != 1]
    sequence = list(dict.fromkeys(group_of[axis] for axis in moved))
    if moved != [axis for number in sequence for axis in groups[number][0] if shape[axis] != 1]:
        return None
    for number in range(len(groups)):
        if number not in sequence:  # ones only: they stay behind the group that they were behind
            sequence.insert(sequence.index(number - 1) + 1 if number else 0, number)
    return inverse(tuple(axis for number in sequence for axis in groups[number][1]))


def reshape_groups(shape: Sequence[int], target: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """The smallest groups of neighbouring dimensions that a reshape turns into one another; None if one is empty."""
    if 0 in shape:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(shape) or j < len(target):
        sources, targets = list(range(i, min(i + 1, len(shape)))), list(range(j, min(j + 1, len(target))))
        i, j = i + len(sources), j + len(targets)
        have, want = prod(shape[axis] for axis in sources), prod(target[axis] for axis in targets)
        while have != want:
            if have < want:
                sources.append(i)
                have, i = have * shape[i], i + 1
            else:
                targets.append(j)
                want, j = want * target[j], j + 1
        groups.append((sources, targets))
    return groups


# Products.


def _matmul(op: Operation, order: Order) -> Orders | None:
    """Operands of one rank whose last two dimensions stay the last two, maybe swapped: then the product is of the
    operands in the other sequence."""
    assert isinstance(op, graph.MatMulOp)
    rank = len(order)
    if not rank_of(op.lhs) == rank_of(op.rhs) == rank or set(order[-2:]) != {rank - 2, rank - 1} or rank < 2:
        return None
    return Orders((order, order), (order,))


def _matmul_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    assert isinstance(op, graph.MatMulOp)
    if index == 0 and rank_of(op.rhs) == 2 and len(order) > 2 and order[-1] == len(order) - 1:
        return Orders((order, None), (order,))
    return _matmul(op, order) if rank_of(op.operands[index]) == len(order) else None


def _matmul_from_result(op: Operation, order: Order) -> Orders | None:
    assert isinstance(op, graph.MatMulOp)
    if rank_of(op.lhs) == len(order) and rank_of(op.rhs) == 2:
        return _matmul_from_operand(op, 0, order) if len(order) > 2 else _matmul(op, order)
    return _matmul(op, order)


def _rebuild_matmul(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
    order = orders.results[0]
    assert order is not None
    swapped = order[-1] != len(order) - 1
    return graph.MatMulOp(*reversed(operands)) if swapped else graph.MatMulOp(*operands)


def _convolution(op: Operation, order: Order) -> Orders | None:
    """Spatial dimensions among themselves, those of the weight and of a residual with them."""
    assert isinstance(op, graph.ConvOp)
    if order[:2] != (0, 1):
        return None
    bias = [] if op.bias is None else [None]
    residual = [] if op.residual is None else [order]
    return Orders((order, order, *bias, *residual), (order,))


def _convolution_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    return _convolution(op, order) if index < 2 else None


def _pool(op: Operation, order: Order) -> Orders | None:
    return Orders((order,), (order,)) if order[:2] == (0, 1) else None


def _window_properties(op: Operation, order: Order) -> Mapping[str, Attribute]:
    spatial = tuple(axis - 2 for axis in order[2:])
    n = len(spatial)
    properties: dict[str, Attribute] = {}
    for name in ("kernel", "strides", "dilations", "pads"):
        values = get_ints(op.properties, name)
        if values is not None:
            properties[name] = ints_attr(
                axis
                for start in range(0, len(values), n)
                for axis in reordered(values[start : start + n], spatial)
            )
    return properties


# Normalizations over the last dimensions, which stay where they are.


def _row_norm(op: Operation, order: Order) -> Orders | None:
    axis = get_int(op.properties, "axis")
    inner = len(order) - axis
    fits = all(rank_of(parameter) <= inner or _is_single(parameter) for parameter in op.operands[1:])
    return _first_only(op, order) if fits and order[axis:] == tuple(range(axis, len(order))) else None


def _row_norm_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    return _row_norm(op, order) if index == 0 else None


def _rotary(op: Operation, order: Order) -> Orders | None:
    """The pairs stay along the last dimension; the tables take part as if they had the full rank."""
    return _uniform(op, order) if order and order[-1] == len(order) - 1 else None


def _rotary_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    return _rotary(op, order) if rank_of(op.operands[index]) == len(order) else None


def _expand(op: Operation, order: Order) -> Orders | None:
    return _first_only(op, order) if rank_of(op.operands[0]) == len(order) else None


def _expand_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    return _expand(op, order) if rank_of(op.results[0]) == len(order) else None


_ELEMENTWISE = Reordering(_uniform_from_operand, _uniform, _recreate())
_REDUCTION = Reordering(_reduction_from_operand, _reduction_from_result, _recreate(_axes))
_ROW_NORM = Reordering(_row_norm_from_operand, _row_norm, _recreate())
_ALONG_AXIS = Reordering(_uniform_from_operand, _uniform, _recreate(_axis))

_REORDERINGS: dict[type, Reordering] = {
    graph.UnaryOp: _ELEMENTWISE,
    graph.PredicateOp: _ELEMENTWISE,
    graph.BinaryOp: _ELEMENTWISE,
    graph.WhereOp: _ELEMENTWISE,
    graph.CastOp: _ELEMENTWISE,
    graph.QuantizeOp: _ELEMENTWISE,
    graph.DequantizeOp: _ELEMENTWISE,
    graph.ClipOp: Reordering(_first_only_from_operand, _first_only, _recreate()),
    graph.SoftmaxBase: Reordering(_first_only_from_operand, _first_only, _recreate(_axis)),
    graph.CumulativeOp: Reordering(_first_only_from_operand, _first_only, _recreate(_axis)),
    graph.ConcatOp: _ALONG_AXIS,
    graph.SplitOp: _ALONG_AXIS,
    graph.SliceOp: Reordering(
        _first_only_from_operand, _first_only, _recreate(_per_dimension("starts", "stops", "steps"))
    ),
    graph.PadOp: Reordering(_first_only_from_operand, _first_only, _recreate(_per_dimension("low", "high"))),
    graph.ExpandOp: Reordering(_expand_from_operand, _expand, _recreate()),
    graph.ReductionOp: _REDUCTION,
    graph.ArgMaxOp: Reordering(_reduction_from_operand, _reduction_from_result, _recreate(_axis)),
    graph.LayerNormOp: _ROW_NORM,
    graph.RmsNormOp: _ROW_NORM,
    graph.RotaryEmbeddingOp: Reordering(_rotary_from_operand, _rotary, _recreate()),
    graph.ReshapeOp: Reordering(_reshape_from_operand, _reshape_from_result, _rebuild_reshape),
    graph.MatMulOp: Reordering(_matmul_from_operand, _matmul_from_result, _rebuild_matmul),
    graph.ConvOp: Reordering(_convolution_from_operand, _convolution, _recreate(_window_properties)),
    graph.MaxPoolOp: Reordering(
        lambda op, index, order: _pool(op, order), _pool, _recreate(_window_properties)
    ),
    graph.AveragePoolOp: Reordering(
        lambda op, index, order: _pool(op, order), _pool, _recreate(_window_properties)
    ),
}
