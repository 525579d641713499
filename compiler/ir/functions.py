"""Finding the functions of a module."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp


def find_main(module: ModuleOp) -> FuncOp | None:
    """The function `@main`, which holds the model; None if there is none."""
    return next((op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "main"), None)
