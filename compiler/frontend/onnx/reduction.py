"""Import of reductions. Axes are an attribute in older versions, an input in newer ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32, f64, i1, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, shape_of, tensor_type
from mlopt.dialects.graph.reduction import ReductionOp
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction, importer
from mlopt.ir.dtypes import from_numpy_dtype, to_numpy_dtype

Axes: TypeAlias = Sequence[int] | None
"""None: all axes."""

Reduction: TypeAlias = Callable[[Node, SSAValue, Axes, bool], SSAValue]
"""Reduces a value over axes, which stay with size 1 if the last argument says so."""


def _plain(build: Callable[..., ReductionOp]) -> Reduction:
    """A reduction that is an operation of the graph level; of i1 it is taken over 0 and 1."""

    def reduction(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
        if tensor_type(x.type).element_type != i1:
            return node.add(build(x, axes, keepdims=keepdims)).result
        numbers = node.add(graph.CastOp(x, from_numpy_dtype(np.dtype(np.uint8)))).result
        return node.add(graph.CastOp(node.add(build(numbers, axes, keepdims=keepdims)).result, i1)).result

    return reduction


def _widened(reduction: Reduction, *, integers: bool = True) -> Reduction:
    """The reduction taken in a wider type, where steps between its operand and its result need one.

    Floats of 16 bits become f32: a square may be too large for them where its root is not. Integers become f64 if
    `integers` says that the steps are roots or logarithms.
    """

    def widened(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
        element = tensor_type(x.type).element_type
        dtype = to_numpy_dtype(element)
        if is_float(element) and dtype.itemsize == 2:
            wide = f32
        elif dtype.kind in "iu" and integers:
            wide = f64
        else:
            return reduction(node, x, axes, keepdims)
        numbers = node.add(graph.CastOp(x, wide)).result
        return node.add(graph.CastOp(reduction(node, numbers, axes, keepdims), element)).result

    return widened


_sum = _plain(graph.ReduceSumOp)


def l1(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    """The sum of absolute values."""
    return _sum(node, node.add(graph.AbsOp(x)).result, axes, keepdims)


def _sum_square(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    return _sum(node, node.add(graph.MulOp(x, x)).result, axes, keepdims)


def l2(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    """The root of the sum of squares."""
    return node.add(graph.SqrtOp(_sum_square(node, x, axes, keepdims))).result


def _log_sum(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    return node.add(graph.LogOp(_sum(node, x, axes, keepdims))).result


def _log_sum_exp(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    """`m + log(sum(exp(x - m)))` with the maximum m, or 0 where m is infinite, to avoid inf - inf."""
    zero = node.constant(np.zeros((), to_numpy_dtype(tensor_type(x.type).element_type)))

    def finite_max(keepdims: bool) -> SSAValue:
        largest = node.add(graph.ReduceMaxOp(x, axes, keepdims=keepdims)).result
        infinite = node.add(graph.IsInfOp(largest)).result
        return node.add(graph.WhereOp(infinite, zero, largest)).result

    shifted = node.add(graph.SubOp(x, finite_max(True))).result
    total = _log_sum(node, node.add(graph.ExpOp(shifted)).result, axes, keepdims)
    return node.add(graph.AddOp(total, finite_max(keepdims))).result


_plain_mean = _plain(graph.ReduceMeanOp)


def _mean(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    """The mean; of integers, whose sum could wrap, in 64 bits, or from quotients and remainders of 64-bit ones."""
    dtype = to_numpy_dtype(tensor_type(x.type).element_type)
    if dtype.kind not in "iu":
        return _plain_mean(node, x, axes, keepdims)
    if dtype.itemsize == 8:
        return _mean_of_quotients(node, x, axes, keepdims)
    wide = node.add(graph.CastOp(x, i64)).result
    return node.add(
        graph.CastOp(_plain_mean(node, wide, axes, keepdims), tensor_type(x.type).element_type)
    ).result


def _mean_of_quotients(node: Node, x: SSAValue, axes: Axes, keepdims: bool) -> SSAValue:
    """`(sum x) / n` towards zero, as `sum (x / n) + (sum (x mod n)) / n`, of which neither sum is too large.

    Where the two parts have different signs, and the second has a remainder, their sum is one too far from zero.
    """
    shape = shape_of(x)
    reduced = range(len(shape)) if axes is None else axes
    if not all(-len(shape) <= axis < len(shape) for axis in reduced):
        return _plain_mean(node, x, axes, keepdims)  # which refuses them
    n = prod(shape[axis] for axis in reduced)
    if n < 2:
        return _plain_mean(node, x, axes, keepdims)
    formula = Formula(node)
    count, zero = formula.number(n, x), formula.number(0, x)

    def split(value: SSAValue) -> tuple[SSAValue, SSAValue]:
        quotient = node.add(graph.DivOp(value, count)).result
        return quotient, formula.sub(value, formula.mul(quotient, count))

    quotients, remainders = (_sum(node, part, axes, keepdims) for part in split(x))
    more, rest = split(remainders)
    total = formula.add(quotients, more)

    def crossed(
        one: type[graph.LessOp | graph.GreaterOp], other: type[graph.LessOp | graph.GreaterOp]
    ) -> SSAValue:
        signs = (node.add(one(total, zero)).result, node.add(other(rest, zero)).result)
        return formula.cast(node.add(graph.AndOp(*signs)).result, tensor_type(x.type).element_type)

    above, below = crossed(graph.GreaterOp, graph.LessOp), crossed(graph.LessOp, graph.GreaterOp)
    return formula.add(formula.sub(total, above), below)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": l1,
    "ReduceL2": _widened(l2),
    "ReduceLogSum": _widened(_log_sum),
    "ReduceLogSumExp": _widened(_log_sum_exp),
    "ReduceMax": _plain(graph.ReduceMaxOp),
    "ReduceMean": _mean,
    "ReduceMin": _plain(graph.ReduceMinOp),
    "ReduceProd": _plain(graph.ReduceProdOp),
    "ReduceSum": _sum,
    "ReduceSumSquare": _widened(_sum_square, integers=False),
}
_AXES_INPUT_SINCE = {"ReduceSum": 13}
_OTHER_AXES_INPUT_SINCE = 18


def _axes_attribute(reduction: Reduction) -> ImportFunction:
    """Axes are an attribute; without them all are reduced."""
    return lambda node: reduction(node, node.operand(0), node.integers("axes") or None, _keepdims(node))


def _axes_input(reduction: Reduction) -> ImportFunction:
    """Axes are an input; without them all are reduced, or none with `noop_with_empty_axes`."""

    def function(node: Node) -> SSAValue:
        axes: Axes = node.optional_ints(1, "axes") or None
        if axes is None and node.integer("noop_with_empty_axes", 0):
            axes = ()
        return reduction(node, node.operand(0), axes, _keepdims(node))

    return function


def _keepdims(node: Node) -> bool:
    return node.integer("keepdims", 1) == 1


for _op_type, _reduction in _REDUCTIONS.items():
    importer(_op_type, since=1)(_axes_attribute(_reduction))
    importer(_op_type, since=_AXES_INPUT_SINCE.get(_op_type, _OTHER_AXES_INPUT_SINCE))(
        _axes_input(_reduction)
    )


@importer("ArgMax", since=1)
def arg_max(node: Node) -> SSAValue:
    """The position of the largest element along `axis`."""
    return _arg_max(node, node.operand(0))


@importer("ArgMin", since=1)
def arg_min(node: Node) -> SSAValue:
    """The position of the largest element when the order is turned round: by `-x`, or `~x` for integers."""
    turn = graph.NegOp if is_float(node.type_of(0).element_type) else graph.NotOp
    return _arg_max(node, node.add(turn(node.operand(0))).result)


def _arg_max(node: Node, x: SSAValue) -> SSAValue:
    op = graph.ArgMaxOp(
        x,
        node.integer("axis", 0),
        keepdims=_keepdims(node),
        select_last=node.integer("select_last_index", 0) == 1,
    )
    return node.add(op).result
