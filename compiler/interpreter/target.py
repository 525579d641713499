"""What passes may ask the numpy engine: alignment, and how much scratch a function needs."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlopt.diagnostics import VerifyFailure
from mlopt.dialects.kernel import LaunchOp
from mlopt.interpreter.scratch import ALIGNMENT, SCARCE, UNLIMITED
from mlopt.interpreter.scratch_bound import scratch_bound
from mlopt.interpreter.translate import Forms, measure
from mlopt.ir.context import ScratchNeed
from mlopt.ir.locations import place_of_op


class NumpyTarget:
    """The numpy engine as a `Target`. It measures with the code generator itself, so that the two always agree."""

    @property
    def name(self) -> str:
        return "numpy"

    @property
    def alignment(self) -> int:
        return ALIGNMENT

    def scratch_need(self, func: FuncOp) -> ScratchNeed:
        """Bytes that the operations of a memref-level function need beside the buffers it is given.

        Views of a workspace argument are not included. The function must stand in its module. Raises `MloptError` for
        operations that the engine can't execute.
        """
        module = func.parent_op()
        if not isinstance(module, ModuleOp):
            raise VerifyFailure(f"@{func.sym_name.data} stands in no module", place=place_of_op(func))
        forms: Forms = {}

        most = measure(module, func, UNLIMITED, forms)
        least = measure(module, func, 0, forms) if most.enough else most

        @cache
        def find_least() -> int:
            return measure(module, func, SCARCE, forms).nbytes if least.nbytes else 0

        @cache
        def nanoseconds(nbytes: int) -> float:
            if nbytes >= min(most.nbytes, most.enough):
                return most.nanoseconds
            if nbytes == least.nbytes:
                return least.nanoseconds
            return measure(module, func, nbytes, forms).nanoseconds

        return ScratchNeed(least.nbytes, most.nbytes, nanoseconds, find_least)

    def scratch_bound(self, launch: Operation) -> int:
        """No less than the `minimum` of the function that a `kernel.launch` becomes, quickly known."""
        assert isinstance(launch, LaunchOp)
        return scratch_bound(launch)
