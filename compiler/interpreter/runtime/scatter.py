"""Scatters: updates written, or combined, into a tensor at indices that are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.indices import count_up, resolve_indices

_INT64 = np.dtype(np.int64)

_COMBINE: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""Reduction → how an element and an update become the new element; `none` just writes."""

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

    def scratch(self) -> Sequence[Buffer]:
        """Where each update goes; 0, 1, 2, ... for the longest axis, and multiples of these."""
        shape = self.operands["indices"].shape
        longest = Buffer((max(shape),), _INT64)
        return (Buffer(shape, _INT64), longest, longest)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (indices, updates), (data,), (positions, counts, multiples) = reads, writes, scratch
        if not indices.size:
            return
        axis = self.integer("axis")
        resolve_indices(indices, data.shape[axis], axis, positions)
        np.multiply(positions, prod(data.shape[axis + 1 :]), out=positions)
        count_up(counts)
        for d, length in enumerate(indices.shape):
            if d != axis and length > 1:
                along = multiples[:length]
                np.multiply(counts[:length], prod(data.shape[d + 1 :]), out=along)
                np.add(positions, along.reshape(-1, *[1] * (data.ndim - d - 1)), out=positions)
        self._write(data.reshape(-1, 1), positions.reshape(-1), updates.reshape(-1, 1))


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
        """Where each update goes; one coordinate of these places."""
        *tuples, _ = self.operands["indices"].shape
        return (Buffer((prod(tuples),), _INT64),) * 2

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (indices, updates), (data,), (rows, index) = reads, writes, scratch
        depth = indices.shape[-1]
        indices = indices.reshape(rows.size, depth)
        rows.fill(0)
        for axis in range(depth):
            resolve_indices(indices[:, axis], data.shape[axis], axis, index)
            np.multiply(rows, data.shape[axis], out=rows)
            np.add(rows, index, out=rows)
        width = prod(data.shape[depth:])
        if width and rows.size:
            self._write(data.reshape(-1, width), rows, updates.reshape(-1, width))


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
        (indices, updates, count), (positions, *others) = reads, scratch
        part = _counted(indices, count)
        super().run((indices[part], updates[part]), writes, (positions[part], *others))


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
        tuples = prod(indices[part].shape[:-1])
        super().run((indices[part], updates[part]), writes, [array[:tuples] for array in scratch])
