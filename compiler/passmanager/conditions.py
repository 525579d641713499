"""Conditions that a pass requires or ensures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation

from mlopt.diagnostics import MloptError, VerifyFailure
from mlopt.ir.locations import place_of_op
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


def _at_graph_level() -> Condition:
    first = _first_of(("kernel", "linalg", "memref"))

    def condition(root: Operation) -> MloptError | None:
        if (found := first(root)) is None:
            return None
        op, name = found
        return VerifyFailure(
            f"expected a module at the graph level, found '{name}': a pass of that level stands before "
            "'convert-graph-to-kernel', and before O0 to O3, which contain it",
            place=place_of_op(op),
        )

    return condition


def _first_of(dialects: Sequence[str]) -> Callable[[Operation], tuple[Operation, str] | None]:
    """The search for the first operation of one of some dialects: it and its name, or None."""
    prefixes = tuple(f"{dialect}." for dialect in dialects)
    others: set[type[Operation]] = set()

    def first(root: Operation) -> tuple[Operation, str] | None:
        for op in root.walk():
            if type(op) in others:
                continue
            is_registered = not isinstance(op, UnregisteredOp)
            name = op.name if is_registered else op.op_name.data
            if name.startswith(prefixes):
                return op, name
            if is_registered:  # those that are not are all of one class
                others.add(type(op))
        return None

    return first


GRAPH_LEVEL: tuple[Condition, ...] = (_at_graph_level(),)
"""What passes of the graph level require: nothing of the module is at the kernel or memref level yet."""
