"""`fold-batch-norm`: batch normalization with constant statistics becomes part of the operation before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.constants import constant_value, make_constant, name_of
from mlopt.passmanager.base import Pass


@dataclass(frozen=True)
class FoldBatchNormPass(Pass):
    """Fold `graph.batch_norm` with constant parameters.

    With `a = scale / sqrt(variance + epsilon)` and `b = bias - mean * a`:

    1. conv(x, w, c) with constant w and c (or none) and no other use becomes conv(x, w * a, c * a + b).
    2. matmul(x, w) + c of rank 2, likewise, becomes matmul(x, w * a) + (c * a + b).
    3. What is left becomes x * a + b.

    Computed in f64 and rounded once. Not folded: parameters that are not constant, or for which a result is not finite.
    """

    name = "fold-batch-norm"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        patterns = [FoldIntoConv(ctx, self.name), FoldIntoMatMul(ctx, self.name), IntoMulAdd(ctx, self.name)]
        return rewrite_greedily(op, patterns, ctx=ctx).changed


@dataclass
class BatchNormPattern(RewritePattern):
    """Base of the three rewrites."""

    ctx: CompilerContext
    pass_name: str

    def affine(self, op: graph.BatchNormOp) -> tuple[np.ndarray, np.ndarray] | None:
        """`a` and `b`, f64 of shape `[c]`, such that the result is `x * a + b`; None if not known or not finite."""
        parameters = [self.array(value) for value in (op.scale, op.bias, op.mean, op.variance)]
        scale, bias, mean, variance = parameters
        if scale is None or bias is None or mean is None or variance is None:
            return None
        with np.errstate(all="ignore"):
            a = scale / np.sqrt(variance + op.epsilon.value.data)
            b = bias - mean * a
        return (a, b) if _finite(a, b) else None

    def array(self, value: SSAValue) -> np.ndarray | None:
        """The constant value in f64."""
        array = constant_value(value, self.ctx)
        return None if array is None else array.astype(np.float64)

    def constant(self, array: np.ndarray, like: SSAValue, name: str) -> graph.ConstantOp | None:
        """A constant of the f64 array in the element type of `like`; None if it is not finite there."""
        with np.errstate(over="ignore"):
            rounded = array.astype(to_numpy_dtype(tensor_type(like.type).element_type))
        return make_constant(rounded, self.ctx, name) if _finite(rounded) else None

    def count(self, statistic: str) -> None:
        self.ctx.count(self.pass_name, statistic)


class FoldIntoConv(BatchNormPattern):
    """batch_norm(conv(x, w, c)) -> conv(x, w * a, c * a + b)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BatchNormOp, rewriter: PatternRewriter, /) -> None:
        conv = op.input.owner
        if not isinstance(conv, graph.ConvOp) or not conv.result.has_one_use():
            return
        affine = self.affine(op)
        weight = self.array(conv.weight)
        bias = np.zeros(1) if conv.bias is None else self.array(conv.bias)
        if affine is None or weight is None or bias is None:
            return
        a, b = affine
        scaled = self.constant(
            weight * a.reshape(-1, *[1] * (weight.ndim - 1)), conv.weight, name_of(conv.weight, "weight")
        )
        shifted = self.constant(bias * a + b, conv.weight, name_of(conv.bias or op.bias, "bias"))
        if scaled is None or shifted is None:
            return
        window = conv.window
        folded = graph.ConvOp(
            conv.input,
            scaled,
            shifted,
            strides=window.strides,
            pads=window.low + window.high,
            dilations=window.dilations,
            group=conv.groups,
        )
        rewriter.replace(op, [scaled, shifted, folded], [folded.result])
        rewriter.erase(conv)
        self.count("folded-into-conv")


class FoldIntoMatMul(BatchNormPattern):
    """batch_norm(matmul(x, w) + c) -> matmul(x, w * a) + (c * a + b), for results of rank 2"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BatchNormOp, rewriter: PatternRewriter, /) -> None:
        if rank_of(op.input) != 2:
            return
        matched = self._match(op.input)
        affine = self.affine(op)
        if matched is None or affine is None:
            return
        matmul, bias, add = matched
        weight = self.array(matmul.rhs)
        if weight is None or weight.ndim != 2:
            return
        a, b = affine
        scaled = self.constant(weight * a, matmul.rhs, name_of(matmul.rhs, "weight"))
        shifted = self.constant(bias * a + b, matmul.rhs, name_of(op.bias, "bias"))
        if scaled is None or shifted is None:
            return
        product = graph.MatMulOp(matmul.lhs, scaled)
        total = graph.AddOp(product, shifted)
        rewriter.replace(op, [scaled, shifted, product, total], [total.result])
        if add is not None:
            rewriter.erase(add)
        rewriter.erase(matmul)
        self.count("folded-into-matmul")

    def _match(self, value: SSAValue) -> tuple[graph.MatMulOp, np.ndarray, graph.AddOp | None] | None:
        """The matmul, the bias (f64, broadcasts to `[c]`), and the addition if there is one; each used once."""
        if not value.has_one_use():
            return None
        match value.owner:
            case graph.MatMulOp():
                return value.owner, np.zeros(1), None
            case graph.AddOp():
                add = value.owner
                for product, added in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
                    bias = self.array(added)
                    if (
                        isinstance(product.owner, graph.MatMulOp)
                        and product.has_one_use()
                        and shape_of(product) == shape_of(value)
                        and bias is not None
                        and bias.shape[-2:-1] in ((), (1,))
                    ):
                        return product.owner, bias.reshape(-1), add
            case _:
                pass
        return None


class IntoMulAdd(BatchNormPattern):
    """batch_norm(x) -> x * a + b"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BatchNormOp, rewriter: PatternRewriter, /) -> None:
        affine = self.affine(op)
        if affine is None:
            return
        per_channel = [array.reshape(-1, *[1] * (rank_of(op.input) - 2)) for array in affine]
        scale = self.constant(per_channel[0], op.input, name_of(op.scale, "scale"))
        shift = self.constant(per_channel[1], op.input, name_of(op.bias, "shift"))
        if scale is None or shift is None:
            return
        scaled = graph.MulOp(op.input, scale)
        shifted = graph.AddOp(scaled, shift)
        rewriter.replace(op, [scale, shift, scaled, shifted], [shifted.result])
        self.count("became-mul-add")


def _finite(*arrays: np.ndarray) -> bool:
    return all(bool(np.all(np.isfinite(array))) for array in arrays)
