"""Where equal numbers make a difference: comparisons, roundings and selections by order, of what inputs hold.

Random floats are never equal, so they do not tell `less` from `less_equal`, nor the first of two largest elements from
the last. Inputs that are rounded to halves do. They are of use only where no rounding decides what is equal: in the
result of a sum, two orders of its terms may differ in the last digit, and so may what is compared with it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float

_DECIDING = (
    *(graph.ComparisonOp, graph.SignOp, graph.FloorOp, graph.CeilOp, graph.RoundOp, graph.ModOp),
    *(graph.ArgMaxOp, graph.TopKOp, graph.MaxPoolWithIndicesOp, graph.UniqueOp, graph.NonZeroOp),
    graph.QuantizeOp,
)
"""Operations that jump where numbers are equal, or half-way between integers; so does a cast of floats to integers."""

_ROUNDED_BETWEEN = (graph.GridSampleOp, graph.RoiAlignOp, graph.DeformConvOp, graph.NonMaxSuppressionOp)
"""Operations that round positions or areas before they decide by them."""

_EXACT = (
    *(graph.ConstantOp, graph.ReshapeOp, graph.TransposeOp, graph.ExpandOp, graph.SliceOp, graph.ConcatOp),
    *(graph.SplitOp, graph.PadOp, graph.GatherOp, graph.GatherElementsOp, graph.GatherNdOp, graph.CastOp),
    *(graph.ReluOp, graph.NegOp, graph.AbsOp, graph.ClipOp, graph.MaxOp, graph.MinOp, graph.WhereOp),
    *(graph.ReduceMaxOp, graph.ReduceMinOp, graph.MaxPoolOp, *_DECIDING),
)
"""Operations whose results are elements of their operands, or have one right value."""


def are_decided_by_inputs(func: FuncOp) -> bool:
    """Whether equal floats in the inputs of a graph-level function make a difference, and no rounding does.

    Control flow is not followed: what is inside counts as rounded.
    """
    exact, found = set[SSAValue](func.body.block.args), False
    for op in func.body.walk():
        is_exact = exact.issuperset(op.operands)
        if isinstance(op, graph.GraphOp) and _decides(op):
            if not is_exact or isinstance(op, _ROUNDED_BETWEEN):
                return False
            found = found or not all(isinstance(operand.owner, graph.ConstantOp) for operand in op.operands)
        if is_exact and not op.regions:
            exact.update(result for result in op.results if isinstance(op, _EXACT) or not _is_float(result))
    return found


def _decides(op: Operation) -> bool:
    """Whether the operation jumps at some numbers among its operands."""
    if not any(map(_is_float, op.operands)):
        return False
    to_integer = isinstance(op, graph.CastOp) and not _is_float(op.result)
    return to_integer or isinstance(op, (*_DECIDING, *_ROUNDED_BETWEEN))


def _is_float(value: SSAValue) -> bool:
    return isa(value.type, TensorType[Attribute]) and is_float(value.type.element_type)
