"""Contractions as matrix products: blocks of factors packed where they must be, then `np.matmul`.

For a convolution packing is im2col, padding included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from mlopt.interpreter.elementwise import Kernel
from mlopt.interpreter.expressions import Expr, Read
from mlopt.interpreter.factors import Factor, Factors, Groups
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.plan import PlanBuilder, Repeats
from mlopt.interpreter.products import emit_product
from mlopt.interpreter.scratch import SCARCE, Scratch
from mlopt.interpreter.views import Region, View, merged_strides
from mlopt.interpreter.ways import Way, Ways


class MatrixProduct:
    """`out += left * right` in blocks; with `fill`, `out` holds that number everywhere and is not read.

    `out` has one axis per dimension of the iteration space, with stride 0 along those that are summed.
    """

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
        self._builder = builder
        self._scratch = scratch
        self._binding = binding
        self._extents = out.shape
        self._out = out
        self._fill = fill
        self._factors = Factors(binding, left, right, out, accumulates=fill is None)
        self._dtype = self._factors.dtype
        self._ways = Ways(self._factors)
        way, self._room = self._ways.only, 0
        if way is None:
            factors = (self._factors.left, self._factors.right)
            room, slab_room = (
                max(min(SCARCE, scratch.room), scratch.room - max(temporaries))
                for temporaries in (
                    [self._temporaries(factor) for factor in factors],
                    [self._temporaries(factor) if factor.slab is None else 0 for factor in factors],
                )
            )
            way = self._ways.choose(room, slab_room)
            self._room = slab_room if way.slabs else room
        self._way = way

    @property
    def cost(self) -> float:
        """Nanoseconds that it takes, roughly."""
        return self._ways.cost(self._way)

    @property
    def least_cost(self) -> float:
        """Nanoseconds that it would take in one block, with every factor packed by one plain copy."""
        return self._ways.least_cost

    @property
    def fits(self) -> bool:
        """Whether there is enough scratch."""
        return self._ways.need(self._way) <= self._room

    @property
    def is_one_block(self) -> bool:
        """Whether nothing is cut."""
        return all(extent == self._way.block[d] for d, extent in enumerate(self._extents))

    def run(self) -> None:
        """Emit all blocks."""
        way = self._way
        stored = way.stored(way.block)
        left, right = (
            self._packing_kernel(factor, stored)
            if factor.packed and not (way.slabs and factor.slab is not None)
            else None
            for factor in (self._factors.left, self._factors.right)
        )
        with self._scratch.frame():
            packed_left = self._place(self._factors.left, way, stored)
            packed_right = self._place(self._factors.right, way, stored)
            tile = self._tile(way, stored)
            rows = self._boxes(self._factors.roles.row, way.block)
            columns = self._boxes(self._factors.roles.column, way.block)
            pieces = self._boxes(self._factors.inner, way.block)
            repeats = Repeats(self._builder.memory)
            for batch in self._boxes(self._factors.roles.batch, way.block):
                for (position, row), (number, piece) in product(enumerate(rows), enumerate(pieces)):
                    if packed_left is not None:
                        self._pack(left, packed_left, self._factors.left, {**batch, **row, **piece}, way)
                    for column in columns:
                        fresh = position == 0 or len(columns) > 1 or len(pieces) > 1
                        box = {**batch, **column, **piece}
                        if packed_right is not None and fresh:
                            self._pack(right, packed_right, self._factors.right, box, way)
                        fill = self._fill if number == 0 else None
                        part = {**box, **row}
                        kind = (tuple((d, extent) for d, (_, extent) in part.items()), fill is None)
                        multiply = partial(self._multiply, part, packed_left, packed_right, tile, way, fill)
                        repeats.emit(kind, multiply)

    def _boxes(self, dims: Sequence[int], block: Mapping[int, int]) -> list[dict[int, tuple[int, int]]]:
        """First position and extent per dimension, for every block."""
        starts = [range(0, self._extents[d], block[d]) for d in dims]
        return [
            {d: (low, min(block[d], self._extents[d] - low)) for d, low in zip(dims, lows, strict=True)}
            for lows in product(*starts)
        ]

    def _temporaries(self, factor: Factor) -> int:
        """Bytes that packing a factor needs beside the block; none for reads, which are copied."""
        if not factor.packed or isinstance(factor.expr, Read):
            return 0
        kernel = self._packing_kernel(factor, dict(enumerate(self._extents)))
        return kernel.registers(kernel.choose_tile(lambda nbytes: nbytes <= 0)).nbytes

    def _packing_kernel(self, factor: Factor, block: Mapping[int, int]) -> Kernel:
        """What writes blocks of at most this shape of a factor to scratch."""
        strides = _strides(factor.layout, block, self._dtype, len(self._extents))
        extents = tuple(e if d in factor.layout else 1 for d, e in enumerate(self._extents))
        target = View(Region("packed", 0), 0, extents, strides, self._dtype)
        return Kernel(
            self._builder.memory, extents, [target], [factor.expr], self._binding, blocks=[factor.layout]
        )

    def _place(self, factor: Factor, way: Way, stored: Mapping[int, int]) -> View | None:
        """Scratch for the packed blocks of a factor, and for its slab."""
        if not factor.packed:
            return None
        if factor.slab is not None and way.slabs:
            factor.slab.place(*self._scratch.take(self._ways.slab_bytes(factor.slab, way)), way.slab_block)
        region, offset = self._scratch.take(self._ways.packed_bytes(factor, stored))
        strides = _strides(factor.layout, stored, self._dtype, len(self._extents))
        return View(region, offset, self._extents, strides, self._dtype)

    def _tile(self, way: Way, stored: Mapping[int, int]) -> View | None:
        """Scratch for products that can't be written to the output."""
        if not way.tiled:
            return None
        groups = way.groups
        matrix = (
            (*groups.columns, *groups.rows) if self._is_turned(groups) else (*groups.rows, *groups.columns)
        )
        layout = (*groups.batches, *matrix)
        region, offset = self._scratch.take(self._ways.nbytes(layout, stored))
        strides = _strides(layout, stored, self._dtype, len(self._extents))
        return View(region, offset, self._extents, strides, self._dtype)

    def _is_turned(self, groups: Groups) -> bool:
        """Whether a product in scratch has its columns outside of its rows: as the factors have, or else the output.

        BLAS is slow, up to three times, where both factors lie across the product.
        """
        left = self._factors.left.runs_along(groups.rows, self._factors.inner)
        right = self._factors.right.runs_along(self._factors.inner, groups.columns)
        if left == right:
            return left
        rows, columns = (
            min((abs(self._out.strides[d]) for d in dims if self._extents[d] > 1), default=math.inf)
            for dims in (groups.rows, groups.columns)
        )
        return rows < columns

    def _pack(
        self,
        kernel: Kernel | None,
        packed: View,
        factor: Factor,
        box: Mapping[int, tuple[int, int]],
        way: Way,
    ) -> None:
        """Write one block of a factor to scratch, by a kernel or from the slab."""
        lows = {d: box[d][0] if d in box else 0 for d in factor.layout}
        shape = {d: box[d][1] if d in box else self._extents[d] for d in factor.layout}
        if kernel is None:
            assert factor.slab is not None
            window = factor.slab.emit(self._builder, lows, shape, way.ahead)
            stored = way.stored(shape)
            extents = tuple(stored.get(d, 1) for d in range(len(self._extents)))
            target, source = (
                replace(view, shape=extents).transposed(factor.layout) for view in (packed, window)
            )
            self._builder.call(np.copyto, target, source, casting="unsafe")
            return
        kernel.retarget(0, _shifted(packed, lows))
        kernel.emit(self._builder, self._scratch, kernel.box_on_axes(lows, shape))

    def _multiply(
        self,
        box: Mapping[int, tuple[int, int]],
        packed_left: View | None,
        packed_right: View | None,
        tile: View | None,
        way: Way,
        fill: object | None,
    ) -> None:
        """One block of the output, or a piece of its sums."""
        groups = way.groups
        wanted = [box[d][1] if d in box else e for d, e in enumerate(self._extents)]
        shape = way.stored(dict(enumerate(wanted)))
        left = self._block(self._factors.left.view, packed_left, box)
        right = self._block(self._factors.right.view, packed_right, box)
        out = self._block(self._out, None, box)
        target = out if tile is None else tile
        arguments = (
            self._factors.matrix(left, shape, groups.batches, groups.rows, self._factors.inner),
            self._factors.matrix(right, shape, groups.batches, self._factors.inner, groups.columns),
            self._factors.matrix(target, shape, groups.batches, groups.rows, groups.columns),
        )
        emit_product(self._builder, self._scratch, *_merge_batches(arguments))
        held, stored = _merged((*groups.batches, *groups.rows, *groups.columns), wanted, out, target)
        store_product(self._builder, held, stored, fill, is_stored=tile is None)

    def _block(self, view: View | None, packed: View | None, box: Mapping[int, tuple[int, int]]) -> View:
        if packed is not None:
            return packed
        assert view is not None
        return view.box([box[d][0] if d in box else 0 for d in range(view.ndim)], view.shape)


