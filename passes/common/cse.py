"""`cse`: compute once what is computed twice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import LocationAttr, UnregisteredOp
from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface

from mlopt.diagnostics import Diagnostic, Severity
from mlopt.ir.context import CompilerContext
from mlopt.ir.dominance import dominator_children
from mlopt.ir.effects import effects_of
from mlopt.ir.locations import fuse_locations, place_of_op
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import may_rewrite
from mlopt.passmanager.base import Pass


class CSEPass(Pass):
    """Replace an operation by an equal one that dominates it.

    Two operations are equal if name, operands, result types, attributes (bit for bit: +0.0 is not -0.0) and regions
    are. Operations without effects are merged; so are reads, if nothing between them in their block may write.
    Never merged: whatever writes, allocates or frees memory (`tensor.empty` too: each may become a buffer of its own),
    symbols, terminators, and operations of unknown effects. The one that stays has the locations of both.
    """

    name = "cse"
    anchor = None
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = {
        "merge-equal": "An operation is replaced by an equal one before it."
    }

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        driver = _Driver(ctx)
        for region in op.regions:
            driver.run(region)
        ctx.count(self.name, "ops-merged", driver.merged)
        return driver.merged > 0


@dataclass
class _Scope:
    """Known operations by what makes them equal. Looked up in the enclosing scopes too."""

    parent: _Scope | None = None
    known: dict[Hashable, Operation] = field(default_factory=dict[Hashable, Operation])

    def find(self, key: Hashable) -> Operation | None:
        scope: _Scope | None = self
        while scope is not None:
            if key in scope.known:
                return scope.known[key]
            scope = scope.parent
        return None


class _Driver:
    def __init__(self, ctx: CompilerContext) -> None:
        self.ctx = ctx
        self.merged = 0

    def run(self, region: Region) -> None:
        self._region(region, None)

    def _region(self, region: Region, outer: _Scope | None) -> None:
        """Visit the blocks of a region along its dominator tree, each with a scope inside its dominator's."""
        entry = region.blocks.first
        if entry is None:
            return
        children = dominator_children(region)
        stack: list[tuple[Block, _Scope]] = [(entry, _Scope(outer))]
        while stack:
            block, scope = stack.pop()
            self._block(block, scope)
            stack.extend((child, _Scope(scope)) for child in reversed(children[block]))

    def _block(self, block: Block, scope: _Scope) -> None:
        reads: dict[Hashable, Operation] = {}
        same: dict[Operation, list[LocationAttr]] = {}
        for op in block.ops:
            inside = None if op.has_trait(IsolatedFromAbove, value_if_unregistered=True) else scope
            for region in op.regions:
                self._region(region, inside)
            effects = effects_of(op)
            if effects.changes_memory:
                reads.clear()
                continue
            if effects.allocates or effects.stops or not op.results:
                continue
            if op.has_trait(IsTerminator) or op.has_trait(SymbolOpInterface):
                continue
            key = _Key(op)
            existing = reads.get(key) if effects.reads else scope.find(key)
            if existing is None:
                (reads if effects.reads else scope.known)[key] = op
                continue
            if not may_rewrite("merge-equal", op):
                continue
            self._remark(op, existing)
            _replace(op, existing)
            same.setdefault(existing, []).append(op.location)
            block.erase_op(op)
            self.merged += 1
        for existing, locations in same.items():
            existing.location = fuse_locations([existing.location, *locations])

    def _remark(self, op: Operation, existing: Operation) -> None:
        first = Diagnostic(Severity.NOTE, "this one", place_of_op(existing))
        notes = () if first.place == place_of_op(op) else (first,)
        self.ctx.remark(CSEPass.name, "passed", f"merged '{op.name}' into an equal one", op, notes)


def _replace(op: Operation, existing: Operation) -> None:
    for old, new in zip(op.results, existing.results, strict=True):
        copy_name(old, new)
        old.replace_all_uses_with(new)


class _Key:
    """An operation as a key: equal to another if both compute the same. The hash is computed once."""

    __slots__ = ("hash", "op")

    def __init__(self, op: Operation):
        self.op = op
        self.hash = hash(
            (
                type(op),
                op.op_name if isinstance(op, UnregisteredOp) else None,
                tuple(op.operands),
                tuple(result.type for result in op.results),
                frozenset(op.attributes.items()),
                frozenset(op.properties.items()),
                len(op.regions),
            )
        )

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key) or self.hash != other.hash:
            return False
        a, b = self.op, other.op
        return (
            type(a) is type(b)
            and tuple(a.operands) == tuple(b.operands)
            and a.result_types == b.result_types
            and a.attributes == b.attributes
            and a.properties == b.properties
            and len(a.regions) == len(b.regions)
            and all(x.is_structurally_equivalent(y) for x, y in zip(a.regions, b.regions, strict=True))
        )
