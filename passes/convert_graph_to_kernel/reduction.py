"""Reductions over axes: a `kernel.reduce` into a filled destination; mean divides afterwards, arg_max searches."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, is_float, shape_of
from mlopt.dialects.kernel import Access
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.elementwise import integer_division
from mlopt.passes.convert_graph_to_kernel.launch import Launch, Operand, Space, named, position
from mlopt.passes.convert_graph_to_kernel.scalars import (
    Number,
    Scalars,
    accumulator,
    highest,
    lowest,
    signless,
)

Combine = Callable[[Scalars, SSAValue, SSAValue], SSAValue]
"""How a reduction takes one more element in: `(scalars, value so far, element) → value`."""

Finish = Callable[[Scalars, SSAValue], SSAValue]
"""What is done with each reduced value."""


class Reduction:
    """The iteration space over an operand, and the accesses of its reduction over some axes."""

    def __init__(self, value: SSAValue, axes: tuple[int, ...], *, keepdims: bool):
        self.space = Space.over(shape_of(value))
        self.axes = axes
        self.count = prod(shape_of(value)[axis] for axis in axes)
        """How many elements become one."""
        self.result = self._access(self.space, keepdims)
        self.row_space = Space({n: s for i, (n, s) in enumerate(self.space.bounds.items()) if i not in axes})
        """The iteration space of the reduced values."""
        self.row = self._access(self.row_space, keepdims)

    def _access(self, space: Space, keepdims: bool) -> Access:
        names = self.space.names
        kept = [
            0 if axis in self.axes else name
            for axis, name in enumerate(names)
            if keepdims or axis not in self.axes
        ]
        return space.access(*kept)


def fold(launch: Launch, reduction: Reduction, x: SSAValue, init: SSAValue, combine: Combine) -> SSAValue:
    """Fold the elements of `x` (widened to the type of `init`) into `init`."""

    def body(s: Scalars, element: SSAValue, so_far: SSAValue) -> SSAValue:
        return combine(s, so_far, s.extend(element, so_far.type) if is_float(so_far.type) else element)

    ins = [Operand(x, reduction.space.identity())]
    return launch.reduce(reduction.space, ins, Operand(init, reduction.result), body)


def add(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """The sum, as a `Combine`."""
    return s.add(a, b)


def maximum(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """The larger, as a `Combine`."""
    return s.maximum(a, b)


def _multiply(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.mul(a, b)


def _minimum(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.minimum(a, b)


def _convert_reduction(
    op: graph.ReductionOp,
    conversion: Conversion,
    init: Number,
    combine: Combine,
    *,
    exact: bool = False,
    finish: Finish | None = None,
) -> None:
    """Reduce in the accumulator type (`exact`: in the element type, which loses nothing), then `finish` and round."""
    element = element_of(op.input)
    axes = get_ints(op.properties, "axes") or ()
    reduction = Reduction(op.input, axes, keepdims=op.keepdims is not None)
    launch = conversion.launch(op)
    x = launch.use(op.input, "input")
    work = signless(element) if exact else accumulator(element)
    narrow = work != signless(element)
    dest = launch.empty(shape_of(op.result), work) if narrow else launch.out
    result = fold(launch, reduction, x, launch.filled(init, dest), combine)
    if narrow or finish is not None:

        def end(s: Scalars, *values: SSAValue) -> SSAValue:
            value = values[0] if finish is None else finish(s, values[0])
            return s.truncate(value, element) if narrow else value

        read = [Operand(result, reduction.row)] if narrow else []
        out = launch.out if narrow else result
        result = launch.map(reduction.row_space, read, Operand(out, reduction.row), end)
    conversion.finish(op, launch, result)


@converts(graph.ReduceSumOp)
def _reduce_sum(op: graph.ReduceSumOp, conversion: Conversion) -> None:
    _convert_reduction(op, conversion, 0, add)


@converts(graph.ReduceMeanOp)
def _reduce_mean(op: graph.ReduceMeanOp, conversion: Conversion) -> None:
    axes = get_ints(op.properties, "axes") or ()
    count = prod(shape_of(op.input)[axis] for axis in axes)

    def divide(s: Scalars, total: SSAValue) -> SSAValue:
        divisor = s.like(count, total)
        return s.div(total, divisor) if is_float(total.type) else integer_division(s, total, divisor)

    _convert_reduction(op, conversion, 0, add, finish=divide)


@converts(graph.ReduceMaxOp)
def _reduce_max(op: graph.ReduceMaxOp, conversion: Conversion) -> None:
    _convert_reduction(op, conversion, lowest(element_of(op.input)), maximum, exact=True)


@converts(graph.ReduceMinOp)
def _reduce_min(op: graph.ReduceMinOp, conversion: Conversion) -> None:
    _convert_reduction(op, conversion, highest(element_of(op.input)), _minimum, exact=True)


@converts(graph.ReduceProdOp)
def _reduce_prod(op: graph.ReduceProdOp, conversion: Conversion) -> None:
    _convert_reduction(op, conversion, 1, _multiply)


@converts(graph.ArgMaxOp)
def _arg_max(op: graph.ArgMaxOp, conversion: Conversion) -> None:
    """The largest element of each row, then the first (or last) position that holds it; NaN is the largest."""
    element, axis = element_of(op.input), op.axis.value.data
    shape = shape_of(op.input)
    last = op.select_last is not None
    launch = conversion.launch(op)
    x = launch.use(op.input, "input")
    rows = Reduction(op.input, (axis,), keepdims=False)
    row_shape = (*shape[:axis], *shape[axis + 1 :])
    lowest_row = launch.filled(lowest(element), launch.empty(row_shape, signless(element)))
    largest = named(fold(launch, rows, x, lowest_row, maximum), "max")
    nowhere = -1 if last else shape[axis]

    def body(s: Scalars, value: SSAValue, top: SSAValue, so_far: SSAValue) -> SSAValue:
        holds = s.compare("eq", value, top)
        if is_float(element):
            holds = s.either(holds, s.is_nan(value))
        here = s.index_cast(position(s, rows.space, f"d{axis}"), i64)
        found = s.select(holds, here, s.like(nowhere, here))
        signed = Scalars(s.block)
        return signed.maximum(so_far, found) if last else signed.minimum(so_far, found)

    kept = Reduction(op.input, (axis,), keepdims=op.keepdims is not None)
    ins = [Operand(x, rows.space.identity()), Operand(largest, rows.result)]
    out = Operand(launch.filled(nowhere, launch.out), kept.result)
    conversion.finish(op, launch, launch.reduce(rows.space, ins, out, body))