def store_product(
    builder: PlanBuilder, out: View, product: View, fill: object | None, *, is_stored: bool
) -> None:
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


def _merged(dims: Sequence[int], shape: Sequence[int], *views: View) -> tuple[View, ...]:
    """Views of these dimensions of a block, with as few axes as all can walk it with."""
    groups = merged_strides([shape[d] for d in dims], [[v.strides[d] for d in dims] for v in views])
    extents = tuple(math.prod(shape[dims[i]] for i in group) for group in groups)
    return tuple(
        replace(view, shape=extents, strides=tuple(view.strides[dims[group[-1]]] for group in groups))
        for view in views
    )


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


def _merge_batches(matrices: tuple[View, View, View]) -> tuple[View, View, View]:
    """Batch axes of extent 1 left out, and neighbours merged where all three matrices allow it."""
    rank = matrices[0].ndim - 2
    shape = matrices[0].shape[:rank]
    groups = merged_strides(shape, [matrix.strides[:rank] for matrix in matrices])

    def merged(matrix: View) -> View:
        extents = tuple(math.prod(shape[a] for a in group) for group in groups)
        strides = tuple(matrix.strides[group[-1]] for group in groups)
        return replace(
            matrix, shape=(*extents, *matrix.shape[rank:]), strides=(*strides, *matrix.strides[rank:])
        )

    left, right, out = matrices
    return merged(left), merged(right), merged(out)
