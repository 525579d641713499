"""Canonicalization patterns of the graph dialect. Every one is exact: the same bits for every input.

What is not here is not exact: `x + 0.0` (it turns -0.0 into 0.0), `x * 0`, `x - x`, reassociation.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from mlopt.dialects import graph
from mlopt.dialects.graph.base import (
    broadcast_shapes,
    dense_attr,
    get_ints,
    is_bool,
    is_float,
    is_integer,
    is_unsigned,
    shape_of,
    tensor_type,
    with_shape,
)
from mlopt.ir.dtypes import array_to_dense, dense_to_array, to_numpy_dtype
from mlopt.passes.graph.axis_orders import order_after_reshape, reordered


class DropIdentityMovement(RewritePattern):
    """reshape, expand, cast or pad to the operand's own type; transpose in order; slice of everything -> the operand"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        match op:
            case graph.ReshapeOp() | graph.ExpandOp():
                same = True
            case graph.CastOp():
                same = op.saturate is None  # which makes infinities the largest number
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
            if perm == sorted(perm):
                rewriter.replace(op, [], [inner.input])
            else:
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


class TransposeBetweenReshapes(RewritePattern):
    """reshape(transpose(reshape(x))) -> transpose(reshape(x)), if the last reshape keeps dimensions together

    There is no reshape left if it splits again what the first one merges; else the others must have no other use.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        transpose = op.input.owner
        if not isinstance(transpose, graph.TransposeOp) or not isinstance(
            first := transpose.input.owner, graph.ReshapeOp
        ):
            return
        shape = shape_of(op.result)
        order = order_after_reshape(shape_of(op.input), shape, transpose.permutation)
        if order is None:
            return
        before = reordered(shape, order)
        if before == shape_of(first.input):
            rewriter.replace(op, graph.TransposeOp(first.input, order))
        elif op.input.has_one_use() and transpose.input.has_one_use():
            reshape = graph.ReshapeOp(first.input, before)
            rewriter.replace(op, [reshape, graph.TransposeOp(reshape, order)])


class MergeExpands(RewritePattern):
    """expand(expand(x)) -> expand(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ExpandOp, rewriter: PatternRewriter, /) -> None:
        if isinstance(inner := op.input.owner, graph.ExpandOp):
            rewriter.replace(op, graph.ExpandOp(inner.input, shape_of(op.result)))


class SinkExpand(RewritePattern):
    """elementwise(expand(x)) -> expand(elementwise(x)), or elementwise(x) where broadcasting gives the same shape"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not any(isinstance(operand.owner, graph.ExpandOp) for operand in op.operands):
            return
        operands = [
            operand.owner.input if isinstance(operand.owner, graph.ExpandOp) else operand
            for operand in op.operands
        ]
        shape = broadcast_shapes(*map(shape_of, operands))
        small = type(op).create(
            operands=operands,
            properties=op.properties,
            attributes=op.attributes,
            result_types=[with_shape(tensor_type(op.results[0].type), shape)],
        )
        if shape == shape_of(op.results[0]):
            rewriter.replace(op, small)
        else:
            rewriter.replace(op, [small, graph.ExpandOp(small, shape_of(op.results[0]))])


class MergeCasts(RewritePattern):
    """cast(cast(x, B), C) -> cast(x, C), if that gives the same for every value"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.CastOp, rewriter: PatternRewriter, /) -> None:
        inner = op.input.owner
        if not isinstance(inner, graph.CastOp):
            return
        first, middle, last = (
            tensor_type(value.type).element_type for value in (inner.input, op.input, op.result)
        )
        if not merges(first, middle, last):
            return
        if first == last and op.saturate is None:
            rewriter.replace(op, [], [inner.input])
        else:
            mode = None if op.round_mode is None else op.round_mode.data
            saturate = op.saturate is not None
            rewriter.replace(op, graph.CastOp(inner.input, last, saturate=saturate, round_mode=mode))


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


