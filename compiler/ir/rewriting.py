"""Greedy rewriting with a limit, that keeps locations and names.

xDSL's own driver has no limit, prints the whole module when a pattern raises, and leaves new operations without a
location. This one gives each operation that a pattern inserts, and that has no location, the location of what the
pattern replaced, and the way of a split model (`ways.py`) that it is for.

Patterns are looked up by the kind of the operation: one is only tried on what it can match (`root_kinds`), so that a
pattern costs nothing where nothing like it stands.

Rewrites can be numbered and stopped at a number (`limited_rewrites`), to find the one that is to blame for a fault.
Inside a run of a pass (`rewriting`) they are counted by pattern, patterns that are switched off are not tried, and a
rewrite that says nothing itself is reported by a remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import getclosurevars
from typing import Any, NamedTuple, NoReturn, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.folder import Folder
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, RewritePattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import ConstantLike, HasFolder
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.worklist import Worklist

from mlopt.diagnostics import EndlessRewrite, PassFailure, Place
from mlopt.ir.effects import is_dead
from mlopt.ir.locations import fuse_locations, place_of, place_of_op
from mlopt.ir.names import copy_name
from mlopt.ir.rewrite_limit import current_limit
from mlopt.ir.rewrite_scope import current_scope, is_enabled
from mlopt.ir.ways import set_way, way_of

FOLD = "fold"
ERASE_DEAD = "erase-dead"
DRIVER_REWRITES = {
    FOLD: "An operation is replaced by what its own folder says.",
    ERASE_DEAD: "What nothing uses is erased.",
}
"""What the driver does itself, by the names that it is counted and switched off by."""

MAX_REWRITES = 10_000
MAX_REWRITES_PER_OPERATION = 100
"""More rewrites than both together only one that never ends can need: models take less than one per operation."""


class RewriteResult(NamedTuple):
    """What a greedy rewrite did. `converged` is False if the limit stopped it."""

    changed: bool
    rewrites: int
    converged: bool


def rewrite_greedily(
    op: Operation,
    patterns: Sequence[RewritePattern],
    *,
    ctx: Context | None = None,
    max_rewrites: int | None = None,
    dce: bool = False,
    fold: bool = False,
) -> RewriteResult:
    """Apply `patterns` to all operations inside `op` until none applies; `op` itself stays.

    For each operation, in program order and again after a change near it: erase it if it is dead (`dce`), else fold
    it (`fold`, which needs `ctx` to build constants), else apply the first pattern that does something.
    An operation that a pattern inserts without a location gets the fused location of the matched operation and of
    those that the pattern erased. Stops after `max_rewrites` rewrites; without that, a rewrite that never ends is an
    `EndlessRewrite`, which names the pattern. A pattern that raises `PassFailedException` or `VerifyException` ends the
    rewrite with a `PassFailure` at the operation's place.
    Inside `limited_rewrites`, it also ends where that limit is reached.
    """
    if fold and ctx is None:
        raise ValueError("folding needs a context")
    return _Driver(op, patterns, ctx, max_rewrites, dce=dce, fold=fold).run()


def pattern_name(pattern: RewritePattern | type[RewritePattern]) -> str:
    """What a pattern is counted and switched off by: the name of its class."""
    return _class_name(pattern if isinstance(pattern, type) else type(pattern))


@cache
def _class_name(kind: type[RewritePattern]) -> str:
    return kind.__name__.lstrip("_")


def pattern_summary(kind: type[RewritePattern]) -> str:
    """The first line of a pattern's own docstring; empty if it has none, or if the pattern is one of xDSL's."""
    text = kind.__dict__.get("__doc__") or ""
    is_signature = text.startswith(f"{kind.__name__}(")  # which is what a dataclass puts there
    return "" if is_signature or kind.__module__.startswith("xdsl.") else text.strip().partition("\n")[0]


@cache
def root_kinds(kind: type[RewritePattern]) -> tuple[type[Operation], ...]:
    """The kinds of operations that patterns of a class can match; any if that is not known.

    A class says so in `roots`, or by the annotation that xDSL's `op_type_rewrite_pattern` reads.
    """
    roots: Any = getattr(kind, "roots", None)
    if roots is None:
        # The decorator keeps what it tests for in its closure, and nowhere else.
        roots = getclosurevars(kind.match_and_rewrite).nonlocals.get("expected_type")
        if roots is None:
            return (Operation,)
        roots = get_args(roots) or (roots,)
    return tuple(roots)


def may_match(pattern: RewritePattern, kind: type[Operation]) -> bool:
    """Whether a pattern is on, and can match operations of a kind."""
    if isinstance(pattern, PatternSet):
        return bool(pattern.candidates(kind))
    return issubclass(kind, root_kinds(type(pattern))) and is_enabled(pattern_name(pattern))


class PatternSet(RewritePattern):
    """Patterns of which the first that does something is applied; `applied` tells which that was the last time.

    It is made for one run of a pass: which of the patterns are on is looked up once for each kind of operation.
    """

    def __init__(self, patterns: Sequence[RewritePattern]):
        self.patterns = tuple(patterns)
        self.applied: RewritePattern | None = None
        self._candidates: dict[type[Operation], tuple[RewritePattern, ...]] = {}

    def patterns_of(self, kind: type[Operation]) -> Sequence[RewritePattern]:
        """The patterns for a kind of operation, in order; subclasses may have others for each."""
        return self.patterns

    def candidates(self, kind: type[Operation]) -> tuple[RewritePattern, ...]:
        """Those of them that are on and can match it."""
        found = self._candidates.get(kind)
        if found is None:
            found = tuple(pattern for pattern in self.patterns_of(kind) if may_match(pattern, kind))
            self._candidates[kind] = found
        return found

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        for pattern in self.candidates(type(op)):
            _try(pattern, op, rewriter)
            if rewriter.has_done_action:
                self.applied = pattern
                return


def _try(pattern: RewritePattern, op: Operation, rewriter: PatternRewriter) -> None:
    """Apply a pattern if it matches; remarks it makes name it."""
    scope = current_scope()
    if scope is not None:
        scope.current = _class_name(type(pattern))
    pattern.match_and_rewrite(op, rewriter)


class _Rewriter(PatternRewriter):
    """The rewriter of a driver, for one operation after the other: making one takes longer than most matches."""

    def __init__(self, listener: PatternRewriterListener):
        super().__init__(InsertPoint.at_end(Block()))
        self.extend_from_listener(listener)

    def move_to(self, op: Operation) -> None:
        """Be as new, in front of `op`."""
        self._current_operation = op
        self.insertion_point = InsertPoint.before(op)
        self.has_done_action = False
        self.name_hint = None


@dataclass
class _Match:
    """What one application of a pattern inserted and erased."""

    op: Operation
    inserted: list[Operation] = field(default_factory=list[Operation])
    erased: list[Operation] = field(default_factory=list[Operation])


@dataclass(slots=True)
class _Start:
    """Where an operation stood before it was rewritten, and how many remarks there were."""

    location: LocationAttr
    parent: Operation | None
    passed: int

    @property
    def where(self) -> Operation | LocationAttr:
        """What says where it stood: its location, or the operation around it if it has none."""
        return self.location if self.parent is None or place_of(self.location) != Place() else self.parent

    @property
    def place(self) -> Place:
        where = self.where
        return place_of_op(where) if isinstance(where, Operation) else place_of(where)


class _Handlers(NamedTuple):
    """What may happen to operations of one kind."""

    folds: bool
    patterns: tuple[RewritePattern, ...]
    any: bool


def _sentence(pattern: RewritePattern | str, op: Operation) -> str:
    """The remark on a rewrite that says nothing itself."""
    if pattern == ERASE_DEAD:
        return f"erased '{op.name}': nothing uses it"
    if isinstance(pattern, str):
        return f"folded '{op.name}'"
    summary = pattern_summary(type(pattern))
    return f"rewrote '{op.name}' by {pattern_name(pattern)}{f': {summary}' if summary else ''}"


class _Driver:
    def __init__(
        self,
        root: Operation,
        patterns: Sequence[RewritePattern],
        ctx: Context | None,
        max_rewrites: int | None,
        *,
        dce: bool,
        fold: bool,
    ):
        self.root = root
        self.patterns = patterns
        self.ctx = ctx
        self.dce = dce and is_enabled(ERASE_DEAD)
        self.folder = Folder(ctx) if fold and ctx is not None and is_enabled(FOLD) else None
        self.max_rewrites = max_rewrites
        self.bound = 0
        self.rewrites = 0
        self.limit = current_limit()
        self.scope = current_scope()
        self.worklist: Worklist[Operation] = Worklist()
        self.released: set[Operation] = set()
        """What a rewrite took a use from: if it is dead, that is a consequence, and needs no remark."""
        self.match: _Match | None = None
        self.handlers: dict[type[Operation], _Handlers] = {}
        listener = PatternRewriterListener(
            operation_insertion_handler=[self._inserted],
            operation_removal_handler=[self._removed],
            operation_modification_handler=[self._push],
            operation_replacement_handler=[self._replaced],
        )
        self.rewriter = _Rewriter(listener)
        self.done = "", "", Place()
        """The rewrite that was done last: the name of the pattern, that of the operation, and its place."""

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
        operations = 0
        for region in self.root.regions:
            for op in region.walk(reverse=True, region_first=True):
                self._push(op)
                operations += 1
        self.bound = self.bound or MAX_REWRITES + MAX_REWRITES_PER_OPERATION * operations
        while self.worklist:
            op = self.worklist.pop()
            if op is self.root:
                continue
            if self.limit is not None and self.limit.reached:
                return False
            if not self._visit(op):
                continue
            self.rewrites += 1
            if self.max_rewrites is None:
                if self.rewrites >= self.bound:
                    self._fail_to_end()
            elif self.rewrites >= self.max_rewrites:
                return False
        return True

    def _fail_to_end(self) -> NoReturn:
        name, op, place = self.done
        raise EndlessRewrite(
            f"the rewrite does not end: after {self.rewrites} of them, '{name}' still rewrites '{op}'",
            place=place,
        )

    def _push(self, op: Operation) -> None:
        """Visit an operation later, if there is anything that may happen to it."""
        if self.dce or self._handlers(type(op)).any:
            self.worklist.push(op)

    def _handlers(self, kind: type[Operation]) -> _Handlers:
        found = self.handlers.get(kind)
        if found is None:
            folds = (
                self.folder is not None
                and kind.has_trait(HasFolder)
                and not kind.has_trait(ConstantLike, value_if_unregistered=True)
            )
            patterns = tuple(pattern for pattern in self.patterns if may_match(pattern, kind))
            found = _Handlers(folds, patterns, folds or bool(patterns))
            self.handlers[kind] = found
        return found

    def _visit(self, op: Operation) -> bool:
        """Rewrite one operation if something applies; returns whether it did."""
        dead = self.dce and is_dead(op)
        handlers = self._handlers(type(op))
        if not dead and not handlers.any:
            return False
        start = _Start(op.location, op.parent_op(), 0 if self.scope is None else self.scope.passed)
        rewriter = self.rewriter
        rewriter.move_to(op)
        if dead:
            rewriter.erase(op)
            self._done(ERASE_DEAD, op, start)
            return True
        self.match = _Match(op)
        try:
            if handlers.folds and self._fold(op, rewriter):
                self._done(FOLD, op, start)
                return True
            for pattern in handlers.patterns:
                _try(pattern, op, rewriter)
                if rewriter.has_done_action:
                    self._done(pattern, op, start)
                    return True
        except Exception as error:
            tried = FOLD if self.scope is None or self.scope.current is None else self.scope.current
            if self.limit is not None:  # to blame it
                self.limit.record(tried, op, start.place)
            if isinstance(error, DiagnosticException):
                raise PassFailure(str(error), place=place_of_op(op)) from error
            error.add_note(f"by '{tried}' on '{op.name}' at {start.place}")
            raise
        finally:
            _locate(self.match)
            _keep_way(self.match)
            self.match = None
            if self.scope is not None:
                self.scope.current = None
        return False

    def _done(self, pattern: RewritePattern | str, op: Operation, start: _Start) -> None:
        """Number and count a rewrite, and report it if it has not reported itself."""
        while isinstance(pattern, PatternSet) and pattern.applied is not None:
            pattern = pattern.applied
        name = pattern if isinstance(pattern, str) else pattern_name(pattern)
        self.done = name, op.name, start.place
        if self.limit is not None:
            self.limit.record(name, op, start.place)
        scope = self.scope
        if scope is None:
            return
        scope.record(name)
        is_consequence = name == ERASE_DEAD and op in self.released
        if scope.passed == start.passed and not is_consequence and scope.reporter is not None:
            scope.current = name
            facts = {"op": op.name}
            scope.reporter.remark(scope.pass_name, "passed", _sentence(pattern, op), start.where, args=facts)
            scope.current = None

    def _fold(self, op: Operation, rewriter: PatternRewriter) -> bool:
        assert self.folder is not None
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
            self._push(nested)

    def _removed(self, op: Operation) -> None:
        if self.match is not None:
            self.match.erased.append(op)
        for operand in op.operands:
            if isinstance(operand, OpResult):
                self.released.add(operand.op)
                self._push(operand.op)
        for nested in op.walk():
            self.worklist.remove(nested)

    def _replaced(self, op: Operation, new_results: Sequence[SSAValue | None]) -> None:
        for old, new in zip(op.results, new_results, strict=True):
            for use in old.uses:
                self._push(use.operation)
            if new is not None:
                copy_name(old, new)


def _locate(match: _Match) -> None:
    """Give what a pattern inserted without a location that of what it replaced."""
    new = [op for inserted in match.inserted for op in inserted.walk() if isinstance(op.location, UnknownLoc)]
    if new:
        location = fuse_locations([match.op.location, *(erased.location for erased in match.erased)])
        for op in new:
            op.location = location


def _keep_way(match: _Match) -> None:
    """Let the way of a split model that the matched operation is for compute what a pattern inserted for it."""
    way = way_of(match.op)
    if way is not None:
        for inserted in match.inserted:
            set_way(inserted, way)
