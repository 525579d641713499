"""How operations on images run channels last: windows as operations of their own, all others in another order."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, f32
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type, with_shape
from mlopt.dialects.graph.channels_last import channels_first, kernel_last
from mlopt.passes.graph.axis_orders import Order, Orders, Reordering, inverse, reordered, reordering_of


def channels_last_of(op: Operation) -> Reordering | None:
    """How `op` runs with its channels last, or any other operation in another order; None if it has no other order."""
    for kind, reordering in _IMAGES.items():
        if isinstance(op, kind):
            return reordering
    return reordering_of(op)


def _convolution(op: Operation, order: Order) -> Orders | None:
    """Images channels last, the weight with its kernel first; a bias is the same."""
    assert isinstance(op, graph.ConvOp)
    rank = rank_of(op.result)
    if order != channels_first(rank):
        return None
    bias = () if op.bias is None else (None,)
    residual = () if op.residual is None else (order,)
    return Orders((order, kernel_last(rank), *bias, *residual), (order,))


def _convolution_from_operand(op: Operation, index: int, order: Order) -> Orders | None:
    assert isinstance(op, graph.ConvOp)
    orders = _convolution(op, channels_first(rank_of(op.result)))
    return orders if orders is not None and orders.operands[index] == order else None


def _pool(op: Operation, order: Order) -> Orders | None:
    return Orders((order,), (order,)) if order == channels_first(rank_of(op.results[0])) else None


def _resize(op: Operation, order: Order) -> Orders | None:
    """The axes are resized in the sequence in which they stand, so those in space must not change theirs."""
    assert isinstance(op, graph.ResizeOp)
    return _pool(op, order) if op.roi is None and rank_of(op.result) >= 3 else None


def _rebuild_convolution(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
    return _again(op, graph.ChannelsLastConvOp, operands, orders)


def _rebuild_max_pool(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
    return _again(op, graph.ChannelsLastMaxPoolOp, operands, orders)


def _rebuild_average_pool(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
    return _again(op, graph.ChannelsLastAveragePoolOp, operands, orders)


def _rebuild_resize(op: Operation, operands: Sequence[SSAValue], orders: Orders) -> Operation:
    assert isinstance(op, graph.ResizeOp)
    (order,) = orders.results
    new = _again(op, graph.ResizeOp, operands, orders)
    assert order is not None
    scales = op.scales.get_values()
    new.properties["scales"] = DenseArrayBase.from_list(f32, [scales[axis] for axis in inverse(order)])
    return new


def _again(op: Operation, kind: type[Operation], operands: Sequence[SSAValue], orders: Orders) -> Operation:
    """An operation of `kind` with the properties of `op`."""
    (result,), (order,) = op.results, orders.results
    assert order is not None
    return kind.create(
        operands=operands,
        properties=dict(op.properties),
        attributes=op.attributes,
        result_types=[with_shape(tensor_type(result.type), reordered(shape_of(result), order))],
    )


_IMAGES: dict[type[Operation], Reordering] = {
    graph.ConvOp: Reordering(_convolution_from_operand, _convolution, _rebuild_convolution),
    graph.MaxPoolOp: Reordering(lambda op, _, order: _pool(op, order), _pool, _rebuild_max_pool),
    graph.AveragePoolOp: Reordering(lambda op, _, order: _pool(op, order), _pool, _rebuild_average_pool),
    graph.ResizeOp: Reordering(lambda op, _, order: _resize(op, order), _resize, _rebuild_resize),
}
