"""Counted loops over carried tensors, and what the bodies of loops do with the number of the trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of, tensor_type
from mlopt.frontend.onnx.node import Node
from mlopt.ir.dtypes import array_to_dense


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


def direction(inside: BlockBuilder, trip: SSAValue, trips: int, *, backwards: bool) -> SSAValue:
    """The position that belongs to a trip: from the start, or from the end."""
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
    inside, here = BlockBuilder(node, body), BlockBuilder(node)
    wholes: list[SSAValue] = []
    written: list[SSAValue] = []
    for entry in collected:
        assert isinstance(trips, int)
        part = tensor_type(entry.value.type)
        axis = normalize_axis(entry.axis, len(part.get_shape()) + 1)
        shape = [*part.get_shape()[:axis], trips, *part.get_shape()[axis:]]
        whole = here.add(tensor.EmptyOp([], TensorType(part.element_type, shape)))
        argument = body.insert_arg(whole.type, len(body.args))
        position = direction(inside, body.args[0], trips, backwards=entry.backwards)
        wholes.append(whole)
        written.append(inside.write_slice(entry.value, argument, axis, position))
    inside.end(scf.YieldOp(*carried, *written))
    first, step = here.number(0), here.number(1)
    last = here.number(trips) if isinstance(trips, int) else trips
    loop = node.add(scf.ForOp(first, last, step, [*initial, *wholes], Region(body)))
    return list(loop.results)