class SplitForOnePart(RewritePattern):
    """split of which one part is read -> slice"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.SplitOp, rewriter: PatternRewriter, /) -> None:
        read = [index for index, part in enumerate(op.parts) if part.first_use is not None]
        if len(read) != 1 or len(op.parts) == 1:
            return
        axis, shape = op.axis.value.data, shape_of(op.input)
        sizes = [shape_of(part)[axis] for part in op.parts]
        start = sum(sizes[: read[0]])
        starts = [start if dimension == axis else 0 for dimension in range(len(shape))]
        stops = [
            start + sizes[read[0]] if dimension == axis else size for dimension, size in enumerate(shape)
        ]
        part = graph.SliceOp(op.input, starts, stops)
        rewriter.replace(op, part, [part.result if index == read[0] else None for index in range(len(sizes))])


class MaxPoolWithoutIndices(RewritePattern):
    """max_pool_with_indices whose indices are not read -> max_pool"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.MaxPoolWithIndicesOp, rewriter: PatternRewriter, /) -> None:
        if op.indices.first_use is not None:
            return
        properties = {name: value for name, value in op.properties.items() if name != "column_major"}
        pool = graph.MaxPoolOp.create(
            operands=[op.input],
            properties=properties,
            attributes=op.attributes,
            result_types=[op.result.type],
        )
        rewriter.replace(op, pool, [pool.results[0], None])


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
    """x * 1, x / 1, x ** 1, x + (-0.0), x - 0.0, x and ones, x or, xor, shifted by 0, max(x, -inf) -> x, or its expand

    +0.0 is no neutral element of floating-point addition and -0.0
    none of subtraction: they change -0.0 to 0.0.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, graph.BinaryOp):
            return
        sides = [(op.lhs, op.rhs)]
        if isinstance(op, _COMMUTATIVE):
            sides.append((op.rhs, op.lhs))
        for kept, other in sides:
            if is_filled_with(other, neutral_element(op)):
                replace_with_expanded(op, kept, rewriter)
                return


_COMMUTATIVE = (
    *(graph.AddOp, graph.MulOp, graph.MinOp, graph.MaxOp),
    *(graph.AndOp, graph.OrOp, graph.XorOp),
)


def neutral_element(op: graph.BinaryOp) -> np.ndarray:
    """What changes nothing as the right operand, as an array of rank 0."""
    dtype = to_numpy_dtype(tensor_type(op.rhs.type).element_type)
    match op:
        case graph.MulOp() | graph.DivOp() | graph.PowOp():
            return np.ones((), dtype)
        case graph.MinOp() | graph.MaxOp():
            is_min = isinstance(op, graph.MinOp)
            if dtype.kind in "iu":
                limits = np.iinfo(dtype)
                return np.array(limits.max if is_min else limits.min, dtype)
            return np.array(np.inf if is_min else -np.inf).astype(dtype)
        case graph.AndOp():
            return np.invert(np.zeros((), dtype))
        case graph.AddOp():
            return np.negative(np.zeros((), dtype))
        case _:
            return np.zeros((), dtype)


class SameOperands(RewritePattern):
    """min(x, x), max(x, x), x and x, x or x -> x; x - x, x xor x -> 0 for integers; x < x, x > x -> false

    x == x, x <= x, x >= x are true for integers and bools. Of floats, the difference of infinities is NaN, and a
    comparison with NaN false.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, graph.BinaryOp) or op.lhs != op.rhs:
            return
        has_floats = is_float(tensor_type(op.lhs.type).element_type)
        match op:
            case graph.MinOp() | graph.MaxOp() | graph.AndOp() | graph.OrOp():
                rewriter.replace(op, [], [op.lhs])
            case graph.LessOp() | graph.GreaterOp() | graph.XorOp():
                replace_with_number(op, 0, rewriter)
            case graph.SubOp() if not has_floats:
                replace_with_number(op, 0, rewriter)
            case graph.EqualOp() | graph.LessEqualOp() | graph.GreaterEqualOp() if not has_floats:
                replace_with_number(op, 1, rewriter)
            case _:
                pass


class AbsorbingOperand(RewritePattern):
    """x * 0, x and 0 -> 0, x or ones -> ones, for integers and bools; 0 * NaN is NaN"""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, graph.MulOp | graph.AndOp | graph.OrOp):
            return
        element = tensor_type(op.lhs.type).element_type
        if is_float(element):
            return
        zero = np.zeros((), to_numpy_dtype(element))
        absorbing = np.invert(zero) if isinstance(op, graph.OrOp) else zero
        if any(is_filled_with(operand, absorbing) for operand in op.operands):
            replace_with_number(op, absorbing, rewriter)


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
        replace_with_expanded(op, chosen, rewriter)


def replace_with_expanded(op: graph.InferredOp, value: SSAValue, rewriter: PatternRewriter) -> None:
    """Replace the one result of `op` by `value`, which broadcasts to it."""
    if value.type == op.results[0].type:
        rewriter.replace(op, [], [value])
    else:
        rewriter.replace(op, graph.ExpandOp(value, shape_of(op.results[0])))


def replace_with_number(op: graph.BinaryOp, number: int | np.ndarray, rewriter: PatternRewriter) -> None:
    """Replace an integer or bool result by a number in each element, of which one is stored."""
    element = tensor_type(op.result.type).element_type
    value = array_to_dense(np.array(number, to_numpy_dtype(element)))
    constant = graph.ConstantOp(value, TensorType(element, []))
    shape = shape_of(op.result)
    rewriter.replace(op, [constant, graph.ExpandOp(constant, shape)] if shape else constant)


