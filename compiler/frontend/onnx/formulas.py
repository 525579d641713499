"""Formulas in graph operations: one short call for each operation that an operator is taken apart into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of, tensor_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.scalars import number_attribute
from mlopt.ir.dtypes import to_numpy_dtype


class Formula:
    """Adds operations for a node; each method returns the value of the one that it adds.

    Movements and casts that would change nothing add nothing.
    """

    def __init__(self, node: Node):
        self.node = node

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a + b`."""
        return self.node.add(graph.AddOp(a, b)).result

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a - b`."""
        return self.node.add(graph.SubOp(a, b)).result

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a * b`, elementwise."""
        return self.node.add(graph.MulOp(a, b)).result

    def matmul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The matrix product of the last two dimensions."""
        return self.node.add(graph.MatMulOp(a, b)).result

    def scaled(self, value: SSAValue, factor: float) -> SSAValue:
        """`value * factor`; a factor of 1 adds nothing."""
        return value if factor == 1.0 else self.mul(value, self.number(factor, value))

    def number(self, number: float, like: SSAValue) -> SSAValue:
        """A constant of rank 0 with the element type of `like`."""
        return self.array(np.array(number), like)

    def array(self, array: np.ndarray, like: SSAValue) -> SSAValue:
        """A constant with the element type of `like`."""
        return self.node.constant(array.astype(to_numpy_dtype(tensor_type(like.type).element_type)))

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """`value` in that element type."""
        if tensor_type(value.type).element_type == element:
            return value
        return self.node.add(graph.CastOp(value, element)).result

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements in another shape."""
        return (
            value if shape_of(value) == tuple(shape) else self.node.add(graph.ReshapeOp(value, shape)).result
        )

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Dimension `order[i]` of the value becomes dimension `i`."""
        if list(order) == list(range(len(order))):
            return value
        return self.node.add(graph.TransposeOp(value, order)).result

    def swap(self, value: SSAValue, first: int, second: int) -> SSAValue:
        """Two dimensions, which may be negative, change places."""
        order = list(range(len(shape_of(value))))
        order[first], order[second] = order[second], order[first]
        return self.transpose(value, order)

    def part(self, value: SSAValue, axis: int, start: int, stop: int) -> SSAValue:
        """The elements from `start` to below `stop` along an axis."""
        shape = shape_of(value)
        axis = normalize_axis(axis, len(shape))
        if (start, stop) == (0, shape[axis]):
            return value
        return self.node.add(graph.SliceOp.over_axes(value, [start], [stop], [axis])).result

    def padded(self, value: SSAValue, axis: int, count: int) -> SSAValue:
        """`count` zeros after the elements along an axis."""
        shape = shape_of(value)
        high = [0] * len(shape)
        high[axis] = count
        zero = number_attribute(np.array(0), tensor_type(value.type).element_type)
        return self.node.add(graph.PadOp(value, [0] * len(shape), high, zero)).result

    def every(self, value: SSAValue, step: int) -> SSAValue:
        """Each `step`-th element along the last dimension, from the first one on; from the last one if negative."""
        start, stop = (0, 2**62) if step > 0 else (-1, -(2**62))
        return self.node.add(graph.SliceOp.over_axes(value, [start], [stop], [-1], [step])).result

    def concat(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        """One after the other along an axis."""
        return values[0] if len(values) == 1 else self.node.add(graph.ConcatOp(values, axis)).result

    def expand(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcast to a shape."""
        return (
            value if shape_of(value) == tuple(shape) else self.node.add(graph.ExpandOp(value, shape)).result
        )

    def sum(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """The sum over axes, which go."""
        return self.node.add(graph.ReduceSumOp(value, axes)).result if axes else value
