"""`canonicalize`: each operation's own rewrites and folds, until nothing changes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait

from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import PatternSet, rewrite_greedily
from mlopt.passmanager.base import Pass


@dataclass(frozen=True)
class CanonicalizerPass(Pass):
    """Fold operations, apply their canonicalization patterns, and erase dead ones, until nothing changes.

    Patterns and folds come from the operations' own interfaces. Stops with a warning after `max_rewrites` rewrites.
    """

    name = "canonicalize"
    anchor = None
    idempotent = True

    max_rewrites: int = 10_000_000

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
        self._own: dict[type[Operation], PatternSet | None] = {}

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        op_type = type(op)
        if op_type not in self._own:
            self._own[op_type] = self._collect(op)
        patterns = self._own[op_type]
        if patterns is not None:
            patterns.match_and_rewrite(op, rewriter)
            self.applied = patterns

    @staticmethod
    def _collect(op: Operation) -> PatternSet | None:
        patterns: list[RewritePattern] = [
            pattern
            for trait in op.get_traits_of_type(HasCanonicalizationPatternsTrait)
            for pattern in trait.get_patterns(type(op))
        ]
        return PatternSet(patterns) if patterns else None
