"""The functions `@mlopt_rt_*`: algorithms without structured form, for `kernel.call` and the memref level.

`base` says what a run-time function is, `declarations` reads calls and declarations in the IR, `calls` makes steps of a
plan, `table` holds all functions and is loaded when one is met. One file per family holds the functions;
`docs/run-time-functions.md` lists them, and `python -m mlopt.interpreter.runtime` prints it.
"""

from mlopt.interpreter.runtime.base import PREFIX, Buffer, RuntimeFunction
from mlopt.interpreter.runtime.calls import BoundFunction, emit_call
from mlopt.interpreter.runtime.declarations import WORKSPACE, called_function, declared_function

__all__ = [
    "PREFIX",
    "WORKSPACE",
    "BoundFunction",
    "Buffer",
    "RuntimeFunction",
    "called_function",
    "declared_function",
    "emit_call",
]
