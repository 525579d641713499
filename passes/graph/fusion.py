"""Groups of operations that become one by meaning: the frame that every `fuse-*` pass of the graph level fills in.

A `Fusion` says which group ends at an operation, and what it becomes. This module sees to what is the same for all:
nothing of the group may be used outside it, the result keeps its type, each rewrite is counted and reported, and so is
each near miss.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mlopt.dialects.graph.base import FLOAT, Elements, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.locations import fuse_locations, nodes_text
from mlopt.ir.rewriting import pattern_name, rewrite_greedily
from mlopt.passes.graph.constants import constant_value


class Group(NamedTuple):
    """A group that may be fused.

    - `ops`: what the new operations stand for, the last one first; all of it goes.
    - `build`: makes the new operations; the only result of the last one takes the place of that of `ops[0]`.
    - `into`: what they are, for the remark: `'gelu'`.
    """

    ops: Sequence[Operation]
    build: Callable[[], Sequence[Operation]]
    into: str


class Miss(NamedTuple):
    """Why something that nearly is a group is none: `the sum is not over the last axis`."""

    reason: str


@dataclass
class Fusion(RewritePattern):
    """One kind of group. `statistic` counts what was fused, as in `gelus-fused`.

    `roots` are the kinds of operations that a group may end at, `elements` those that their results have; others are
    not looked at. None: any. Formulas hold for floats; integers wrap and truncate.
    """

    ctx: CompilerContext
    pass_name: str

    statistic: ClassVar[str]
    roots: ClassVar[tuple[type[Operation], ...] | None] = None
    elements: ClassVar[Elements | None] = FLOAT

    @abstractmethod
    def match(self, op: Operation) -> Group | Miss | None:
        """The group whose last operation is `op`; why there is nearly one; None if there is nothing like it."""

    def checked(self, op: Operation) -> Group | Miss | None:
        """`match` of the right elements, and a miss if the group is used outside it, or is not in one block."""
        if self.elements is not None and not _are(self.elements, op):
            return None
        group = self.match(op)
        if isinstance(group, Group):
            if (use := use_outside(group.ops)) is not None:
                return Miss(use)
            for member in group.ops:
                if member.parent is not op.parent:
                    return Miss(f"{described(member)} is in another block")
        return group

    def __post_init__(self) -> None:
        self.misses: dict[Operation, Miss] = {}
        """What `checked` said when an operation was looked at last, where that was a miss."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        group = self.checked(op)
        if isinstance(group, Miss):
            self.misses[op] = group
        else:
            self.misses.pop(op, None)
        if not isinstance(group, Group):
            return
        new = group.build()
        if [result.type for result in new[-1].results] != [result.type for result in op.results]:
            raise AssertionError(f"{self.pass_name}: {new[-1]} does not have the type of {op}")
        names = ", ".join(f"'{name_of_kind(member)}'" for member in reversed(group.ops))
        location = fuse_locations([member.location for member in group.ops])
        rewriter.replace(op, new)
        for member in group.ops[1:]:
            if all(result.first_use is None for result in member.results):  # else the new operation takes it
                rewriter.erase(member)
        self.ctx.count(self.pass_name, self.statistic)
        facts = {"op": op.name, "into": group.into, "ops": len(group.ops)}
        self.ctx.remark(self.pass_name, "passed", f"fused {names} into {group.into}", location, args=facts)


def fuse(ctx: CompilerContext, root: Operation, fusions: Sequence[Fusion]) -> bool:
    """Fuse every group inside `root`, then report the near misses; returns whether anything changed."""
    changed = rewrite_greedily(root, fusions, ctx=ctx).changed
    # The last sweep over the operations has changed nothing: what it found still holds.
    missing = [fusion for fusion in fusions if fusion.misses]
    for op in root.walk() if missing else ():
        for fusion in missing:
            if (miss := fusion.misses.get(op)) is not None:
                what = f"not fused: {miss.reason}"
                ctx.remark(fusion.pass_name, "missed", what, op, pattern=pattern_name(fusion))
    return changed


def _are(elements: Elements, op: Operation) -> bool:
    return all(elements.accepts(tensor_type(result.type).element_type) for result in op.results)


def use_outside(ops: Sequence[Operation]) -> str | None:
    """Which result of a group is used outside it, other than those of `ops[0]`; None if there is none."""
    group = set(ops)
    for op in ops[1:]:
        for result in op.results:
            for use in result.uses:
                if use.operation not in group:
                    return f"the result of {described(op)} is also {_use_text(use.operation)}"
    return None


def _use_text(user: Operation) -> str:
    return "a graph output" if isinstance(user, ReturnOp) else f"used by {described(user)}"


def described(op: Operation) -> str:
    """An operation as remarks name it: its kind, and the node it comes from if that is known."""
    return f"'{name_of_kind(op)}'{nodes_text(op.location)}"


def name_of_kind(op: Operation) -> str:
    """The operation's name without its dialect: `matmul`."""
    return op.name.partition(".")[2]


def either_way(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The two operands of a commutative operation, in both orders."""
    lhs, rhs = op.operands
    yield lhs, rhs
    yield rhs, lhs


def uniform_value(value: SSAValue, ctx: CompilerContext) -> float | None:
    """The number that every element of a constant is; None if it is no constant, is empty, or has others too."""
    array = constant_value(value, ctx)
    if array is None or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if bool(np.all(array == first)) else None


def is_number(value: SSAValue, number: float, ctx: CompilerContext) -> bool:
    """Whether every element of a constant is `number`, to one unit in the last place of its type."""
    array = constant_value(value, ctx)
    if array is None or array.size == 0:
        return False
    if array.dtype.kind in "biu":
        return bool(np.all(array == number))
    unit = abs(number) * unit_of(array.dtype)
    return bool(np.all(np.abs(array.astype(np.float64) - number) <= unit))


def unit_of(dtype: np.dtype) -> float:
    """One unit in the last place of the number 1 of a floating-point type."""
    return float(cast(Any, ml_dtypes.finfo(dtype)).eps)
