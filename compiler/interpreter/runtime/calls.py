"""Calls of run-time functions in a plan: scratch from the workspace, and copies of operands that are not contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from mlopt.diagnostics import Place, RunError, VerifyFailure
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.runtime.base import Array, RuntimeFunction
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import View, may_overlap


class BoundFunction:
    """A run-time function as one callable of the operands' arrays, then those of scratch; its errors have a place."""

    __slots__ = ("_function", "_place", "_reads", "_writes")

    def __init__(self, function: RuntimeFunction, place: Place | None):
        self._function = function
        self._place = place
        self._reads = len(function.READS)
        self._writes = self._reads + len(function.WRITES)

    def __call__(self, *arrays: Array) -> None:
        try:
            self._function.run(
                arrays[: self._reads], arrays[self._reads : self._writes], arrays[self._writes :]
            )
        except RunError as error:
            raise RunError(error.message, place=self._place) from None


def emit_call(
    builder: PlanBuilder, scratch: Scratch, function: RuntimeFunction, views: Sequence[View], place: Place
) -> None:
    """Append a call with one view per operand; strided ones are copied to scratch, and back if they are written.

    `VerifyFailure` if an operand that is written shares memory with another one.
    """
    written = range(len(function.READS), len(views))
    for i, j in combinations(range(len(views)), 2):
        if j in written and views[i].region is views[j].region and may_overlap(views[i], views[j]):
            raise VerifyFailure(
                f"operand {j} of @{function.NAME} is written, but shares memory with operand {i}", place=place
            )
    with scratch.frame():
        operands = [view if view.is_contiguous else scratch.array(view.shape, view.dtype) for view in views]
        copied = [
            i for i, (view, operand) in enumerate(zip(views, operands, strict=True)) if view is not operand
        ]
        temporaries = [scratch.array(buffer.shape, buffer.dtype) for buffer in function.scratch()]
        for i in copied:
            builder.call(np.copyto, operands[i], views[i])
        builder.call(BoundFunction(function, place), *operands, *temporaries)
        for i in copied:
            if i in written:
                builder.call(np.copyto, views[i], operands[i])
