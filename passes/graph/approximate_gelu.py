"""`approximate-gelu`: the exact GELU in a form without the error function; on request, since the answer changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import erf, exp, pi, sqrt, tanh
from typing import ClassVar, Literal

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

Method = Literal["tanh", "sigmoid"]

SLOPE = 1.702
"""Of the sigmoid form: `x * sigmoid(1.702 * x)` (Hendrycks and Gimpel, Gaussian Error Linear Units, 2016)."""

TOLERANCES: dict[Method, float] = {"tanh": 1e-2, "sigmoid": 0.2}
"""By how much of the largest number of an output results may differ: some twenty times what one GELU is off by."""


@dataclass(frozen=True)
class ApproximateGeluPass(Pass):
    """Replace `graph.gelu` with `approximate = "none"` by an approximation; the remark says by how much it is off.

    - `method=tanh`: `0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))`, the tanh form of ONNX's Gelu.
    - `method=sigmoid`: `x * sigmoid(1.702 * x)`, cheaper and coarser.

    How far results of a model are off depends on what comes after: the validator allows what the pass declares. No
    pipeline runs it.
    """

    name = "approximate-gelu"
    requires: ClassVar = GRAPH_LEVEL
    idempotent: ClassVar[bool] = True

    method: Method = "tanh"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return rewrite_greedily(op, [ApproximateGelu(ctx, self.name, self.method)], ctx=ctx).changed

    @property
    def declared_tolerance(self) -> float | None:
        return TOLERANCES[self.method]


@dataclass
class ApproximateGelu(RewritePattern):
    """gelu(x) -> its tanh form, or swish(x) with alpha = 1.702"""

    ctx: CompilerContext
    pass_name: str
    method: Method

    statistic: ClassVar = "gelus-approximated"

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.GeluOp, rewriter: PatternRewriter, /) -> None:
        if op.approximate.data != "none":
            return
        error, at = largest_error(self.method)
        self.ctx.count(self.pass_name, self.statistic)
        form = "the tanh form" if self.method == "tanh" else f"x * sigmoid({SLOPE} * x)"
        self.ctx.remark(
            self.pass_name, "passed", f"'gelu' became {form}: off by up to {error:.3e}, at x = {at:.3f}", op
        )
        is_tanh = self.method == "tanh"
        rewriter.replace(op, graph.GeluOp(op.input, "tanh") if is_tanh else graph.SwishOp(op.input, SLOPE))


@cache
def largest_error(method: Method) -> tuple[float, float]:
    """The largest absolute error of an approximation and where it is, measured in f64 at 16,001 points of [-8, 8].

    Outside, all three come closer and closer to 0 and to x.
    """
    error, at = 0.0, 0.0
    for i in range(16_001):
        x = (i - 8000) / 1000
        off = abs(approximated(x, method) - 0.5 * x * (1 + erf(x / sqrt(2))))
        if off > error:
            error, at = off, x
    return error, at


def approximated(x: float, method: Method) -> float:
    """GELU of one number by an approximation, in f64."""
    if method == "tanh":
        return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
    return x / (1 + exp(-SLOPE * x))
