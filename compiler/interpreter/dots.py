"""Contractions that are a batch of dot products: one `np.einsum` with the batch innermost.

Where one factor has neither rows nor columns of its own (a depthwise convolution's weights), every matrix product of
the batch has a single row or column, and im2col copies each element once per tap only to be read once. With the batch
(the channels) innermost in memory, `einsum` multiplies and adds whole runs of channels straight from a slab. That pays
where there are many channels and few pixels; numpy's calls per run cost more than im2col otherwise. Where neighbours in
a row of pixels are read from neighbours, with the weights written out once for each of them, a run is the whole row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from string import ascii_letters

import numpy as np

from mlopt.interpreter import costs
from mlopt.interpreter.elementwise import sorted_by_strides
from mlopt.interpreter.expressions import Expr
from mlopt.interpreter.factors import varying_dims
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.matrix_product import store_product
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.scratch import Scratch, aligned
from mlopt.interpreter.slabs import Slab, copied_read
from mlopt.interpreter.views import View, row_major
from mlopt.ir.dtypes import to_numpy_dtype

_KINDS = (np.dtype(np.float32), np.dtype(np.float64))


class Dots:
    """`out += data * weights`, where all three have the dimension `batch`, and the weights no other one of the output.

    Made by `Dots.of`, which also cuts it into blocks that fit the scratch. With `fill`, `out` holds that number
    everywhere and is not read. With `rows`, a run has all of the innermost other dimension of the output.
    """

    def __init__(
        self,
        builder: PlanBuilder,
        scratch: Scratch,
        out: View,
        fill: object | None,
        batch: int,
        weights: View,
        slab: Slab,
        *,
        rows: bool = False,
    ):
        self._builder = builder
        self._scratch = scratch
        self._out = out
        self._fill = fill
        self._batch = batch
        self._slab = slab
        self._extents = out.shape
        kept = [d for d, s in enumerate(out.strides) if s and out.shape[d] > 1]
        self._outer = tuple(sorted_by_strides((d for d in kept if d != batch), out))
        self._inner = tuple(d for d, e in enumerate(out.shape) if e > 1 and d not in kept)
        self._weights = weights
        self._run = (self._outer[-1], batch) if rows else (batch,)
        is_other = weights.dtype != out.dtype or weights.strides[batch] != weights.itemsize
        self._packs_weights = rows or is_other
        self._tiled = fill is None or out.strides[batch] != out.itemsize
        self._block = self._choose_block()

    @staticmethod
    def of(
        builder: PlanBuilder,
        scratch: Scratch,
        binding: Binding,
        left: Expr,
        right: Expr,
        out: View,
        fill: object | None,
    ) -> Dots | None:
        """The contraction as dot products if it is one and the scratch holds a block, else None."""
        if out.dtype not in _KINDS:
            return None
        in_left, in_right = varying_dims(left, out.shape), varying_dims(right, out.shape)
        kept = {d for d, s in enumerate(out.strides) if s and out.shape[d] > 1}
        data, weights = (left, right) if kept <= in_left else (right, left)
        shared = in_left & in_right & kept
        read, factors = copied_read(data), copied_read(weights)
        if read is None or factors is None or factors.bounds:
            return None
        if len(shared) != 1 or not kept <= varying_dims(data, out.shape):
            return None
        (batch,) = shared
        if len(kept) == 1 or varying_dims(weights, out.shape) & kept != shared:
            return None
        if any(to_numpy_dtype(expr.type) != out.dtype for expr in (data, weights)):
            return None
        axes = [a for a, linear in enumerate(read.index) if batch in linear.dims]
        if len(axes) != 1 or read.index[axes[0]].coefficients[batch] != 1:
            return None
        order = [a for a in range(len(read.index)) if a not in axes] + axes
        slab = Slab.of(data, binding, out.shape, order)
        if slab is None:
            return None
        in_place = binding.source(factors).over(factors.index, out.shape)
        dots = Dots(builder, scratch, out, fill, batch, in_place, slab)
        ways = [dots]
        if dots._has_rows:
            ways.append(Dots(builder, scratch, out, fill, batch, in_place, slab, rows=True))
        fitting = [way for way in ways if scratch.fits(way._need(way._block))]
        return min(fitting, key=lambda way: way.cost, default=None)

    @property
    def _has_rows(self) -> bool:
        """Whether the innermost other dimension and the batch are one run, in the slab and in what is written."""
        if not self._outer:
            return False
        pixel = self._extents[self._batch] * self._out.itemsize
        written = pixel if self._tiled else self._out.strides[self._outer[-1]]
        return self._slab.strides(self._block)[self._outer[-1]] == written == pixel

    # Blocks

    def _need(self, block: Mapping[int, int]) -> int:
        """Bytes of scratch for one block."""
        total = self._slab.nbytes(block)
        if self._packs_weights:
            total += self._bytes((*self._inner, *self._run), block)
        if self._tiled:
            total += self._bytes((*self._outer, self._batch), block)
        return total

    def _bytes(self, dims: Sequence[int], block: Mapping[int, int]) -> int:
        return aligned(self._out.itemsize * math.prod(block[d] for d in dims))

    def _choose_block(self) -> dict[int, int]:
        """Extents per dimension: outer ones are cut until a block fits."""
        block = dict(enumerate(self._extents))
        for dim in self._outer:
            parts = 1
            while block[dim] > 1 and not self._scratch.fits(self._need(block)):
                parts *= 2
                block[dim] = -(-self._extents[dim] // parts)
        return block

    @property
    def cost(self) -> float:
        """Nanoseconds that it takes, roughly."""
        blocks = math.prod(-(-self._extents[d] // self._block[d]) for d in self._outer)
        channels = self._extents[self._batch]
        length = math.prod(self._block[d] for d in self._run)
        products = math.prod(self._extents[d] for d in (*self._outer, *self._inner)) * channels
        points = math.prod(self._extents[d] for d in (*self._outer, self._batch))
        total = blocks * (costs.EINSUM + costs.turn(math.prod(self._slab.shape(self._block))))
        total += products / length * costs.einsum_run(length)
        if self._packs_weights:
            elements = length * math.prod(self._extents[d] for d in self._inner)
            is_along = self._weights.strides[self._batch] == self._weights.itemsize
            total += costs.copy(elements, channels) if is_along else costs.turn(elements)
        if self._tiled:
            total += blocks * costs.CALL + costs.turn(points)
        return total

    # Emission

    def run(self) -> None:
        """Emit all blocks."""
        block = self._block
        with self._scratch.frame():
            self._slab.place(*self._scratch.take(self._slab.nbytes(block)), block)
            weights = self._place_weights()
            tile = self._array((*self._outer, self._batch), block) if self._tiled else None
            starts = [range(0, self._extents[d], block[d]) for d in self._outer]
            for lows in product(*starts):
                self._emit(dict(zip(self._outer, lows, strict=True)), weights, tile)

    def _array(self, dims: Sequence[int], block: Mapping[int, int]) -> View:
        """Scratch with the dimensions in this order, as a view with an axis per dimension."""
        region, offset = self._scratch.take(self._bytes(dims, block))
        steps = dict(zip(dims, row_major([block[d] for d in dims], self._out.itemsize), strict=True))
        strides = tuple(steps.get(d, 0) for d in range(self._out.ndim))
        return View(region, offset, self._extents, strides, self._out.dtype)

    def _place_weights(self) -> View:
        """The weights with the batch innermost, once for each pixel of a run."""
        if not self._packs_weights:
            return self._weights
        dims = (*self._inner, *self._run)
        packed = self._array(dims, self._block)
        extents = tuple(self._block.values())
        target, source = (replace(v, shape=extents).transposed(dims) for v in (packed, self._weights))
        self._builder.call(np.copyto, target, source)
        return packed

    def _emit(self, lows: Mapping[int, int], weights: View, tile: View | None) -> None:
        """The block at `lows`."""
        shape = {d: min(self._block[d], self._extents[d] - low) for d, low in lows.items()}
        extents = tuple(shape.get(d, e) for d, e in enumerate(self._extents))
        data = self._slab.emit(self._builder, lows, shape)
        held = self._out.box([lows.get(d, 0) for d in range(self._out.ndim)], extents)
        target = held if tile is None else tile
        kept = (*self._outer, self._batch)
        dims = ((*kept, *self._inner), (*self._inner, *self._run), kept)
        operands = [
            self._with_runs(replace(view, shape=extents), order)
            for view, order in zip((data, weights, target), dims, strict=True)
        ]
        row = self._run[:-1]
        dims = tuple(tuple(d for d in order if d not in row) for order in dims)
        names = ["".join(ascii_letters[d] for d in part) for part in dims]
        equation = f"{names[0]},{names[1]}->{names[2]}"
        self._builder.call(np.einsum, equation, operands[0], operands[1], out=operands[2])
        stored = replace(target, shape=extents).transposed(kept)
        store_product(self._builder, held.transposed(kept), stored, self._fill, is_stored=tile is None)

    def _with_runs(self, view: View, dims: Sequence[int]) -> View:
        """The view with the axes `dims`, those of a run as one, in place of the batch."""
        row = self._run[:-1]
        pixels = math.prod(view.shape[d] for d in row)
        kept = [d for d in dims if d not in row]
        shape = tuple(view.shape[d] * (pixels if d == self._batch else 1) for d in kept)
        return replace(view.transposed(kept), shape=shape)
