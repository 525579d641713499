"""Contractions as matrix products: `out += left * right`, summed over the dimensions that `out` does not have.

Every dimension is one of four: batch (in both factors and the output), row (left and output), column (right and
output), inner (not in the output). A factor goes to `np.matmul` as it lies in memory if its inner dimensions can be
walked as one and one of its two matrix strides is the size of an element; numpy would copy anything else behind our
back. Otherwise it is first written to scratch, block by block, in a layout that BLAS takes: for a convolution this is
im2col, padding included. Which way a block is packed (`_Way`) is decided by what it costs within the scratch there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from mlopt.interpreter import costs
from mlopt.interpreter.elementwise import Kernel, sorted_by_strides
from mlopt.interpreter.expressions import Expr, Gather, Index, Read, Structured, post_order
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.parts import Parts, unpadded_ranges
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.precision import converted, sum_dtype
from mlopt.interpreter.recognize import Contraction
from mlopt.interpreter.scratch import Scratch, aligned
from mlopt.interpreter.slabs import Slab, copied_read
from mlopt.interpreter.views import Region, View, merged_strides
from mlopt.ir.dtypes import to_numpy_dtype

BLOCK_BYTES = 4 << 20
"""Preferred limit of what one block of a contraction keeps in scratch: larger blocks bring nothing."""

SMALLEST_BLOCK_BYTES = 16 << 10
"""Blocks are not made smaller than this where the extents can be cut further: calls would cost more than the work."""

_SHORT_STEP = 4
"""Elements between neighbours that are still read well."""

_PREFERRED_CUT = 64
"""The innermost row and column dimensions need not be cut below this: a product gets slow."""

_SMALLEST_CUT = 16
"""They are not cut below this to make use of the scratch there is."""


@dataclass(frozen=True, slots=True)
class _Roles:
    """The dimensions of extent above 1 by role, outermost first."""

    batch: tuple[int, ...]
    row: tuple[int, ...]
    column: tuple[int, ...]
    inner: tuple[int, ...]


@dataclass(slots=True)
class _Factor:
    """One factor: an expression, the view it reads if it can be used as it lies, and its part of the matrix.

    `outer` are its row or column dimensions. `packed` says that it is written to scratch first, with `layout` the
    order of its dimensions there.
    """

    expr: Expr
    view: View | None
    outer: tuple[int, ...]
    nbytes: int
    packed: bool = False
    layout: tuple[int, ...] = ()
    slab: Slab | None = None


@dataclass(frozen=True, slots=True)
class _Groups:
    """The dimensions that make up the rows and the columns of one matrix, and those that count matrices."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Way:
    """How a contraction is cut into blocks, and how their factors are packed.

    `block` are the extents per dimension. With `slabs`, padded factors are packed from a slab by one call, else by a
    call per tap. With `flat`, the dimension `flat` is walked in whole rows of the slab, `row` elements each: the taps
    of all rows are then one run, which copies several times as fast, and the product has columns that nobody wants.
    `tiled` products go to scratch first: the output does not take them, or takes them only as many small matrices.
    """

    block: Mapping[int, int]
    groups: _Groups
    tiled: bool
    slabs: bool = False
    flat: int | None = None
    row: int = 0

    def stored(self, block: Mapping[int, int]) -> dict[int, int]:
        """The extents of a block in packed factors and in the product."""
        stored = dict(block)
        if self.flat is not None:
            stored[self.flat] = self.row
        return stored


def emit_contraction(
    builder: PlanBuilder,
    scratch: Scratch,
    binding: Binding,
    form: Structured,
    contraction: Contraction,
    out: View,
    fill: object | None,
) -> None:
    """Emit `out += left * right`; with `fill`, `out` is known to hold that number everywhere and need not be read.

    `out` has one axis per dimension of `form` and must not overlap what the factors read.
    """
    points = math.prod(form.extents[d] for d in form.reductions)
    dtype = sum_dtype(contraction.left, contraction.right, points, out.dtype)
    left, right = converted(contraction.left, dtype), converted(contraction.right, dtype)

    parts = Parts(binding)

    def emission(left: Expr, right: Expr, out: View) -> _Emission:
        return _Emission(builder, scratch, parts, left, right, out, fill)

    for part in _cheapest(emission, parts, left, right, out):
        part.run()


