"""Passes that are wrong, each in one way that passes of compilers have been wrong in, and a module that shows it.

Beside the place where the fault shows, each module has places where the same rewrite is harmless, or none is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, UnitAttr, f32
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.dialects.kernel import FillOp, LaunchOp
from mlopt.ir.context import CompilerContext
from mlopt.ir.rewriting import rewrite_greedily
from mlopt.passes.convert_graph_to_kernel.convert_graph_to_kernel import ConvertGraphToKernelPass
from mlopt.passes.memref.assign_buffers import AssignBuffersPass
from mlopt.passmanager import Pass

DONE = "test.done"
"""Marks operations that a pattern has made, so that it ends."""


@dataclass(frozen=True)
class PatternPass(Pass):
    """A pass of one pattern."""

    pattern: ClassVar[type[RewritePattern]]

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return rewrite_greedily(op, [self.pattern()]).changed


def done(op: Operation) -> Operation:
    op.attributes[DONE] = UnitAttr()
    return op


# Graph level


class MulIntoMatMul(RewritePattern):
    """matmul(x, w) * c -> matmul(x * c, w), also where something else uses the product."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter, /) -> None:
        product = op.lhs.owner
        if isinstance(product, graph.MatMulOp):
            scaled = graph.MulOp(product.lhs, op.rhs)
            rewriter.insert(scaled, InsertPoint.before(product))
            product.operands[0] = scaled.result
            rewriter.replace(op, [], [product.result])


@dataclass(frozen=True)
class MissingUseCheckPass(PatternPass):
    """A missing check for a single use."""

    name = "missing-use-check"
    pattern = MulIntoMatMul


MISSING_USE_CHECK = """
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x4xf32>) -> tensor<3x4xf32> {
  %c = graph.constant dense<3.0> : tensor<f32>
  %0 = graph.matmul %x, %w : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %1 = graph.mul %0, %c : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %2 = graph.matmul %1, %w : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %3 = graph.mul %2, %c : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %4 = graph.add %2, %3 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %4 : tensor<3x4xf32>
}"""


class SoftmaxThroughTranspose(RewritePattern):
    """transpose(softmax(x)) -> softmax(transpose(x)), along the axis that it was."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.TransposeOp, rewriter: PatternRewriter, /) -> None:
        softmax = op.input.owner
        if isinstance(softmax, graph.SoftmaxOp):
            moved = graph.TransposeOp(softmax.input, op.perm.get_values())
            rewriter.replace(op, [moved, graph.SoftmaxOp(moved, softmax.axis.value.data)])


@dataclass(frozen=True)
class WrongAxisPass(PatternPass):
    """An axis that does not follow a transpose."""

    name = "wrong-axis"
    pattern = SoftmaxThroughTranspose


WRONG_AXIS = """
func.func @main(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %0 = graph.softmax %x axis = 1 : tensor<3x4xf32>
  %1 = graph.transpose %0 perm = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
  func.return %1 : tensor<4x3xf32>
}"""


class ReluIntoConv(RewritePattern):
    """relu(conv(x, w, b)) -> relu(conv(x, w))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReluOp, rewriter: PatternRewriter, /) -> None:
        conv = op.input.owner
        if isinstance(conv, graph.ConvOp) and conv.bias is not None:
            rewriter.replace(conv, graph.ConvOp(conv.input, conv.weight))


@dataclass(frozen=True)
class DroppedBiasPass(PatternPass):
    """A bias that gets lost."""

    name = "dropped-bias"
    pattern = ReluIntoConv


DROPPED_BIAS = """
func.func @main(%x: tensor<1x2x5x5xf32>, %w: tensor<3x2x3x3xf32>, %b: tensor<3xf32>) -> tensor<1x3x3x3xf32> {
  %0 = graph.conv %x, %w, %b : (tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x3x3xf32>
  %1 = graph.relu %0 : tensor<1x3x3x3xf32>
  func.return %1 : tensor<1x3x3x3xf32>
}"""


class SwapSub(RewritePattern):
    """a - b -> b - a"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SubOp, rewriter: PatternRewriter, /) -> None:
        if DONE not in op.attributes:
            rewriter.replace(op, done(graph.SubOp(op.rhs, op.lhs)))


@dataclass(frozen=True)
class SwappedOperandsPass(PatternPass):
    """Operands that change places."""

    name = "swapped-operands"
    pattern = SwapSub


SWAPPED_OPERANDS = """
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.sub %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = graph.neg %b : tensor<4xf32>
  %2 = graph.sub %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.sub %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = graph.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = graph.mul %4, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}"""


class DoubleToSum(RewritePattern):
    """x * c -> x + x, whatever the constant c is."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.MulOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(op.rhs.owner, graph.ConstantOp):
            rewriter.replace(op, graph.AddOp(op.lhs, op.lhs))


