"""How the numpy engine executes one structured op: which of its ways fits, and what must be copied first.

An op reads all its operands before it writes: where an operand overlaps an output other than element for element, it
is copied to scratch first. (Passes never produce this; text edited by hand may.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.interpreter.contractions import emit_contraction
from mlopt.interpreter.elementwise import Kernel
from mlopt.interpreter.expressions import Expr, Gather, Read, Structured
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.primitives import NoSteps
from mlopt.interpreter.recognize import as_contraction, as_reduction
from mlopt.interpreter.reductions import emit_reduction, emit_taps, is_windowed
from mlopt.interpreter.scalar_loop import ScalarLoop
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import View, is_injective, may_overlap, same_elements
from mlopt.interpreter.windows import Windows
from mlopt.ir.locations import place_of_op

MAXIMUM_CALLS = 1 << 14
"""An op that would take more calls than this runs as a scalar loop instead."""

_FEW_POINTS = 4
"""Up to this many points along the reduced dimensions, adding them up one by one beats `ufunc.reduce`."""


class Memrefs(NamedTuple):
    """The memory and the scalars of one place in the plan, with copies in place of some operands."""

    memref: Callable[[SSAValue], View]
    scalar_value: Callable[[SSAValue], View | int | float]
    copies: dict[Expr, View]

    def source(self, expr: Read | Gather) -> View:
        copy = self.copies.get(expr)
        return self.memref(expr.source) if copy is None else copy

    def scalar(self, value: SSAValue) -> View | int | float:
        return self.scalar_value(value)


def emit_structured(
    builder: PlanBuilder,
    scratch: Scratch,
    memref: Callable[[SSAValue], View],
    scalar: Callable[[SSAValue], View | int | float],
    form: Structured,
    fill: object | None = None,
) -> bool:
    """Emit one structured op; returns whether it became a scalar loop.

    `fill`: the only output is known to hold that number everywhere and need not be read; given only if
    `takes_fill(form)`. Raises `UnsupportedError` for scalar operations or types that numpy has no steps for, and for
    outputs that may overlap each other, since it is not said which of them is written last.
    """
    if form.is_empty:
        return False
    try:
        with scratch.frame():
            binding = Memrefs(memref, scalar, {})
            outs = [memref(store.target).over(store.index, form.extents) for store in form.stores]
            _check_outputs(form, outs)
            _isolate(builder, scratch, binding, form, outs)
            return _emit(builder, scratch, binding, form, outs, fill)
    except NoSteps as error:
        raise UnsupportedError(
            f"'{form.op.name}' can't be executed: {error.args[0]}", place=place_of_op(form.op)
        ) from None


def takes_fill(form: Structured) -> bool:
    """Whether the op reads its output only to accumulate into it, so that a fill before it can be left out."""
    return (
        not form.is_empty
        and len(form.stores) == 1
        and bool(form.reductions)
        and as_reduction(form, 0) is not None
    )


def _emit(
    builder: PlanBuilder,
    scratch: Scratch,
    binding: Binding,
    form: Structured,
    outs: list[View],
    fill: object | None,
) -> bool:
    sequential = _sequential_dims(form, outs)
    if not sequential:
        Kernel(builder.memory, form.extents, outs, form.yields, binding).emit(builder, scratch)
        return False
    as_loops = form if sequential == form.reductions else _with_reductions(form, sequential)
    reduction = as_reduction(form, 0) if len(form.stores) == 1 and as_loops is form else None
    if reduction is not None:
        contraction = as_contraction(form)
        if contraction is not None and outs[0].dtype != np.bool_:
            emit_contraction(builder, scratch, binding, form, contraction, outs[0], fill)
            return False
        if not is_windowed(form, reduction.element) and _points(form) > _FEW_POINTS:
            emit_reduction(builder, scratch, binding, form, reduction, outs[0], fill)
            return False
        windows = Windows.of(builder, scratch, binding, form, reduction)
        if windows is not None:
            windows.run(outs[0], fill)
            return False
    if _points(as_loops) <= MAXIMUM_CALLS:
        emit_taps(builder, scratch, binding, as_loops, outs, reduction, fill)
        return False
    loop = ScalarLoop(builder.memory, as_loops, outs, binding)
    loop.emit(builder, fill)
    return True


def _sequential_dims(form: Structured, outs: list[View]) -> frozenset[int]:
    """Dimensions that can't be executed at once: reductions, and those along which outputs meet themselves."""
    sequential = set(form.reductions)
    for out in outs:
        for dim in range(form.rank):
            kept = [d for d in range(form.rank) if d not in sequential]
            if is_injective(out.transposed(kept)):
                break
            if dim not in sequential and form.extents[dim] > 1:
                sequential.add(dim)
    return frozenset(sequential)


def _with_reductions(form: Structured, reductions: frozenset[int]) -> Structured:
    return Structured(form.op, form.extents, reductions, form.stores, form.initial, form.yields)


def _points(form: Structured) -> int:
    return math.prod(form.extents[d] for d in form.reductions)


def _check_outputs(form: Structured, outs: list[View]) -> None:
    for (i, first), (j, second) in combinations(enumerate(outs), 2):
        if may_overlap(first, second):
            raise UnsupportedError(
                f"outputs {i} and {j} of '{form.op.name}' may overlap, expected memory of its own for each",
                place=place_of_op(form.op),
            )


def _isolate(
    builder: PlanBuilder, scratch: Scratch, binding: Memrefs, form: Structured, outs: list[View]
) -> None:
    """Copy the operands that overlap an output in a way that whole-array execution would not preserve."""
    copied: dict[SSAValue, View] = {}
    for expr in form.expressions():
        if not isinstance(expr, Read | Gather) or expr in form.initial:
            continue
        source = binding.memref(expr.source)
        read = source
        in_place = isinstance(expr, Read) and not expr.bounds and not form.reductions
        if isinstance(expr, Read) and not expr.bounds:
            read = source.over(expr.index, form.extents)
        if not any(may_overlap(read, out) and not (in_place and same_elements(read, out)) for out in outs):
            continue
        if expr.source not in copied:
            copy = copied[expr.source] = scratch.array(source.shape, source.dtype)
            builder.call(np.copyto, copy, source)
        binding.copies[expr] = copied[expr.source]
