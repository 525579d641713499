"""Which functions of a memref-level module may still allocate: what passes that plan memory ensure."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlopt.diagnostics import MloptError, VerifyFailure
from mlopt.ir.functions import kinds_of_operations
from mlopt.ir.locations import place_of_op
from mlopt.passmanager import Condition

_ALLOCATIONS: frozenset[type[Operation]] = frozenset((memref.AllocOp, memref.AllocaOp))


def no_allocation_but_in(*functions: str) -> Condition:
    """The condition that only these functions allocate; its error names the first of the others that does."""

    def condition(root: Operation) -> MloptError | None:
        if _ALLOCATIONS.isdisjoint(kinds_of_operations(root)):
            return None
        for function in root.walk():
            if not isinstance(function, FuncOp) or function.sym_name.data in functions:
                continue
            for op in function.walk():
                if type(op) in _ALLOCATIONS:
                    return VerifyFailure(
                        f"expected no allocation to be left in '@{function.sym_name.data}', found '{op.name}'",
                        place=place_of_op(op),
                    )
        return None

    return condition
