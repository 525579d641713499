"""Operands that are one row, the same for every row of a tile: several copies of it make a short row a long one.

Numpy takes 30 to 60 ns to go on to the next row, as long as the work in a few hundred elements: a bias on channels
that lie innermost takes up to five times as long as a sum of two tensors. With the row written out a few times side by
side, as many rows are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import View

FUNCTIONS = (np.add, np.subtract, np.multiply)
"""What rounds each element alone, wherever it stands."""

_LONGEST_ROW = 512
"""Up to here the copies cost less than they save, from two rows on."""

_BLOCK_ELEMENTS = 2048
_WHOLE_ELEMENTS = 4096
"""Up to here the row is written out for every row: a flat loop starts in half the time."""


def copies(rows: int, width: int) -> int:
    """How often a row of `width` elements is to be written out for so many rows; 1 where that does not pay."""
    if width > _LONGEST_ROW:
        return 1
    if rows * width <= _WHOLE_ELEMENTS:
        return rows
    most = _BLOCK_ELEMENTS // width
    return next((count for count in range(most, most // 2, -1) if rows % count == 0), most)


def written_out(builder: PlanBuilder, scratch: Scratch, row: View, count: int) -> View | None:
    """`[count, width]` copies of a row in scratch, if there is room."""
    if not scratch.is_spare(count * row.nbytes):
        return None
    block = scratch.array((count, row.size), row.dtype)
    builder.call(np.copyto, block, row)
    return block


def emit_by_rows(
    builder: PlanBuilder, function: np.ufunc, args: Sequence[View | None], block: View, out: View
) -> None:
    """`out = function(*args)`, all contiguous or scalars, where None stands for the row that `block` has copies of."""
    count, width = block.shape
    rows = out.size // width
    whole = rows // count * count
    for first, number in ((0, whole), (whole, rows - whole)):
        if number == 0:
            continue
        together = min(count, number)
        run = (together * width,)
        shape = run if number == together else (number // together, *run)
        offset = first * width
        values = [
            block.reshaped(run) if arg is None else _part(arg, offset, shape) if arg.ndim else arg
            for arg in args
        ]
        builder.call(function, *values, _part(out, offset, shape))


def _part(view: View, elements: int, shape: tuple[int, ...]) -> View:
    """What lies so many elements behind the start of a contiguous view."""
    return replace(view, offset=view.offset + elements * view.itemsize).reshaped(shape)
