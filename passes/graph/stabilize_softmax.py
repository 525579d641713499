"""`stabilize-softmax`: a softmax written out, which overflows from 89 on in f32, becomes one that does not."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, rank_of, shape_of
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.fusion import Fusion, Group, Miss, described, either_way, fuse, is_number, use_outside
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


class StabilizeSoftmaxPass(Pass):
    """Turn exponentials over their sum into `graph.softmax`, and logarithms of that into `graph.log_softmax`.

    With `e = exp(x)` and `s` its sum along one axis, kept or put back:

    1. e / s, e * (1 / s) -> softmax(x)
    2. x - log(s), log(softmax(x)) -> log_softmax(x)

    Where x is `z - max(z)` along the same axis, it is the softmax of z; so it is for `z - (log(s) + max(z))`.

    Values that did not overflow stay within rounding. Where exp(x), or the sum, was infinite, or all of a row became 0,
    there was NaN, 0 or -inf; now there is what a softmax is. A row with inf in it gives NaN everywhere, where it had
    given NaN only there, and 0 beside. Not done: over several axes, with something added to the sum, or if the
    exponentials are used elsewhere too.
    """

    name = "stabilize-softmax"
    requires: ClassVar = GRAPH_LEVEL
    idempotent: ClassVar[bool] = True
    repairs_overflow: ClassVar[bool] = True

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse(ctx, op, [FuseSoftmax(ctx, self.name), FuseLogSoftmax(ctx, self.name)])


class SumOfExp(NamedTuple):
    """`reduce_sum(exp(input))` along `axis`, with the operations, the last one first."""

    input: SSAValue
    axis: int
    exp: graph.ExpOp
    ops: list[Operation]


class FuseSoftmax(Fusion):
    """exp(x) / sum(exp(x)) -> softmax(x)"""

    roots: ClassVar = (graph.DivOp, graph.MulOp)
    statistic: ClassVar = "softmaxes-stabilized"

    def match(self, op: Operation) -> Group | Miss | None:
        if isinstance(op, graph.DivOp):
            return self._match(op, op.lhs, op.rhs, [])
        if isinstance(op, graph.MulOp):
            for exponentials, other in either_way(op):
                inverse = other.owner
                if isinstance(inverse, graph.ReciprocalOp):
                    return self._match(op, exponentials, inverse.input, [inverse])
                if isinstance(inverse, graph.DivOp) and is_number(inverse.lhs, 1, self.ctx):
                    return self._match(op, exponentials, inverse.rhs, [inverse])
        return None

    def _match(
        self, op: Operation, exponentials: SSAValue, divisor: SSAValue, inverse: list[Operation]
    ) -> Group | Miss | None:
        if not isinstance(exponentials.owner, graph.ExpOp):
            return None
        found = sum_of_exp(divisor)
        if found is None and isinstance(divisor.owner, graph.AddOp):
            terms = map(sum_of_exp, divisor.owner.operands)
            if any(isinstance(term, SumOfExp) for term in terms):
                return Miss("something is added to the sum of the exponentials")
        if not isinstance(found, SumOfExp):
            return found
        if exponentials != found.exp.result:
            return None
        if op.results[0].type != exponentials.type:
            return None
        ops = [op, *inverse, *found.ops]
        input, maximum = without_maximum(found.input, found.axis, ops)
        group = [*ops, *maximum]
        what = "'softmax'" if maximum else "'softmax', which does not overflow"
        return Group(group, lambda: [graph.SoftmaxOp(input, found.axis)], what)


class FuseLogSoftmax(Fusion):
    """x - log(sum(exp(x))), log(softmax(x)) -> log_softmax(x)"""

    roots: ClassVar = (graph.SubOp, graph.LogOp)
    statistic: ClassVar = "log-softmaxes-stabilized"

    def match(self, op: Operation) -> Group | Miss | None:
        if isinstance(op, graph.LogOp):
            softmax = op.input.owner
            if not isinstance(softmax, graph.SoftmaxOp):
                return None
            axis = softmax.axis.value.data
            return Group([op, softmax], lambda: [graph.LogSoftmaxOp(softmax.input, axis)], "'log_softmax'")
        return self._match_difference(op) if isinstance(op, graph.SubOp) else None

    def _match_difference(self, op: graph.SubOp) -> Group | None:
        """x - log(sum(exp(x))), or x - (log(sum(exp(x - max(x)))) + max(x))."""
        add = op.rhs.owner
        if not isinstance(add, graph.AddOp):
            return self._group(op, op.rhs, None, [op])
        ways = (self._group(op, log, maximum, [op, add]) for log, maximum in either_way(add))
        return next((group for group in ways if group is not None), None)

    def _group(
        self, op: graph.SubOp, logarithm: SSAValue, added: SSAValue | None, ops: list[Operation]
    ) -> Group | None:
        log = logarithm.owner
        found = sum_of_exp(log.input) if isinstance(log, graph.LogOp) else None
        if not isinstance(log, graph.LogOp) or not isinstance(found, SumOfExp):
            return None
        ops = [*ops, log, *found.ops]
        if added is None:
            input, maximum = without_maximum(found.input, found.axis, ops)
            is_normalized = op.lhs == found.input
        else:
            input, maximum = before_maximum(found.input, found.axis)
            is_normalized = op.lhs == input and bool(maximum) and maximum[0].operands[1] == added
        if not is_normalized or op.result.type != found.input.type:
            return None
        return Group([*ops, *maximum], lambda: [graph.LogSoftmaxOp(input, found.axis)], "'log_softmax'")


def sum_of_exp(value: SSAValue) -> SumOfExp | Miss | None:
    """The sum of exponentials along one axis that `value` is, so that each of them meets that of its own row."""
    found = along_one_axis(value, graph.ReduceSumOp)
    if found is None:
        return None
    input, axis, ops = found
    exp = input.owner
    if not isinstance(exp, graph.ExpOp):
        return None
    if axis is None:
        return Miss(f"{described(ops[-1])} is not along one axis, with one sum for each row")
    return SumOfExp(exp.input, axis, exp, [*ops, exp])


def along_one_axis(
    value: SSAValue, kind: type[graph.ReductionOp]
) -> tuple[SSAValue, int | None, list[Operation]] | None:
    """What a reduction of a kind reduces, along which axis, and its operations, the last one first.

    The axis is None if there are several, or if the result is not put back so that each row meets its own number.
    Dimensions of size 1 do not count. None if `value` is no such reduction.
    """
    ops: list[Operation] = []
    reduced = value
    if isinstance(reduced.owner, graph.ReshapeOp):
        ops.append(reduced.owner)
        reduced = reduced.owner.input
    reduction = reduced.owner
    if not isinstance(reduction, kind):
        return None
    ops.append(reduction)
    shape = shape_of(reduction.input)
    axes = [axis for axis in get_ints(reduction.properties, "axes") or () if shape[axis] != 1]
    if not axes:
        return None
    if len(axes) > 1:
        return reduction.input, None, ops
    (axis,) = axes
    kept = tuple(1 if i == axis else size for i, size in enumerate(shape))
    aligned = (1,) * (len(shape) - rank_of(value)) + shape_of(value)
    return reduction.input, axis if aligned == kept else None, ops


def without_maximum(value: SSAValue, axis: int, ops: list[Operation]) -> tuple[SSAValue, list[Operation]]:
    """As `before_maximum`, if only `ops` use what is between; else `value` itself."""
    before, between = before_maximum(value, axis)
    return (value, []) if use_outside([*ops, *between]) is not None else (before, between)


def before_maximum(value: SSAValue, axis: int) -> tuple[SSAValue, list[Operation]]:
    """z, and the operations between, the last one first, if `value` is z - max(z); else `value`."""
    shifted = value.owner
    if not isinstance(shifted, graph.SubOp):
        return value, []
    found = along_one_axis(shifted.rhs, graph.ReduceMaxOp)
    if found is None or found[0] != shifted.lhs or found[1] != axis or shifted.lhs.type != value.type:
        return value, []
    return shifted.lhs, [shifted, *found[2]]
