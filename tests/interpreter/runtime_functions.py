"""A run-time function for tests of the mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.interpreter.runtime import Buffer, RuntimeFunction
from mlopt.interpreter.runtime.base import Array


class Reversed(RuntimeFunction):
    """`target` becomes `source` from back to front, times `factor`; an error if `source` begins with 0."""

    NAME = "mlopt_rt_reversed"
    READS = ("source",)
    WRITES = ("target",)
    PARAMETERS: ClassVar[Mapping[str, type]] = {"factor": int, "negative": bool}

    def check(self) -> None:
        source, target = self.operands.values()
        self.require(source == target, f"expected operands of one type, found {source} and {target}")

    def scratch(self) -> Sequence[Buffer]:
        return (self.operands["source"],)

    def run(self, reads: Sequence[Array], writes: Sequence[Array], scratch: Sequence[Array]) -> None:
        (source,), (target,), (temporary,) = reads, writes, scratch
        if not source.flat[0]:
            raise RunError("the first element is 0")
        factor = self.integer("factor") * (-1 if self.flag("negative") else 1)
        np.multiply(source, source.dtype.type(factor), out=temporary)
        np.copyto(target, temporary[::-1])
