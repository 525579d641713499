"""What one run of a pass may rewrite and has rewritten: patterns that are switched off, and how often each was applied.

    with rewriting("eliminate-slices", disabled={"SliceOfPad"}) as scope:
        pass_.run(ctx, module)  # without that pattern
    scope.counts  # {"SliceOfSlice": 3}

A pattern is known by the name of its class, a rewrite without a pattern by the name that `may_rewrite` is given.
Outside any scope every pattern is on, and nothing is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlopt.ir.context import CompilerContext


@dataclass(slots=True)
class RewriteScope:
    """One run of a pass.

    - `disabled`: names of patterns, `NAME` in every pass or `PASS:NAME` in one.
    - `counts`: how often each pattern was applied.
    - `current`: the pattern that is being tried, `last`: the one that was applied last; remarks name them.
    - `passed`: how many remarks have said what was done.
    - `reporter`: what the rewrites that say nothing themselves are reported to.
    """

    pass_name: str
    disabled: Collection[str] = ()
    reporter: CompilerContext | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    current: str | None = None
    last: str | None = None
    passed: int = 0

    def allows(self, pattern: str) -> bool:
        """Whether a pattern is on."""
        return not self.disabled or not (
            pattern in self.disabled or f"{self.pass_name}:{pattern}" in self.disabled
        )

    def record(self, pattern: str) -> None:
        """Count a pattern that was applied."""
        self.counts[pattern] += 1
        self.last = pattern


_SCOPE: ContextVar[RewriteScope | None] = ContextVar("mlopt_rewrite_scope", default=None)


def current_scope() -> RewriteScope | None:
    """The run of a pass that is going on, or None."""
    return _SCOPE.get()


def is_enabled(pattern: str) -> bool:
    """Whether a pattern is on in the run of a pass that is going on."""
    scope = _SCOPE.get()
    return scope is None or scope.allows(pattern)


@contextmanager
def rewriting(
    pass_name: str, disabled: Collection[str] = (), reporter: CompilerContext | None = None
) -> Generator[RewriteScope]:
    """Inside, the patterns of a pass are switched off as `disabled` says, counted, and reported."""
    scope = RewriteScope(pass_name, disabled, reporter)
    token = _SCOPE.set(scope)
    try:
        yield scope
    finally:
        _SCOPE.reset(token)
