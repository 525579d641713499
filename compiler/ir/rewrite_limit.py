"""Numbers the rewrites of a pass, and stops it after so many: to find the rewrite that is to blame for a fault.

    with limited_rewrites(3) as limit:
        pass_.run(ctx, module)  # its first three rewrites, and no other
    limit.last  # the third

Passes are deterministic, so that the first N rewrites are the same ones every time. Where no limit is set, nothing is
numbered.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation

from mlopt.diagnostics import Place
from mlopt.ir.locations import place_of_op
from mlopt.ir.rewrite_scope import current_scope


class Rewrite(NamedTuple):
    """One rewrite of a pass: its number from 1, the pattern's name, the matched operation's name, and its place."""

    number: int
    pattern: str
    op: str
    place: Place


@dataclass(slots=True)
class RewriteLimit:
    """How many rewrites may be done (`None`: all), how many were, and which was the last."""

    limit: int | None
    count: int = 0
    last: Rewrite | None = field(default=None)

    @property
    def reached(self) -> bool:
        """Whether no further rewrite may be done."""
        return self.limit is not None and self.count >= self.limit

    def record(self, pattern: str, op: Operation, place: Place) -> None:
        """Number a rewrite of `op`, which stood at `place`."""
        self.count += 1
        self.last = Rewrite(self.count, pattern, op.name, place)


_LIMIT: ContextVar[RewriteLimit | None] = ContextVar("mlopt_rewrite_limit", default=None)


def current_limit() -> RewriteLimit | None:
    """The limit that is set, or None: rewrites are not numbered."""
    return _LIMIT.get()


@contextmanager
def limited_rewrites(limit: int | None) -> Generator[RewriteLimit]:
    """Number the rewrites done inside the block, and let no more than `limit` be done."""
    counter = RewriteLimit(limit)
    token = _LIMIT.set(counter)
    try:
        yield counter
    finally:
        _LIMIT.reset(token)


def may_rewrite(pattern: str, op: Operation, *, certain: bool = True) -> bool:
    """For passes without patterns: whether the rewrite of `op` they are about to do may be done.

    Not if the limit is reached, or if `pattern` is switched off. It is numbered and counted; one that is not `certain`
    to change anything is counted by `rewrote` when it has.
    """
    scope = current_scope()
    if scope is not None and not scope.allows(pattern):
        return False
    counter = _LIMIT.get()
    if counter is not None:
        if counter.reached:
            return False
        counter.record(pattern, op, place_of_op(op))
    if certain and scope is not None:
        scope.record(pattern)
    return True


def rewrote(pattern: str) -> None:
    """Count a rewrite that `may_rewrite` allowed, and that was not certain to change anything."""
    scope = current_scope()
    if scope is not None:
        scope.record(pattern)
