"""`fold-batch-norm`: scales and shifts per channel become part of the convolution or matrix product beside them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, rank_of, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.graph.constants import constant_value, make_constant, name_of
from mlopt.passes.graph.contractions import (
    Array,
    Contraction,
    channels_last_dimensions,
    contraction_of,
    keeps_precision,
    per_channel,
)
from mlopt.passes.graph.fusion import described, either_way, name_of_kind, use_outside
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

LARGEST_COPY = 64 * 1024
"""Bytes up to which a weight that something else uses too is scaled: it stays, and there is one more."""

AffineOp = graph.BatchNormOp | graph.MulOp | graph.DivOp | graph.AddOp | graph.SubOp
ContractionOp = graph.ConvOp | graph.ConvTransposeOp | graph.MatMulOp


class FoldBatchNormPass(Pass):
    """Fold what scales and shifts channels by constants into the operation before or after it.

    That is `graph.batch_norm` with constant parameters, where `a = scale / sqrt(variance + epsilon)` and
    `b = bias - mean * a`, and a mul, div, add or sub with a constant that has one number per channel, or one for all.
    F is a convolution, a transposed convolution (both grouped or not) or a matrix product of any rank, with a constant
    weight w on either side, and a constant bias c or none:

    1. F(x, w, c) * a + b becomes F(x, w * a, c * a + b).
    2. F(x * a, w, c) becomes F(x, a * w, c).
    3. F(x + b, w, c) becomes F(x, w, c + b * w), in f32 and f64, where b adds the same at every position: not where
       a convolution pads with zeros, nor in a transposed one of more than one tap.
    4. A batch normalization that is left becomes x * a + b.

    Weights are computed in f64 and rounded once. Not folded: what is between if anything else uses it; weights of more
    than 64 KiB that something else uses too; parameters for which a result is not finite, or would lose digits because
    it is too small for its type. Where a result between the two operations overflowed, there may be a number now.
    Reports a remark for each that was folded, and for each that was not, or not into the operation beside it.
    """

    name = "fold-batch-norm"
    requires: ClassVar = GRAPH_LEVEL
    idempotent: ClassVar[bool] = True

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        foldings = [FoldIntoProducer(ctx, self.name), FoldIntoUser(ctx, self.name)]
        rest = IntoMulAdd(ctx, self.name)
        changed = rewrite_greedily(op, [*foldings, rest], ctx=ctx).changed
        for left in op.walk():
            if isinstance(left, graph.BatchNormOp):
                ctx.remark(self.name, "missed", f"not folded: {_why_not(left, ctx)}", left)
            for folding in foldings if left not in rest.reported else ():
                if isinstance(outcome := folding.match(left), str):
                    ctx.remark(self.name, "missed", f"not folded: {outcome}", left)
        return changed


class Affine(NamedTuple):
    """`value * factors + shifts`, both f64 per channel, or of one element; the shape of the value stays."""

    op: Operation
    value: SSAValue
    factors: Array
    shifts: Array
    name: str
    """What a bias made of the shifts is called."""

    @property
    def scales(self) -> bool:
        """Are there factors other than 1?"""
        return not bool(np.all(self.factors == 1))


def affine_of(op: Operation, axis: int | None, ctx: CompilerContext) -> Affine | None:
    """What `op` does if it scales or shifts a floating-point value along `axis` by finite constants."""
    if not isinstance(op, AffineOp) or not is_float(tensor_type(op.result.type).element_type):
        return None
    if isinstance(op, graph.BatchNormOp):
        factors_and_shifts = _affine_of_norm(op, ctx) if axis == 1 else None
        return (
            None
            if factors_and_shifts is None
            else Affine(op, op.input, *factors_and_shifts, name_of(op.bias, "bias"))
        )
    for value, other, is_swapped in ((op.lhs, op.rhs, False), (op.rhs, op.lhs, True)):
        array = constant_value(other, ctx)
        constants = None if array is None else per_channel(array, shape_of(value), axis)
        if constants is None or (is_swapped and isinstance(op, graph.DivOp)):
            continue
        one, zero = np.ones(1), np.zeros(1)
        match op:
            case graph.MulOp():
                factors, shifts = constants, zero
            case graph.DivOp():
                factors, shifts = 1 / constants, zero
            case graph.AddOp():
                factors, shifts = one, constants
            case graph.SubOp():
                factors, shifts = (-one, constants) if is_swapped else (one, -constants)
        if _finite(factors, shifts):
            return Affine(op, value, factors, shifts, name_of(other, "bias"))
    return None


def _affine_of_norm(op: graph.BatchNormOp, ctx: CompilerContext) -> tuple[Array, Array] | None:
    """`a` and `b`, f64 of shape `[c]`, such that the result is `x * a + b`; None if not known or not finite."""
    arrays = [constant_value(value, ctx) for value in (op.scale, op.bias, op.mean, op.variance)]
    known = [array.astype(np.float64) for array in arrays if array is not None]
    if len(known) < len(arrays):
        return None
    scale, bias, mean, variance = known
    a = scale / np.sqrt(variance + op.epsilon.value.data)
    b = bias - mean * a
    return (a, b) if _finite(a, b) else None


class Folding(NamedTuple):
    """What takes the place of `ops`, the last one first, of which only the first is used elsewhere.

    `affine` says what was folded, `into` the operation that it was folded into.
    """

    ops: Sequence[Operation]
    build: Callable[[], Sequence[Operation]]
    affine: Affine
    into: Contraction


@dataclass
class FoldingPattern(RewritePattern):
    """Base of the foldings."""

    ctx: CompilerContext
    pass_name: str

    @abstractmethod
    def match(self, op: Operation) -> Folding | str | None:
        """What to do with `op`; why it is not done; None if there is nothing like it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        folding = self.match(op)
        if not isinstance(folding, Folding):
            return
        kind, into = name_of_kind(folding.affine.op), folding.into.op
        self.ctx.count(self.pass_name, f"folded-into-{name_of_kind(into)}".replace("_", "-"))
        self.ctx.remark(
            self.pass_name, "passed", f"folded '{kind}' into {described(into)}", folding.affine.op
        )
        rewriter.replace(op, folding.build())
        for old in folding.ops[1:]:
            rewriter.erase(old)

    def folding(
        self,
        ops: Sequence[Operation],
        affine: Affine,
        into: Contraction,
        input: SSAValue,
        scaled: Array | None,
        bias: tuple[Array, str] | None,
    ) -> Folding | str:
        """The contraction of `input`, with another weight if one is given, plus a bias: f64 per channel, and its name.

        Without `bias` the contraction keeps its own, if it has any.
        """
        what = described(into.op)
        if scaled is not None:
            if into.array.nbytes > LARGEST_COPY and not _is_only_used_by(into.weight, into.op):
                return f"the weight of {what} is used elsewhere too"
            if not keeps_precision(into.array, scaled):
                return f"the scaled weight of {what} would not be finite, or lose digits"
        rounded = None
        if bias is not None:
            rounded = self._rounded_bias(bias[0], into)
            if not _finite(rounded):
                return f"the bias of {what} would not be finite"

        def build() -> list[Operation]:
            new: list[Operation] = []
            weight, own = into.weight, into.bias
            if scaled is not None:
                new.append(make_constant(scaled, self.ctx, name_of(weight, "weight")))
                weight = new[-1].results[0]
            if rounded is None or bias is None:
                return [*new, into.again(input, weight, own)]
            constant = make_constant(rounded, self.ctx, bias[1])
            if into.takes_bias:
                return [*new, constant, into.again(input, weight, constant.result)]
            product = into.again(input, weight, None)
            return [*new, constant, product, graph.AddOp(product, constant)]

        return Folding(ops, build, affine, into)

    def _rounded_bias(self, bias: Array, into: Contraction) -> Array:
        """A bias per channel in the shape that it is added in, and in the type of the result."""
        (result,) = into.op.results
        if into.takes_bias:
            bias = np.broadcast_to(bias, (shape_of(result)[1],))
        else:
            bias = channels_last_dimensions(bias, rank_of(result), into.result_axis)
        return bias.astype(to_numpy_dtype(tensor_type(result.type).element_type))


