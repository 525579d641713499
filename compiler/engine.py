"""Attaches the numpy engine to a context without loading it: passes that ask for it pay for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from xdsl.dialects.func import FuncOp
    from xdsl.ir import Operation

    from mlopt.ir.context import CompilerContext, Entered, Evaluated, ScratchNeed, Target


def attach_engine(ctx: CompilerContext) -> None:
    """Set the context's evaluators and target to the numpy engine's, loaded when first used."""

    def evaluator(op: Operation, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        from mlopt.interpreter.graph import evaluate

        return evaluate(op, operands, ctx.weights)

    def function_evaluator(
        function: FuncOp,
        inputs: Mapping[str, np.ndarray],
        *,
        entered: Entered | None = None,
        evaluated: Evaluated | None = None,
    ) -> Mapping[str, np.ndarray]:
        from mlopt.interpreter.graph import evaluate_function

        return evaluate_function(function, inputs, ctx.weights, entered=entered, evaluated=evaluated)

    ctx.evaluator = evaluator
    ctx.function_evaluator = function_evaluator
    ctx.target = _LazyNumpyTarget()


class _LazyNumpyTarget:
    """The numpy engine's `Target`, made when first asked."""

    def __init__(self) -> None:
        self._loaded: Target | None = None

    @property
    def _target(self) -> Target:
        loaded = self._loaded
        if loaded is None:
            from mlopt.interpreter.target import NumpyTarget

            loaded = self._loaded = NumpyTarget()
        return loaded

    @property
    def name(self) -> str:
        """The target's name."""
        return self._target.name

    @property
    def alignment(self) -> int:
        """Bytes; every planned offset is a multiple of it."""
        return self._target.alignment

    def scratch_need(self, func: FuncOp) -> ScratchNeed:
        """How much scratch the engine needs to execute this memref-level function."""
        return self._target.scratch_need(func)

    def scratch_bound(self, launch: Operation) -> int:
        """No less than the `minimum` of the function that a `kernel.launch` becomes, without lowering it."""
        return self._target.scratch_bound(launch)
