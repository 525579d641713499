"""The largest or smallest elements along an axis, in order, by sorting integers that hold key and index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.indices import count_up

_INT64 = np.dtype(np.int64)
_LOW = np.int64(0xFFFFFFFF)
_BLOCK = 1 << 15
"""Elements that are sorted at a time."""
_FEW, _LONG = 8, 64
"""Up to so many of rows of so many floats are found one after the other, without sorting."""


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
    def _sizes(self) -> tuple[int, int, int]:
        """The sizes before, on and after the axis."""
        shape, axis = self.operands["source"].shape, self.integer("axis")
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    @property
    def _is_float(self) -> bool:
        return self.operands["source"].dtype.kind != "i"

    @property
    def _block(self) -> int:
        """How many rows along the axis are sorted at a time: about as many as stay in the caches."""
        outer, length, inner = self._sizes
        return max(1, min(_BLOCK // max(1, length), outer * inner))

    def scratch(self) -> Sequence[Buffer]:
        """Of a block of rows: keys, keys with indices, where the results come from, where rows begin; then 0, 1, 2, ...

        For keys of 64 bits also the order by their low half.
        """
        values, length, block = self.operands["values"], self._sizes[1], self._block
        keys = Buffer((block, length), np.dtype(f"i{values.dtype.itemsize}"))
        packed = Buffer(keys.shape, _INT64)
        taken = Buffer((block * values.shape[self.integer("axis")],), _INT64)
        numbers = (Buffer((block,), _INT64), Buffer((max(block, length),), _INT64))
        return (keys, packed, taken, *numbers, *((packed,) if keys.dtype == _INT64 else ()))

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (values, indices), (keys, packed, taken, starts, counts, *order) = reads, writes, scratch
        if not values.size:
            return
        outer, length, inner = self._sizes
        k = values.shape[self.integer("axis")]
        bits = source.view(keys.dtype)
        rows, found, picked = (
            array.reshape(outer, -1, inner).transpose(0, 2, 1)
            for array in (bits, indices, values.view(keys.dtype))
        )
        count_up(counts)
        for first, count, part in _blocks(outer, inner, self._block):
            block, n = rows[part], count[0] * count[1]
            self._find_keys(block, keys[:n].reshape(block.shape), packed)
            begins = starts[:n]
            if self._is_float and k <= _FEW and length >= _LONG:
                np.multiply(counts[:n], length, out=begins)
                _pick(keys[:n], packed[:n], begins, taken[:n], k)
            elif order:
                np.multiply(counts[:n], length, out=begins)
                _sort_wide(keys[:n], packed[:n], order[0][:n], counts[:length], begins[:, None], k)
            else:
                _pack(keys[:n], counts[:length], packed[:n])
                _sort_first(packed[:n], k)
                np.bitwise_and(packed[:n], _LOW, out=packed[:n])
            places = taken[: n * k].reshape(*count, k)
            np.copyto(places, packed[:n, :k].reshape(places.shape))
            np.copyto(found[part], places)
            _find_begins(counts, begins.reshape(count), length * inner, first[0] * length * inner + first[1])
            np.multiply(places, inner, out=places)
            np.add(places, begins.reshape(*count, 1), out=places)
            elements = keys.reshape(-1)[: n * k].reshape(places.shape)
            np.take(bits.reshape(-1), places, out=elements, mode="clip")
            np.copyto(picked[part], elements)

    def _find_keys(self, bits: Array, keys: Array, spare: Array) -> None:
        """Signed integers in the order of the elements with these bits as asked for; `spare` is memory to work in."""
        if self._is_float:
            _float_keys(bits, keys, spare, _infinity(self.operands["source"].dtype))
        elif self.flag("unsigned"):
            np.bitwise_xor(bits, -1 - _largest(keys), out=keys)
        else:
            np.copyto(keys, bits)
        if not self.flag("smallest"):
            np.invert(keys, out=keys)


def _blocks(
    outer: int, inner: int, most: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int], tuple[slice, slice]]]:
    """Parts of at most `most` rows of a table of `outer` by `inner` rows: its first row, its size, its slices."""
    high, wide = max(1, most // inner), min(inner, most)
    for i in range(0, outer, high):
        for j in range(0, inner, wide):
            size = (min(high, outer - i), min(wide, inner - j))
            yield (i, j), size, (slice(i, i + size[0]), slice(j, j + size[1]))


def _find_begins(counts: Array, begins: Array, step: int, first: int) -> None:
    """Where rows begin in the whole: those of one row of the table are adjacent, the next ones `step` further."""
    column = begins[:, 0]
    np.multiply(counts[: begins.shape[0]], step, out=column)
    np.add(column, first, out=column)
    np.add(column[:, None], counts[1 : begins.shape[1]], out=begins[:, 1:])


def _infinity(dtype: np.dtype[Any]) -> int:
    """The bits of a float type's infinity."""
    return int(np.array(np.inf, dtype).view(f"i{dtype.itemsize}"))


def _largest(integers: Array) -> int:
    """The largest number of a signed integer type."""
    return (1 << (8 * integers.itemsize - 1)) - 1


def _float_keys(bits: Array, keys: Array, spare: Array, infinity: int) -> None:
    """Integers in the order of the floats with these bits: magnitudes with the sign of the float, NaN last."""
    flat = spare.reshape(-1)
    signs = flat.view(bits.dtype)[: bits.size].reshape(bits.shape)
    np.right_shift(bits, 8 * bits.itemsize - 1, out=signs)  # 0 or -1
    np.bitwise_and(bits, _largest(bits), out=keys)
    np.minimum(keys, infinity + 1, out=keys)
    np.bitwise_xor(keys, signs, out=keys)
    np.subtract(keys, signs, out=keys)
    negative_nan = flat.view(np.bool_)[: bits.size].reshape(bits.shape)
    np.less(keys, -infinity, out=negative_nan)
    np.copyto(keys, infinity + 1, where=negative_nan)


def _pick(keys: Array, indices: Array, begins: Array, chosen: Array, k: int) -> None:
    """Leave the indices of the `k` least of each row, in order, in `indices`; no key is its type's largest number."""
    for i in range(k):
        np.argmin(keys, axis=1, out=chosen)
        np.copyto(indices[:, i], chosen)
        np.add(chosen, begins, out=chosen)
        keys.reshape(-1)[chosen] = _largest(keys)


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