class Sum(NamedTuple):
    """A contraction and the bias that is added to its result, f64 per channel: by `add` if that is there."""

    contraction: Contraction
    add: graph.AddOp | None
    bias: Array
    bias_name: str | None

    @property
    def ops(self) -> list[Operation]:
        """The operations, the last one first."""
        return [op for op in (self.add, self.contraction.op) if op is not None]


class FoldIntoProducer(FoldingPattern):
    """F(x, w, c) * a + b -> F(x, w * a, c * a + b)"""

    def match(self, op: Operation) -> Folding | str | None:
        if not isinstance(op, AffineOp):
            return None
        is_norm = isinstance(op, graph.BatchNormOp)
        for value in op.operands[:1] if is_norm else op.operands:
            found = _sum_at(value, self.ctx)
            if isinstance(found, Sum):
                outcome = self._fold(op, value, found)
                if outcome is not None:
                    return outcome
            elif is_norm:
                return found
        return None

    def _fold(self, op: AffineOp, value: SSAValue, found: Sum) -> Folding | str | None:
        into = found.contraction
        affine = affine_of(op, into.result_axis, self.ctx)
        if affine is None or affine.value != value:
            if isinstance(op, graph.BatchNormOp) and into.result_axis != 1:
                return f"dimension 1 is not what the weight of {described(into.op)} brings in"
            return None
        if isinstance(op, graph.AddOp) and not into.takes_bias and found.add is None:
            return None  # a matrix product and its bias: nothing to gain
        if (use := use_outside([op, *found.ops])) is not None:
            return use
        scaled = into.scaled_results(affine.factors) if affine.scales else None
        bias = found.bias * affine.factors + affine.shifts
        has_bias = found.bias_name is not None or bool(np.any(bias))
        named = (bias, found.bias_name or affine.name) if has_bias else None
        return self.folding([op, *found.ops], affine, into, into.input, scaled, named)


