"""`fuse-gelu`: the Gaussian error linear unit, in whatever sequence its factors are written, becomes one operation."""

from __future__ import annotations

from math import pi, sqrt
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.fusion import Fusion, Group, Miss, described, fuse
from mlopt.passes.graph.polynomials import Terms, expand, goes_on, is_close, once, operands_below
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

DEPTH = 4
"""How many steps of arithmetic may follow the error function or the tangent."""


class FuseGeluPass(Pass):
    """Make one `graph.gelu` of what computes it.

    1. `0.5 * x * (1 + erf(x / sqrt(2)))` becomes `gelu`.
    2. `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))` becomes `gelu approximate = "tanh"`.

    Factors may stand in any place and sequence, and be written as quotients, powers or sums (`x * (0.5 + 0.5 * e)`).
    Numbers count as what they stand for if they are that in their element type, to the roundings of their products.
    Not fused: other numbers, an inner value that is used elsewhere or is a graph output, constants that enlarge `x`.
    f16 and bf16 are computed in f32 and rounded once, and what overflows on the way does not. Remarks: each fusion,
    each near miss.
    """

    name = "fuse-gelu"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse(ctx, op, [FuseGelu(ctx, self.name)])


class FuseGelu(Fusion):
    """The product of x, 0.5, and 1 and a gate of x -> gelu(x)"""

    statistic: ClassVar[str] = "gelus-fused"
    roots: ClassVar = (graph.MulOp, graph.DivOp, graph.AddOp)

    def match(self, op: Operation) -> Group | Miss | None:
        gate = self._gate(op)
        if gate is None:
            return None
        miss: Miss | None = None
        for x in operands_below(gate.input, 2 * DEPTH):
            inner = expand(gate.input, [x], self.ctx)
            outer = None if inner is None else expand(op.results[0], [x, gate.result], self.ctx)
            if inner is None or outer is None or set(outer.terms) != {(1, 0), (1, 1)}:
                continue
            difference = self._difference(op, gate, x, inner.terms, outer.terms)
            if difference is None:
                return self._group(gate, x, (*outer.ops, gate, *inner.ops))
            if miss is None and not goes_on(op, [x, gate.result], self.ctx):
                miss = Miss(difference)
        return miss

    def _gate(self, op: Operation) -> graph.ErfOp | graph.TanhOp | None:
        """The nearest error function or tangent that the operation computes with."""
        for value in operands_below(op.results[0], DEPTH):
            if isinstance(value.owner, graph.ErfOp | graph.TanhOp):
                return value.owner
        return None

    def _group(self, gate: graph.ErfOp | graph.TanhOp, x: SSAValue, ops: tuple[Operation, ...]) -> Group:
        approximate = "none" if isinstance(gate, graph.ErfOp) else "tanh"
        into = "'gelu'" if isinstance(gate, graph.ErfOp) else "'gelu' in its tanh form"
        return Group(once(ops), lambda: [graph.GeluOp(x, approximate)], into)

    def _difference(
        self, op: Operation, gate: graph.ErfOp | graph.TanhOp, x: SSAValue, inner: Terms, outer: Terms
    ) -> str | None:
        """How the expression differs from a gelu of x, or None."""
        for factor in (outer[1, 0], outer[1, 1]):
            if not is_close(factor, 0.5, x):
                return f"the factor of {described(gate)} is {factor:.7g}, not 0.5"
        if isinstance(gate, graph.ErfOp):
            wanted, name = {(1,): 1 / sqrt(2)}, "x / sqrt(2)"
        else:
            wanted, name = {(1,): sqrt(2 / pi), (3,): 0.044715 * sqrt(2 / pi)}, "that of a gelu"
        if set(inner) != set(wanted) or not all(is_close(inner[term], wanted[term], x) for term in wanted):
            return f"the argument of {described(gate)} is not {name}"
        if op.results[0].type != x.type:
            return f"a constant enlarges {x.type} to {op.results[0].type}"
        return None
