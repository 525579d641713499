"""Reductions by one associative operation: by `ufunc.reduce` over whole axes, or tap by tap over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlopt.interpreter.elementwise import Box, Kernel, inside, sorted_by_strides
from mlopt.interpreter.expressions import Apply, Bound, Const, Expr, Read, Structured, post_order
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.primitives import identity, reduction_ufunc
from mlopt.interpreter.recognize import Reduction
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import View
from mlopt.ir.dtypes import to_numpy_dtype


def is_windowed(form: Structured, element: Expr) -> bool:
    """Whether an index mixes reduced and kept dimensions (pooling), or reads are padded."""
    for expr in post_order((element,)):
        if not isinstance(expr, Read):
            continue
        if expr.bounds:
            return True
        for linear in expr.index:
            dims = {d for d in linear.dims if form.extents[d] > 1}
            if dims & form.reductions and dims - form.reductions:
                return True
    return False


def emit_reduction(
    builder: PlanBuilder,
    scratch: Scratch,
    binding: Binding,
    form: Structured,
    reduction: Reduction,
    out: View,
    fill: object | None,
) -> None:
    """Emit `out = op(out, element)` over the reduced dimensions by `ufunc.reduce`, tile by tile.

    With `fill`, `out` is known to hold that number everywhere and need not be read.
    """
    ufunc, dtype = reduction_ufunc(reduction.op, out.dtype)
    kept = sorted_by_strides((d for d in range(form.rank) if d not in form.reductions), out)
    reduced = sorted_by_strides(form.reductions, _first_read(binding, form, reduction.element) or out)
    kernel = Kernel(
        builder.memory,
        form.extents,
        [],
        [reduction.element],
        binding,
        blocks=[kept, reduced],
        riders=[out.with_dtype(dtype)],
    )
    (held,) = kernel.riders
    count = len(held.shape) - sum(1 for group in kernel.axes if group[0] in form.reductions)
    extra = _partial_bytes(held, count) if fill is None else _partial_bytes_if_cut(kernel, held, count)
    with scratch.frame():
        tile = kernel.choose_tile(scratch.room, extra)
        registers = kernel.registers(tile)
        base = kernel.take_base(scratch, registers)
        partial = scratch.array(tile[:count], dtype) if extra(tile) else None
        for lows, shape in kernel.tiles(tile):
            (values,) = kernel.emit_box(builder, registers, base, lows, shape)
            axes = tuple(range(count, len(shape)))
            box = held.box(lows, shape).transposed(range(count))
            target = box
            if fill is None or any(lows[count:]):
                assert partial is not None
                target = View(partial.region, partial.offset, shape[:count], partial.strides, dtype)
            builder.call(ufunc.reduce, values.with_dtype(dtype), axis=axes, dtype=dtype, out=target)
            if target is not box:
                builder.call(ufunc, box, target, out=box)
            elif fill is not None and not _is_identity(reduction.op, out.dtype, fill):
                number = builder.memory.table(np.asarray(fill).astype(out.dtype)).with_dtype(dtype)
                builder.call(ufunc, box, number, out=box)


def _partial_bytes(held: View, count: int):
    def nbytes(tile: tuple[int, ...]) -> int:
        return math.prod(tile[:count]) * held.itemsize

    return nbytes


def _partial_bytes_if_cut(kernel: Kernel, held: View, count: int):
    def nbytes(tile: tuple[int, ...]) -> int:
        return math.prod(tile[:count]) * held.itemsize if tile[count:] != kernel.extents[count:] else 0

    return nbytes


def emit_taps(
    builder: PlanBuilder,
    scratch: Scratch,
    binding: Binding,
    form: Structured,
    outs: Sequence[View],
    reduction: Reduction | None,
    fill: object | None,
) -> None:
    """Emit the op point by point along its reduced dimensions, in whole arrays along the others.

    That is the order in which a loop nest would accumulate, so it serves for any body. For a `reduction` of a padded
    read whose padding changes nothing, only the part inside is touched; with `fill`, the (only) output is known to
    hold that number everywhere and is not read at the first point.
    """
    yields, bounds = _without_neutral_padding(form, reduction)
    sequential = form.reductions
    memory = builder.memory
    rest = Kernel(memory, form.extents, outs, yields, binding, sequential=sequential, bounds=bounds)
    first = rest
    if fill is not None:
        replaced: dict[Expr, object] = {form.initial[0]: fill}
        first = Kernel(
            memory,
            form.extents,
            outs,
            yields,
            binding,
            sequential=sequential,
            bounds=bounds,
            replaced=replaced,
        )
    if 0 in rest.extents:
        return
    on_axes = [Bound(rest.linear_on_axes(b.expr), b.low, b.high) for b in bounds]
    with scratch.frame():
        tile = rest.choose_tile(
            scratch.room, lambda tile: max(0, first.registers(tile).nbytes - rest.registers(tile).nbytes)
        )
        registers, first_registers = rest.registers(tile), first.registers(tile)
        larger = registers if registers.nbytes >= first_registers.nbytes else first_registers
        base = rest.take_base(scratch, larger)
        for lows, shape in rest.tiles(tile):
            boxes = [_clipped(on_axes, (*point, *lows[len(point) :]), shape) for point in rest.points()]
            parts = [box for box in boxes if box is not None]
            if fill is not None:
                whole = next((box for box in parts if box[1] == shape), None)
                if whole is None:
                    number = memory.table(np.asarray(fill).astype(outs[0].dtype))
                    builder.call(np.copyto, rest.outs[0].box(lows, shape), number)
                else:
                    first.emit_box(builder, first_registers, base, *whole)
                    parts.remove(whole)
            for box in parts:
                rest.emit_box(builder, registers, base, *box)


def _clipped(bounds: Sequence[Bound], lows: tuple[int, ...], shape: tuple[int, ...]) -> Box | None:
    return inside(bounds, lows, shape) if bounds else (lows, shape)


def _without_neutral_padding(
    form: Structured, reduction: Reduction | None
) -> tuple[tuple[Expr, ...], tuple[Bound, ...]]:
    """The yields with a padded read made plain, and the bounds within which they are to be evaluated."""
    if reduction is None or not isinstance(read := reduction.element, Read):
        return form.yields, ()
    kept = [
        {d for d in bound.expr.dims if d not in form.reductions and form.extents[d] > 1}
        for bound in read.bounds
    ]
    neutral = isinstance(read.pad, Const) and _is_identity(
        reduction.op, to_numpy_dtype(read.type), read.pad.value
    )
    if not read.bounds or not neutral or any(len(dims) > 1 for dims in kept):
        return form.yields, ()
    plain = Read(read.type, read.source, read.index)
    return (Apply(read.type, reduction.op, (form.initial[0], plain)),), read.bounds


def _is_identity(op: str, dtype: np.dtype, value: object) -> bool:
    neutral = identity(op, dtype)
    return neutral is not None and bool(np.asarray(value).astype(dtype) == np.asarray(neutral).astype(dtype))


def _first_read(binding: Binding, form: Structured, element: Expr) -> View | None:
    for expr in post_order((element,)):
        if isinstance(expr, Read):
            return binding.source(expr).over(expr.index, form.extents)
    return None