def _sum_at(value: SSAValue, ctx: CompilerContext) -> Sum | str | None:
    """The contraction whose result, perhaps with a bias added, is `value`; why it can't be folded into."""
    producer = value.owner
    if isinstance(producer, graph.AddOp):
        for product, added in either_way(producer):
            if isinstance(product.owner, graph.MatMulOp):
                return _sum_of(producer, product, product.owner, added, ctx)
        return None
    if not isinstance(producer, ContractionOp):
        return None
    if "activation" in producer.properties or (isinstance(producer, graph.ConvOp) and producer.residual):
        return f"{described(producer)} adds a residual or has an activation"
    contraction = contraction_of(producer, ctx)
    if contraction is None:
        return f"the weight of {described(producer)} is not constant"
    if contraction.bias is None:
        return Sum(contraction, None, np.zeros(1), None)
    own = constant_value(contraction.bias, ctx)
    if own is None:
        return f"the bias of {described(producer)} is not constant"
    return Sum(contraction, None, own.astype(np.float64), name_of(contraction.bias, "bias"))


def _sum_of(
    add: graph.AddOp, product: SSAValue, matmul: graph.MatMulOp, added: SSAValue, ctx: CompilerContext
) -> Sum | str:
    """A matrix product and its bias; why it is none."""
    contraction = contraction_of(matmul, ctx)
    if contraction is None:
        return f"the weight of {described(matmul)} is not constant"
    affine = affine_of(add, contraction.result_axis, ctx)
    if affine is None or affine.value != product:
        return (
            f"what is added to the result of {described(matmul)} is not constant, with one number per channel"
        )
    return Sum(contraction, add, affine.shifts, name_of(added, "bias"))