@dataclass(frozen=True)
class WrongConstantPass(PatternPass):
    """A constant taken for another."""

    name = "wrong-constant"
    pattern = DoubleToSum


WRONG_CONSTANT = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %two = graph.constant dense<2.0> : tensor<f32>
  %three = graph.constant dense<3.0> : tensor<f32>
  %0 = graph.mul %a, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = graph.mul %0, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = graph.mul %1, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}"""


class MergeSlices(RewritePattern):
    """slice(slice(x)) -> slice(x), with the second start counted from 1."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SliceOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if isinstance(inner, graph.SliceOp):
            first, start = inner.starts.get_values()[0], op.starts.get_values()[0]
            start = first + max(0, start - 1)
            rewriter.replace(op, graph.SliceOp(inner.input, [start], [start + shape_of(op.result)[0]]))


@dataclass(frozen=True)
class OffByOnePass(PatternPass):
    """A start that is one off."""

    name = "off-by-one"
    pattern = MergeSlices


OFF_BY_ONE = """
func.func @main(%x: tensor<9xf32>) -> tensor<5xf32> {
  %0 = graph.slice %x starts = [1] stops = [8] : (tensor<9xf32>) -> tensor<7xf32>
  %1 = graph.slice %0 starts = [2] stops = [7] : (tensor<7xf32>) -> tensor<5xf32>
  func.return %1 : tensor<5xf32>
}"""


class WhereOfMask(RewritePattern):
    """where(m, x, y) -> x, as if a mask were always true."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.WhereOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, [], [op.true_value])


@dataclass(frozen=True)
class DroppedMaskPass(PatternPass):
    """A mask that gets lost."""

    name = "dropped-mask"
    pattern = WhereOfMask


DROPPED_MASK = """
func.func @main(%m: tensor<3x4xi1>, %x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %low = graph.constant dense<-1.0e+09> : tensor<f32>
  %0 = graph.where %m, %x, %low : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %1 = graph.softmax %0 axis = 1 : tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}"""


class CancelSum(RewritePattern):
    """(x + c) - c -> x, which rounding makes wrong where c is large."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SubOp, rewriter: PatternRewriter, /) -> None:
        total = op.lhs.owner
        if isinstance(total, graph.AddOp) and total.rhs is op.rhs:
            rewriter.replace(op, [], [total.lhs])


@dataclass(frozen=True)
class ReassociationPass(PatternPass):
    """Floating-point sums in another order, beyond the tolerance."""

    name = "reassociation"
    pattern = CancelSum


REASSOCIATION = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %small = graph.constant dense<0.5> : tensor<f32>
  %large = graph.constant dense<30000.0> : tensor<f32>
  %0 = graph.add %x, %small : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = graph.sub %0, %small : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = graph.add %1, %large : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = graph.sub %2, %large : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  func.return %3 : tensor<8xf32>
}"""


class MergeTransposes(RewritePattern):
    """transpose(transpose(x)) -> transpose(x), the permutations composed the wrong way round."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.TransposeOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if isinstance(inner, graph.TransposeOp):
            first, second = inner.perm.get_values(), op.perm.get_values()
            rewriter.replace(op, graph.TransposeOp(inner.input, [second[axis] for axis in first]))


@dataclass(frozen=True)
class WrongPermutationPass(PatternPass):
    """Permutations in the wrong order."""

    name = "wrong-permutation"
    pattern = MergeTransposes


WRONG_PERMUTATION = """
func.func @main(%x: tensor<3x3x3xf32>) -> tensor<3x3x3xf32> {
  %0 = graph.transpose %x perm = [1, 2, 0] : (tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  %1 = graph.transpose %0 perm = [0, 2, 1] : (tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  func.return %1 : tensor<3x3x3xf32>
}"""


class SoftmaxByExp(RewritePattern):
    """softmax(x) -> exp(x) / sum(exp(x)), which overflows."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SoftmaxOp, rewriter: PatternRewriter, /) -> None:
        powers = graph.ExpOp(op.input)
        total = graph.ReduceSumOp(powers, [op.axis.value.data], keepdims=True)
        rewriter.replace(op, [powers, total, graph.DivOp(powers, total)])


@dataclass(frozen=True)
class NewNanPass(PatternPass):
    """Numbers that become NaN."""

    name = "new-nan"
    pattern = SoftmaxByExp


NEW_NAN = """
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %c = graph.constant dense<1000.0> : tensor<f32>
  %0 = graph.softmax %x axis = 1 : tensor<3x4xf32>
  %1 = graph.mul %0, %c : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %2 = graph.softmax %1 axis = 1 : tensor<3x4xf32>
  func.return %2 : tensor<3x4xf32>
}"""

# Kernel level


class FillWithOne(RewritePattern):
    """A sum that starts at 1."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FillOp, rewriter: PatternRewriter, /) -> None:
        constant = op.value.owner
        if isinstance(constant, arith.ConstantOp) and DONE not in op.attributes:
            one = arith.ConstantOp(FloatAttr(1.0, f32))
            rewriter.insert(one, InsertPoint.before(op))
            op.operands[0] = one.result
            done(op)
            rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class WrongInitPass(PatternPass):
    """A wrong initial value."""

    name = "wrong-init"
    pattern = FillWithOne


