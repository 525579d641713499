"""The context of a compilation with every dialect that mlopt knows, each loaded when it is first met."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.ir import Dialect

from mlopt.ir.context import CompilerContext

DIALECTS: dict[str, str] = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "func": "xdsl.dialects.func:Func",
    "arith": "mlopt.dialects.arith:Arith",
    "math": "xdsl.dialects.math:Math",
    "memref": "xdsl.dialects.memref:MemRef",
    "linalg": "xdsl.dialects.linalg:Linalg",
    "scf": "xdsl.dialects.scf:Scf",
    "tensor": "xdsl.dialects.tensor:Tensor",
    "cf": "xdsl.dialects.cf:Cf",
    "complex": "xdsl.dialects.complex:Complex",
    "graph": "mlopt.dialects.graph.dialect:Graph",
    "kernel": "mlopt.dialects.kernel:Kernel",
    "mlopt": "mlopt.dialects.mlopt:Mlopt",
}
"""Dialect name → `module:object` of its `Dialect`."""


def make_context(*, allow_unregistered: bool = False) -> CompilerContext:
    """A new context. No dialect's file is imported before one of its operations or attributes is used."""
    context = CompilerContext(allow_unregistered=allow_unregistered)
    for name, source in DIALECTS.items():
        context.register_dialect(name, _loader(source))
    context.load_registered_dialect("builtin")
    return context


def _loader(source: str) -> Callable[[], Dialect]:
    def load() -> Dialect:
        module, _, attribute = source.partition(":")
        dialect = getattr(import_module(module), attribute)
        assert isinstance(dialect, Dialect)
        return dialect

    return load
