"""The position of the smallest element, where the largest one is, and infinities of one sign."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float
from mlopt.export.builder import Attributes, Builder, element_of, shape_of
from mlopt.export.composites.formula import Call, Match, Variable, call, result_of
from mlopt.export.composites.registry import Composite, composite, is_one_node

x = Variable("x")
is_infinite = call(graph.IsInfOp, x)


@composite(graph.ArgMaxOp)
def arg_min(builder: Builder, op: Operation) -> Composite | None:
    """The largest of `-x`, or of `~x` for integers."""
    assert isinstance(op, graph.ArgMaxOp)
    turn = op.input.owner
    if not isinstance(turn, graph.NegOp if is_float(element_of(op.input)) else graph.NotOp):
        return None
    attributes: Attributes = {
        "axis": op.axis.value.data,
        "keepdims": int(op.keepdims is not None),
        "select_last_index": int(op.select_last is not None),
    }
    return Composite("ArgMin", [op, turn], turn.operands, attributes)


@composite(graph.AndOp)
def is_inf(builder: Builder, op: Operation) -> Composite | None:
    """Infinite, and above or below 0."""
    for side, detected in ((x > 0, "detect_negative"), (x < 0, "detect_positive")):
        for found in Call(graph.AndOp, (is_infinite, side), commutes=True).match(
            result_of(op), Match(), builder
        ):
            if shape_of(found.values["x"]) == shape_of(result_of(op)):
                return Composite("IsInf", found.ops, [found.values["x"]], {detected: 0})
    return None


@composite(graph.CastOp)
def hardmax(builder: Builder, op: Operation) -> Composite | None:
    """1 where the largest element of a row is, else 0, if that was one node.

    The standard leaves the largest of a row with NaN open; onnxruntime's ArgMax finds the NaN, its Hardmax nothing.
    """
    assert isinstance(op, graph.CastOp)
    equal = op.input.owner
    if not isinstance(equal, graph.EqualOp):
        return None
    for positions, largest in (equal.operands, equal.operands[::-1]):
        arg_max = largest.owner
        if (
            not isinstance(arg_max, graph.ArgMaxOp)
            or arg_max.keepdims is None
            or arg_max.select_last is not None
        ):
            continue
        x, axis = arg_max.input, arg_max.axis.value.data
        shape = shape_of(x)
        along = (shape[axis], *[1] * (len(shape) - 1 - axis))
        if x.type != op.result.type or not is_float(element_of(x)) or not is_one_node([op, equal, arg_max]):
            continue
        array = _positions(builder, positions.owner)
        if array is not None and np.array_equal(array, np.arange(shape[axis]).reshape(along)):
            return Composite("Hardmax", [op, equal, arg_max], [x], {"axis": axis})
    return None


def _positions(builder: Builder, op: object) -> np.ndarray | None:
    """The elements of a constant, or of a range from 0 in steps of 1 that may be reshaped."""
    if isinstance(op, graph.ConstantOp):
        return builder.constant(op.result)
    if isinstance(op, graph.ReshapeOp):
        array = _positions(builder, op.input.owner)
        return None if array is None else array.reshape(shape_of(op.result))
    if isinstance(op, graph.RangeOp) and (op.start, op.delta) == (IntegerAttr(0, i64), IntegerAttr(1, i64)):
        return np.arange(op.length.value.data)
    return None