def _cheapest(
    emission: Callable[[Expr, Expr, View], _Emission], cuts: Parts, left: Expr, right: Expr, out: View
) -> list[_Emission]:
    """The contraction as a whole, or cut where padding begins, whichever is cheaper and fits the scratch.

    What lies inside needs no padding, and is packed by one call without a slab.
    """
    whole = emission(left, right, out)
    if whole.is_one_block:
        return [whole]
    for dim in reversed(sorted_by_strides((d for d, s in enumerate(out.strides) if s), out)):
        ranges = unpadded_ranges((left, right), dim, out)
        if len(ranges) == 1:
            continue
        parts: list[_Emission] = []
        for low, high in ranges:
            shape = tuple(high - low if d == dim else e for d, e in enumerate(out.shape))
            box = out.box([low if d == dim else 0 for d in range(out.ndim)], shape)
            factors = [cuts.shifted(factor, dim, low, shape) for factor in (left, right)]
            parts += _cheapest(emission, cuts, *factors, box)
        if all(part.fits() for part in parts) and sum(part.cost() for part in parts) < whole.cost():
            return parts
    return [whole]


def varying_dims(expr: Expr, extents: Sequence[int]) -> frozenset[int]:
    """The dimensions that an expression depends on."""
    dims: set[int] = set()
    for node in post_order((expr,)):
        match node:
            case Read():
                dims.update(d for linear in node.index for d in linear.dims)
                dims.update(d for bound in node.bounds for d in bound.expr.dims)
            case Index():
                dims.update(node.value.dims)
            case Gather():
                dims.update(d for index in node.index if isinstance(index, Index) for d in index.value.dims)
            case _:
                pass
    return frozenset(d for d in dims if extents[d] > 1)


