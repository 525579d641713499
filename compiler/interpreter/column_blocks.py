"""Operands that are one number in each row, such as a mean or a sum to divide by, written out over short rows.

Numpy takes 40 ns to go on to the next row, but 8 ns to fill one with a number: with the numbers written out first, all
rows are one. They are written to where the result goes, if no other operand stands there, else to scratch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.views import View, may_overlap

FUNCTIONS = (np.add, np.subtract, np.multiply, np.divide)
"""What rounds each element alone, wherever it stands."""

_LONGEST_ROW = 192
"""Elements of a row; in longer ones the work is more than what numpy takes between rows."""

_LEAST_ELEMENTS = 1024
_MOST_ELEMENTS = 4096
"""Of the rows that are written out to scratch at a time: with more of them, calls count for little."""


def pays(shape: Sequence[int]) -> bool:
    """Whether to write out a number for each row of an array of this shape."""
    return len(shape) > 1 and 1 < shape[-1] <= _LONGEST_ROW


def elements_at_a_time(shape: Sequence[int], itemsize: int, fits: Callable[[int], bool]) -> int:
    """For how many elements of such an array, in whole slices of its first axis, there is scratch; 0 for too few."""
    elements = math.prod(shape[1:])
    parts = max(1, -(-shape[0] * elements // _MOST_ELEMENTS))
    count = -(-shape[0] // parts)
    while not fits(count * elements * itemsize):
        count //= 2
        if count * elements < _LEAST_ELEMENTS:
            return 0
    return count * elements


def emit_by_columns(
    builder: PlanBuilder,
    function: np.ufunc,
    args: Sequence[View],
    column: int,
    space: View | None,
    out: View,
) -> bool:
    """Emit `out = function(*args)`, of two operands, where the one at `column` has a number for each row of `out`.

    All else is contiguous, or a number. False, and nothing is emitted, if an operand stands in `out` and `space`, one
    axis of scratch, has no room for a slice of it.
    """
    other = args[1 - column]
    if not may_overlap(other, out) and not may_overlap(args[column], out):
        space = out.reshaped((out.size,))
    slice_elements = math.prod(out.shape[1:])
    count = 0 if space is None else min(space.size // slice_elements, out.shape[0])
    if space is None or count == 0:
        return False
    for first in range(0, out.shape[0], count):
        part = _slices(out, first, count)
        flat = (part.size,)
        block = View(space.region, space.offset, part.shape, part.strides, space.dtype)
        builder.call(np.copyto, block, _slices(args[column], first, count))
        whole = _slices(other, first, count).reshaped(flat) if other.ndim else other
        operands = (whole, block.reshaped(flat)) if column else (block.reshaped(flat), whole)
        builder.call(function, *operands, part.reshaped(flat))
    return True


def _slices(view: View, first: int, count: int) -> View:
    """So many slices of the first axis."""
    shape = (min(count, view.shape[0] - first), *view.shape[1:])
    return view.box((first, *[0] * (view.ndim - 1)), shape)
