"""Conditions that a pass requires or ensures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation

from mlopt.diagnostics import MloptError, VerifyFailure
from mlopt.ir.functions import kinds_of_operations
from mlopt.ir.locations import place_of_op
from mlopt.ir.verifier import op_name
from mlopt.passmanager.base import Condition


def no_ops_of(*dialects: str) -> Condition:
    """The condition that no operation of these dialects is left; its error names the first, with its place."""
    first = _first_of(dialects)

    def condition(root: Operation) -> MloptError | None:
        if (found := first(root)) is None:
            return None
        op, name = found
        return VerifyFailure(
            f"expected no operation of dialect '{name.partition('.')[0]}' to be left, found '{name}'",
            place=place_of_op(op),
        )

    return condition


def _at_level(level: str, others: Mapping[str, str]) -> Condition:
    """The condition that no operation of `others` is there: dialects of other levels, each with what to do then."""
    first = _first_of(tuple(others))

    def condition(root: Operation) -> MloptError | None:
        if (found := first(root)) is None:
            return None
        op, name = found
        return VerifyFailure(
            f"expected a module at the {level} level, found '{name}': {others[name.partition('.')[0]]}",
            place=place_of_op(op),
        )

    return condition


def _first_of(dialects: Sequence[str]) -> Callable[[Operation], tuple[Operation, str] | None]:
    """The search for the first operation of one of some dialects: it and its name, or None."""
    prefixes = tuple(f"{dialect}." for dialect in dialects)
    others: set[type[Operation]] = set()

    def first(root: Operation) -> tuple[Operation, str] | None:
        kinds = kinds_of_operations(root) - others
        unregistered = {
            kind for kind in kinds if issubclass(kind, UnregisteredOp)
        }  # which have names of their own
        if not unregistered and not any(kind.name.startswith(prefixes) for kind in kinds):
            others.update(kinds)
            return None
        for op in root.walk():
            name = op_name(op)
            if name.startswith(prefixes):
                return op, name
        return None

    return first


_TOO_LATE_FOR_GRAPH = (
    "a pass of that level stands before 'convert-graph-to-kernel', and before O0 to O3, which contain it"
)
_TOO_LATE_FOR_KERNEL = "a pass of that level stands before 'convert-kernel-to-memref'"
_TOO_EARLY_FOR_KERNEL = "a pass of that level stands behind 'convert-graph-to-kernel'"
_TOO_EARLY_FOR_MEMREF = "a pass of that level stands behind 'convert-kernel-to-memref'"

GRAPH_LEVEL: tuple[Condition, ...] = (
    _at_level("graph", dict.fromkeys(("kernel", "linalg", "memref"), _TOO_LATE_FOR_GRAPH)),
)
"""What passes of the graph level require: nothing of the module is at the kernel or memref level yet."""

KERNEL_LEVEL: tuple[Condition, ...] = (
    _at_level(
        "kernel",
        {
            "graph": _TOO_EARLY_FOR_KERNEL,
            "linalg": _TOO_LATE_FOR_KERNEL,
            "memref": _TOO_LATE_FOR_KERNEL,
        },
    ),
)
"""What passes of the kernel level require, and ensure: nothing is at the graph level any more, or at memref's yet."""

ABOVE_MEMREF: tuple[Condition, ...] = (
    _at_level("graph or kernel", dict.fromkeys(("linalg", "memref"), "there is no way back up")),
)
"""What the conversion to kernels requires: nothing of the module is at the memref level yet."""

BELOW_GRAPH: tuple[Condition, ...] = (_at_level("kernel", {"graph": _TOO_EARLY_FOR_KERNEL}),)
"""What the conversion to buffers requires, which leaves a module that is at the memref level already as it is."""

MEMREF_LEVEL: tuple[Condition, ...] = (
    _at_level("memref", dict.fromkeys(("graph", "kernel", "tensor"), _TOO_EARLY_FOR_MEMREF)),
)
"""What passes of the memref level require, and ensure: all tensors are buffers."""
