"""Determinants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction


class Determinant(RuntimeFunction):
    """The determinant of the matrices in the last two axes of `source`, in f64; that of an empty matrix is 1."""

    NAME = "mlopt_rt_det"
    READS = ("source",)
    WRITES = ("result",)

    def check(self) -> None:
        source, result = self.operands["source"], self.operands["result"]
        *batch, rows, columns = source.shape if len(source.shape) > 1 else (0, 1)
        self.require(source.dtype.kind in "fV", f"expected floating-point numbers, found {source}")
        self.require(rows == columns, f"expected square matrices, found {source}")
        self.require(
            result == Buffer(tuple(batch), source.dtype), f"expected {source.dtype}{batch}, found {result}"
        )

    def scratch(self) -> Sequence[Buffer]:
        """The matrices in f64."""
        return (Buffer(self.operands["source"].shape, np.dtype(np.float64)),)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (result,), (wide,) = reads, writes, scratch
        np.copyto(wide, source)
        np.copyto(result, np.linalg.det(wide), casting="unsafe")
