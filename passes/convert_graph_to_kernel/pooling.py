"""Pooling: a `kernel.reduce` over the window's elements, with padding that never counts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, shape_of
from mlopt.dialects.kernel import NO_PAD, tensor_type
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Launch, Operand, Space, linear_position
from mlopt.passes.convert_graph_to_kernel.reduction import Combine, add, maximum
from mlopt.passes.convert_graph_to_kernel.scalars import Number, Scalars, accumulator, lowest
from mlopt.passes.convert_graph_to_kernel.windows import padded_read, spatial_names, window_axes

_AveragePool: TypeAlias = graph.AveragePoolOp | graph.ChannelsLastAveragePoolOp


@converts(graph.MaxPoolOp, graph.ChannelsLastMaxPoolOp)
def _max_pool(op: graph.MaxPoolOp | graph.ChannelsLastMaxPoolOp, conversion: Conversion) -> None:
    launch = conversion.launch(op)
    result = _pooled(op, launch, launch.out, lowest(element_of(op.input)), maximum)
    conversion.finish(op, launch, result)


@converts(graph.MaxPoolWithIndicesOp)
def _max_pool_with_indices(op: graph.MaxPoolWithIndicesOp, conversion: Conversion) -> None:
    """The largest elements first; then, in each window, the first position that holds it."""
    element, sizes = element_of(op.input), shape_of(op.input)[2:]
    window, outer = op.window, _output_space(op)
    space = Space({**outer.bounds, **dict(zip(spatial_names("k", len(sizes)), window.kernel, strict=True))})
    launch = conversion.launch(op)
    values, indices = launch.outs
    largest = _pooled(op, launch, values, lowest(element), maximum)
    axes = window_axes(space, window)
    read = padded_read(space, launch.use(op.input, "input"), ["n", "c", *axes], lowest(element))
    image, nowhere = prod(sizes), prod(shape_of(op.input))
    batch = space["n"] * (shape_of(op.input)[1] * image) + space["c"] * image

    def first(s: Scalars, value: SSAValue, top: SSAValue, so_far: SSAValue) -> SSAValue:
        holds = s.compare("eq", value, top)
        if is_float(element):
            holds = s.either(holds, s.is_nan(value))
        signed, at = Scalars(s.block), batch
        for axis, size in zip(axes, sizes, strict=True):
            if read.pad != NO_PAD:
                place = linear_position(s, space, axis)
                inside = s.both(
                    signed.compare("ge", place, s.like(0, place)),
                    signed.compare("lt", place, s.like(size, place)),
                )
                holds = s.both(holds, inside)
        for axis, step in zip(axes, _row_major(sizes), strict=True):
            at = at + axis * step
        here = linear_position(s, space, at)
        return signed.minimum(so_far, s.select(holds, here, s.like(nowhere, here)))

    found = launch.reduce(
        space,
        [read, Operand(largest, space.access(*outer.names))],
        Operand(launch.filled(nowhere, indices), space.access(*outer.names)),
        first,
    )
    if op.column_major is not None:

        def reorder(s: Scalars, at: SSAValue) -> SSAValue:
            signed = Scalars(s.block)

            def split(number: SSAValue, by: int) -> tuple[SSAValue, SSAValue]:
                divisor = s.like(by, number)
                whole = signed.div(number, divisor)
                return whole, signed.sub(number, signed.mul(whole, divisor))

            which, rest = split(at, image)
            total = signed.mul(which, s.like(image, which))
            for step, reversed_step in zip(_row_major(sizes), _column_major(sizes), strict=True):
                place, rest = split(rest, step)
                total = signed.add(total, signed.mul(place, s.like(reversed_step, place)))
            return total

        found = launch.map(outer, [], Operand(found, outer.identity()), reorder)
    conversion.finish(op, launch, largest, found)


def _row_major(sizes: Sequence[int]) -> list[int]:
    return [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _column_major(sizes: Sequence[int]) -> list[int]:
    return [prod(sizes[:axis]) for axis in range(len(sizes))]


@converts(graph.AveragePoolOp, graph.ChannelsLastAveragePoolOp)
def _average_pool(op: _AveragePool, conversion: Conversion) -> None:
    """The sum, divided by how many elements count: a number, times a small constant per axis where that varies."""
    element = element_of(op.input)
    work = accumulator(element)
    space = _output_space(op)
    launch = conversion.launch(op)
    dest = launch.out if work == element else launch.empty(shape_of(op.result), work)
    total = _pooled(op, launch, dest, 0, add)

    divisor, varying = 1, list[Operand]()
    for axis, counts in zip(spatial_names("o", len(op.positions)), _counts(op), strict=True):
        if (counts == counts[:1]).all():
            divisor *= int(counts[0]) if counts.size else 1
        else:
            constant = conversion.constant(op, counts.astype(to_numpy_dtype(work)), f"count_{axis}")
            varying.append(Operand(launch.use(constant, f"count_{axis}"), space.access(axis)))

    def divide(s: Scalars, *values: SSAValue) -> SSAValue:
        in_place = work == element
        value, *counts = (values[-1], *values[:-1]) if in_place else values[:-1]
        by = s.like(divisor, value)
        for count in counts:
            by = s.mul(by, count)
        return s.truncate(s.div(value, by), element)

    all_of = space.identity()
    if work == element:
        result = launch.map(space, varying, Operand(total, all_of), divide)
    else:
        result = launch.map(space, [Operand(total, all_of), *varying], Operand(launch.out, all_of), divide)
    conversion.finish(op, launch, result)


def _output_space(op: graph.PoolOp) -> Space:
    channels, positions = _channels(op), op.positions
    output = dict(zip(spatial_names("o", len(positions)), positions, strict=True))
    batch = shape_of(op.result)[0]
    if isinstance(op, graph.ChannelsLastPoolOp):
        return Space({"n": batch, **output, "c": channels})
    return Space({"n": batch, "c": channels, **output})


def _spatial(op: graph.PoolOp) -> Sequence[int]:
    """The spatial sizes of the input."""
    shape = shape_of(op.input)
    return shape[1:-1] if isinstance(op, graph.ChannelsLastPoolOp) else shape[2:]


def _channels(op: graph.PoolOp) -> int:
    return shape_of(op.result)[-1 if isinstance(op, graph.ChannelsLastPoolOp) else 1]


def _pooled(op: graph.PoolOp, launch: Launch, dest: SSAValue, init: Number, combine: Combine) -> SSAValue:
    """Every window folded into `dest`, which starts as `init`; so does what is read out of bounds."""
    outer = _output_space(op)
    window = op.window
    kernel = dict(zip(spatial_names("k", len(window.kernel)), window.kernel, strict=True))
    space = Space({**outer.bounds, **kernel})
    axes = window_axes(space, window)
    place = ["n", *axes, "c"] if isinstance(op, graph.ChannelsLastPoolOp) else ["n", "c", *axes]
    read = padded_read(space, launch.use(op.input, "input"), place, init)
    work = tensor_type(dest).element_type

    def body(s: Scalars, element: SSAValue, so_far: SSAValue) -> SSAValue:
        return combine(s, so_far, element if element.type == work else s.extend(element, work))

    return launch.reduce(space, [read], Operand(launch.filled(init, dest), space.access(*outer.names)), body)


def _counts(op: _AveragePool) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """For each spatial axis: how many elements count under the window at each of its positions."""
    window, padding_counts = op.window, op.count_include_pad is not None
    counts: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for axis, (size, positions) in enumerate(zip(_spatial(op), op.positions, strict=True)):
        low, high = (window.low[axis], window.high[axis]) if padding_counts else (0, 0)
        first = np.arange(positions)[:, None] * window.strides[axis] - window.low[axis]
        read = first + np.arange(window.kernel[axis]) * window.dilations[axis]
        counts.append(((read >= -low) & (read < size + high)).sum(axis=1))
    return counts
