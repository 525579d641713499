"""Recurrent layers: for each direction of time one product for all steps, and a loop over the steps.

They are made of graph ops, which are converted in their turn.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, IntegerAttr, TensorType, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type, with_shape
from mlopt.ir.dtypes import constant_attr, from_numpy_dtype
from mlopt.ir.names import set_name
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts


@converts(graph.LstmOp)
def _lstm(op: graph.LstmOp, conversion: Conversion) -> None:
    layer = _Lstm(op, conversion)
    directions = [layer.direction(index, backwards) for index, backwards in enumerate(op.backwards)]
    results = [
        layer.joined(parts, axis)
        for parts, axis in zip(zip(*directions, strict=True), (1, 0, 0), strict=True)
    ]
    conversion.expand(op, layer.made, results)


class _Lstm:
    """The operations that stand for one layer; `made` are those around its loops, and the loops."""

    def __init__(self, op: graph.LstmOp, conversion: Conversion):
        self.op = op
        self.conversion = conversion
        self.made: list[Operation] = []

    def add(self, op: Operation, block: Block | None = None) -> SSAValue:
        """Add an operation, or one at the end of a block; its first result."""
        op.location = self.op.location
        if block is None:
            self.made.append(op)
        else:
            block.add_op(op)
        return op.results[0]

    def number(self, value: int) -> SSAValue:
        return self.add(arith.ConstantOp(IntegerAttr(value, i64)))

    def direction(self, index: int, backwards: bool) -> list[SSAValue]:
        """y, the last H and the last C of one direction of time, without an axis of directions."""
        op = self.op
        weight, recurrence, h, c = (
            self.part(value, index) for value in (op.weight, op.recurrence, op.initial_h, op.initial_c)
        )
        product = self.add(graph.MatMulOp(op.input, self.add(graph.TransposeOp(weight, (1, 0)))))
        gates = self.add(graph.AddOp(product, self.bias(index)))
        steps, _, batch, hidden = shape_of(op.y)
        y = self.add(tensor.EmptyOp([], with_shape(tensor_type(op.y.type), (steps, batch, hidden))))
        body = Block(arg_types=[i64, h.type, c.type, y.type])
        step, *state, so_far = body.args
        if backwards:
            step = self.add(arith.SubiOp(self.number(steps - 1), step), body)
        position = self.add(tensor.FromElementsOp(step, result_type=TensorType(i64, [])), body)
        of_input = self.add(graph.GatherOp(gates, position, 0), body)
        new = self.step(body, of_input, recurrence, *state)
        offset = self.add(arith.IndexCastOp(step, IndexType()), body)
        static = [DYNAMIC_INDEX, 0, 0]
        insert = tensor.InsertSliceOp.get(new[0], so_far, [1, batch, hidden], static, offsets=[offset])
        body.add_op(scf.YieldOp(*new, self.add(insert, body)))
        first, last, stride = (self.number(value) for value in (0, steps, 1))
        loop = scf.ForOp(first, last, stride, [h, c, y], Region(body))
        self.add(loop)
        last_h, last_c, y = loop.results
        return [y, last_h, last_c]

    def step(
        self, body: Block, of_input: SSAValue, recurrence: SSAValue, h: SSAValue, c: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """H and C after a step, `of_input` being its gates without what the state adds to them."""

        def add(op: Operation) -> SSAValue:
            return self.add(op, body)

        product = add(graph.MatMulOp(h, add(graph.TransposeOp(recurrence, (1, 0)))))
        split = graph.SplitOp(add(graph.AddOp(of_input, product)), 1, [shape_of(h)[1]] * 4)
        add(split)
        i, o, f, new = split.parts
        kept = add(graph.MulOp(add(graph.SigmoidOp(f)), c))
        taken = add(graph.MulOp(add(graph.SigmoidOp(i)), add(graph.TanhOp(new))))
        cell = add(graph.AddOp(kept, taken))
        return add(graph.MulOp(add(graph.SigmoidOp(o)), add(graph.TanhOp(cell)))), cell

    def part(self, value: SSAValue, direction: int) -> SSAValue:
        """What belongs to a direction, by the first axis; of a constant, a constant."""
        shape = shape_of(value)
        array = self.conversion.array(value)
        if array is not None and shape[0] > 1:
            return self.constant(array[direction], value.name_hint)
        if shape[0] > 1:
            starts, stops = [direction] + [0] * (len(shape) - 1), [direction + 1, *shape[1:]]
            value = self.add(graph.SliceOp(value, starts, stops, [1] * len(shape)))
        return self.add(graph.ReshapeOp(value, shape[1:]))

    def bias(self, direction: int) -> SSAValue:
        """What the bias of the input and that of the state add to each step."""
        array = self.conversion.array(self.op.bias)
        if array is not None:
            of_input, of_state = np.split(array[direction], 2)
            return self.constant(of_input + of_state, self.op.bias.name_hint)
        whole = self.part(self.op.bias, direction)
        size = shape_of(whole)[0] // 2
        split = graph.SplitOp(whole, 0, [size, size])
        self.add(split)
        return self.add(graph.AddOp(*split.parts))

    def constant(self, array: np.ndarray, name: str | None) -> SSAValue:
        attribute = constant_attr(np.ascontiguousarray(array), self.conversion.weights, name or "lstm")
        type = TensorType(from_numpy_dtype(array.dtype), array.shape)
        value = self.add(graph.ConstantOp(attribute, type))
        set_name(value, name)
        return value

    def joined(self, parts: tuple[SSAValue, ...], axis: int) -> SSAValue:
        """The results of all directions, on an axis of their own."""
        shape = list(shape_of(parts[0]))
        shape.insert(axis, 1)
        parts = tuple(self.add(graph.ReshapeOp(part, shape)) for part in parts)
        return parts[0] if len(parts) == 1 else self.add(graph.ConcatOp(parts, axis))