class _Emission:
    def __init__(
        self,
        builder: PlanBuilder,
        scratch: Scratch,
        binding: Binding,
        left: Expr,
        right: Expr,
        out: View,
        fill: object | None,
    ):
        self.builder = builder
        self.scratch = scratch
        self.binding = binding
        self.extents = out.shape
        self.out = out
        self.fill = fill
        self.dtype = to_numpy_dtype(left.type)
        self.is_blas = self.dtype.kind == "f"
        self.roles = self._classify(left, right)
        self.left = self._factor(left, self.roles.row)
        self.right = self._factor(right, self.roles.column)
        self.inner = self._order_inner()
        self._decide_packing()
        for factor in (self.left, self.right):
            read = copied_read(factor.expr) if factor.packed else None
            factor.slab = Slab.of(factor.expr, binding, self.extents) if read and read.bounds else None
        direct = self._groups(out)
        self.must_tile = (
            self.dtype != out.dtype
            or fill is None
            or not self._takes_blas(out, direct.rows, direct.columns)
        )
        self.direct, self.in_tile = direct, self._groups(None)
        self.way = self._choose_way()

    # Decisions

    def _classify(self, left: Expr, right: Expr) -> _Roles:
        in_left, in_right = varying_dims(left, self.extents), varying_dims(right, self.extents)
        roles: dict[str, list[int]] = {"batch": [], "row": [], "column": [], "inner": []}
        for dim, extent in enumerate(self.extents):
            if extent == 1:
                continue
            if not self.out.strides[dim]:
                role = "inner"
            elif dim in in_right:
                role = "batch" if dim in in_left else "column"
            else:
                role = "row"
            roles[role].append(dim)
        ordered = {name: tuple(sorted_by_strides(dims, self.out)) for name, dims in roles.items()}
        return _Roles(**ordered)

    def _factor(self, expr: Expr, outer: tuple[int, ...]) -> _Factor:
        dims = (*self.roles.batch, *outer, *self.roles.inner)
        nbytes = self.dtype.itemsize * math.prod(self.extents[d] for d in dims)
        view = None
        if isinstance(expr, Read):
            view = self.binding.source(expr).over(expr.index, self.extents)
            if expr.bounds or view.dtype != self.dtype:
                view = None
        return _Factor(expr, view, outer, nbytes)

    def _order_inner(self) -> tuple[int, ...]:
        """The order in which the inner dimensions are walked, and which factor must be packed to allow it.

        A factor whose inner dimensions can't be walked as one in any order is packed; if both can, but not in the
        same order, the smaller one is.
        """
        inner = self.roles.inner
        orders: list[tuple[int, ...] | None] = []
        for factor in (self.left, self.right):
            order = None
            if factor.view is not None:
                order = tuple(sorted_by_strides(inner, factor.view))
                if not self._walks_as_one(factor.view, order) or any(
                    not factor.view.strides[d] for d in inner
                ):
                    order = None
            factor.packed = order is None
            orders.append(order)
        first, second = orders
        if first is not None and second is not None and first != second:
            assert self.left.view is not None and self.right.view is not None
            if self._walks_as_one(self.right.view, first):
                return first
            if self._walks_as_one(self.left.view, second):
                return second
            smaller = self.left if self.left.nbytes <= self.right.nbytes else self.right
            smaller.packed = True
            return second if smaller is self.left else first
        return first or second or self._packed_order()

    def _walks_as_one(self, view: View, order: Sequence[int]) -> bool:
        groups = merged_strides([self.extents[d] for d in order], [[view.strides[d] for d in order]])
        return len(groups) <= 1

    def _packed_order(self) -> tuple[int, ...]:
        """With both factors packed, the inner dimensions as the larger one's source has them."""
        larger = max(self.left, self.right, key=lambda factor: factor.nbytes)
        source = self._source_view(larger)
        return self.roles.inner if source is None else tuple(sorted_by_strides(self.roles.inner, source))

    def _source_view(self, factor: _Factor) -> View | None:
        """The first affine read of a factor, which decides how it is best walked."""
        for expr in post_order((factor.expr,)):
            if isinstance(expr, Read):
                return self.binding.source(expr).over(expr.index, self.extents)
        return None

    def _decide_packing(self) -> None:
        for factor, is_left in ((self.left, True), (self.right, False)):
            if not factor.packed and factor.view is not None:
                group = self._inner_group(factor, factor.outer, self.out)
                shape = (group, self.inner) if is_left else (self.inner, group)
                factor.packed = not self._takes_blas(factor.view, *shape)
            if factor.packed:
                factor.layout = self._layout(factor)

    def _layout(self, factor: _Factor) -> tuple[int, ...]:
        """Batch dimensions, then rows or columns inside of the inner ones if they take short steps in the source.

        Convolutions do (the step is the stride, however many taps lie closer together), and long runs copy faster.
        """
        source = self._source_view(factor)
        order = (*factor.outer, *self.inner)
        if source is not None and factor.outer:
            step = min(abs(source.strides[d]) for d in factor.outer)
            inner = min((abs(source.strides[d]) for d in self.inner if source.strides[d]), default=0)
            if 0 < step <= max(inner, _SHORT_STEP * source.itemsize):
                order = (*self.inner, *factor.outer)
        return (*self.roles.batch, *order)

    def _groups(self, out: View | None) -> _Groups:
        """The dimensions of one matrix, for products that go to `out`, or to scratch."""
        rows = self._inner_group(self.left, self.roles.row, out)
        columns = self._inner_group(self.right, self.roles.column, out)
        dims = (*self.roles.batch, *self.roles.row, *self.roles.column)
        batches = sorted_by_strides((d for d in dims if d not in rows and d not in columns), self.out)
        return _Groups(rows, columns, tuple(batches))

    def _inner_group(self, factor: _Factor, dims: tuple[int, ...], out: View | None) -> tuple[int, ...]:
        """The innermost of the row or column dimensions that factor and output can both walk as one."""
        rows = [] if out is None else [[out.strides[d] for d in dims]]
        if not factor.packed and factor.view is not None:
            rows.append([factor.view.strides[d] for d in dims])
        groups = merged_strides([self.extents[d] for d in dims], rows)
        return tuple(dims[i] for i in groups[-1]) if groups else ()

    def _takes_blas(self, view: View, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """Whether BLAS takes the matrix without a copy: one unit stride, the other at least a row long."""
        if not self.is_blas:
            return True
        item = view.itemsize
        (m, row), (n, column) = (self._axis(view, self.extents, dims) for dims in (rows, columns))
        row, column = _canonical(m, n, row, column, item)
        return (column == item and row >= n * item and row % item == 0) or (
            row == item and column >= m * item and column % item == 0
        )

    @staticmethod
    def _axis(view: View, shape: Mapping[int, int] | Sequence[int], dims: Sequence[int]) -> tuple[int, int]:
        """Extent and stride of dimensions walked as one."""
        extent, stride = 1, 0
        for dim in dims:
            if shape[dim] > 1:
                extent, stride = extent * shape[dim], view.strides[dim]
        return extent, stride

    # Blocks

    def _need(self, way: _Way) -> int:
        """Bytes of scratch for one block."""
        stored = way.stored(way.block)
        total = sum(self._packed_bytes(factor, stored) for factor in (self.left, self.right) if factor.packed)
        if way.slabs:
            total += sum(self._slab_bytes(factor.slab, way) for factor in (self.left, self.right) if factor.slab)
        if way.tiled:
            total += self._bytes((*self.roles.batch, *self.roles.row, *self.roles.column), stored)
        return total

    def _slab_bytes(self, slab: Slab, way: _Way) -> int:
        tail = 0 if way.flat is None else way.row - self.extents[way.flat]
        return slab.nbytes(way.block, tail)

    def _bytes(self, dims: Sequence[int], block: Mapping[int, int]) -> int:
        return aligned(self.dtype.itemsize * math.prod(block[d] for d in dims))

    def _packed_bytes(self, factor: _Factor, block: Mapping[int, int]) -> int:
        return self._bytes(factor.layout, block)

    def _cut(self, way: _Way, budget: int, room: int) -> _Way:
        """The way with extents cut until a block fits `budget`: batches, then columns, then rows.

        Extents are halved; what is left of `room` after that is used up.
        """
        smallest = _SMALLEST_CUT if room > 0 else _PREFERRED_CUT
        cuts = [(d, 1) for d in (*self.roles.batch, *self.roles.column[:-1])]
        cuts += [(d, smallest) for d in self.roles.column[-1:]]
        cuts += [(d, 1) for d in self.roles.row[:-1]]
        cuts += [(d, smallest) for d in self.roles.row[-1:]]

        def with_parts(dim: int, parts: int, least: int) -> _Way:
            return replace(way, block={**way.block, dim: max(least, -(-self.extents[dim] // parts))})

        for dim, least in cuts:
            if dim == way.flat or self._need(with_parts(dim, self.extents[dim], 1)) == self._need(way):
                continue
            parts = 1
            while self._need(way) > budget and way.block[dim] > least:
                parts *= 2
                way = with_parts(dim, parts, least)
            while parts > 1 and self._need(with_parts(dim, parts - 1, least)) <= min(budget, room):
                parts -= 1
                way = with_parts(dim, parts, least)
        return way

    def _choose_way(self) -> _Way:
        """The cheapest way that fits; without enough scratch for any, tap by tap in the smallest blocks."""
        reserve = max(self._temporaries(self.left), self._temporaries(self.right))
        room = self.scratch.room - reserve
        budget = min(max(room, SMALLEST_BLOCK_BYTES), BLOCK_BYTES)
        whole = dict(enumerate(self.extents))
        groups = self.in_tile if self.must_tile else self.direct
        best = self._cut(_Way(whole, groups, self.must_tile), budget, room)
        for candidate in self._candidates(whole):
            way = self._cut(candidate, budget, room)
            if self._need(way) <= room and self._cost(way) < self._cost(best):
                best = way
        return best

    def _candidates(self, block: Mapping[int, int]) -> Iterator[_Way]:
        """Ways that take more scratch than the simplest."""
        in_tile = _Way(block, self.in_tile, tiled=True)
        if not self.must_tile and self.in_tile != self.direct:
            yield in_tile
        slabs = [(factor, group) for factor, group in self._sides() if factor.slab is not None]
        if slabs:
            yield replace(in_tile, slabs=True)
            if not self.must_tile:
                yield _Way(block, self.direct, tiled=False, slabs=True)
        for factor, group in slabs:
            assert factor.slab is not None
            if len(group) < 2 or factor.layout[-2:] != group[-2:]:
                continue
            outer, inner = group[-2:]
            strides = factor.slab.strides(block)
            row, rest = divmod(strides[outer], factor.slab.itemsize)
            if strides[inner] == factor.slab.itemsize and not rest and row >= self.extents[inner]:
                yield replace(in_tile, slabs=True, flat=inner, row=row)

    def _sides(self) -> tuple[tuple[_Factor, tuple[int, ...]], ...]:
        """Both factors with their rows or columns."""
        return (self.left, self.in_tile.rows), (self.right, self.in_tile.columns)

    # Costs

    def cost(self) -> float:
        """Nanoseconds that the contraction takes, roughly."""
        return self._cost(self.way)

    @property
    def is_one_block(self) -> bool:
        """Whether nothing is cut."""
        return all(extent == self.way.block[d] for d, extent in enumerate(self.extents))

    def fits(self) -> bool:
        """Whether there is enough scratch."""
        return self._need(self.way) <= self.scratch.room

    def _cost(self, way: _Way) -> float:
        batches, rows, columns = (
            math.prod(-(-self.extents[d] // way.block[d]) for d in dims)
            for dims in (self.roles.batch, self.roles.row, self.roles.column)
        )
        stored = way.stored(way.block)
        total = batches * rows * self._packing_cost(self.left, way, stored)
        total += batches * (rows if columns > 1 else 1) * columns * self._packing_cost(self.right, way, stored)
        blocks = batches * rows * columns
        outer = (*self.roles.batch, *self.roles.row, *self.roles.column)
        points = math.prod(stored[d] for d in outer)
        matrices = math.prod(way.block[d] for d in way.groups.batches)
        products = points * math.prod(self.extents[d] for d in self.inner)
        total += blocks * (costs.CALL + matrices * costs.MATRIX + products * costs.PRODUCT)
        if way.tiled:
            run = way.block[outer[-1]] if outer else 1
            total += blocks * costs.copy(math.prod(way.block[d] for d in outer), run)
        return total

    def _packing_cost(self, factor: _Factor, way: _Way, stored: Mapping[int, int]) -> float:
        """What it costs to pack one block of a factor."""
        if not factor.packed:
            return 0.0
        elements = math.prod(stored[d] for d in factor.layout)
        run = stored[factor.layout[-1]] if factor.layout else 1
        if way.flat is not None and factor.slab is not None:
            run *= stored[factor.layout[-2]]
        if factor.slab is not None and way.slabs:
            slab = math.prod(factor.slab.shape(way.block))
            return costs.copy(elements, run) + costs.CALL + costs.copy(slab, factor.slab.shape(way.block)[-1])
        read = copied_read(factor.expr)
        calls = 1
        for bound in () if read is None else read.bounds:
            extents = [way.block[d] for d in bound.expr.dims if way.block[d] > 1]
            calls *= min(extents, default=1) if len(extents) > 1 else 1
        return calls * costs.CALL + costs.copy(elements, run)

    # Emission

    def run(self) -> None:
        way = self.way
        stored = way.stored(way.block)
        left = self._packing_kernel(self.left, stored)
        right = self._packing_kernel(self.right, stored)
        with self.scratch.frame():
            packed_left = self._place(self.left, way, stored)
            packed_right = self._place(self.right, way, stored)
            tile = self._tile(way, stored)
            rows = self._boxes(self.roles.row, way.block)
            columns = self._boxes(self.roles.column, way.block)
            for batch in self._boxes(self.roles.batch, way.block):
                for position, row in enumerate(rows):
                    if left is not None and packed_left is not None:
                        self._pack(left, packed_left, self.left, {**batch, **row}, way)
                    for column in columns:
                        fresh = position == 0 or len(columns) > 1
                        if right is not None and packed_right is not None and fresh:
                            self._pack(right, packed_right, self.right, {**batch, **column}, way)
                        self._multiply({**batch, **row, **column}, packed_left, packed_right, tile, way)

    def _boxes(self, dims: Sequence[int], block: Mapping[int, int]) -> list[dict[int, tuple[int, int]]]:
        """First position and extent per dimension, for every block."""
        starts = [range(0, self.extents[d], block[d]) for d in dims]
        return [
            {d: (low, min(block[d], self.extents[d] - low)) for d, low in zip(dims, lows, strict=True)}
            for lows in product(*starts)
        ]

    def _temporaries(self, factor: _Factor) -> int:
        """Bytes that packing a factor needs beside the block; none for reads and casts."""
        kernel = self._packing_kernel(factor, dict(enumerate(self.extents)))
        return 0 if kernel is None else kernel.registers(kernel.choose_tile(0)).nbytes

    def _packing_kernel(self, factor: _Factor, block: Mapping[int, int]) -> Kernel | None:
        if not factor.packed:
            return None
        strides = _strides(factor.layout, block, self.dtype, len(self.extents))
        extents = tuple(e if d in factor.layout else 1 for d, e in enumerate(self.extents))
        target = View(Region("packed", 0), 0, extents, strides, self.dtype)
        return Kernel(
            self.builder.memory, extents, [target], [factor.expr], self.binding, blocks=[factor.layout]
        )

    def _place(self, factor: _Factor, way: _Way, stored: Mapping[int, int]) -> View | None:
        """Scratch for the packed blocks of a factor, and for its slab."""
        if not factor.packed:
            return None
        if factor.slab is not None and way.slabs:
            factor.slab.place(*self.scratch.take(self._slab_bytes(factor.slab, way)), way.block)
        region, offset = self.scratch.take(self._packed_bytes(factor, stored))
        strides = _strides(factor.layout, stored, self.dtype, len(self.extents))
        return View(region, offset, self.extents, strides, self.dtype)

    def _tile(self, way: _Way, stored: Mapping[int, int]) -> View | None:
        """Scratch for products that can't be written to the output."""
        if not way.tiled:
            return None
        layout = (*way.groups.batches, *way.groups.rows, *way.groups.columns)
        region, offset = self.scratch.take(self._bytes(layout, stored))
        strides = _strides(layout, stored, self.dtype, len(self.extents))
        return View(region, offset, self.extents, strides, self.dtype)

    def _pack(
        self, kernel: Kernel, packed: View, factor: _Factor, box: Mapping[int, tuple[int, int]], way: _Way
    ) -> None:
        """Write one block of a factor to scratch."""
        lows = {d: box[d][0] if d in box else 0 for d in factor.layout}
        shape = {d: box[d][1] if d in box else self.extents[d] for d in factor.layout}
        if factor.slab is not None and way.slabs:
            window = factor.slab.emit(self.builder, lows, shape)
            stored = way.stored(shape)
            extents = tuple(stored.get(d, 1) for d in range(len(self.extents)))
            target, source = (
                replace(view, shape=extents).transposed(factor.layout) for view in (packed, window)
            )
            self.builder.call(np.copyto, target, source, casting="unsafe")
            return
        kernel.retarget(0, _shifted(packed, lows))
        kernel.emit(self.builder, self.scratch, kernel.box_on_axes(lows, shape))

    def _multiply(
        self,
        box: Mapping[int, tuple[int, int]],
        packed_left: View | None,
        packed_right: View | None,
        tile: View | None,
        way: _Way,
    ) -> None:
        """One block of the output."""
        groups = way.groups
        wanted = [box[d][1] if d in box else e for d, e in enumerate(self.extents)]
        shape = way.stored(dict(enumerate(wanted)))
        left = self._block(self.left.view, packed_left, box)
        right = self._block(self.right.view, packed_right, box)
        out = self._block(self.out, None, box)
        target = out if tile is None else tile
        arguments = (
            self._matrix(left, shape, groups.batches, groups.rows, self.inner),
            self._matrix(right, shape, groups.batches, self.inner, groups.columns),
            self._matrix(target, shape, groups.batches, groups.rows, groups.columns),
        )
        self.builder.call(np.matmul, *_merge_batches(arguments))
        held, product = self._elements(wanted, groups, out, target)
        store_product(self.builder, held, product, self.fill, is_stored=tile is None)

    @staticmethod
    def _elements(shape: Sequence[int], groups: _Groups, *views: View) -> tuple[View, ...]:
        """Blocks of the output's shape, with as few axes as walk the same elements."""
        dims = [d for d in (*groups.batches, *groups.rows, *groups.columns) if shape[d] > 1]
        groups = merged_strides([shape[d] for d in dims], [[v.strides[d] for d in dims] for v in views])
        extents = tuple(math.prod(shape[dims[i]] for i in group) for group in groups)
        return tuple(
            replace(view, shape=extents, strides=tuple(view.strides[dims[g[-1]]] for g in groups))
            for view in views
        )

    def _block(self, view: View | None, packed: View | None, box: Mapping[int, tuple[int, int]]) -> View:
        if packed is not None:
            return packed
        assert view is not None
        return view.box([box[d][0] if d in box else 0 for d in range(view.ndim)], view.shape)

    def _matrix(
        self,
        view: View,
        shape: Mapping[int, int],
        batches: Sequence[int],
        rows: Sequence[int],
        columns: Sequence[int],
    ) -> View:
        """The view with the batch axes, then a row and a column axis."""
        (m, row), (n, column) = self._axis(view, shape, rows), self._axis(view, shape, columns)
        row, column = _canonical(m, n, row, column, view.itemsize)
        batch = [(shape[d], view.strides[d]) for d in batches]
        axes = [*batch, (m, row), (n, column)]
        return replace(view, shape=tuple(e for e, _ in axes), strides=tuple(s for _, s in axes))


def store_product(builder: PlanBuilder, out: View, product: View, fill: object | None, *, is_stored: bool) -> None:
    """Add a product to `out`, which holds `fill` everywhere if given; `is_stored` products stand in `out` already."""

    def add_number(view: View) -> None:
        number = builder.memory.table(np.asarray(fill).astype(view.dtype))
        builder.call(np.add, view, number, view)

    if fill is None:
        kinds = {} if product.dtype == out.dtype else {"casting": "unsafe", "dtype": out.dtype}
        builder.call(np.add, out, product, out, **kinds)
        return
    is_wide = product.dtype.kind == out.dtype.kind
    if fill != 0 and is_wide:
        add_number(product)
    if not is_stored:
        builder.call(np.copyto, out, product, casting="unsafe")
    if fill != 0 and not is_wide:
        add_number(out)


def _canonical(m: int, n: int, row: int, column: int, item: int) -> tuple[int, int]:
    """Strides of a matrix; an axis of extent 1 gets the stride that a contiguous matrix would have."""
    if n == 1 and m == 1:
        return item, item
    if n == 1:
        return row, item if row != item else m * item
    if m == 1:
        return n * item if column == item else item, column
    return row, column


def _strides(layout: Sequence[int], block: Mapping[int, int], dtype: np.dtype, rank: int) -> tuple[int, ...]:
    """Strides per dimension of a contiguous block with its dimensions in the order `layout`."""
    strides = [0] * rank
    step = dtype.itemsize
    for dim in reversed(layout):
        strides[dim] = step
        step *= block[dim]
    return tuple(strides)


def _shifted(packed: View, lows: Mapping[int, int]) -> View:
    """The block's memory, addressed by positions in the whole."""
    return replace(packed, offset=packed.offset - sum(low * packed.strides[d] for d, low in lows.items()))


def _merge_batches(matrices: Sequence[View]) -> tuple[View, ...]:
    """Batch axes of extent 1 left out, and neighbours merged where all three matrices allow it."""
    rank = matrices[0].ndim - 2
    shape = matrices[0].shape[:rank]
    groups = merged_strides(shape, [matrix.strides[:rank] for matrix in matrices])
    merged: list[View] = []
    for matrix in matrices:
        extents = tuple(math.prod(shape[a] for a in group) for group in groups)
        strides = tuple(matrix.strides[group[-1]] for group in groups)
        merged.append(
            replace(
                matrix, shape=(*extents, *matrix.shape[rank:]), strides=(*strides, *matrix.strides[rank:])
            )
        )
    return tuple(merged)
