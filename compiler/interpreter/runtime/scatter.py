"""Scatters: updates written, or combined, into a tensor at indices that are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.indices import check_indices, copy_indices, count_up

_INT64 = np.dtype(np.int64)

_COMBINE: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""Reduction → how an element and an update become the new element; `none` just writes."""

_BLOCK = 1 << 15
"""Updates whose places are computed at a time."""

_LONG_ROW = 16
"""From how many elements on rows are combined one after the other, rather than columns by `ufunc.at`."""


class _Scatter(RuntimeFunction):
    """What the two scatters share."""

    READS = ("indices", "updates")
    WRITES = ("data",)

    def check(self) -> None:
        data, indices, updates = (self.operands[name] for name in ("data", "indices", "updates"))
        reduction = self.text("reduction")
        self.require(indices.dtype.kind == "i", f"indices are integers, found {indices}")
        self.require(updates.dtype == data.dtype, f"expected updates of {data.dtype}, found {updates}")
        self.require(reduction in ("none", *_COMBINE), f"there is no reduction '{reduction}'")

    def _write(self, data: Array, rows: Array, updates: Array) -> None:
        """Write or combine `updates[i]` into `data[rows[i]]`, in the order of `i`."""
        reduction, width = self.text("reduction"), data.shape[1]
        if self.flag("unsigned"):
            data, updates = data.view(f"u{data.itemsize}"), updates.view(f"u{data.itemsize}")
        if reduction == "none":
            if width == 1:
                data, updates = data.reshape(-1), updates.reshape(-1)
            data[rows] = updates
        elif width < _LONG_ROW:
            for column in range(width):
                _COMBINE[reduction].at(data[:, column], rows, updates[:, column])
        else:
            for row, update in zip(rows.tolist(), updates, strict=True):
                _COMBINE[reduction](data[row], update, out=data[row])


