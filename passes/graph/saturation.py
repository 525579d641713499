"""What a `graph.quantize` absorbs: it saturates, so that bounds outside of the range of its integers do nothing."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.ir.context import CompilerContext
from mlopt.ir.dtypes import integer_range
from mlopt.passes.graph.quantized_values import quantized_as, single_number


def absorbed(op: Operation, quantize: graph.QuantizeOp, ctx: CompilerContext) -> bool:
    """Whether `quantize` gives the same with and without `op`, a relu or clip in front of it.

    It is monotone: if the lower bound is quantized to the smallest integer, so is whatever is below it, and so is NaN.
    """
    to = quantized_as(quantize, ctx)
    if to is None:
        return False
    low, high = integer_range(to.element)
    match op:
        case graph.ReluOp():
            return to.zero == low
        case graph.ClipOp():
            lower = -np.inf if op.lower is None else single_number(op.lower, ctx)
            upper = np.inf if op.upper is None else single_number(op.upper, ctx)
        case _:
            return False
    if lower is None or upper is None or not lower <= upper:
        return False
    scale = np.float32(to.scale)
    first, last = (float(np.rint(np.float32(bound) / scale)) + to.zero for bound in (lower, upper))
    return first <= low and last >= high


def below_absorbed(quantize: graph.QuantizeOp, ctx: CompilerContext) -> tuple[SSAValue, list[Operation]]:
    """The value that might as well be quantized, and what is absorbed between it and `quantize`, the last one first."""
    value, between = quantize.input, list[Operation]()
    while isinstance(value.owner, graph.ReluOp | graph.ClipOp) and absorbed(value.owner, quantize, ctx):
        between.append(value.owner)
        value = value.owner.input
    return value, between
