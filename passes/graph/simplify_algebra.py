"""`simplify-algebra`: arithmetic in fewer, or cheaper, operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xdsl.ir import Operation

from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.algebra import Rule
from mlopt.passes.graph.exact_algebra import EXACT_RULES
from mlopt.passes.graph.fast_algebra import FAST_RULES, FAST_TOLERANCE
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


@dataclass(frozen=True)
class SimplifyAlgebraPass(Pass):
    """Apply rules of algebra.

    `mode=exact`: only those that give the same bits for every input, -0.0, infinities, NaN and integers that wrap
    included (`passes/graph/exact_algebra.py`): signs and bounds meet their constants, divisions by powers of two
    become products, constants of integers are merged, conditions lose their negations.

    `mode=fast`: also those that hold for real numbers (`passes/graph/fast_algebra.py`): sums and products are
    regrouped, x * 0 and x - x are 0, x / c is x * (1 / c), common factors are taken out. Results may be rounded
    otherwise; NaN and infinities get lost, or appear where other inner values overflow.

    Remarks: each rewrite, and, in the exact mode, where only the fast one has a rule.
    """

    name = "simplify-algebra"
    requires: ClassVar = GRAPH_LEVEL
    idempotent: ClassVar[bool] = True

    mode: Literal["exact", "fast"] = "exact"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        rules = [rule(ctx) for rule in (*EXACT_RULES, *(FAST_RULES if self.mode == "fast" else ()))]
        changed = rewrite_greedily(op, rules, ctx=ctx, dce=True).changed
        if self.mode == "exact":
            self._report_misses(ctx, op)
        return changed

    @property
    def declared_tolerance(self) -> float | None:
        return FAST_TOLERANCE if self.mode == "fast" else None

    def _report_misses(self, ctx: CompilerContext, root: Operation) -> None:
        """Say where only the fast mode has a rule."""
        by_kind: dict[type[Operation], list[Rule]] = {}
        for rule in FAST_RULES:
            for kind in rule.roots:
                by_kind.setdefault(kind, []).append(rule(ctx))
        for op in root.walk():
            for rule in by_kind.get(type(op), ()):
                if rule.simplified(op) is not None:
                    ctx.remark(self.name, "missed", f"not exact, mode=fast does it: {rule.text}", op)
                    break
