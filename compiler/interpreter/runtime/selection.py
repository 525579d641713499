"""Positions of what is not zero, and sizes that must agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction

NUMBER = Buffer((), np.dtype(np.int64))
"""A single i64."""

BLOCK = 1024
"""Elements looked at together: what is allocated for them does not grow with the operands."""


class NonZero(RuntimeFunction):
    """The coordinates of the elements that are not zero, one column each, in row-major order, and their number.

    `indices` has a row per axis of `source` and a column per element; columns that are not needed are zero.
    """

    NAME = "mlopt_rt_nonzero"
    READS = ("source",)
    WRITES = ("indices", "count")

    def check(self) -> None:
        source, indices, count = self.operands.values()
        expected = Buffer((len(source.shape), source.size), np.dtype(np.int64))
        self.require(indices == expected, f"expected {expected} for the indices of {source}, found {indices}")
        self.require(count == NUMBER, f"expected {NUMBER} for the count, found {count}")

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (indices, count) = reads, writes
        flat, found = source.reshape(-1), 0
        indices.fill(0)
        for start in range(0, flat.size, BLOCK):
            found += _append_positions(flat[start : start + BLOCK], start, indices[:, found:])
        count[...] = found
        coordinates = indices[:, :found]
        for axis in range(source.ndim - 1, 0, -1):
            np.remainder(coordinates[0], source.shape[axis], out=coordinates[axis])
            np.floor_divide(coordinates[0], source.shape[axis], out=coordinates[0])


def _append_positions(part: Array, start: int, indices: Array) -> int:
    """Write where a part that begins at `start` is not zero; how many there are. No two parts' lists live at a time."""
    positions = np.flatnonzero(part)
    if len(indices):
        np.add(positions, start, out=indices[0, : positions.size])
    return positions.size


class RequireEqual(RuntimeFunction):
    """The number `lhs`; an error unless `rhs` is the same. For sizes that depend on data."""

    NAME = "mlopt_rt_require_equal"
    READS = ("lhs", "rhs")
    WRITES = ("result",)

    def check(self) -> None:
        for name, operand in self.operands.items():
            self.require(operand == NUMBER, f"expected {NUMBER} for {name}, found {operand}")

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (lhs, rhs), (result,) = reads, writes
        if lhs != rhs:
            raise RunError(f"expected equal sizes, found {lhs} and {rhs}")
        np.copyto(result, lhs)
