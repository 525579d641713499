"""Reductions of several steps. 16-bit floats are reduced in f32 between casts, as the importer has it."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Float32Type, Float64Type, i32, i64
from xdsl.ir import Attribute, Operation

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints
from mlopt.export.builder import Builder, element_of, shape_of
from mlopt.export.composites.formula import Formula, Match, Number, Variable, call, result_of, square
from mlopt.export.composites.registry import Composite, Finder, composite

x = Variable("x")


def sum_of(a: Formula) -> Formula:
    return call(graph.ReduceSumOp, a)


def absolute(a: Formula) -> Formula:
    return call(graph.AbsOp, a)


largest = call(graph.ReduceMaxOp, x)
finite = call(graph.WhereOp, call(graph.IsInfOp, largest), Number(0), largest)
"""The maximum, or 0 where it is infinite, so that no infinity is subtracted from itself."""


def _is_float(element: Attribute) -> bool:
    return isinstance(element, Float32Type | Float64Type)


def _is_summed(element: Attribute) -> bool:
    """Whether engines have sums of these elements."""
    return _is_float(element) or element in (i32, i64)


def _reduction(
    onnx_op: str, root: type[Operation], meaning: Formula, accepts: Callable[[Attribute], bool] = _is_float
) -> Finder:
    """Enter a reduction of `x`, whose axes are those of the sum in it."""

    @composite(root)
    def find(builder: Builder, op: Operation) -> Composite | None:
        if not accepts(element_of(result_of(op))):
            return None
        for found in meaning.match(result_of(op), Match(), builder):
            (total,) = (one for one in found.ops if isinstance(one, graph.ReduceSumOp))
            axes = get_ints(total.properties, "axes") or ()
            if axes and _are_over(axes, op, found):
                operands = [found.values["x"], builder.ints(axes)]
                return Composite(onnx_op, found.ops, operands, {"keepdims": int(total.keepdims is not None)})
        return None

    return find


def _are_over(axes: tuple[int, ...], op: Operation, found: Match) -> bool:
    """Whether all reductions are over these axes, and nothing is broadcast but what is subtracted."""
    for one in found.ops:
        if isinstance(one, graph.ReduceSumOp | graph.ReduceMaxOp):
            if get_ints(one.properties, "axes") != axes:
                return False
            if shape_of(one.input) != shape_of(found.values["x"]):
                return False
        if isinstance(one, graph.SubOp):
            kept = [1 if axis in axes else size for axis, size in enumerate(shape_of(one.lhs))]
            if shape_of(one.rhs) != tuple(kept):
                return False
    return isinstance(op, graph.ReduceSumOp) or all(value.type == op.results[0].type for value in op.operands)


_reduction("ReduceL1", graph.ReduceSumOp, sum_of(absolute(x)), _is_summed)
_reduction("ReduceSumSquare", graph.ReduceSumOp, sum_of(square(x)), _is_summed)
# Of magnitudes first: GlobalLpPool is taken apart so.
_reduction("ReduceL2", graph.SqrtOp, call(graph.SqrtOp, sum_of(square(absolute(x)) | square(x))))
_reduction("ReduceLogSum", graph.LogOp, call(graph.LogOp, sum_of(x)))
_reduction(
    "ReduceLogSumExp",
    graph.AddOp,
    call(graph.LogOp, sum_of(call(graph.ExpOp, x - finite))) + finite,
)
