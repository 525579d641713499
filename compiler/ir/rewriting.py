"""Greedy rewriting with a limit, that keeps locations and names.

xDSL's own driver has no limit, prints the whole module when a pattern raises, and leaves new operations without a
location. This one gives each operation that a pattern inserts, and that has no location, the location of what the
pattern replaced.

Rewrites can be numbered and stopped at a number (`limited_rewrites`), to find the one that is to blame for a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import UnknownLoc
from xdsl.folder import Folder
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, RewritePattern
from xdsl.traits import ConstantLike, HasFolder
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.worklist import Worklist

from mlopt.diagnostics import PassFailure, Place
from mlopt.ir.effects import is_dead
from mlopt.ir.locations import fuse_locations, place_of_op
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import current_limit

MAX_REWRITES = 10_000_000
"""A bound that only a rewrite that never ends can reach."""


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """What a greedy rewrite did. `converged` is False if the limit stopped it."""

    changed: bool
    rewrites: int
    converged: bool


def rewrite_greedily(
    op: Operation,
    patterns: Sequence[RewritePattern],
    *,
    ctx: Context | None = None,
    max_rewrites: int = MAX_REWRITES,
    dce: bool = False,
    fold: bool = False,
) -> RewriteResult:
    """Apply `patterns` to all operations inside `op` until none applies; `op` itself stays.

    For each operation, in program order and again after a change near it: erase it if it is dead (`dce`), else fold
    it (`fold`, which needs `ctx` to build constants), else apply the first pattern that does something.
    An operation that a pattern inserts without a location gets the fused location of the matched operation and of
    those that the pattern erased. Stops after `max_rewrites` rewrites. A pattern that raises
    `PassFailedException` or `VerifyException` ends the rewrite with a `PassFailure` at the operation's place.
    Inside `limited_rewrites`, it also ends where that limit is reached.
    """
    if fold and ctx is None:
        raise ValueError("folding needs a context")
    return _Driver(op, patterns, ctx, max_rewrites, dce=dce, fold=fold).run()


class PatternSet(RewritePattern):
    """Patterns of which the first that does something is applied; `applied` tells which that was the last time."""

    def __init__(self, patterns: Sequence[RewritePattern]):
        self.patterns = tuple(patterns)
        self.applied: RewritePattern | None = None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for pattern in self.patterns:
            pattern.match_and_rewrite(op, rewriter)
            if rewriter.has_done_action:
                self.applied = pattern
                return


@dataclass
class _Match:
    """What one application of a pattern inserted and erased."""

    op: Operation
    inserted: list[Operation] = field(default_factory=list[Operation])
    erased: list[Operation] = field(default_factory=list[Operation])


class _Driver:
    def __init__(
        self,
        root: Operation,
        patterns: Sequence[RewritePattern],
        ctx: Context | None,
        max_rewrites: int,
        *,
        dce: bool,
        fold: bool,
    ):
        self.root = root
        self.patterns = patterns
        self.dce = dce
        self.folder = Folder(ctx) if fold and ctx is not None else None
        self.max_rewrites = max_rewrites
        self.rewrites = 0
        self.limit = current_limit()
        self.worklist: Worklist[Operation] = Worklist()
        self.match: _Match | None = None
        self.listener = PatternRewriterListener(
            operation_insertion_handler=[self._inserted],
            operation_removal_handler=[self._removed],
            operation_modification_handler=[self.worklist.push],
            operation_replacement_handler=[self._replaced],
        )

    def run(self) -> RewriteResult:
        changed = False
        while True:
            before = self.rewrites
            converged = self._sweep()
            changed |= self.rewrites != before
            if not converged or self.rewrites == before:
                return RewriteResult(changed, self.rewrites, converged)

    def _sweep(self) -> bool:
        """Visit every operation once, and again those near a change; False if the limit was reached."""
        for region in self.root.regions:
            for op in region.walk(reverse=True, region_first=True):
                self.worklist.push(op)
        while self.worklist:
            op = self.worklist.pop()
            if op is self.root:
                continue
            if self.limit is not None and self.limit.reached:
                return False
            if not self._visit(op):
                continue
            self.rewrites += 1
            if self.rewrites >= self.max_rewrites:
                return False
        return True

    def _visit(self, op: Operation) -> bool:
        """Rewrite one operation if something applies; returns whether it did."""
        rewriter = PatternRewriter(op)
        rewriter.extend_from_listener(self.listener)
        place = None if self.limit is None else place_of_op(op)
        if self.dce and is_dead(op):
            rewriter.erase(op)
            self._done("dce", op, place)
            return True
        self.match = _Match(op)
        try:
            if self._fold(op, rewriter):
                self._done("fold", op, place)
                return True
            for pattern in self.patterns:
                pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    self._done(pattern, op, place)
                    return True
        except DiagnosticException as error:
            raise PassFailure(str(error), place=place_of_op(op)) from error
        finally:
            _locate(self.match)
            self.match = None
        return False

    def _done(self, pattern: RewritePattern | str, op: Operation, place: Place | None) -> None:
        """Number a rewrite, if they are numbered."""
        if self.limit is None or place is None:
            return
        while isinstance(pattern, PatternSet) and pattern.applied is not None:
            pattern = pattern.applied
        self.limit.record(pattern if isinstance(pattern, str) else type(pattern).__name__, op, place)

    def _fold(self, op: Operation, rewriter: PatternRewriter) -> bool:
        if (
            self.folder is None
            or not op.has_trait(HasFolder)
            or op.has_trait(ConstantLike, value_if_unregistered=True)
        ):
            return False
        folded = self.folder.try_fold(op)
        if folded is None:
            return False
        values, new_ops = folded
        rewriter.replace(op, new_ops, values)
        return True

    def _inserted(self, op: Operation) -> None:
        if self.match is not None:
            self.match.inserted.append(op)
        for nested in op.walk(reverse=True, region_first=True):
            self.worklist.push(nested)

    def _removed(self, op: Operation) -> None:
        if self.match is not None:
            self.match.erased.append(op)
        for operand in op.operands:
            if isinstance(operand, OpResult):
                self.worklist.push(operand.op)
        for nested in op.walk():
            self.worklist.remove(nested)

    def _replaced(self, op: Operation, new_results: Sequence[SSAValue | None]) -> None:
        for old, new in zip(op.results, new_results, strict=True):
            for use in old.uses:
                self.worklist.push(use.operation)
            if new is not None:
                copy_name(old, new)


def _locate(match: _Match) -> None:
    """Give what a pattern inserted without a location that of what it replaced."""
    new = [op for inserted in match.inserted for op in inserted.walk() if isinstance(op.location, UnknownLoc)]
    if new:
        location = fuse_locations([match.op.location, *(erased.location for erased in match.erased)])
        for op in new:
            op.location = location
