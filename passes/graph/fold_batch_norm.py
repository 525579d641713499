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
from mlopt.ir.locations import nodes_text
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
    Reports a remark for each that was folded, and for each that was not, or not into the operation before it.
    """

    name = "fold-batch-norm"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        patterns = [FoldIntoConv(ctx, self.name), FoldIntoMatMul(ctx, self.name), IntoMulAdd(ctx, self.name)]
        changed = rewrite_greedily(op, patterns, ctx=ctx).changed
        for left in op.walk():
            if isinstance(left, graph.BatchNormOp):
                ctx.remark(self.name, "missed", f"not folded: {_why_not(left, ctx)}", left)
        return changed


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

    def folded(self, op: graph.BatchNormOp, statistic: str, into: str) -> None:
        """Count a rewrite and report it."""
        self.ctx.count(self.pass_name, statistic)
        self.ctx.remark(self.pass_name, "passed", f"folded 'batch_norm' into {into}", op)


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
        self.folded(op, "folded-into-conv", f"'conv'{nodes_text(conv.location)}")
        rewriter.replace(op, [scaled, shifted, folded], [folded.result])
        rewriter.erase(conv)


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
        self.folded(op, "folded-into-matmul", f"'matmul'{nodes_text(matmul.location)}")
        rewriter.replace(op, [scaled, shifted, product, total], [total.result])
        if add is not None:
            rewriter.erase(add)
        rewriter.erase(matmul)

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
        obstacle = _obstacle_before(op)
        scaled = graph.MulOp(op.input, scale)
        shifted = graph.AddOp(scaled, shift)
        self.folded(op, "became-mul-add", "a multiplication and an addition")
        if obstacle is not None:
            self.ctx.remark(self.pass_name, "missed", f"not folded into what is before it: {obstacle}", op)
        rewriter.replace(op, [scale, shift, scaled, shifted], [shifted.result])


def _why_not(op: graph.BatchNormOp, ctx: CompilerContext) -> str:
    """Why a batch normalization stays as it is."""
    parameters = {"scale": op.scale, "bias": op.bias, "mean": op.mean, "variance": op.variance}
    for name, value in parameters.items():
        if constant_value(value, ctx) is None:
            return f"its {name} is not constant"
    return "a parameter of the result would not be finite"


def _obstacle_before(op: graph.BatchNormOp) -> str | None:
    """Why a batch normalization of constants was not folded into a convolution or matmul before it, if there is one."""
    producer = op.input.owner
    if isinstance(producer, graph.AddOp):
        products = [value.owner for value in producer.operands if isinstance(value.owner, graph.MatMulOp)]
        producer = products[0] if products else producer
    if not isinstance(producer, graph.ConvOp | graph.MatMulOp):
        return None
    name = f"'{producer.name.removeprefix('graph.')}'{nodes_text(producer.location)}"
    if not (producer.result.has_one_use() and op.input.has_one_use()):
        return f"the result of {name} has other uses"
    if isinstance(producer, graph.MatMulOp) and rank_of(op.input) != 2:
        return f"the result of {name} is not of rank 2"
    return f"the weight or bias of {name} is not constant, or would not be finite"


def _finite(*arrays: np.ndarray) -> bool:
    return all(bool(np.all(np.isfinite(array))) for array in arrays)
