"""The largest or smallest elements along an axis, in order, by sorting integers that hold key and index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.indices import count_up

_INT64 = np.dtype(np.int64)
_LOW = np.int64(0xFFFFFFFF)


class TopK(RuntimeFunction):
    """The `k` largest elements along `axis`, largest first, and their indices, where `k` is the results' size there.

    `smallest`: the smallest, smallest first. Of equal elements the one of lower index is first. NaN is larger than
    every number, all NaN are equal, and so are 0 and -0. `unsigned`: how integers are meant.
    """

    NAME = "mlopt_rt_top_k"
    READS = ("source",)
    WRITES = ("values", "indices")
    PARAMETERS: ClassVar[Mapping[str, type]] = {"axis": int, "smallest": bool, "unsigned": bool}

    def check(self) -> None:
        source, values, indices = self.operands.values()
        axis, rank = self.integer("axis"), len(source.shape)
        self.require(0 <= axis < rank, f"there is no axis {axis} in {source}")
        is_number = source.dtype.kind == "i" or (source.dtype.kind in "fV" and source.dtype.itemsize > 1)
        self.require(is_number, f"expected numbers, found {source}")
        self.require(source.shape[axis] < 1 << 31, f"axis {axis} of {source} is too long")
        k = values.shape[axis] if len(values.shape) == rank else -1
        expected = Buffer((*source.shape[:axis], k, *source.shape[axis + 1 :]), source.dtype)
        self.require(
            values == expected and 0 <= k <= source.shape[axis],
            f"expected at most {source.shape[axis]} of the elements of {source} on axis {axis}, found {values}",
        )
        self.require(
            indices == Buffer(values.shape, _INT64), f"expected int64{list(values.shape)}, found {indices}"
        )

    @property
    def _rows(self) -> tuple[int, int]:
        """How many rows along the axis there are, and their length."""
        shape, axis = self.operands["source"].shape, self.integer("axis")
        return prod(shape[:axis]) * prod(shape[axis + 1 :]), shape[axis]

    def scratch(self) -> Sequence[Buffer]:
        """Keys; keys with their indices; where values come from; counts, and multiples of them; the order so far."""
        source, values = self.operands["source"], self.operands["values"]
        bits = np.dtype(f"i{source.dtype.itemsize}")
        counts = Buffer((max(*self._rows, source.size // max(1, self._rows[1])),), _INT64)
        order = (Buffer(self._rows, _INT64),) if bits.itemsize == 8 else ()
        rows = (Buffer(self._rows, bits), Buffer(self._rows, _INT64))
        return (*rows, Buffer(values.shape, _INT64), counts, counts, *order)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (values, indices) = reads, writes
        keys, packed, positions, counts, multiples, *order = scratch
        axis = self.integer("axis")
        if not values.size:
            return
        k, length, inner = values.shape[axis], source.shape[axis], prod(source.shape[axis + 1 :])
        self._find_keys(source, keys, packed)
        count_up(counts)
        if order:
            starts = multiples[: keys.shape[0]]
            np.multiply(counts[: starts.size], length, out=starts)
            _sort_wide(keys, packed, order[0], counts[:length], starts[:, None], k)
        else:
            _pack(keys, counts[:length], packed)
            _sort_first(packed, k)
            np.bitwise_and(packed, _LOW, out=packed)
        rest = (*source.shape[:axis], *source.shape[axis + 1 :])
        np.copyto(np.moveaxis(indices, axis, -1), packed[:, :k].reshape(*rest, k))
        flat = positions.reshape(-1, k, inner)
        starts = multiples[: flat.shape[0]]
        np.multiply(counts[: starts.size], length * inner, out=starts)
        np.multiply(indices.reshape(flat.shape), inner, out=flat)
        np.add(flat, counts[:inner], out=flat)
        np.add(flat, starts[:, None, None], out=flat)
        np.take(source.reshape(-1), positions, out=values, mode="clip")

    def _find_keys(self, source: Array, keys: Array, spare: Array) -> None:
        """Signed integers that are in the order of the elements asked for; `spare` is memory to work in."""
        rows = np.moveaxis(source.view(keys.dtype), self.integer("axis"), -1)
        shaped = keys.reshape(rows.shape)
        if source.dtype.kind != "i":
            _float_keys(rows, shaped, spare, _infinity(source.dtype))
        elif self.flag("unsigned"):
            np.bitwise_xor(rows, np.iinfo(keys.dtype).min, out=shaped)
        else:
            np.copyto(shaped, rows)
        if not self.flag("smallest"):
            np.invert(keys, out=keys)


def _infinity(dtype: np.dtype[Any]) -> int:
    """The bits of a float type's infinity."""
    return int(np.array(np.inf, dtype).view(f"i{dtype.itemsize}"))


def _float_keys(bits: Array, keys: Array, spare: Array, infinity: int) -> None:
    """Integers in the order of the floats with these bits: magnitudes with the sign of the float, NaN last."""
    flat = spare.reshape(-1)
    signs = flat.view(bits.dtype)[: bits.size].reshape(bits.shape)
    np.right_shift(bits, 8 * bits.itemsize - 1, out=signs)  # 0 or -1
    np.bitwise_and(bits, np.iinfo(bits.dtype).max, out=keys)
    np.minimum(keys, infinity + 1, out=keys)
    np.bitwise_xor(keys, signs, out=keys)
    np.subtract(keys, signs, out=keys)
    negative_nan = flat.view(np.bool_)[: bits.size].reshape(bits.shape)
    np.less(keys, -infinity, out=negative_nan)
    np.copyto(keys, infinity + 1, where=negative_nan)


def _pack(keys: Array, counts: Array, packed: Array) -> None:
    """Keys of at most 32 bits above their index in the row: no two are equal, and their order is that of both."""
    np.copyto(packed, keys)
    np.left_shift(packed, 32, out=packed)
    np.bitwise_or(packed, counts, out=packed)


def _sort_first(packed: Array, k: int) -> None:
    """The `k` least of each row in order, at its beginning."""
    if k < packed.shape[1]:
        packed.partition(k - 1, axis=1)
    packed[:, :k].sort(axis=1)


def _sort_wide(keys: Array, packed: Array, order: Array, counts: Array, starts: Array, k: int) -> None:
    """Leave the indices of the `k` least of keys of 64 bits in `packed`: by their low half, then by the high one.

    `starts` says where each row begins.
    """
    np.bitwise_and(keys, _LOW, out=order)
    np.subtract(order, 1 << 31, out=order)  # the low half is unsigned
    _pack(order, counts, packed)
    packed.sort(axis=1)
    np.bitwise_and(packed, _LOW, out=order)
    np.add(order, starts, out=order)
    np.take(keys.reshape(-1), order, out=packed, mode="clip")
    np.right_shift(packed, 32, out=keys)
    _pack(keys, counts, packed)
    _sort_first(packed, k)
    np.bitwise_and(packed, _LOW, out=packed)
    np.add(packed, starts, out=packed)
    np.take(order.reshape(-1), packed, out=keys, mode="clip")
    np.subtract(keys, starts, out=packed)
