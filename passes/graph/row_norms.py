"""What layer and RMS normalizations have in common: a value divided by the root of the mean of its squares, by rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, prod
from typing import NamedTuple, TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.names import copy_name
from mlopt.passes.graph.constants import make_constant
from mlopt.passes.graph.fusion import either_way, is_number, uniform_value
from mlopt.passes.graph.polynomials import is_close

RowNorm: TypeAlias = graph.LayerNormOp | graph.RmsNormOp


class Mean(NamedTuple):
    """The mean of a value over axes, kept with size 1; the operations that compute it, the last one first."""

    value: SSAValue
    axes: tuple[int, ...]
    ops: tuple[Operation, ...]


class Normalized(NamedTuple):
    """`value / sqrt(mean(value * value) + epsilon) * scale`, the mean over `axes`.

    `scale` is None if there is none, `ops` all that computes it, the last one first.
    """

    value: SSAValue
    axes: tuple[int, ...]
    epsilon: float
    scale: SSAValue | None
    ops: tuple[Operation, ...]

    @property
    def axis(self) -> int:
        """The first of the normalized dimensions."""
        return min(self.axes)

    def obstacle(self) -> str | None:
        """Why no operation over the last dimensions computes this, or None."""
        shape = shape_of(self.value)
        after = [size for axis, size in enumerate(shape) if axis > self.axis and axis not in self.axes]
        if any(size != 1 for size in after):
            return f"the mean is over axes {list(self.axes)} of {len(shape)}, not over the last ones"
        if self.ops[0].results[0].type != self.value.type:
            return f"a constant or the scale enlarges {self.value.type} to {self.ops[0].results[0].type}"
        if not isfinite(self.epsilon):
            return f"epsilon is {self.epsilon}"
        if self.scale is not None and row_parameter(self.scale, shape[self.axis :]) is None:
            return f"the scale is no row of {self.value.type}"
        return None


def mean_of(value: SSAValue, ctx: CompilerContext) -> Mean | None:
    """The mean that a value is: a mean or a sum divided by the count, the axes kept or put back by a reshape."""
    average = averaged(value, ctx)
    if average is None:
        return None
    reduction, ops = average
    axes = get_ints(reduction.properties, "axes") or ()
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape_of(reduction.input)))
    return Mean(reduction.input, axes, ops) if axes and shape_of(value) == kept else None


def averaged(
    value: SSAValue, ctx: CompilerContext
) -> tuple[graph.ReduceMeanOp | graph.ReduceSumOp, tuple[Operation, ...]] | None:
    """The reduction that a value is the mean of, in any shape, and what leads there, the last operation first."""
    value, ops = _without_reshapes(value)
    divisor = 1.0
    if isinstance(value.owner, graph.MulOp | graph.DivOp):
        if (quotient := _quotient(value.owner, ctx)) is None:
            return None
        ops = (*ops, value.owner)
        value, divisor = quotient
        value, reshapes = _without_reshapes(value)
        ops = (*ops, *reshapes)
    op = value.owner
    if not isinstance(op, graph.ReduceMeanOp | graph.ReduceSumOp):
        return None
    source = shape_of(op.input)
    count = prod(source[axis] for axis in get_ints(op.properties, "axes") or ())
    wanted = 1.0 if isinstance(op, graph.ReduceMeanOp) else float(count)
    return (op, (*ops, op)) if is_close(divisor, wanted, value) else None


def _without_reshapes(value: SSAValue) -> tuple[SSAValue, tuple[Operation, ...]]:
    ops: tuple[Operation, ...] = ()
    while isinstance(value.owner, graph.ReshapeOp):
        ops = (*ops, value.owner)
        value = value.owner.input
    return value, ops


def _quotient(op: graph.MulOp | graph.DivOp, ctx: CompilerContext) -> tuple[SSAValue, float] | None:
    """What is divided by a number, and the number."""
    if isinstance(op, graph.DivOp):
        divisor = uniform_value(op.rhs, ctx)
        return None if divisor is None else (op.lhs, divisor)
    for value, number in either_way(op):
        factor = uniform_value(number, ctx)
        if factor is not None and factor != 0:
            return value, 1 / factor
    return None


def normalized(op: Operation, ctx: CompilerContext) -> Normalized | None:
    """The normalized value that the operation is, the last one of a group.

    `x / sqrt(v)`, `x * (1 / sqrt(v))`, `x * reciprocal(sqrt(v))`, `x * v ** -0.5` or `x / v ** 0.5`, where v is
    `mean(x * x) + epsilon`, the square a product or a power. Or `x * (1 / sqrt(v) * scale)` in any of these forms.
    """
    for value, quotient in quotients(op, ctx):
        variance, epsilon, ops = shifted(quotient.radicand, ctx)
        mean = mean_of(variance, ctx)
        if (
            mean is not None
            and isinstance(mean.value.owner, Operation)
            and _is_square(mean.value, value, ctx)
        ):
            ops = (op, *quotient.ops, *ops, *mean.ops, mean.value.owner)
            return Normalized(value, mean.axes, epsilon, quotient.scale, ops)
    return None


class Quotient(NamedTuple):
    """`scale / sqrt(radicand)`; `scale` is None for 1. The operations between, the last one first."""

    radicand: SSAValue
    ops: tuple[Operation, ...]
    scale: SSAValue | None = None


def quotients(op: Operation, ctx: CompilerContext) -> Iterator[tuple[SSAValue, Quotient]]:
    """The values that an operation multiplies by the inverse of a root, and that factor."""
    if isinstance(op, graph.DivOp):
        if (root := _root(op.rhs, 0.5, ctx)) is not None:
            yield op.lhs, root
    elif isinstance(op, graph.MulOp):
        for value, factor in either_way(op):
            if (inverse := _inverse_root(factor, ctx)) is not None:
                yield value, inverse
            elif isinstance(factor.owner, graph.MulOp):
                for scale, inner in either_way(factor.owner):
                    if (inverse := _inverse_root(inner, ctx)) is not None:
                        yield value, Quotient(inverse.radicand, (factor.owner, *inverse.ops), scale)


def _root(value: SSAValue, power: float, ctx: CompilerContext) -> Quotient | None:
    """What a value is the square root of (power 0.5), or by one operation the inverse of that of (-0.5)."""
    match value.owner:
        case graph.SqrtOp() as op if power == 0.5:
            return Quotient(op.input, (op,))
        case graph.PowOp() as op if is_number(op.rhs, power, ctx):
            return Quotient(op.lhs, (op,))
        case _:
            return None


def _inverse_root(value: SSAValue, ctx: CompilerContext) -> Quotient | None:
    match value.owner:
        case graph.ReciprocalOp() as op:
            found = _root(op.input, 0.5, ctx)
        case graph.DivOp() as op if is_number(op.lhs, 1, ctx):
            found = _root(op.rhs, 0.5, ctx)
        case _:
            return _root(value, -0.5, ctx)
    return None if found is None else Quotient(found.radicand, (op, *found.ops))


def shifted(value: SSAValue, ctx: CompilerContext) -> tuple[SSAValue, float, tuple[Operation, ...]]:
    """`mean + epsilon`, or only a mean: then epsilon is 0."""
    if isinstance(value.owner, graph.AddOp):
        for mean, number in either_way(value.owner):
            epsilon = uniform_value(number, ctx)
            if epsilon is not None:
                return mean, epsilon, (value.owner,)
    return value, 0.0, ()


class Centered(NamedTuple):
    """`value - mean(value)`; `ops` is all that computes it, the last one first."""

    value: SSAValue
    ops: tuple[Operation, ...]


def centered(norm: Normalized, ctx: CompilerContext) -> Centered | None:
    """What is normalized, if that is a value without its mean over the same axes."""
    op = norm.value.owner
    if not isinstance(op, graph.SubOp):
        return None
    mean = mean_of(op.rhs, ctx)
    if mean is None or mean.value != op.lhs or mean.axes != norm.axes:
        return None
    return Centered(op.lhs, (op, *mean.ops))


def new_norm(kind: type[RowNorm], value: SSAValue, norm: Normalized, ctx: CompilerContext) -> list[Operation]:
    """The operations that normalize `value` as `norm` does, and scale it; the normalization is the last one."""
    shape = shape_of(value)
    new: list[Operation] = []
    if norm.scale is None:
        dtype = to_numpy_dtype(tensor_type(value.type).element_type)
        new.append(make_constant(np.ones((), dtype), ctx, "one"))
        scale = new[0].results[0]
    else:
        scale = as_row(norm.scale, shape[norm.axis :], new)
    new.append(kind(value, scale, axis=norm.axis, epsilon=norm.epsilon))
    return new


def row_parameter(value: SSAValue, row: Sequence[int]) -> tuple[int, ...] | None:
    """The shape in which a value has no more dimensions than a row, and is the same for every row.

    None if it differs from row to row, or would enlarge one.
    """
    shape = shape_of(value)
    cut = shape[max(len(shape) - len(row), 0) :]
    fits = all(size in (1, whole) for size, whole in zip(reversed(cut), reversed(row), strict=False))
    return cut if fits and all(size == 1 for size in shape[: len(shape) - len(cut)]) else None


def as_row(value: SSAValue, row: Sequence[int], new: list[Operation]) -> SSAValue:
    """A row parameter without the dimensions that stand before the row; what makes it is added to `new`."""
    shape = row_parameter(value, row)
    assert shape is not None
    if shape_of(value) != shape:
        new.append(graph.ReshapeOp(value, shape))
        copy_name(value, new[-1].results[0])
        value = new[-1].results[0]
    return value


def _is_square(square: SSAValue, value: SSAValue, ctx: CompilerContext) -> bool:
    match square.owner:
        case graph.MulOp() as op:
            return op.lhs == op.rhs == value
        case graph.PowOp() as op:
            return op.lhs == value and is_number(op.rhs, 2, ctx)
        case _:
            return False
