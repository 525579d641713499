"""Padded reads made plain: what a block reads of an operand, copied to scratch with its border.

A convolution reads every element once per tap, and padding near the edges. Read by taps, a block takes a call per tap,
clipped to where the tap is inside. Once the part that the block reads stands in scratch with its border around it (a
slab), all taps are one strided view. Narrower numbers are widened as they are copied: once, not for each tap. What
lies around the copied part stays from block to block, and is written again only where the previous block left elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mlopt.interpreter import costs
from mlopt.interpreter.elementwise import Box, border
from mlopt.interpreter.expressions import Apply, Bound, Const, Expr, Linear, Read
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.primitives import BOOL
from mlopt.interpreter.scratch import aligned
from mlopt.interpreter.views import Region, View, row_major
from mlopt.ir.dtypes import to_numpy_dtype

_Interval = tuple[float, float]


def copied_read(expr: Expr) -> Read | None:
    """The read that `expr` is, or that it converts as `np.copyto` does."""
    match expr:
        case Read():
            return expr
        case Apply(name="arith.extf" | "arith.sitofp", args=(Read() as read,)):
            return read if to_numpy_dtype(read.type) != BOOL else None
        case _:
            return None


class Slab:
    """Scratch for the part of a source that blocks of an iteration space read, padding included.

    `axes` are the axes of the source from outermost to innermost, as they are to lie in the slab.
    """

    def __init__(
        self,
        expr: Expr,
        read: Read,
        source: View,
        extents: tuple[int, ...],
        inside: Sequence[_Interval],
        axes: Sequence[int],
    ):
        self._read = read
        self._source = source
        self._dtype = to_numpy_dtype(expr.type)
        self._extents = extents
        self._inside = inside
        self._axes = axes
        self._steps = [[(d, abs(linear.coefficients[d])) for d in linear.dims] for linear in read.index]
        self._memory: View | None = None
        self._is_fresh = True
        self._stale: Box | None = None
        self._held: Box | None = None

    @staticmethod
    def of(
        expr: Expr, binding: Binding, extents: tuple[int, ...], axes: Sequence[int] | None = None
    ) -> Slab | None:
        """The slab of an expression that reads one operand, or None if its padding is no border of it."""
        read = copied_read(expr)
        if read is None or not (read.pad is None or isinstance(read.pad, Const)):
            return None
        source = binding.source(read)
        intervals = [inside_bounds(linear, read.bounds) for linear in read.index]
        if not all(b.expr.dims and any(_limits(i, b) for i in read.index) for b in read.bounds):
            return None
        return Slab(expr, read, source, extents, intervals, range(source.ndim) if axes is None else axes)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    def _box(self, lows: Mapping[int, int], shape: Mapping[int, int]) -> Box:
        """First index and extent along every axis of the source, for a block of the iteration space."""
        first: list[int] = []
        counts: list[int] = []
        block = [shape.get(d, e) for d, e in enumerate(self._extents)]
        for linear in self._read.index:
            low, high = linear.bounds(block)
            shift = sum(linear.coefficients[d] * low for d, low in lows.items())
            first.append(low + shift)
            counts.append(high - low + 1)
        return tuple(first), tuple(counts)

    def shape(self, block: Mapping[int, int]) -> tuple[int, ...]:
        """Extents for blocks of at most this shape, along the axes of the source."""
        return tuple(1 + sum(step * (block[d] - 1) for d, step in steps) for steps in self._steps)

    def nbytes(self, block: Mapping[int, int], tail: int = 0) -> int:
        """Bytes for blocks of at most this shape, with `tail` more elements behind the last one."""
        return aligned(self.itemsize * (math.prod(self.shape(block)) + tail))

    def strides(self, block: Mapping[int, int]) -> tuple[int, ...]:
        """Bytes from one position to the next, per dimension of the iteration space."""
        return self._over(self._layout(Region("slab", 0), 0, block), (0,) * self._source.ndim).strides

    def place(self, region: Region, offset: int, block: Mapping[int, int]) -> None:
        """Use this memory from now on, for blocks of at most this shape."""
        self._memory = self._layout(region, offset, block)
        self._is_fresh = True
        self._stale = ((0,) * self._memory.ndim, self._memory.shape)
        self._held = None

    def _layout(self, region: Region, offset: int, block: Mapping[int, int]) -> View:
        shape = self.shape(block)
        ordered = row_major([shape[a] for a in self._axes], self.itemsize)
        strides = dict(zip(self._axes, ordered, strict=True))
        return View(region, offset, shape, tuple(strides[a] for a in range(len(shape))), self._dtype)

    def _over(self, memory: View, first: Sequence[int]) -> View:
        shifted = [
            Linear(linear.coefficients, linear.constant - low)
            for linear, low in zip(self._read.index, first, strict=True)
        ]
        return memory.over(shifted, self._extents)

    def emit(
        self,
        builder: PlanBuilder,
        lows: Mapping[int, int],
        shape: Mapping[int, int],
        ahead: Mapping[int, int] | None = None,
    ) -> View:
        """Copy what the block at `lows` reads; the view has an axis per dimension and starts at the block.

        What is copied at once serves all blocks within multiples of the extents `ahead`, one after the other.
        """
        assert self._memory is not None
        start, extents = dict(lows), dict(shape)
        for d, extent in (ahead or {}).items():
            start[d] = lows[d] // extent * extent
            extents[d] = min(extent, self._extents[d] - start[d])
        first, counts = self._box(start, extents)
        if self._held != (first, counts):
            self._copy(builder, first, counts)
            self._held = first, counts
        view = self._over(self._memory, first)
        return view.box([lows.get(d, 0) for d in range(view.ndim)], self._extents)

    def _copy(self, builder: PlanBuilder, first: Sequence[int], counts: Sequence[int]) -> None:
        """Make the slab hold a box of the source, and padding around what is inside."""
        memory = self._memory
        assert memory is not None
        starts: list[int] = []
        lengths: list[int] = []
        for low, count, (least, limit) in zip(first, counts, self._inside, strict=True):
            start, end = max(least, low), min(limit, low + count)
            starts.append(int(start) - low)
            lengths.append(int(max(end - start, 0)))
        part: Box | None = (tuple(starts), tuple(lengths)) if 0 not in lengths else None
        self._emit_border(builder, part)
        if part is not None:
            source = self._source.box([a + b for a, b in zip(first, part[0], strict=True)], part[1])
            builder.call(np.copyto, memory.box(*part).transposed(self._axes), source.transposed(self._axes))

    def _emit_border(self, builder: PlanBuilder, part: Box | None) -> None:
        """Write the padding where it does not stand already."""
        memory = self._memory
        assert memory is not None
        if self._read.pad is None:
            return
        assert isinstance(self._read.pad, Const)
        edges: list[View] = []
        if self._stale is not None:
            boxes = border(_common(part, self._stale), *self._stale)
            edges = [memory.box(*box).transposed(self._axes) for box in boxes]
        whole = memory.transposed(self._axes)
        if self._is_fresh and _copy_cost(edges) > _copy_cost([whole]):
            edges = [whole]
        pad = builder.memory.table(np.asarray(self._read.pad.value).astype(memory.dtype))
        for edge in edges:
            builder.call(np.copyto, edge, pad)
        self._is_fresh, self._stale = False, part


def _copy_cost(views: Sequence[View]) -> float:
    """Nanoseconds that it takes to write a number everywhere."""
    return sum(costs.of_call(np.copyto, [view]) for view in views)


def _common(part: Box | None, other: Box) -> Box | None:
    """The intersection of two boxes."""
    if part is None:
        return None
    starts = [max(a, b) for a, b in zip(part[0], other[0], strict=True)]
    ends = [min(a + n, b + m) for a, n, b, m in zip(*part, *other, strict=True)]
    if any(end <= start for start, end in zip(starts, ends, strict=True)):
        return None
    return tuple(starts), tuple(end - start for start, end in zip(starts, ends, strict=True))


def _limits(linear: Linear, bound: Bound) -> _Interval | None:
    """What a bound says about the values of an affine index, or None if it is about another one."""
    low = -math.inf if bound.low is None else bound.low - bound.expr.constant
    high = math.inf if bound.high is None else bound.high - bound.expr.constant
    if bound.expr.coefficients == linear.coefficients:
        return low + linear.constant, high + linear.constant
    if bound.expr.scaled(-1).coefficients == linear.coefficients:
        return linear.constant + 1 - high, linear.constant + 1 - low
    return None


def inside_bounds(linear: Linear, bounds: Sequence[Bound]) -> _Interval:
    """The values of an affine index, from the first to one past the last, at which all bounds hold."""
    found = [limits for bound in bounds if (limits := _limits(linear, bound)) is not None]
    return max((low for low, _ in found), default=-math.inf), min(
        (high for _, high in found), default=math.inf
    )
