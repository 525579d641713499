"""Softmax and normalizations: reductions into row temporaries, then maps over the whole tensor.

f16 and bf16 are computed in f32: rows are kept in f32, elements are widened where they are read, and the result is
rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import math
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.dialects.kernel import tensor_type
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Launch, Operand, Space, named
from mlopt.passes.convert_graph_to_kernel.reduction import Reduction, add, fold, maximum
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, accumulator, lowest


@converts(graph.SoftmaxOp)
def _softmax(op: graph.SoftmaxOp, conversion: Conversion) -> None:
    """Row maximum, exponentials, row sum, quotient; the exponentials stand in the destination.

    Where the destination is narrower than f32 they are computed twice instead, so that they are not rounded between.
    """
    element, work = element_of(op.input), accumulator(element_of(op.input))
    launch = conversion.launch(op)
    rows = Reduction(op.input, (op.axis.value.data,), keepdims=False)
    space, all_of = rows.space, rows.space.identity()
    x = launch.use(op.input, "input")
    largest = Operand(_row_maximum(launch, rows, x), rows.result)

    def exponential(s: Scalars, value: SSAValue, top: SSAValue) -> SSAValue:
        return s.emit(math.ExpOp(s.sub(s.widen(value), s.widen(top))))

    def exponential_body(s: Scalars, value: SSAValue, top: SSAValue, _: SSAValue) -> SSAValue:
        return exponential(s, value, top)

    def accumulate(s: Scalars, value: SSAValue, top: SSAValue, so_far: SSAValue) -> SSAValue:
        return s.add(so_far, exponential(s, value, top))

    def divide(s: Scalars, total: SSAValue, value: SSAValue) -> SSAValue:
        return s.div(value, total)

    def quotient(s: Scalars, value: SSAValue, top: SSAValue, total: SSAValue, _: SSAValue) -> SSAValue:
        return s.truncate(s.div(exponential(s, value, top), total), element)

    zeros = launch.filled(0, launch.empty(_row_shape(rows), work))
    elements = [Operand(x, all_of), largest]
    if work == element:
        exponentials = launch.map(space, elements, Operand(launch.out, all_of), exponential_body)
        total = named(fold(launch, rows, named(exponentials, "exp"), zeros, add), "sum")
        result = launch.map(space, [Operand(total, rows.result)], Operand(exponentials, all_of), divide)
    else:
        total = named(launch.reduce(space, elements, Operand(zeros, rows.result), accumulate), "sum")
        ins = [*elements, Operand(total, rows.result)]
        result = launch.map(space, ins, Operand(launch.out, all_of), quotient)
    conversion.finish(op, launch, result)


@converts(graph.LogSoftmaxOp)
def _log_softmax(op: graph.LogSoftmaxOp, conversion: Conversion) -> None:
    """Row maximum, sum of exponentials, and then one map."""
    element = element_of(op.input)
    launch = conversion.launch(op)
    rows = Reduction(op.input, (op.axis.value.data,), keepdims=False)
    space, all_of = rows.space, rows.space.identity()
    x = launch.use(op.input, "input")
    elements = [Operand(x, all_of), Operand(_row_maximum(launch, rows, x), rows.result)]

    def accumulate(s: Scalars, value: SSAValue, top: SSAValue, so_far: SSAValue) -> SSAValue:
        return s.add(so_far, s.emit(math.ExpOp(s.sub(s.widen(value), s.widen(top)))))

    def body(s: Scalars, value: SSAValue, top: SSAValue, total: SSAValue, _: SSAValue) -> SSAValue:
        shifted = s.sub(s.widen(value), s.widen(top))
        return s.truncate(s.sub(shifted, s.emit(math.LogOp(total))), element)

    zeros = launch.filled(0, launch.empty(_row_shape(rows), accumulator(element)))
    total = named(launch.reduce(space, elements, Operand(zeros, rows.result), accumulate), "sum")
    ins = [*elements, Operand(total, rows.result)]
    conversion.finish(op, launch, launch.map(space, ins, Operand(launch.out, all_of), body))


def _row_shape(rows: Reduction) -> list[int]:
    return list(rows.row_space.bounds.values())


def _row_maximum(launch: Launch, rows: Reduction, x: SSAValue) -> SSAValue:
    element = tensor_type(x).element_type
    init = launch.filled(lowest(element), launch.empty(_row_shape(rows), element))
    return named(fold(launch, rows, x, init, maximum), "max")


@converts(graph.LayerNormOp)
def _layer_norm(op: graph.LayerNormOp, conversion: Conversion) -> None:
    """Row mean, row variance from the centered elements, its inverse deviation, and then one map.

    The centered elements stand in the destination; where that is narrower than f32 they are computed twice instead.
    """
    element, work = element_of(op.input), accumulator(element_of(op.input))
    launch, rows, x = _row_normalization(op, conversion)
    space, all_of = rows.space, rows.space.identity()

    def divide(s: Scalars, total: SSAValue) -> SSAValue:
        return s.div(total, s.like(rows.count, total))

    total = fold(launch, rows, x, _zero_rows(launch, rows, op), add)
    mean = named(launch.map(rows.row_space, [], Operand(named(total, "sum"), rows.row), divide), "mean")

    def center(s: Scalars, value: SSAValue, mean: SSAValue, *_: SSAValue) -> SSAValue:
        return s.sub(s.widen(value), mean)

    def add_square(s: Scalars, so_far: SSAValue, value: SSAValue) -> SSAValue:
        return s.add(so_far, s.mul(value, value))

    def center_and_add_square(s: Scalars, value: SSAValue, mean: SSAValue, so_far: SSAValue) -> SSAValue:
        return add_square(s, so_far, center(s, value, mean))

    parameters = _Parameters(op, conversion)

    def of_centered(s: Scalars, inverse: SSAValue, *values: SSAValue) -> SSAValue:
        *rest, value = values
        return s.truncate(parameters.applied(s, s.mul(value, inverse), rest), element)

    def of_elements(
        s: Scalars, value: SSAValue, mean: SSAValue, inverse: SSAValue, *rest: SSAValue
    ) -> SSAValue:
        y = s.mul(center(s, value, mean), inverse)
        return s.truncate(parameters.applied(s, y, rest[:-1]), element)

    elements = [Operand(x, all_of), Operand(mean, rows.result)]
    zeros = _zero_rows(launch, rows, op)
    if work == element:
        centered = named(launch.map(space, elements, Operand(launch.out, all_of), center), "centered")
        squares = fold(launch, rows, centered, zeros, add_square)
        out, ins, body = centered, [], of_centered
    else:
        squares = launch.reduce(space, elements, Operand(zeros, rows.result), center_and_add_square)
        out, ins, body = launch.out, elements, of_elements
    deviation = _inverse_deviation(launch, rows, squares, op.epsilon.value.data)
    ins = [*ins, Operand(deviation, rows.result), *parameters.operands(launch, space)]
    conversion.finish(op, launch, launch.map(space, ins, Operand(out, all_of), body))


@converts(graph.GroupNormOp)
def _group_norm(op: graph.GroupNormOp, conversion: Conversion) -> None:
    """A layer normalization of the groups, scaled and shifted by channel."""
    rows = graph.ReshapeOp(op.input, op.rows)
    parameters = [graph.ReshapeOp(value, (*op.rows[1:3], 1)) for value in (op.scale, op.bias)]
    norm = graph.LayerNormOp(rows, *parameters, axis=2, epsilon=op.epsilon.value.data)
    result = graph.ReshapeOp(norm, shape_of(op.input))
    conversion.expand(op, [rows, *parameters, norm, result], result.results)


@converts(graph.RmsNormOp)
def _rms_norm(op: graph.RmsNormOp, conversion: Conversion) -> None:
    """Row mean of squares, the inverse of its root, and then one map."""
    launch, rows, x = _row_normalization(op, conversion)
    space, all_of = rows.space, rows.space.identity()

    def accumulate(s: Scalars, so_far: SSAValue, value: SSAValue) -> SSAValue:
        return s.add(so_far, s.mul(value, value))

    squares = fold(launch, rows, x, _zero_rows(launch, rows, op), accumulate)
    deviation = _inverse_deviation(launch, rows, squares, op.epsilon.value.data)

    parameters = _Parameters(op, conversion)

    def body(s: Scalars, value: SSAValue, inverse: SSAValue, *rest: SSAValue) -> SSAValue:
        y = s.mul(s.widen(value), inverse)
        return s.truncate(parameters.applied(s, y, rest[:-1]), element_of(op.input))

    ins = [Operand(x, all_of), Operand(deviation, rows.result), *parameters.operands(launch, space)]
    conversion.finish(op, launch, launch.map(space, ins, Operand(launch.out, all_of), body))


def _row_normalization(
    op: graph.LayerNormOp | graph.RmsNormOp, conversion: Conversion
) -> tuple[Launch, Reduction, SSAValue]:
    axes = tuple(range(op.axis.value.data, len(shape_of(op.input))))
    launch = conversion.launch(op)
    return launch, Reduction(op.input, axes, keepdims=False), launch.use(op.input, "input")


def _zero_rows(launch: Launch, rows: Reduction, op: graph.LayerNormOp | graph.RmsNormOp) -> SSAValue:
    return launch.filled(0, launch.empty(_row_shape(rows), accumulator(element_of(op.input))))


def _inverse_deviation(launch: Launch, rows: Reduction, squares: SSAValue, epsilon: float) -> SSAValue:
    """`1 / sqrt(squares / count + epsilon)` of each row, in place."""

    def body(s: Scalars, total: SSAValue) -> SSAValue:
        variance = s.div(total, s.like(rows.count, total))
        return s.div(s.like(1, total), s.emit(math.SqrtOp(s.add(variance, s.like(epsilon, total)))))

    deviation = launch.map(rows.row_space, [], Operand(named(squares, "squares"), rows.row), body)
    return named(deviation, "inverse_deviation")


class _Parameters:
    """Scale, and bias if there is one, broadcast to the input; a scale of 1 costs nothing."""

    def __init__(self, op: graph.LayerNormOp | graph.RmsNormOp, conversion: Conversion):
        named = zip(("scale", "bias"), op.operands[1:], strict=False)
        is_scaled = conversion.number(op.scale) != 1
        self._values = {name: value for name, value in named if is_scaled or name == "bias"}

    def operands(self, launch: Launch, space: Space) -> list[Operand]:
        """What is read for them."""
        return [
            Operand(launch.use(value, name), space.broadcast(shape_of(value)))
            for name, value in self._values.items()
        ]

    def applied(self, s: Scalars, y: SSAValue, elements: Sequence[SSAValue]) -> SSAValue:
        """`y * scale + bias`; `elements` are those of the operands."""
        for name, element in zip(self._values, elements, strict=True):
            y = (s.mul if name == "scale" else s.add)(y, s.widen(element))
        return y


@converts(graph.BatchNormOp)
def _batch_norm(op: graph.BatchNormOp, conversion: Conversion) -> None:
    """The factor of each channel, and then one map."""
    element, work = element_of(op.input), accumulator(element_of(op.input))
    launch = conversion.launch(op)
    space = Space.over(shape_of(op.input))
    channels = Space({"c": shape_of(op.input)[1]})
    operands = {"scale": op.scale, "variance": op.variance, "mean": op.mean, "bias": op.bias}
    x = launch.use(op.input, "input")
    used = {name: launch.use(value, name) for name, value in operands.items()}

    def factor(s: Scalars, scale: SSAValue, variance: SSAValue, _: SSAValue) -> SSAValue:
        variance = s.widen(variance)
        root = s.emit(math.SqrtOp(s.add(variance, s.like(op.epsilon.value.data, variance))))
        return s.div(s.widen(scale), root)

    per_channel = [Operand(used[name], channels.identity()) for name in ("scale", "variance")]
    factors = launch.empty(shape_of(op.scale), work)
    factors = named(
        launch.map(channels, per_channel, Operand(factors, channels.identity()), factor), "factor"
    )

    def body(
        s: Scalars, value: SSAValue, mean: SSAValue, factor: SSAValue, bias: SSAValue, _: SSAValue
    ) -> SSAValue:
        scaled = s.mul(s.sub(s.widen(value), s.widen(mean)), factor)
        return s.truncate(s.add(scaled, s.widen(bias)), element)

    channel = space.access("d1")
    ins = [Operand(x, space.identity())]
    ins += [Operand(value, channel) for value in (used["mean"], factors, used["bias"])]
    conversion.finish(op, launch, launch.map(space, ins, Operand(launch.out, space.identity()), body))
