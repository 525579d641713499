"""The functions `@mlopt_rt_*`: algorithms without structured form, for `kernel.call` and the memref level.

`base` says what a run-time function is, `table` holds them all, `declarations` reads calls and declarations in the IR,
`calls` makes steps of a plan. One file per family holds the functions; `docs/run-time-functions.md` lists them, and
`python -m mlopt.interpreter.runtime` prints it.
"""

from mlopt.interpreter.runtime.base import PREFIX, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.calls import BoundFunction, emit_call
from mlopt.interpreter.runtime.declarations import WORKSPACE, called_function, declared_function
from mlopt.interpreter.runtime.table import FUNCTIONS, RUNTIME_FUNCTIONS

__all__ = [
    "FUNCTIONS",
    "PREFIX",
    "RUNTIME_FUNCTIONS",
    "WORKSPACE",
    "BoundFunction",
    "Buffer",
    "RuntimeFunction",
    "called_function",
    "declared_function",
    "emit_call",
]
