"""Canonicalization patterns of the graph dialect. Every one is exact: the same bits for every input.

What is not here is not exact: `x + 0.0` (it turns -0.0 into 0.0), `x * 0`, `x - x`, reassociation.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import (
    dense_attr,
    get_ints,
    is_bool,
    is_integer,
    is_unsigned,
    shape_of,
    tensor_type,
)
from mlopt.ir.dtypes import dense_to_array, to_numpy_dtype


class DropIdentityMovement(RewritePattern):
    """reshape, expand, cast or pad to the operand's own type; transpose in order; slice of everything -> the operand"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        match op:
            case graph.ReshapeOp() | graph.ExpandOp() | graph.CastOp():
                same = True
            case graph.PadOp():
                same = all(width == (0, 0) for width in op.widths)
            case graph.TransposeOp():
                same = op.permutation == tuple(range(len(op.permutation)))
            case graph.SliceOp():
                same = all(step == 1 for _, _, step in op.ranges)
            case _:
                return
        if same and op.input.type == op.result.type:
            rewriter.replace(op, [], [op.input])


class MergeTransposes(RewritePattern):
    """transpose(transpose(x, p), q) -> transpose(x, p[q])"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.TransposeOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if isinstance(inner, graph.TransposeOp):
            perm = [inner.permutation[axis] for axis in op.permutation]
            rewriter.replace(op, graph.TransposeOp(inner.input, perm))


class TransposeOfOnes(RewritePattern):
    """transpose that only moves dimensions of size 1 -> reshape"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.TransposeOp, rewriter: PatternRewriter, /) -> None:
        shape = shape_of(op.input)
        moved = [axis for axis in op.permutation if shape[axis] != 1]
        if moved == sorted(moved):
            rewriter.replace(op, graph.ReshapeOp(op.input, shape_of(op.result)))


class MergeReshapes(RewritePattern):
    """reshape(reshape(x)) -> reshape(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(inner := op.input.owner, graph.ReshapeOp):
            rewriter.replace(op, graph.ReshapeOp(inner.input, shape_of(op.result)))


class MergeExpands(RewritePattern):
    """expand(expand(x)) -> expand(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ExpandOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(inner := op.input.owner, graph.ExpandOp):
            rewriter.replace(op, graph.ExpandOp(inner.input, shape_of(op.result)))


class MergeCasts(RewritePattern):
    """cast(cast(x, B), C) -> cast(x, C), if the first cast keeps every value"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.CastOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if not isinstance(inner, graph.CastOp):
            return
        first, middle, last = (
            tensor_type(value.type).element_type for value in (inner.input, op.input, op.result)
        )
        if widens(first, middle):
            rewriter.replace(op, graph.CastOp(inner.input, last))


class SimplifyConcat(RewritePattern):
    """concat without its empty operands; of one operand -> the operand"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ConcatOp, rewriter: PatternRewriter, /) -> None:
        axis = op.axis.value.data
        full = [operand for operand in op.inputs if shape_of(operand)[axis] > 0] or [op.inputs[0]]
        if len(full) == 1:
            rewriter.replace(op, [], full)
        elif len(full) < len(op.inputs):
            rewriter.replace(op, graph.ConcatOp(full, axis))


class SplitInOne(RewritePattern):
    """split into one part -> the operand"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SplitOp, rewriter: PatternRewriter, /) -> None:
        if len(op.parts) == 1:
            rewriter.replace(op, [], [op.input])


class ClipWithoutBounds(RewritePattern):
    """clip without bounds -> the operand"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ClipOp, rewriter: PatternRewriter, /) -> None:
        if op.lower is None and op.upper is None:
            rewriter.replace(op, [], [op.input])


class ReduceNothing(RewritePattern):
    """reduction over no axis -> the operand"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, graph.ReductionOp) and not get_ints(op.properties, "axes"):
            rewriter.replace(op, [], [op.input])


class DropNeutralOperand(RewritePattern):
    """x * 1, x / 1, x + (-0.0), x - 0.0, and with all ones, or with all zeros -> x

    The other operand must not enlarge the result. +0.0 is no neutral element of floating-point addition and -0.0
    none of subtraction: they change -0.0 to 0.0.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, graph.BinaryOp):
            return
        sides = [(op.lhs, op.rhs)]
        if isinstance(op, graph.AddOp | graph.MulOp | graph.AndOp | graph.OrOp):
            sides.append((op.rhs, op.lhs))
        for kept, other in sides:
            if kept.type == op.result.type and is_filled_with(other, neutral_element(op)):
                rewriter.replace(op, [], [kept])
                return


