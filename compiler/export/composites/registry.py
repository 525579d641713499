"""The table of operators that stand for several operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation, SSAValue

from mlopt.export.builder import NONE, Attributes, Builder, Value
from mlopt.export.composites.formula import is_used_outside
from mlopt.ir.locations import node_names


class Composite(NamedTuple):
    """A group of operations, the last one first, that is one ONNX node of these operands."""

    onnx_op: str
    ops: Sequence[Operation]
    operands: Sequence[SSAValue | Value]
    attributes: Attributes = NONE


Finder: TypeAlias = Callable[[Builder, Operation], Composite | None]
"""The group that ends at an operation, if there is one."""

COMPOSITES: dict[type[Operation], list[Finder]] = {}
"""Operation class → what finds the groups that end at one; the first that finds a group is taken."""


def composite(*roots: type[Operation]) -> Callable[[Finder], Finder]:
    """Register the decorated function for groups that end at one of these operations."""

    def register(finder: Finder) -> Finder:
        for root in roots:
            COMPOSITES.setdefault(root, []).append(finder)
        return finder

    return register


def is_one_node(ops: Sequence[Operation]) -> bool:
    """Whether all of these operations come from the same node of the model, and from no other."""
    return len({tuple(node_names(op.location)) for op in ops}) == 1 and len(node_names(ops[0].location)) == 1


def export_composite(builder: Builder, op: Operation) -> bool:
    """Add the node of the group that ends at `op`; returns whether there is one.

    Nothing of the group may be used outside it but its result. Nodes of the operations inside it, which were added
    before, lead to no output then, and are left out.
    """
    for finder in COMPOSITES.get(type(op), ()):
        found = finder(builder, op)
        if found is not None and not is_used_outside(found.ops):
            builder.node(op, found.onnx_op, found.operands, found.attributes)
            return True
    return False
