"""Reductions over windows, one axis after the other: a pool of 3 by 3 takes 3 + 3 steps instead of 9.

An associative operation over a box of positions is one over rows, then one over columns of what that leaves. Between
the two, scratch holds for every position of the axes still to be reduced what the window covers along the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from xdsl.ir import SSAValue

from mlopt.interpreter import costs
from mlopt.interpreter.elementwise import TILE_BYTES
from mlopt.interpreter.expressions import Apply, Bound, Expr, Gather, Linear, Read, Structured
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.plan import PlanBuilder, Repeats
from mlopt.interpreter.primitives import identity
from mlopt.interpreter.recognize import Reduction
from mlopt.interpreter.reductions import emit_points, pads_neutrally
from mlopt.interpreter.scratch import Scratch, aligned
from mlopt.interpreter.slabs import inside_bounds
from mlopt.interpreter.views import Region, View, row_major
from mlopt.ir.dtypes import to_numpy_dtype


@dataclass(frozen=True, slots=True)
class _Window:
    """An axis of the source along which windows lie: `index` depends on the dimensions `kept` and `reduced` alone.

    `low` and `count` are the positions of the source that the windows cover and that are inside.
    """

    axis: int
    kept: int
    reduced: int
    index: Linear
    bounds: tuple[Bound, ...]
    low: int
    count: int


@dataclass(slots=True)
class _Stages:
    """A binding for the steps: some reads are bound to views with an axis per dimension."""

    binding: Binding
    views: dict[Expr, View]

    def source(self, expr: Read | Gather) -> View:
        return self.views[expr] if expr in self.views else self.binding.source(expr)

    def scalar(self, value: SSAValue) -> View | int | float:
        return self.binding.scalar(value)


class Windows:
    """`out = op(out, read)` over windows of two axes or more. Made by `Windows.of`."""

    def __init__(
        self,
        builder: PlanBuilder,
        scratch: Scratch,
        binding: Binding,
        form: Structured,
        reduction: Reduction,
        read: Read,
        windows: Sequence[_Window],
    ):
        self._builder = builder
        self._scratch = scratch
        self._binding = binding
        self._form = form
        self._op = reduction.op
        self._read = read
        self._windows = windows
        self._dtype = to_numpy_dtype(read.type)
        self._extents = [self._extents_at(stage) for stage in range(len(windows))]
        self._block = self._choose_block()

    @staticmethod
    def of(
        builder: PlanBuilder, scratch: Scratch, binding: Binding, form: Structured, reduction: Reduction
    ) -> Windows | None:
        """The reduction axis by axis, if it is one over windows and that is faster within the scratch, else None."""
        read = reduction.element
        if not isinstance(read, Read) or not pads_neutrally(form, reduction):
            return None
        if identity(reduction.op, to_numpy_dtype(read.type)) is None:
            return None
        windows = _windows(form, read)
        if windows is None or len(windows) < 2:
            return None
        strides = binding.source(read).strides
        windows.sort(key=lambda window: -abs(strides[window.axis]))
        found = Windows(builder, scratch, binding, form, reduction, read, windows)
        return found if found.fits and found.pays else None

    def _extents_at(self, stage: int) -> tuple[int, ...]:
        """The extents of the step that reduces window `stage`: those before are done, those after are whole."""
        extents = list(self._form.extents)
        for number, window in enumerate(self._windows):
            if number != stage:
                extents[window.reduced] = 1
            if number > stage:
                extents[window.kept] = window.count
        return tuple(extents)

    # Blocks

    def _choose_block(self) -> dict[int, int]:
        """Extents of the dimensions that may be cut: what is between two steps should stay in the cache and fit."""
        kept = [window.kept for window in self._windows]
        strides = self._coordinates().strides
        free = sorted((d for d in self._form.parallels if d not in kept), key=lambda d: -abs(strides[d]))
        block = {d: self._form.extents[d] for d in free}
        for d in free:
            parts = 1
            while block[d] > 1 and not self._is_good(self._need(block)):
                parts += 1
                block[d] = -(-self._form.extents[d] // parts)
        return block

    def _is_good(self, nbytes: int) -> bool:
        """Whether so many bytes between two steps stay in the cache and fit."""
        return nbytes <= TILE_BYTES // 2 and self._scratch.fits(nbytes)

    def _shape(self, stage: int, block: Mapping[int, int]) -> tuple[int, ...]:
        """The extents of what a step leaves of a block."""
        reduced = self._windows[stage].reduced
        extents = enumerate(self._extents[stage])
        return tuple(1 if d == reduced else block.get(d, e) for d, e in extents)

    def _need(self, block: Mapping[int, int]) -> int:
        """Bytes of scratch for one block."""
        return sum(
            aligned(self._dtype.itemsize * math.prod(self._shape(stage, block)))
            for stage in range(len(self._windows) - 1)
        )

    @property
    def fits(self) -> bool:
        """Whether there is scratch for a block."""
        return self._scratch.fits(self._need(self._block))

    @property
    def pays(self) -> bool:
        """Whether it takes less time than tap by tap, roughly."""
        inner = self._windows[-1]
        extents = self._form.extents
        run = extents[inner.kept]
        spread = abs(inner.index.coefficients[inner.kept]) > 1
        points = math.prod(extents[d] for d in self._form.parallels)
        blocks = math.prod(-(-extents[d] // count) for d, count in self._block.items())
        total = extents[inner.reduced] * costs.step(points, run, blocks, spread=spread)
        for stage, window in enumerate(self._windows[:-1]):
            left = math.prod(e for d, e in enumerate(self._extents[stage]) if d != window.reduced)
            total += extents[window.reduced] * costs.step(left, inner.count, blocks)
        taps = math.prod(extents[d] for d in self._form.reductions)
        return total < taps * costs.step(points, run, 1, spread=spread)

    # Emission

    def run(self, out: View, fill: object | None) -> None:
        """Emit all blocks; with `fill`, `out` holds that number everywhere and is not read."""
        source = self._coordinates()
        extents = self._form.extents
        with self._scratch.frame():
            places = [
                self._scratch.take(self._dtype.itemsize * math.prod(self._shape(stage, self._block)))
                for stage in range(len(self._windows) - 1)
            ]
            repeats = Repeats(self._builder.memory)
            for starts in product(*(range(0, extents[d], count) for d, count in self._block.items())):
                low = dict(zip(self._block, starts, strict=True))
                box = {d: min(self._block[d], extents[d] - start) for d, start in low.items()}
                lows = [low.get(d, 0) for d in range(self._form.rank)]
                views = source.box(lows, source.shape), out.box(lows, out.shape)
                repeats.emit(tuple(box.values()), partial(self._emit, *views, box, places, fill))

    def _coordinates(self) -> View:
        """The source with an axis per dimension; the kept dimension of a window is the position on its axis."""
        source = self._binding.source(self._read)
        rank = self._form.rank
        by_axis = {window.axis: window for window in self._windows}
        index = [
            Linear.of_dim(rank, by_axis[axis].kept) if axis in by_axis else linear
            for axis, linear in enumerate(self._read.index)
        ]
        return source.over(index, self._extents[0])

    def _emit(
        self,
        source: View,
        out: View,
        box: Mapping[int, int],
        places: Sequence[tuple[Region, int]],
        fill: object | None,
    ) -> None:
        """All steps of one block of the extents `box`."""
        origins = {window.kept: 0 for window in self._windows}
        last = len(self._windows) - 1
        for stage in range(len(self._windows)):
            target = out if stage == last else self._between(stage, box, *places[stage])
            number = fill if stage == last else identity(self._op, self._dtype)
            self._step(stage, box, source, target, origins, number)
            source = target
            origins = {window.kept: window.low for window in self._windows[stage + 1 :]}

    def _between(self, stage: int, box: Mapping[int, int], region: Region, offset: int) -> View:
        """What a step leaves, with stride 0 along the dimensions of extent 1, outermost first as in the source."""
        shape = self._shape(stage, box)
        order = sorted(range(len(shape)), key=lambda d: -abs(self._coordinates().strides[d]))
        steps = dict(zip(order, row_major([shape[d] for d in order], self._dtype.itemsize), strict=True))
        strides = tuple(steps[d] if e > 1 else 0 for d, e in enumerate(shape))
        return View(region, offset, shape, strides, self._dtype)

    def _step(
        self,
        stage: int,
        box: Mapping[int, int],
        source: View,
        target: View,
        origins: Mapping[int, int],
        fill: object | None,
    ) -> None:
        """Reduce one window of what `source` holds into `target`."""
        rank = self._form.rank
        window = self._windows[stage]
        extents = tuple(box.get(d, e) for d, e in enumerate(self._extents[stage]))
        index = [Linear.of_dim(rank, d) for d in range(rank)]
        index[window.reduced] = Linear.of_constant(rank, 0)
        index[window.kept] = window.index + Linear.of_constant(rank, -origins[window.kept])
        for later in self._windows[stage + 1 :]:
            index[later.kept] += Linear.of_constant(rank, later.low - origins[later.kept])
        type_, memref = self._read.type, self._read.source
        element = Read(type_, memref, tuple(index))
        held = Read(type_, memref, tuple(Linear.of_dim(rank, d) for d in range(rank)))
        form = Structured(
            self._form.op,
            extents,
            frozenset((window.reduced,)),
            self._form.stores,
            (held,),
            (Apply(type_, self._op, (held, element)),),
        )
        target = View(target.region, target.offset, extents, target.strides, target.dtype)
        binding = _Stages(self._binding, {element: source, held: target})
        emit_points(self._builder, self._scratch, binding, form, [target], form.yields, window.bounds, fill)


def _windows(form: Structured, read: Read) -> list[_Window] | None:
    """A window for every reduced dimension; None if one has none, or an index or a bound mixes two windows."""
    found: list[_Window] = []
    bounds = list(read.bounds)
    for reduced in sorted(form.reductions):
        axes = [axis for axis, linear in enumerate(read.index) if reduced in linear.dims]
        if len(axes) != 1:
            return None
        (axis,) = axes
        dims = [d for d in read.index[axis].dims if form.extents[d] > 1]
        kept = [d for d in dims if d != reduced]
        if len(kept) != 1 or kept[0] in form.reductions:
            return None
        if any(kept[0] in linear.dims for other, linear in enumerate(read.index) if other != axis):
            return None
        own = tuple(bound for bound in bounds if set(bound.expr.dims) & {*dims})
        if any(not set(bound.expr.dims) <= {*dims} for bound in own):
            return None
        bounds = [bound for bound in bounds if bound not in own]
        first, last = read.index[axis].bounds(form.extents)
        least, limit = inside_bounds(read.index[axis], own)
        low, high = int(max(first, least)), int(min(last + 1, limit))
        if low >= high:
            return None
        found.append(_Window(axis, kept[0], reduced, read.index[axis], own, low, high - low))
    return None if bounds else found
