"""Sums and products up to each element along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from mlopt.interpreter.runtime.base import Array, Buffer, RuntimeFunction

_WIDE = 256
"""From how many adjacent elements on whole slices are added: `accumulate` goes along the axis element by element."""

_OPERATIONS: Mapping[str, np.ufunc] = {"add": np.add, "mul": np.multiply}


class Scan(RuntimeFunction):
    """Each element of `result` is the sum (`operation` is `add`) or product (`mul`) of those up to it on `axis`.

    `exclusive`: without the element itself, so that the first is 0 or 1. `reverse`: from the last element on to the
    first. Floats narrower than 32 bits are accumulated in f32 and rounded at each element; integers wrap.
    """

    NAME = "mlopt_rt_scan"
    READS = ("source",)
    WRITES = ("result",)
    PARAMETERS: ClassVar[Mapping[str, type]] = {
        "axis": int,
        "operation": str,
        "exclusive": bool,
        "reverse": bool,
    }

    def check(self) -> None:
        source, result = self.operands["source"], self.operands["result"]
        axis, operation = self.integer("axis"), self.text("operation")
        self.require(operation in _OPERATIONS, f"there is no operation '{operation}'")
        self.require(source == result, f"expected a result like the source {source}, found {result}")
        self.require(source.dtype.kind != "b", f"the source holds numbers, found {source}")
        self.require(0 <= axis < len(source.shape), f"there is no axis {axis} in {source}")

    def scratch(self) -> Sequence[Buffer]:
        """A narrow source, and its result, in f32."""
        source = self.operands["source"]
        return (Buffer(source.shape, np.dtype(np.float32)),) * 2 if _is_narrow(source.dtype) else ()

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (result,) = reads, writes
        if not scratch:
            self._accumulate(source, result)
            return
        wide, sums = scratch
        np.copyto(wide, source)
        self._accumulate(wide, sums)
        np.copyto(result, sums, casting="unsafe")

    def _accumulate(self, source: Array, result: Array) -> None:
        operation = _OPERATIONS[self.text("operation")]
        source, result = (np.moveaxis(array, self.integer("axis"), 0) for array in (source, result))
        if self.flag("reverse"):
            source, result = source[::-1], result[::-1]
        if self.flag("exclusive"):
            result[:1] = operation.identity
            source, result = source[:-1], result[1:]
        if not result.size:
            return
        if prod(self.operands["source"].shape[self.integer("axis") + 1 :]) < _WIDE:
            operation.accumulate(source, axis=0, dtype=result.dtype, out=result)
            return
        np.copyto(result[0], source[0])
        for i in range(1, len(source)):
            operation(result[i - 1], source[i], out=result[i])


def _is_narrow(dtype: np.dtype[np.generic]) -> bool:
    """Whether it is f16 or bf16. (bf16 is of numpy's kind V.)"""
    return dtype.kind in "fV" and dtype.itemsize < 4