def neutral_element(op: graph.BinaryOp) -> np.ndarray:
    """What changes nothing as the right operand, as an array of rank 0."""
    dtype = to_numpy_dtype(tensor_type(op.rhs.type).element_type)
    match op:
        case graph.MulOp() | graph.DivOp():
            return np.ones((), dtype)
        case graph.AndOp():
            return np.invert(np.zeros((), dtype))
        case graph.AddOp():
            return np.negative(np.zeros((), dtype))
        case _:
            return np.zeros((), dtype)


class WhereOfConstant(RewritePattern):
    """where with a condition that is true everywhere, or false everywhere -> that value, expanded if need be"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.WhereOp, rewriter: PatternRewriter, /) -> None:
        if op.true_value == op.false_value or is_filled_with(op.condition, np.array(True)):
            chosen = op.true_value
        elif is_filled_with(op.condition, np.array(False)):
            chosen = op.false_value
        else:
            return
        if chosen.type == op.result.type:
            rewriter.replace(op, [], [chosen])
        else:
            rewriter.replace(op, graph.ExpandOp(chosen, shape_of(op.result)))


class DropDouble(RewritePattern):
    """relu(relu(x)) -> relu(x); neg(neg(x)), not(not(x)) -> x"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, graph.UnaryOp):
            return
        inner = op.input.owner
        if isinstance(inner, graph.UnaryOp) and type(inner) is type(op):
            rewriter.replace(op, [], [inner.result if isinstance(op, graph.ReluOp) else inner.input])


def is_filled_with(value: SSAValue, element: np.ndarray) -> bool:
    """Is the value a constant that stands in the IR, with one element at least, all with these bits?"""
    if not isinstance(value.owner, graph.ConstantOp) or (dense := dense_attr(value.owner.value)) is None:
        return False
    array = dense_to_array(dense)
    if array.size == 0 or array.dtype != element.dtype:
        return False
    return array.tobytes() == element.tobytes() * array.size


_FLOAT_WIDTHS: dict[type[Attribute], int] = {
    Float16Type: 16,
    BFloat16Type: 16,
    Float32Type: 32,
    Float64Type: 64,
}


def widens(source: Attribute, target: Attribute) -> bool:
    """Does a cast keep every value apart, within floats or within integers, or come from i1?"""
    if is_bool(source):
        return True
    if is_integer(source) and is_integer(target):
        narrower = to_numpy_dtype(source).itemsize < to_numpy_dtype(target).itemsize
        return narrower and (is_unsigned(source) or not is_unsigned(target))
    widths = [_FLOAT_WIDTHS.get(type(element)) for element in (source, target)]
    return widths[0] is not None and widths[1] is not None and widths[0] < widths[1]


_DROP_IDENTITY = DropIdentityMovement()
_PATTERNS: dict[type[Operation], tuple[RewritePattern, ...]] = {
    graph.ReshapeOp: (_DROP_IDENTITY, MergeReshapes()),
    graph.TransposeOp: (_DROP_IDENTITY, MergeTransposes(), TransposeOfOnes()),
    graph.ExpandOp: (_DROP_IDENTITY, MergeExpands()),
    graph.CastOp: (_DROP_IDENTITY, MergeCasts()),
    graph.SliceOp: (_DROP_IDENTITY,),
    graph.PadOp: (_DROP_IDENTITY,),
    graph.ConcatOp: (SimplifyConcat(),),
    graph.SplitOp: (SplitInOne(),),
    graph.ClipOp: (ClipWithoutBounds(),),
    graph.WhereOp: (WhereOfConstant(),),
    **dict.fromkeys(
        (graph.AddOp, graph.SubOp, graph.MulOp, graph.DivOp, graph.AndOp, graph.OrOp), (DropNeutralOperand(),)
    ),
    **dict.fromkeys((graph.ReluOp, graph.NegOp, graph.NotOp), (DropDouble(),)),
    **dict.fromkeys(
        (graph.ReduceSumOp, graph.ReduceMeanOp, graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceProdOp),
        (ReduceNothing(),),
    ),
}


def patterns_of(op_type: type[Operation]) -> tuple[RewritePattern, ...]:
    """The canonicalization patterns of an operation."""
    return _PATTERNS.get(op_type, ())
