"""Patterns whose rewrites are counted and reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import PatternSet


class Reported(PatternSet):
    """Patterns of which the first that does something to an operation of `kinds` is counted, and remarked on."""

    def __init__(
        self,
        ctx: CompilerContext,
        pass_name: str,
        statistic: str,
        message: str,
        kinds: Collection[type[Operation]],
        patterns: Sequence[RewritePattern],
    ):
        super().__init__(patterns)
        self.ctx = ctx
        self.pass_name = pass_name
        self.statistic = statistic
        self.message = message
        self.kinds = tuple(kinds)

    def patterns_of(self, kind: type[Operation]) -> Sequence[RewritePattern]:
        return self.patterns if issubclass(kind, self.kinds) else ()

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        location = op.location
        super().match_and_rewrite(op, rewriter)
        if rewriter.has_done_action:
            self.ctx.count(self.pass_name, self.statistic)
            self.ctx.remark(self.pass_name, "passed", self.message, location, args={"op": op.name})
