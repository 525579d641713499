"""`fuse-rms-norm`: values divided by the root of the mean of their squares become one operation."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation

from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.fusion import Fusion, Group, Miss, fuse, use_outside
from mlopt.passes.graph.row_norm_parts import NarrowNorm, TakeScale
from mlopt.passes.graph.row_norms import centered, new_norm, normalized
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


class FuseRmsNormPass(Pass):
    """Make one `graph.rms_norm` of what computes it.

    1. `x / sqrt(mean(x * x) + epsilon)` over the last dimensions becomes `rms_norm`, whose scale is 1. The square may
       be a power, the quotient a product with a reciprocal or with a power of -0.5, the mean a sum divided by the
       count; epsilon may be any number, or missing.
    2. A product of that and a scale that is the same for every row becomes part of it.
    3. A `rms_norm` in f32 of a cast from f16 or bf16, and cast back, becomes one in that type: it computes in f32.

    Not fused: means over other dimensions than the last, inner values that are used elsewhere or are graph outputs,
    scales that differ from row to row or enlarge x, and what `fuse-layer-norm` fuses. f16 and bf16 are computed in f32
    and rounded once. Remarks: each fusion, each near miss.
    """

    name = "fuse-rms-norm"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        kind = graph.RmsNormOp
        return fuse(
            ctx,
            op,
            [FuseRmsNorm(ctx, self.name), TakeScale(ctx, self.name, kind), NarrowNorm(ctx, self.name, kind)],
        )


class FuseRmsNorm(Fusion):
    """x / sqrt(mean(x * x) + epsilon) -> rms_norm(x)"""

    statistic: ClassVar[str] = "rms-norms-fused"
    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def match(self, op: Operation) -> Group | Miss | None:
        norm = normalized(op, self.ctx)
        if norm is None:
            return None
        center = centered(norm, self.ctx)
        if center is not None and use_outside((*norm.ops, *center.ops)) is None:
            return None
        if (obstacle := norm.obstacle()) is not None:
            return Miss(obstacle)
        return Group(norm.ops, lambda: new_norm(graph.RmsNormOp, norm.value, norm, self.ctx), "'rms_norm'")