class DropDouble(RewritePattern):
    """neg(neg(x)), not(not(x)) -> x; relu(relu(x)), abs(abs(x)), sign(sign(x)) -> the inner one

    Floor, ceil and round leave each other's results as they are.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not isinstance(op, graph.UnaryOp):
            return
        inner = op.input.owner
        if not isinstance(inner, graph.UnaryOp):
            return
        if isinstance(op, _WHOLE) and isinstance(inner, _WHOLE):
            rewriter.replace(op, [], [inner.result])
        elif type(inner) is type(op):
            undoes = isinstance(op, graph.NegOp | graph.NotOp)
            rewriter.replace(op, [], [inner.input if undoes else inner.result])


_WHOLE = (graph.FloorOp, graph.CeilOp, graph.RoundOp)


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


_PRECISIONS: dict[type[Attribute], int] = {
    Float16Type: 11,
    BFloat16Type: 8,
    Float32Type: 24,
    Float64Type: 53,
}
"""Bits of the significand, with the one that is not stored."""


def widens(source: Attribute, target: Attribute) -> bool:
    """Does a cast keep every value apart, within floats or within integers, or come from i1?"""
    if is_bool(source):
        return True
    if is_integer(source) and is_integer(target):
        narrower = to_numpy_dtype(source).itemsize < to_numpy_dtype(target).itemsize
        return narrower and (is_unsigned(source) or not is_unsigned(target))
    widths = [_FLOAT_WIDTHS.get(type(element)) for element in (source, target)]
    return widths[0] is not None and widths[1] is not None and widths[0] < widths[1]


def merges(source: Attribute, middle: Attribute, target: Attribute) -> bool:
    """Is a cast to `middle` and one from there to `target` the same as one cast, for every value of `source`?

    So it is if the first keeps every value, and for integers that wrap twice. An integer may go through floats only if
    they and the target both hold all of its values; what is rounded twice, or truncated, is kept.
    """
    if widens(source, middle):
        return True
    if is_integer(source) and is_integer(middle) and is_integer(target):
        return to_numpy_dtype(target).itemsize <= to_numpy_dtype(middle).itemsize
    holds_source = is_bool(target) or target == source or widens(source, target) or _holds(target, source)
    return holds_source and _holds(middle, source)


def _holds(float_type: Attribute, integer: Attribute) -> bool:
    """Is every value of an integer type a number of a floating-point type?"""
    if type(float_type) not in _PRECISIONS or not is_integer(integer):
        return False
    bits = 8 * to_numpy_dtype(integer).itemsize - (0 if is_unsigned(integer) else 1)
    return bits <= _PRECISIONS[type(float_type)]


_DROP_IDENTITY = DropIdentityMovement()
_PATTERNS: dict[type[Operation], tuple[RewritePattern, ...]] = {
    graph.ReshapeOp: (_DROP_IDENTITY, MergeReshapes(), TransposeBetweenReshapes()),
    graph.TransposeOp: (_DROP_IDENTITY, MergeTransposes(), TransposeOfOnes()),
    graph.ExpandOp: (_DROP_IDENTITY, MergeExpands()),
    graph.CastOp: (_DROP_IDENTITY, MergeCasts()),
    graph.SliceOp: (_DROP_IDENTITY,),
    graph.PadOp: (_DROP_IDENTITY,),
    graph.ConcatOp: (SimplifyConcat(),),
    graph.SplitOp: (SplitInOne(), SplitForOnePart()),
    graph.MaxPoolWithIndicesOp: (MaxPoolWithoutIndices(),),
    graph.ClipOp: (ClipWithoutBounds(),),
    graph.WhereOp: (WhereOfConstant(),),
    **dict.fromkeys(
        (graph.AddOp, graph.DivOp, graph.PowOp, graph.ShiftLeftOp, graph.ShiftRightOp),
        (DropNeutralOperand(),),
    ),
    graph.MulOp: (DropNeutralOperand(), AbsorbingOperand()),
    **dict.fromkeys((graph.AndOp, graph.OrOp), (DropNeutralOperand(), AbsorbingOperand(), SameOperands())),
    **dict.fromkeys(
        (graph.SubOp, graph.XorOp, graph.MinOp, graph.MaxOp), (DropNeutralOperand(), SameOperands())
    ),
    **dict.fromkeys(
        (graph.EqualOp, graph.LessOp, graph.LessEqualOp, graph.GreaterOp, graph.GreaterEqualOp),
        (SameOperands(),),
    ),
    **dict.fromkeys(
        (graph.ReluOp, graph.NegOp, graph.NotOp, graph.AbsOp, graph.SignOp, *_WHOLE), (DropDouble(),)
    ),
    **dict.fromkeys(
        (graph.ReduceSumOp, graph.ReduceMeanOp, graph.ReduceMaxOp, graph.ReduceMinOp, graph.ReduceProdOp),
        (ReduceNothing(),),
    ),
}


_ELEMENTWISE = (graph.UnaryOp, graph.PredicateOp, graph.BinaryOp, graph.WhereOp, graph.ClipOp, graph.CastOp)
_SINK_EXPAND = SinkExpand()


def patterns_of(op_type: type[Operation]) -> tuple[RewritePattern, ...]:
    """The canonicalization patterns of an operation."""
    patterns = _PATTERNS.get(op_type, ())
    return (*patterns, _SINK_EXPAND) if issubclass(op_type, _ELEMENTWISE) else patterns
