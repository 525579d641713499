"""`canonicalize`: each operation's own rewrites and folds, until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait

from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import DRIVER_REWRITES, PatternSet, rewrite_greedily
from mlopt.passmanager.base import Pass


@dataclass(frozen=True)
class CanonicalizerPass(Pass):
    """Fold operations, apply their canonicalization patterns, and erase dead ones, until nothing changes.

    Patterns and folds come from the operations' own interfaces. With `max_rewrites` it stops after so many, with a
    warning.
    """

    name = "canonicalize"
    anchor = None
    idempotent = True
    rewrites: ClassVar[Mapping[str, str]] = DRIVER_REWRITES

    max_rewrites: int | None = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        result = rewrite_greedily(
            op, [_OwnPatterns()], ctx=ctx, max_rewrites=self.max_rewrites, dce=True, fold=True
        )
        ctx.count(self.name, "rewrites", result.rewrites)
        if not result.converged:
            ctx.warn(f"canonicalize stopped after {result.rewrites} rewrites without converging", op)
        return result.changed


class _OwnPatterns(PatternSet):
    """Apply the first of an operation's canonicalization patterns that does something."""

    def __init__(self) -> None:
        super().__init__(())

    def patterns_of(self, kind: type[Operation]) -> Sequence[RewritePattern]:
        return own_patterns(kind)


def own_patterns(kind: type[Operation]) -> list[RewritePattern]:
    """The canonicalization patterns that operations of a kind declare."""
    return [
        pattern
        for trait in kind.get_traits_of_type(HasCanonicalizationPatternsTrait)
        for pattern in trait.get_patterns(kind)
    ]
