"""What the functions of a module compute, at any level, by the evaluator of that level.

- graph and kernel: the reference evaluations; intermediates are dropped after their last use.
- memref: the numpy engine, with poison, so that a read of bytes that nothing has written shows. Buffers that have no
  place in an arena yet get one for the evaluation, so that it needs no more memory than the model will.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.dialects.func import FuncOp

from mlopt.compilation import is_planned, level_of
from mlopt.diagnostics import InputError, MloptError
from mlopt.interpreter.graph import evaluate_function as evaluate_graph
from mlopt.interpreter.kernel import evaluate_function as evaluate_kernel
from mlopt.interpreter.memref import Executable
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import place_of_op
from mlopt.passes.memref.assign_buffers import AssignBuffersPass
from mlopt.passes.pipelines import Level
from mlopt.save import used_weights
from mlopt.weights import WeightStore

Array = np.ndarray[Any, np.dtype[Any]]

Outputs = dict[str, dict[str, Array]]
"""Function → output → array."""

Inputs = Mapping[str, Mapping[str, Array]]
"""Function → input → array."""


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


def evaluate(module: ModuleOp, inputs: Inputs, weights: WeightStore, *, reuse: bool = True) -> Outputs:
    """The outputs of each function that `inputs` names. Raises what the evaluators raise.

    Without `reuse`, buffers that have no place in an arena get memory of their own.
    """
    match level(module):
        case "graph":
            return {
                func.sym_name.data: evaluate_graph(func, inputs[func.sym_name.data], weights)
                for func in functions_of(module)
                if func.sym_name.data in inputs
            }
        case "kernel":
            return {
                func.sym_name.data: evaluate_kernel(func, inputs[func.sym_name.data], weights)
                for func in functions_of(module)
                if func.sym_name.data in inputs
            }
        case "memref":
            planned = is_planned(module)
            if reuse and not planned:
                module = _planned(module)
                planned = is_planned(module)
            executable = Executable(module, weights, poison=planned)
            out = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in executable.outputs}
            return {"main": executable.run(inputs["main"], out)} if "main" in inputs else {}


def _planned(module: ModuleOp) -> ModuleOp:
    """A copy with its buffers placed in an arena; as it is, if that fails."""
    copy = module.clone()
    try:
        AssignBuffersPass(nodes=0).run(CompilerContext(), copy)
    except MloptError:
        return module
    return copy
