"""What the functions of a module compute, at any level, by the evaluator of that level.

- graph and kernel: the reference evaluations; intermediates are dropped after their last use.
- memref: the numpy engine, with poison, so that a read of bytes that nothing has written shows. Buffers that have no
  place in an arena yet get one for the evaluation, so that it needs no more memory than the model will.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp

from mlopt.compilation import is_planned, level_of
from mlopt.diagnostics import InputError, MloptError
from mlopt.interpreter.graph import evaluate_function as evaluate_graph
from mlopt.interpreter.kernel import evaluate_function as evaluate_kernel
from mlopt.interpreter.memref import Executable
from mlopt.interpreter.target import NumpyTarget
from mlopt.ir.context import CompilerContext, Entered
from mlopt.ir.locations import place_of_op
from mlopt.passes.memref.assign_buffers import AssignBuffersPass
from mlopt.passes.memref.plan_workspaces import PlanWorkspacesPass
from mlopt.passes.pipelines import Level
from mlopt.running import fresh_inputs
from mlopt.save import used_weights
from mlopt.weights import WeightStore

Array = np.ndarray[Any, np.dtype[Any]]


def functions_of(module: ModuleOp) -> list[FuncOp]:
    """The functions that are evaluated: all that have a body; at the memref level `@main`, which calls the others."""
    functions = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    if level(module) != "memref":
        return functions
    return [func for func in functions if func.sym_name.data == "main"]


def level(module: ModuleOp) -> Level:
    """The level of a module, which need not have a `@main`."""
    try:
        return level_of(module)
    except InputError:
        return "graph"


def require_evaluable(module: ModuleOp, weights: WeightStore) -> None:
    """`InputError` that names what stands in the way of an evaluation: an unknown operation, an absent weight."""
    for op in module.walk():
        if isinstance(op, UnregisteredOp):
            raise InputError(f"operation '{op.op_name.data}' is not known", place=place_of_op(op))
    missing = [name for name in used_weights(module) if name not in weights]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise InputError(f'there is no weight "{missing[0]}"{more}', place=place_of_op(module))
    if not functions_of(module):
        expected = "a function @main" if level(module) == "memref" else "a function with a body"
        raise InputError(f"expected {expected}, found none", place=place_of_op(module))


@dataclass
class Evaluator:
    """Evaluates the functions of a module; what the engine needs for that is made once, when first asked for.

    Without `reuse`, buffers that have no place in an arena get memory of their own.
    """

    module: ModuleOp
    weights: WeightStore
    reuse: bool = True

    def run(
        self,
        function: str,
        inputs: Mapping[str, Array],
        *,
        disturb: Callable[[Array], Array] | None = None,
        entered: Entered | None = None,
    ) -> dict[str, Array]:
        """The outputs of a function by name, for its inputs by name, in order.

        `disturb`, if given, is applied to every result of an operation, and `entered` is told of each block that is
        evaluated, but not at the memref level. Raises what the
        evaluators raise; `LookupError` if the function is not there.
        """
        match self.level:
            case "graph":
                return evaluate_graph(
                    self._function(function), inputs, self.weights, disturb=disturb, entered=entered
                )
            case "kernel":
                return evaluate_kernel(
                    self._function(function), inputs, self.weights, disturb=disturb, entered=entered
                )
            case "memref":
                executable = self._executable
                names = [spec.name for spec in executable.inputs]
                if {*names} != {*inputs} and len(names) == len(inputs):
                    # Arguments without a name have got one on their way down; their order is what it was.
                    inputs = dict(zip(names, inputs.values(), strict=True))
                out = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in executable.outputs}
                return executable.run(fresh_inputs(executable, inputs), out)

    @cached_property
    def level(self) -> Level:
        """The level of the module."""
        return level(self.module)

    @cached_property
    def _functions(self) -> dict[str, FuncOp]:
        return {func.sym_name.data: func for func in functions_of(self.module)}

    def _function(self, name: str) -> FuncOp:
        if name not in self._functions:
            raise LookupError(f"there is no function '@{name}'")
        return self._functions[name]

    @cached_property
    def _executable(self) -> Executable:
        self._function("main")
        module = self.module
        if self.reuse and not is_planned(module):
            module = _planned(module)
        return Executable(module, self.weights, poison=is_planned(module))


def _planned(module: ModuleOp) -> ModuleOp:
    """A copy with its buffers and workspaces placed in an arena; as it is, if that fails."""
    copy, ctx = module.clone(), CompilerContext(target=NumpyTarget())
    try:
        PlanWorkspacesPass().run(ctx, copy)
        AssignBuffersPass(nodes=0).run(ctx, copy)
    except MloptError:
        return module
    return copy