class ScatterElements(_Scatter):
    """`data[..., indices[p], ...] = updates[p]` for every position `p` of `indices`, with the index on `axis`.

    `indices` and `updates` have one shape, of the rank of `data` and on no other axis larger. Indices below 0 count
    from the end. `reduction` is `none` (of several updates of an element the last one stays), or `add`, `mul`, `max`
    or `min` of the element and the update, in order; NaN stays NaN. `unsigned`: how `max` and `min` mean integers. An
    index out of bounds is an error, and nothing is written then.
    """

    NAME = "mlopt_rt_scatter_elements"
    PARAMETERS: ClassVar[Mapping[str, type]] = {"axis": int, "reduction": str, "unsigned": bool}

    def check(self) -> None:
        super().check()
        data, indices, updates = (self.operands[name].shape for name in ("data", "indices", "updates"))
        axis = self.integer("axis")
        self.require(0 <= axis < len(data), f"there is no axis {axis} in data of shape {list(data)}")
        fits = len(indices) == len(data) and all(
            n <= size for d, (n, size) in enumerate(zip(indices, data, strict=True)) if d != axis
        )
        self.require(
            fits and indices == updates,
            f"expected indices and updates of one shape within data of shape {list(data)}, found {list(indices)} and "
            f"{list(updates)}",
        )

    @property
    def _split(self) -> tuple[int, int, int]:
        """The axis that indices are taken along part by part, the length of a part, and the elements of one step."""
        shape = self.operands["indices"].shape
        axis = next((d for d, size in enumerate(shape) if size > 1), 0)
        step = prod(shape[axis + 1 :])
        return axis, min(shape[axis], max(1, _BLOCK // max(1, step))), step

    def scratch(self) -> Sequence[Buffer]:
        """Where each update of a part goes; 0, 1, 2, ... for its longest axis, and multiples of these."""
        axis, length, step = self._split
        longest = Buffer((max((length, *self.operands["indices"].shape[axis + 1 :])),), _INT64)
        return (Buffer((length * step,), _INT64), longest, longest)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (indices, updates), (data,), (positions, counts, multiples) = reads, writes, scratch
        axis, (split, length, _) = self.integer("axis"), self._split
        wraps = check_indices(indices, data.shape[axis], axis)
        if not indices.size:
            return
        count_up(counts)
        steps = [prod(data.shape[d + 1 :]) for d in range(data.ndim)]
        for start in range(0, indices.shape[split], length):
            part = (slice(None),) * split + (slice(start, start + length),)
            shape = indices[part].shape
            places = positions[: prod(shape)].reshape(shape)
            copy_indices(indices[part], data.shape[axis], wraps, places)
            np.multiply(places, steps[axis], out=places)
            for d, size in enumerate(shape):
                if d != axis and indices.shape[d] > 1:
                    along = multiples[:size]
                    np.multiply(counts[:size], steps[d], out=along)
                    np.add(along, start * steps[d] if d == split else 0, out=along)
                    np.add(places, along.reshape(-1, *[1] * (data.ndim - d - 1)), out=places)
            self._write(data.reshape(-1, 1), places.reshape(-1), updates[part].reshape(-1, 1))


class ScatterNd(_Scatter):
    """`data[tuple(indices[q])] = updates[q]` for every position `q` on all axes of `indices` but the last.

    The last axis of `indices`, of length `r`, holds indices into the first `r` axes of `data`, those below 0 counted
    from the end; an update is a tensor of the other axes. `reduction`, `unsigned` and indices out of bounds are as
    for `mlopt_rt_scatter_elements`.
    """

    NAME = "mlopt_rt_scatter_nd"
    PARAMETERS: ClassVar[Mapping[str, type]] = {"reduction": str, "unsigned": bool}

    def check(self) -> None:
        super().check()
        data, indices, updates = (self.operands[name].shape for name in ("data", "indices", "updates"))
        depth = indices[-1] if indices else -1
        self.require(
            0 <= depth <= len(data) and updates == (*indices[:-1], *data[depth:]),
            f"updates of shape {list(updates)} and indices of shape {list(indices)} do not fit data of shape "
            f"{list(data)}",
        )

    def scratch(self) -> Sequence[Buffer]:
        """Where each of so many updates goes; one coordinate of these places."""
        *tuples, _ = self.operands["indices"].shape
        return (Buffer((min(_BLOCK, prod(tuples)),), _INT64),) * 2

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (indices, updates), (data,), (rows, index) = reads, writes, scratch
        depth, width = indices.shape[-1], prod(data.shape[indices.shape[-1] :])
        wraps = [check_indices(indices[..., axis], data.shape[axis], axis) for axis in range(depth)]
        count = prod(indices.shape[:-1])
        if not count or not width:
            return
        indices, updates = indices.reshape(count, depth), updates.reshape(count, width)
        for start in range(0, count, rows.size):
            part = slice(start, start + rows.size)
            places, coordinate = (array[: len(indices[part])] for array in (rows, index))
            places.fill(0)
            for axis in range(depth):
                copy_indices(indices[part, axis], data.shape[axis], wraps[axis], coordinate)
                np.multiply(places, data.shape[axis], out=places)
                np.add(places, coordinate, out=places)
            self._write(data.reshape(-1, width), places, updates[part])


def _counted(indices: Array, count: Array) -> slice:
    """The part of the indices that counts; `RunError` for a number that is no size of them."""
    number = int(count)
    if not 0 <= number <= len(indices):
        raise RunError(f"expected a count from 0 to {len(indices)}, found {number}")
    return slice(number)


class CountedScatterElements(ScatterElements):
    """As `mlopt_rt_scatter_elements`, of the first `count` slices of `indices` and `updates` along their first axis."""

    NAME = "mlopt_rt_scatter_elements_counted"
    READS = ("indices", "updates", "count")

    def check(self) -> None:
        super().check()
        self.require(self.operands["count"] == Buffer((), _INT64), "expected an int64 number for the count")

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        indices, updates, count = reads
        part = _counted(indices, count)
        super().run((indices[part], updates[part]), writes, scratch)


class CountedScatterNd(ScatterNd):
    """As `mlopt_rt_scatter_nd`, of the first `count` slices of `indices` and `updates` along their first axis."""

    NAME = "mlopt_rt_scatter_nd_counted"
    READS = ("indices", "updates", "count")

    def check(self) -> None:
        super().check()
        self.require(self.operands["count"] == Buffer((), _INT64), "expected an int64 number for the count")
        self.require(len(self.operands["indices"].shape) > 1, "expected several updates")

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        indices, updates, count = reads
        part = _counted(indices, count)
        super().run((indices[part], updates[part]), writes, scratch)
