"""Recurrent layers: for each direction of time one product for all steps, and a loop over the steps.

They are made of graph ops, which are converted in their turn. The loops write their steps into one tensor for both
directions. Where the input has as many elements at a step, and nothing else needs it, that is the input's own memory:
the last loop writes each step where it has read it.

A single step needs no loop: it begins with the states that are given, and its state is the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    conversion.expand(op, layer.made, layer.results())


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

    def results(self) -> list[SSAValue]:
        """y, the last H and the last C."""
        op = self.op
        steps, directions, batch, hidden = shape = shape_of(op.y)
        if steps == 1:
            only = [self.only_step(index) for index in range(directions)]
            h, c = (self.joined([state[i] for state in only]) for i in (0, 1))
            return [self.add(graph.ReshapeOp(h, shape)), h, c]
        last = directions - 1
        states: list[list[SSAValue]] = []
        if self.is_overwritten():
            for index in range(last):
                part = self.empty((steps, batch, hidden))
                states.append(self.direction(index, op.backwards[index], part))
            whole = self.add(graph.ReshapeOp(op.input, shape))
            states.append(self.direction(last, op.backwards[last], whole))
            y = states[last][0]
            for index, (part, _, _) in enumerate(states[:last]):
                offsets, sizes = [0, index, 0, 0], [steps, 1, batch, hidden]
                y = self.add(tensor.InsertSliceOp.get(part, y, sizes, offsets))
        else:
            y = self.empty(shape)
            for index, backwards in enumerate(op.backwards):
                states.append(self.direction(index, backwards, y))
                y = states[-1][0]
        return [y, *(self.joined([state[i] for state in states]) for i in (1, 2))]

    def is_overwritten(self) -> bool:
        """Whether y may be written over the input: it has as many elements, and nothing else reads it."""
        op, value = self.op, self.op.input
        if math.prod(shape_of(value)) != math.prod(shape_of(op.y)):
            return False
        while value.has_one_use() and isinstance(value.owner, graph.ReshapeOp):
            value = value.owner.operands[0]
        return (
            value.has_one_use()
            and isinstance(value.owner, Operation)
            and self.conversion.array(value) is None
        )

    def empty(self, shape: Sequence[int]) -> SSAValue:
        return self.add(tensor.EmptyOp([], with_shape(tensor_type(self.op.y.type), shape)))

    def direction(self, index: int, backwards: bool, y: SSAValue) -> list[SSAValue]:
        """One direction of time: `y` with its steps in it, of this direction alone or of all; the last H and C."""
        gates, recurrence, h, c = self.parts(index)
        steps, _, batch, hidden = shape_of(self.op.y)
        body = Block(arg_types=[i64, h.type, c.type, y.type])
        step, *state, so_far = body.args
        if backwards:
            step = self.add(arith.SubiOp(self.number(steps - 1), step), body)
        position = self.add(arith.IndexCastOp(step, IndexType()), body)
        one_step = with_shape(tensor_type(gates.type), (batch, 4 * hidden))
        sizes = [1, batch, 4 * hidden]
        of_input = self.add(tensor.ExtractSliceOp(gates, [position, 0, 0], sizes, [1, 1, 1], one_step), body)
        new = self.step(body, of_input, recurrence, *state)
        among_all = len(shape_of(y)) == 4
        static = [DYNAMIC_INDEX, index, 0, 0] if among_all else [DYNAMIC_INDEX, 0, 0]
        sizes = [1, 1, batch, hidden] if among_all else [1, batch, hidden]
        insert = tensor.InsertSliceOp.get(new[0], so_far, sizes, static, offsets=[position])
        body.add_op(scf.YieldOp(*new, self.add(insert, body)))
        first, last, stride = (self.number(value) for value in (0, steps, 1))
        loop = scf.ForOp(first, last, stride, [h, c, y], Region(body))
        self.add(loop)
        last_h, last_c, y = loop.results
        return [y, last_h, last_c]

    def only_step(self, index: int) -> tuple[SSAValue, SSAValue]:
        """H and C of a direction of one step."""
        gates, recurrence, h, c = self.parts(index)
        _, _, batch, hidden = shape_of(self.op.y)
        return self.step(None, self.add(graph.ReshapeOp(gates, (batch, 4 * hidden))), recurrence, h, c)

    def parts(self, index: int) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """What the input gives to the gates of all steps, the weights of the state, and the first H and C."""
        op = self.op
        weight, recurrence, h, c = (
            self.part(value, index) for value in (op.weight, op.recurrence, op.initial_h, op.initial_c)
        )
        product = self.add(graph.MatMulOp(op.input, self.add(graph.TransposeOp(weight, (1, 0)))))
        return self.add(graph.AddOp(product, self.bias(index))), recurrence, h, c

    def step(
        self, body: Block | None, of_input: SSAValue, recurrence: SSAValue, h: SSAValue, c: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """H and C after a step, `of_input` being its gates without what the state adds to them."""

        def add(op: Operation) -> SSAValue:
            return self.add(op, body)

        hidden = shape_of(h)[1]
        product = add(graph.MatMulOp(h, add(graph.TransposeOp(recurrence, (1, 0)))))
        halves = graph.SplitOp(add(graph.AddOp(of_input, product)), 1, [3 * hidden, hidden])
        add(halves)
        gates, new = halves.parts
        split = graph.SplitOp(add(graph.SigmoidOp(gates)), 1, [hidden] * 3)
        add(split)
        i, o, f = split.parts
        cell = add(graph.AddOp(add(graph.MulOp(f, c)), add(graph.MulOp(i, add(graph.TanhOp(new))))))
        return add(graph.MulOp(o, add(graph.TanhOp(cell)))), cell

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

    def joined(self, parts: Sequence[SSAValue]) -> SSAValue:
        """The last states of all directions, on a first axis of their own."""
        parts = [self.add(graph.ReshapeOp(part, (1, *shape_of(part)))) for part in parts]
        return parts[0] if len(parts) == 1 else self.add(graph.ConcatOp(parts, 0))
