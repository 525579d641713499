"""Counted loops over carried tensors, and what the bodies of loops do with the number of the trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import Tensor, normalize_axis, shape_of, tensor_type, with_shape
from mlopt.frontend.onnx.node import Node
from mlopt.ir.dtypes import array_to_dense, to_numpy_dtype


class BlockBuilder:
    """Adds operations of a node to a block, or to the one around the node. Numbers of trips are `i64`."""

    def __init__(self, node: Node, block: Block | None = None):
        self.node = node
        self.block = block

    def add(self, op: Operation) -> SSAValue:
        """Add an operation; its first result."""
        return self.node.add(op, self.block).results[0]

    def end(self, terminator: Operation) -> None:
        """Add the terminator of the block."""
        self.node.add(terminator, self.block)

    def number(self, value: int) -> SSAValue:
        """A constant number."""
        return self.add(arith.ConstantOp(IntegerAttr(value, i64)))

    def true(self, rank: int = 0) -> SSAValue:
        """A constant tensor of one element that is true."""
        return self.add(graph.ConstantOp(array_to_dense(np.ones([1] * rank, np.bool_))))

    def tensor_of(self, scalar: SSAValue, rank: int = 0) -> SSAValue:
        """A scalar as a tensor of one element."""
        return self.add(tensor.FromElementsOp(scalar, result_type=TensorType(scalar.type, [1] * rank)))

    def scalar_of(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The element of a tensor that has one."""
        if shape_of(value):
            value = self.add(graph.ReshapeOp(value, ()))
        return self.add(tensor.ExtractOp(value, [], element))

    def read_slice(self, whole: SSAValue, axis: int, position: SSAValue) -> SSAValue:
        """The slice of `whole` at a position on an axis, without that axis."""
        return self.add(graph.GatherOp(whole, self.tensor_of(position), axis))

    def write_slice(self, part: SSAValue, whole: SSAValue, axis: int, position: SSAValue) -> SSAValue:
        """`whole` with `part`, which has no dimension `axis`, at a position on that axis."""
        offset = self.add(arith.IndexCastOp(position, IndexType()))
        sizes = list(shape_of(whole))
        sizes[axis] = 1
        static = [DYNAMIC_INDEX if d == axis else 0 for d in range(len(sizes))]
        return self.add(tensor.InsertSliceOp.get(part, whole, sizes, static, offsets=[offset]))


@dataclass(frozen=True, slots=True)
class Collected:
    """What a body gives in each trip, to be put one after the other on a new axis, or one before the other."""

    value: SSAValue
    axis: int = 0
    backwards: bool = False


def position_of(inside: BlockBuilder, trip: SSAValue, trips: int, *, backwards: bool) -> SSAValue:
    """The position on an axis of size `trips` that belongs to a trip: from the start, or from the end."""
    return inside.add(arith.SubiOp(inside.number(trips - 1), trip)) if backwards else trip


def close_counted_loop(
    node: Node,
    body: Block,
    trips: int | SSAValue,
    initial: Sequence[SSAValue],
    carried: Sequence[SSAValue],
    collected: Sequence[Collected] = (),
) -> list[SSAValue]:
    """The results of an `scf.for` around a body that is complete but for its terminator.

    `body` has the number of the trip as its first argument, then what it carries, which begins as `initial` and goes on
    as `carried`. Results: what is carried last, then one tensor for each of `collected`, for which `trips` must be
    a number.
    """
    if isinstance(trips, int) and trips <= 0:
        body.drop_all_references()
        return [*initial, *(_nothing(node, entry) for entry in collected)]
    inside, here = BlockBuilder(node, body), BlockBuilder(node)
    wholes: list[SSAValue] = []
    written: list[SSAValue] = []
    for entry in collected:
        assert isinstance(trips, int)
        axis, type = _collected_type(entry, trips)
        whole = here.add(tensor.EmptyOp([], type))
        argument = body.insert_arg(whole.type, len(body.args))
        position = position_of(inside, body.args[0], trips, backwards=entry.backwards)
        wholes.append(whole)
        written.append(inside.write_slice(entry.value, argument, axis, position))
    inside.end(scf.YieldOp(*carried, *written))
    first, step = here.number(0), here.number(1)
    last = here.number(trips) if isinstance(trips, int) else trips
    loop = node.add(scf.ForOp(first, last, step, [*initial, *wholes], Region(body)))
    return list(loop.results)


def _collected_type(entry: Collected, trips: int) -> tuple[int, Tensor]:
    """The new axis, as a number from 0, and the type of all parts together."""
    part = tensor_type(entry.value.type)
    axis = normalize_axis(entry.axis, len(part.get_shape()) + 1)
    return axis, with_shape(part, [*part.get_shape()[:axis], trips, *part.get_shape()[axis:]])


def _nothing(node: Node, entry: Collected) -> SSAValue:
    """What no trips collect."""
    _, type = _collected_type(entry, 0)
    return node.constant(np.zeros(type.get_shape(), to_numpy_dtype(type.element_type)))


def require_same_types(
    node: Node, names: Sequence[str], initial: Sequence[SSAValue], carried: Sequence[SSAValue]
) -> None:
    """Raise `UnsupportedError` if what a loop carries has another type after a trip; `names` are those of the model."""
    for name, first, later in zip(names, initial, carried, strict=True):
        if first.type != later.type:
            message = f'carries "{name}", which is {first.type} at first and {later.type} after a trip'
            raise node.error(message, UnsupportedError)
