"""Reductions by one associative operation: by `ufunc.reduce` over whole axes, or tap by tap over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from mlopt.interpreter.elementwise import Box, Kernel, inside, sorted_by_strides
from mlopt.interpreter.expressions import Apply, Bound, Const, Expr, Read, Structured, post_order
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.nodes import Leaf
from mlopt.interpreter.plan import PlanBuilder, Repeats
from mlopt.interpreter.primitives import identity, reduction_ufunc
from mlopt.interpreter.recognize import Reduction
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import Region, View
from mlopt.ir.dtypes import to_numpy_dtype

_LONGEST_PRODUCT = 1024
"""Elements of a row up to which BLAS sums it as exactly as pairwise summation does, within 1e-6."""

_ONES = {
    dtype: Region.of_array("ones", np.ones(_LONGEST_PRODUCT, dtype))
    for dtype in (np.dtype(np.float32), np.dtype(np.float64))
}
"""What sums multiply by, shared by all sessions."""

_MANY_ROWS = 64
"""Rows from which on turning a tile around pays."""


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
    held_as = out.with_dtype(dtype)

    def kernel_of(value: Expr) -> Kernel:
        memory, blocks = builder.memory, [kept, reduced]
        return Kernel(memory, form.extents, [], [value], binding, blocks=blocks, riders=[held_as])

    kernel = kernel_of(reduction.element)
    count = len(kernel.axes) - sum(1 for group in kernel.axes if group[0] in form.reductions)
    factor = _squared(reduction)
    is_square = False
    if factor is not None and len(kernel.axes) == count + 1:
        of_factor = kernel_of(factor)
        is_square = _walks_rows(of_factor)
        kernel = of_factor if is_square else kernel
    (held,) = kernel.riders
    folder = _Folder(builder, ufunc, reduction.op, dtype, is_square=is_square)
    extra = _partial_bytes(held, count) if fill is None else _partial_bytes_if_cut(kernel, held, count)
    with scratch.frame():
        tile = kernel.choose_tile(scratch.fits, extra)
        registers = kernel.registers(tile)
        base = kernel.take_base(scratch, registers)
        space = scratch.array(tile[:count], dtype) if extra(tile) else None

        def emit_tile(lows: tuple[int, ...], shape: tuple[int, ...]) -> None:
            (values,) = kernel.emit_box(builder, registers, base, lows, shape)
            box = held.box(lows, shape).transposed(range(count))
            target = box
            if fill is None or any(lows[count:]):
                assert space is not None
                target = View(space.region, space.offset, shape[:count], space.strides, dtype)
            folder.emit(scratch, values.with_dtype(dtype), target)
            if target is not box:
                builder.call(ufunc, box, target, out=box)
            elif fill is not None and not _is_identity(reduction.op, out.dtype, fill):
                number = builder.memory.table(np.asarray(fill).astype(out.dtype)).with_dtype(dtype)
                builder.call(ufunc, box, number, out=box)

        repeats = Repeats(builder.memory)
        for lows, shape in kernel.tiles(tile):
            kind = (any(lows[count:]), *kernel.kind_of(lows, shape))
            repeats.emit(kind, partial(emit_tile, lows, shape))


def _squared(reduction: Reduction) -> Expr | None:
    """The factor of a sum of squares in single or double precision."""
    match reduction:
        case Reduction("arith.addf", Apply(name="arith.mulf", args=(left, right))) if left is right:
            return left if to_numpy_dtype(left.type) in _ONES else None
        case _:
            return None


def _walks_rows(kernel: Kernel) -> bool:
    """Whether the kernel's value, or what it reads, has the last axis contiguous."""
    node, dtype = kernel.yields[0]
    return not isinstance(node, Leaf) or node.view.strides[-1] == dtype.itemsize


