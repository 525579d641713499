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

    def condition(root: Operation) -> MloptError | None:
        for op in root.walk():
            name = op.op_name.data if isinstance(op, UnregisteredOp) else op.name
            if name.startswith(prefixes):
                return VerifyFailure(
                    f"expected no operation of dialect '{name.partition('.')[0]}' to be left, found '{name}'",
                    place=place_of_op(op),
                )
        return None

    return condition
