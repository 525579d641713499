"""The distinct elements or slices of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.selection import BLOCK, NUMBER

_INT64 = np.dtype(np.int64)


class Unique(RuntimeFunction):
    """The distinct slices along `axis` in ascending order, where each first occurs, which one stands where, how many.

    With `flat` the operand is a vector, and `axis` is 0. Slices are compared element by element in row-major order;
    NaN is one value, larger than all others, and -0 is 0. `in_order`: in the order of their first occurrence.
    `unsigned`: how integers are meant. `values`, `indices` and `counts` are zero behind the `count` of distinct
    slices; `inverse` has the number of the distinct slice for each slice of the operand.
    """

    NAME = "mlopt_rt_unique"
    READS = ("source",)
    WRITES = ("values", "indices", "inverse", "counts", "count")
    PARAMETERS: ClassVar[Mapping[str, type]] = {"axis": int, "flat": bool, "in_order": bool, "unsigned": bool}

    def check(self) -> None:
        source, values, *numbers, count = self.operands.values()
        axis, shape = self.integer("axis"), self._shape
        self.require(0 <= axis < len(shape), f"there is no axis {axis} in {source}")
        expected = Buffer(shape, source.dtype)
        self.require(values == expected, f"expected {expected} for the values, found {values}")
        positions = Buffer((shape[axis],), _INT64)
        self.require(all(n == positions for n in numbers), f"expected {positions} for the positions")
        self.require(count == NUMBER, f"expected {NUMBER} for the count, found {count}")

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape that `axis` is an axis of."""
        source = self.operands["source"]
        return (source.size,) if self.flag("flat") else source.shape

    @property
    def _keys(self) -> np.dtype[Any]:
        """The type in which elements are compared: f32 for those that numpy does not sort as they are."""
        dtype = self.operands["source"].dtype
        if dtype.kind == "i" and self.flag("unsigned"):
            return np.dtype(f"u{dtype.itemsize}")
        return dtype if dtype.kind in "ib" or dtype.itemsize > 2 else np.dtype(np.float32)

    def scratch(self) -> Sequence[Buffer]:
        """Elements in a type that is sorted, twice; their ranks, twice; positions, twice."""
        elements, slices = prod(self._shape), Buffer((self._shape[self.integer("axis")],), _INT64)
        keys = Buffer((elements,), self._keys)
        return (keys, keys, Buffer((elements,), _INT64), Buffer((elements,), _INT64), slices, slices)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        values, indices, inverse, counts, count = writes
        keys, ordered, ranks, ordered_ranks, first, spare = scratch
        axis, shape = self.integer("axis"), self._shape
        source = np.moveaxis(reads[0].reshape(shape), axis, 0)
        size = shape[axis]
        np.copyto(keys.reshape(source.shape), source.view(keys.dtype) if keys.dtype.kind == "u" else source)
        for array in (values, indices, counts):
            array.fill(0)
        if prod(shape) == size:
            found = _distinct(keys, ordered)
            _describe(keys, ordered[:found], inverse, indices, counts)
        else:
            # A slice is the ranks of its elements, which as bytes, the highest first, have the order of the slices.
            width = prod(shape) // max(1, size)
            _place(keys, ordered[: _distinct(keys, ordered)], ranks)
            rows, sorted_rows = (
                _as_bytes(array, size, width) for array in (ranks.byteswap(inplace=True), ordered_ranks)
            )
            found = _distinct(rows, sorted_rows)
            _describe(rows, sorted_rows[:found], inverse, indices, counts)
        if self.flag("in_order"):
            _reorder(inverse, indices[:found], counts[:found], first, spare)
        count[...] = found
        _take(source, indices[:found], np.moveaxis(values.reshape(shape), axis, 0))


def _blocks(size: int, width: int = 8) -> Iterator[slice]:
    """Parts of `size` elements of `width` bytes that are looked at together; of wide ones it is one at a time."""
    step = max(1, 8 * BLOCK // width)
    return (slice(start, min(size, start + step)) for start in range(0, size, step))


def _as_bytes(array: Array, size: int, width: int) -> Array:
    """The rows of a matrix of 64-bit numbers, each as one string of bytes; all equal if there is nothing in them."""
    if not width:
        return np.zeros(size, "S1")
    return array.reshape(size, width).view(f"S{8 * width}").reshape(size)


def _distinct(keys: Array, out: Array) -> int:
    """Sort the keys into `out`, and move one of each to its beginning; how many there are."""
    np.copyto(out, keys)
    out.sort()
    found = 0
    for block in _blocks(out.size, out.itemsize):
        part = out[block].copy()
        new = np.empty(part.size, np.bool_)
        new[1:] = part[1:] != part[:-1]
        new[0] = found == 0 or part[0] != out[found - 1]
        if part.dtype.kind == "f" and np.isnan(part[-1]):
            new[1:] &= ~np.isnan(part[:-1])
            new[0] &= found == 0 or not np.isnan(out[found - 1])
        kept = part[new]
        out[found : found + kept.size] = kept
        found += kept.size
    return found


def _place(keys: Array, distinct: Array, out: Array) -> None:
    """Which of the sorted distinct keys stands at each place."""
    for block in _blocks(keys.size, keys.itemsize):
        out[block] = np.searchsorted(distinct, keys[block])


def _describe(keys: Array, distinct: Array, inverse: Array, indices: Array, counts: Array) -> None:
    """Where the keys are among the distinct ones, where each of these first occurs, and how often."""
    _place(keys, distinct, inverse)
    indices[: distinct.size] = keys.size
    for block in _blocks(keys.size):
        np.add.at(counts, inverse[block], 1)
        places = np.arange(block.start, block.stop, dtype=np.int64)
        np.minimum.at(indices, inverse[block], places)


def _reorder(inverse: Array, indices: Array, counts: Array, first: Array, spare: Array) -> None:
    """Number the distinct keys by their first occurrence instead of their order."""
    found = indices.size
    first, new = first[:found], spare[:found]
    np.copyto(first, indices)
    first.sort()
    _place(indices, first, new)
    for block in _blocks(inverse.size):
        inverse[block] = new[inverse[block]]
    np.copyto(indices, counts)
    counts[new] = indices
    np.copyto(indices, first)


def _take(source: Array, indices: Array, out: Array) -> None:
    """Copy the slices at these positions along the first axis to the beginning of `out`."""
    if source.ndim == 1:
        for block in _blocks(indices.size):
            out[block] = source[indices[block]]
        return
    for position in range(indices.size):
        np.copyto(out[position], source[indices[position]])