class FoldIntoUser(FoldingPattern):
    """F(x * a, w, c) -> F(x, a * w, c); F(x + b, w, c) -> F(x, w, c + b * w)"""

    def match(self, op: Operation) -> Folding | str | None:
        if not isinstance(op, ContractionOp):
            return None
        if not any(isinstance(operand.owner, AffineOp) for operand in op.operands):
            return None
        into = contraction_of(op, self.ctx)
        if into is None or not isinstance(before := into.input.owner, AffineOp):
            return None
        affine = affine_of(before, into.input_axis, self.ctx)
        if affine is None:
            return None
        if (use := use_outside([op, before])) is not None:
            return use
        bias = None
        if bool(np.any(affine.shifts)):
            bias = self._bias(affine, into)
            if isinstance(bias, str):
                return bias
        size = shape_of(into.input)[into.input_axis]
        scaled = into.scaled_inputs(np.broadcast_to(affine.factors, (size,))) if affine.scales else None
        return self.folding([op, before], affine, into, affine.value, scaled, bias)

    def _bias(self, affine: Affine, into: Contraction) -> tuple[Array, str] | str:
        """The bias with what the shifts of the input come to, and its name; why there is none."""
        what = described(into.op)
        if not isinstance(tensor_type(into.input.type).element_type, Float32Type | Float64Type):
            return f"what is added before {what} would lose digits in a bias of 16 bits"
        shifts = into.shift(affine.shifts)
        if shifts is None:
            return f"what is added before {what} does not come to the same at every position after it"
        if into.bias is None:
            return shifts, affine.name
        own = constant_value(into.bias, self.ctx)
        if own is None:
            return f"the bias of {what} is not constant"
        return own.astype(np.float64) + shifts, name_of(into.bias, "bias")


@dataclass
class IntoMulAdd(RewritePattern):
    """batch_norm(x) -> x * a + b"""

    ctx: CompilerContext
    pass_name: str
    reported: set[Operation] = field(default_factory=set[Operation])
    """The multiplications it has made; why they are not folded either has been said."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BatchNormOp, rewriter: PatternRewriter, /) -> None:
        affine = affine_of(op, 1, self.ctx)
        if affine is None:
            return
        dtype = to_numpy_dtype(tensor_type(op.input.type).element_type)
        factors, shifts = (
            channels_last_dimensions(array, rank_of(op.input), 1).astype(dtype)
            for array in (affine.factors, affine.shifts)
        )
        if not _finite(factors, shifts):
            return
        obstacle = FoldIntoProducer(self.ctx, self.pass_name).match(op)
        scale = make_constant(factors, self.ctx, name_of(op.scale, "scale"))
        shift = make_constant(shifts, self.ctx, name_of(op.bias, "shift"))
        self.ctx.count(self.pass_name, "became-mul-add")
        self.ctx.remark(
            self.pass_name, "passed", "folded 'batch_norm' into a multiplication and an addition", op
        )
        if isinstance(obstacle, str):
            self.ctx.remark(self.pass_name, "missed", f"not folded into what is before it: {obstacle}", op)
        scaled = graph.MulOp(op.input, scale)
        self.reported.add(scaled)
        rewriter.replace(op, [scale, shift, scaled, graph.AddOp(scaled, shift)])


def _why_not(op: graph.BatchNormOp, ctx: CompilerContext) -> str:
    """Why a batch normalization stays as it is."""
    parameters = {"scale": op.scale, "bias": op.bias, "mean": op.mean, "variance": op.variance}
    for name, value in parameters.items():
        if constant_value(value, ctx) is None:
            return f"its {name} is not constant"
    return "a parameter of the result would not be finite"


def _is_only_used_by(value: SSAValue, user: Operation) -> bool:
    """Is a constant, and whatever of it is reshaped or transposed on the way, used by one operation only?"""
    while value.has_one_use():
        if isinstance(value.owner, graph.ConstantOp):
            return True
        assert isinstance(value.owner, graph.ReshapeOp | graph.TransposeOp)
        value = value.owner.input
    return False


def _finite(*arrays: Array) -> bool:
    return all(bool(np.all(np.isfinite(array))) for array in arrays)