class SwapLaunchIns(RewritePattern):
    """launch ins(a, b) -> launch ins(b, a)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LaunchOp, rewriter: PatternRewriter, /) -> None:
        if len(op.ins) == 2 and op.ins[0].type == op.ins[1].type and DONE not in op.attributes:
            op.operands[0], op.operands[1] = op.operands[1], op.operands[0]
            done(op)
            rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class SwappedInsPass(PatternPass):
    """Operands of a launch that change places."""

    name = "swapped-ins"
    pattern = SwapLaunchIns


CHAIN = """
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = graph.add %0, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = graph.matmul %1, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = graph.matmul %2, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %3 : tensor<4x4xf32>
}"""

# memref level


class ReuseAllocation(RewritePattern):
    """A call that writes to a new buffer of some type writes to the one before it of that type."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: memref.AllocOp, rewriter: PatternRewriter, /) -> None:
        previous = op.prev_op
        while previous is not None:
            if isinstance(previous, memref.AllocOp) and previous.memref.type == op.memref.type:
                rewriter.replace(op, [], [previous.memref])
                return
            previous = previous.prev_op


@dataclass(frozen=True)
class WrongReusePass(PatternPass):
    """Memory overwritten that is still needed."""

    name = "wrong-reuse"
    pattern = ReuseAllocation


@dataclass(frozen=True)
class OverlappingOffsetsPass(AssignBuffersPass):
    """Buffers assigned, then all placed at the start of the arena."""

    name = "overlapping-offsets"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        super().run(ctx, op)
        for inner in op.walk():
            if isinstance(inner, arith.ConstantOp) and isinstance(inner.result.type, IndexType):
                inner.properties["value"] = IntegerAttr(0, IndexType())
        return True


# Conversions


@dataclass(frozen=True)
class FaultyConversionPass(ConvertGraphToKernelPass):
    """A conversion that swaps the operands of subtractions."""

    name = "faulty-conversion"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        rewrite_greedily(op, [SwapSub()])
        for inner in op.walk():
            inner.attributes.pop(DONE, None)
        return super().run(ctx, op)


@dataclass(frozen=True)
class Fault:
    """A faulty pass, the passes that lead up to it, a module that shows it, and the rewrite to blame.

    `pattern` and `op` name the rewrite, None where the fault is in none; `size` is how many operations are enough to
    show the fault, None at the memref level, where modules are not reduced.
    """

    pass_: Pass
    before: tuple[str, ...]
    text: str
    pattern: str | None
    op: str | None
    number: int | None
    size: int | None


TO_MEMREF = ("convert-graph-to-kernel", "convert-kernel-to-memref")

FAULTS = (
    Fault(MissingUseCheckPass(), (), MISSING_USE_CHECK, "MulIntoMatMul", "graph.mul", 2, 4),
    Fault(WrongAxisPass(), (), WRONG_AXIS, "SoftmaxThroughTranspose", "graph.transpose", 1, 2),
    Fault(DroppedBiasPass(), (), DROPPED_BIAS, "ReluIntoConv", "graph.relu", 1, 2),
    Fault(SwappedOperandsPass(), (), SWAPPED_OPERANDS, "SwapSub", "graph.sub", 2, 1),
    Fault(WrongConstantPass(), (), WRONG_CONSTANT, "DoubleToSum", "graph.mul", 2, 2),
    Fault(OffByOnePass(), (), OFF_BY_ONE, "MergeSlices", "graph.slice", 1, 2),
    Fault(DroppedMaskPass(), (), DROPPED_MASK, "WhereOfMask", "graph.where", 1, 2),
    Fault(ReassociationPass(), (), REASSOCIATION, "CancelSum", "graph.sub", 2, 3),
    Fault(WrongPermutationPass(), (), WRONG_PERMUTATION, "MergeTransposes", "graph.transpose", 1, 2),
    Fault(NewNanPass(), (), NEW_NAN, "SoftmaxByExp", "graph.softmax", 2, 1),
    Fault(WrongInitPass(), TO_MEMREF[:1], CHAIN, "FillWithOne", "kernel.fill", 1, 2),
    Fault(SwappedInsPass(), TO_MEMREF[:1], CHAIN, "SwapLaunchIns", "kernel.launch", 1, 2),
    Fault(WrongReusePass(), TO_MEMREF, CHAIN, "ReuseAllocation", "memref.alloc", 1, None),
    Fault(OverlappingOffsetsPass(), TO_MEMREF, CHAIN, None, None, None, None),
    Fault(FaultyConversionPass(), (), SWAPPED_OPERANDS, "SwapSub", "graph.sub", 2, 1),
)
