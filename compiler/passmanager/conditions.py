"""Conditions that a pass requires or ensures."""

from __future__ import annotations

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation

from mlopt.diagnostics import MloptError, VerifyFailure
from mlopt.ir.locations import place_of_op
from mlopt.passmanager.base import Condition


def no_ops_of(*dialects: str) -> Condition:
    """The condition that no operation of these dialects is left; its error names the first, with its place."""
    prefixes = tuple(f"{dialect}." for dialect in dialects)
    allowed: set[type[Operation]] = set()

    def condition(root: Operation) -> MloptError | None:
        for op in root.walk():
            if type(op) in allowed:
                continue
            is_registered = not isinstance(op, UnregisteredOp)
            name = op.name if is_registered else op.op_name.data
            if not name.startswith(prefixes):
                if is_registered:  # others are all of one class
                    allowed.add(type(op))
            else:
                return VerifyFailure(
                    f"expected no operation of dialect '{name.partition('.')[0]}' to be left, found '{name}'",
                    place=place_of_op(op),
                )
        return None

    return condition


GRAPH_LEVEL: tuple[Condition, ...] = (no_ops_of("kernel"),)
"""What passes of the graph level require: nothing of the module is at the kernel level yet."""