class _Folder:
    """Reduces the last axes of tiles by the call that is fastest for their layout.

    `ufunc.reduce` over a contiguous last axis costs 60 ns a row and more. Where there is one such axis, a sum is a
    product with a vector of ones and a sum of squares a dot product, both in BLAS; for the rest the tile is turned
    around in scratch, if there is room, so that whole rows are folded into each other.
    """

    def __init__(self, builder: PlanBuilder, ufunc: np.ufunc, op: str, dtype: np.dtype, *, is_square: bool):
        self._builder = builder
        self._ufunc = ufunc
        self._is_square = is_square
        self._is_float_sum = op == "arith.addf"
        self._in_blas = dtype in _ONES

    def emit(self, scratch: Scratch, values: View, target: View) -> None:
        """`target = op(values over the axes that target does not have)`, or the sum of their squares."""
        call = self._builder.call
        last = values.ndim - 1
        if self._is_square:
            call(np.vecdot, values, values, target)
        elif target.ndim != last or values.strides[-1] != values.itemsize:
            axes = tuple(range(target.ndim, values.ndim))
            call(self._ufunc.reduce, values, axis=axes, dtype=values.dtype, out=target)
        elif self._is_float_sum and self._in_blas and _is_product_with_ones(values):
            call(np.matmul, values, _ones(values.shape[-1], values.dtype), target)
        elif not self._is_float_sum and _pays_turning(values) and scratch.fits(values.nbytes):
            with scratch.frame():
                turned = scratch.array((values.shape[-1], *values.shape[:-1]), values.dtype)
                call(np.copyto, turned, values.transposed((last, *range(last))))
                call(self._ufunc.reduce, turned, axis=0, dtype=values.dtype, out=target)
        else:
            call(self._ufunc.reduce, values, axis=last, dtype=values.dtype, out=target)


def _ones(count: int, dtype: np.dtype) -> View:
    return View(_ONES[dtype], 0, (count,), (dtype.itemsize,), dtype)


def _is_product_with_ones(values: View) -> bool:
    """Whether BLAS takes the rows as they lie, and they are short enough to be summed without blocks."""
    if values.shape[-1] > _LONGEST_PRODUCT:
        return False
    row = values.shape[-1] * values.itemsize
    return values.ndim == 1 or values.shape[-2] == 1 or values.strides[-2] >= row


def _pays_turning(values: View) -> bool:
    """Many short rows: what a call costs per row is more than what two copies of the elements do."""
    rows = values.size // max(values.shape[-1], 1)
    return rows >= _MANY_ROWS and values.shape[-1] <= 2 * rows


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
    emit_points(builder, scratch, binding, form, outs, yields, bounds, fill)


def emit_points(
    builder: PlanBuilder,
    scratch: Scratch,
    binding: Binding,
    form: Structured,
    outs: Sequence[View],
    yields: Sequence[Expr],
    bounds: Sequence[Bound],
    fill: object | None,
) -> None:
    """Emit `outs[j] = yields[j]` point by point along the reduced dimensions of `form`, only where the bounds hold.

    With `fill`, the (only) output is known to hold that number everywhere and is not read at the first point.
    """
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
            scratch.fits, lambda tile: max(0, first.registers(tile).nbytes - rest.registers(tile).nbytes)
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
                    first.emit_outs(builder, first_registers, base, *whole)
                    parts.remove(whole)
            for box in parts:
                rest.emit_outs(builder, registers, base, *box)


def _clipped(bounds: Sequence[Bound], lows: tuple[int, ...], shape: tuple[int, ...]) -> Box | None:
    return inside(bounds, lows, shape) if bounds else (lows, shape)


def _without_neutral_padding(
    form: Structured, reduction: Reduction | None
) -> tuple[tuple[Expr, ...], tuple[Bound, ...]]:
    """The yields with a padded read made plain, and the bounds within which they are to be evaluated."""
    if reduction is None or not isinstance(read := reduction.element, Read):
        return form.yields, ()
    if not read.bounds or not pads_neutrally(form, reduction):
        return form.yields, ()
    plain = Read(read.type, read.source, read.index)
    return (Apply(read.type, reduction.op, (form.initial[0], plain)),), read.bounds


def pads_neutrally(form: Structured, reduction: Reduction) -> bool:
    """Whether the padding of what is read, if any, changes nothing, and each bound is about one kept dimension."""
    read = reduction.element
    if not isinstance(read, Read):
        return False
    kept = [
        {d for d in bound.expr.dims if d not in form.reductions and form.extents[d] > 1}
        for bound in read.bounds
    ]
    neutral = isinstance(read.pad, Const) and _is_identity(
        reduction.op, to_numpy_dtype(read.type), read.pad.value
    )
    return not read.bounds or (neutral and all(len(dims) <= 1 for dims in kept))


def _is_identity(op: str, dtype: np.dtype, value: object) -> bool:
    neutral = identity(op, dtype)
    return neutral is not None and bool(np.asarray(value).astype(dtype) == np.asarray(neutral).astype(dtype))


def _first_read(binding: Binding, form: Structured, element: Expr) -> View | None:
    for expr in post_order((element,)):
        if isinstance(expr, Read):
            return binding.source(expr).over(expr.index, form.extents)
    return None
