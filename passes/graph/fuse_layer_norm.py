"""`fuse-layer-norm`: centered values divided by their deviation become one operation."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.fusion import Fusion, Group, Miss, fuse
from mlopt.passes.graph.row_norm_parts import NarrowNorm, TakeBias, TakeScale
from mlopt.passes.graph.row_norms import averaged, centered, new_norm, normalized, quotients, shifted
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


class FuseLayerNormPass(Pass):
    """Make one `graph.layer_norm` of what computes it.

    1. `d / sqrt(mean(d * d) + epsilon)` with `d = x - mean(x)`, over the last dimensions, becomes `layer_norm`, whose
       scale is 1. The square may be a power, the quotient a product with a reciprocal or with a power of -0.5, the
       means sums divided by the count; epsilon may be any number, or missing.
    2. A product of that and a scale, and a sum of that and a bias, that are the same for every row, become part of it.
    3. A `layer_norm` in f32 of a cast from f16 or bf16, and cast back, becomes one in that type: it computes in f32.

    Not fused: means over other dimensions than the last, inner values that are used elsewhere or are graph outputs,
    scales that differ from row to row or enlarge x, and variances that are differences of two means, which may lose all
    their digits. f16 and bf16 are computed in f32 and rounded once. Remarks: each fusion, each near miss.
    """

    name = "fuse-layer-norm"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        kind = graph.LayerNormOp
        return fuse(
            ctx,
            op,
            [
                FuseLayerNorm(ctx, self.name),
                TakeScale(ctx, self.name, kind),
                TakeBias(ctx, self.name),
                NarrowNorm(ctx, self.name, kind),
            ],
        )


class FuseLayerNorm(Fusion):
    """d / sqrt(mean(d * d) + epsilon) with d = x - mean(x) -> layer_norm(x)"""

    statistic: ClassVar[str] = "layer-norms-fused"
    roots: ClassVar = (graph.MulOp, graph.DivOp)

    def match(self, op: Operation) -> Group | Miss | None:
        norm = normalized(op, self.ctx)
        if norm is None:
            return self._cancelling(op)
        center = centered(norm, self.ctx)
        if center is None:
            return None
        if (obstacle := norm.obstacle()) is not None:
            return Miss(obstacle)
        ops = (*norm.ops, *center.ops)
        return Group(ops, lambda: new_norm(graph.LayerNormOp, center.value, norm, self.ctx), "'layer_norm'")

    def _cancelling(self, op: Operation) -> Miss | None:
        """A miss for a variance that is `mean(x * x) - mean(x) ** 2`."""
        for _, quotient in quotients(op, self.ctx):
            variance, _, _ = shifted(quotient.radicand, self.ctx)
            difference = _inside(variance).owner
            if isinstance(difference, graph.SubOp) and averaged(difference.lhs, self.ctx) is not None:
                square = difference.rhs.owner
                if (
                    isinstance(square, graph.MulOp | graph.PowOp)
                    and averaged(square.lhs, self.ctx) is not None
                ):
                    return Miss("the variance is the difference of two means, which may lose all its digits")
        return None


def _inside(value: SSAValue) -> SSAValue:
    """What reshapes and a lower bound are of: the larger of it and 0."""
    while True:
        match value.owner:
            case graph.ReshapeOp() | graph.ReluOp() | graph.ClipOp():
                value = value.owner.input
            case graph.MaxOp() as op:
                value = op.lhs if isinstance(op.rhs.owner, graph.ConstantOp) else op.rhs
            case _:
                return value
