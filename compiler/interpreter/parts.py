"""A contraction cut along a dimension of its output: where padding begins, and what the parts read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import SSAValue

from mlopt.interpreter.expressions import Apply, Bound, Expr, Gather, Linear, Read
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.slabs import copied_read
from mlopt.interpreter.views import View


class Parts:
    """A binding for the parts of an iteration space: their reads stand for those of the whole."""

    def __init__(self, binding: Binding):
        self._binding = binding
        self._whole: dict[Expr, Read] = {}

    def source(self, expr: Read | Gather) -> View:
        """The memref that an expression reads."""
        return self._binding.source(self._whole.get(expr, expr))

    def scalar(self, value: SSAValue) -> View | int | float:
        """A scalar: its value, or its cell."""
        return self._binding.scalar(value)

    def shifted(self, expr: Expr, dim: int, low: int, shape: tuple[int, ...]) -> Expr:
        """The part of a factor that starts at `low` along `dim`; bounds that hold within `shape` are left out."""
        match expr:
            case Read():
                index = tuple(_moved(linear, dim, low) for linear in expr.index)
                moved = (Bound(_moved(b.expr, dim, low), b.low, b.high) for b in expr.bounds)
                bounds = tuple(bound for bound in moved if not bound.holds_everywhere(shape))
                part = Read(expr.type, expr.source, index, bounds, expr.pad if bounds else None)
                self._whole[part] = self._whole.get(expr, expr)
                return part
            case Apply(args=(Read() as read,)):
                return Apply(expr.type, expr.name, (self.shifted(read, dim, low, shape),))
            case _:
                raise AssertionError("only reads and their conversions are cut")


def unpadded_ranges(factors: Sequence[Expr], dim: int, out: View) -> list[tuple[int, int]]:
    """A kept dimension of a contraction, cut where the reads of its factors begin and end to be all inside.

    One range if nothing is padded along `dim`, or everything.
    """
    low, high = 0, out.shape[dim]
    reads = [copied_read(factor) for factor in factors]
    for read in reads:
        if read is None:
            return [(0, out.shape[dim])]
        for bound in read.bounds:
            if dim not in bound.expr.dims:
                continue
            if any(out.strides[d] for d in bound.expr.dims if d != dim):
                return [(0, out.shape[dim])]
            factor_of_dim = bound.expr.coefficients[dim]
            rest = Linear(
                tuple(0 if d == dim else c for d, c in enumerate(bound.expr.coefficients)),
                bound.expr.constant,
            )
            least, most = rest.bounds(out.shape)
            # least + f * i >= bound.low and most + f * i < bound.high
            begin = -math.inf if bound.low is None else bound.low - least
            end = math.inf if bound.high is None else bound.high - most
            if factor_of_dim < 0:
                begin, end, factor_of_dim = 1 - end, 1 - begin, -factor_of_dim
            low = max(low, low if begin == -math.inf else -(-int(begin) // factor_of_dim))
            high = min(high, high if end == math.inf else -(-int(end) // factor_of_dim))
    if low >= high:
        return [(0, out.shape[dim])]
    cuts = [0, low, high, out.shape[dim]]
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _moved(linear: Linear, dim: int, low: int) -> Linear:
    return Linear(linear.coefficients, linear.constant + linear.coefficients[dim] * low)
