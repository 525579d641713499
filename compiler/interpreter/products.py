"""One product of matrices as the calls of `np.matmul` that take BLAS the least time.

OpenBLAS shares larger products between threads and waits for all of them: a second thread halves 100 us, but takes
milliseconds to come back where its core has other work. Products that are not much larger than what it does on one
thread anyway are made in pieces of that size, which also spares it to pack the factors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlopt.interpreter.costs import lies_across
from mlopt.interpreter.plan import PlanBuilder
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import View

ONE_THREAD = 1_000_000
"""Multiplications of a product up to which OpenBLAS takes one thread, and does not pack the factors."""

SHARED_FROM = 8_000_000
"""From here on a second thread saves more than waiting for it costs now and then (4 ms, once in a hundred)."""

_ONE_THREAD_ACROSS = 1 << 19
"""Multiplications up to which OpenBLAS takes one thread of a product that `lies_across`."""

_LEAST_WORK = 60_000
_LEAST_ROWS = 4
_LEAST_COLUMNS = 32
_MOST_ROWS = 96
"""Sizes within which a copy of the left factor costs less than what it saves."""

_ROWS = 16
"""Pieces with fewer rows are slow."""

_COLUMNS = 64
_COLUMNS_ACROSS = 16
"""Columns of pieces are multiples of this, where they lie along the right factor's memory or across it."""


def emit_product(builder: PlanBuilder, scratch: Scratch, left: View, right: View, out: View) -> None:
    """`out = left @ right`, for views that BLAS takes as they lie; leading axes are batches."""
    rows, columns, inner = *out.shape[-2:], left.shape[-1]
    work = rows * columns * inner
    with scratch.frame():
        if _pays_turning(left, right, out) and scratch.fits(left.nbytes):
            left = _turned(builder, scratch, left)
        limit = _ONE_THREAD_ACROSS if lies_across(left, right, out) else ONE_THREAD
        if not limit < work <= SHARED_FROM:
            builder.call(np.matmul, left, right, out)
            return
        for low, high in _cuts(columns, _piece_columns(left, right, out, limit)):
            part = _slice(right, right.ndim - 1, low, high)
            held = _slice(out, out.ndim - 1, low, high)
            pieces = -(-rows * (high - low) * inner // limit)
            for first, last in _cuts(rows, -(-rows // pieces)):
                some = _slice(left, left.ndim - 2, first, last)
                builder.call(np.matmul, some, part, _slice(held, out.ndim - 2, first, last))


def _pays_turning(left: View, right: View, out: View) -> bool:
    """Whether a copy of the left factor, with its rows innermost, saves more than it costs."""
    rows, columns = out.shape[-2:]
    work = rows * columns * left.shape[-1]
    return (
        lies_across(left, right, out)
        and work <= SHARED_FROM
        and out.size * left.shape[-1] >= _LEAST_WORK
        and rows >= _LEAST_ROWS
        and columns >= _LEAST_COLUMNS
        and (rows <= _MOST_ROWS or work > _ONE_THREAD_ACROSS)
    )


def _turned(builder: PlanBuilder, scratch: Scratch, left: View) -> View:
    """A copy of the left factor with its rows innermost."""
    order = (*range(left.ndim - 2), left.ndim - 1, left.ndim - 2)
    across = left.transposed(order)
    copy = scratch.array(across.shape, left.dtype)
    builder.call(np.copyto, copy, across)
    return copy.transposed(order)


def _piece_columns(left: View, right: View, out: View, limit: int) -> int:
    """Columns of a piece, which is then cut into rows.

    A piece has all rows where the columns of the right factor lie across memory, else as many columns as leave it
    enough of them.
    """
    rows, columns, inner = *out.shape[-2:], left.shape[-1]
    if right.strides[-2] == right.itemsize:
        pieces = -(-rows * columns * inner // limit)
        return _rounded_up(-(-columns // pieces), _COLUMNS_ACROSS)
    parts = 1
    while True:
        cut = _rounded_up(-(-columns // parts), _COLUMNS)
        pieces = -(-rows * cut * inner // limit)
        if cut == _COLUMNS or -(-rows // pieces) >= min(rows, _ROWS):
            return cut
        parts += 1


def _rounded_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def _cuts(extent: int, step: int) -> Iterator[tuple[int, int]]:
    for low in range(0, extent, step):
        yield low, min(low + step, extent)


def _slice(view: View, axis: int, low: int, high: int) -> View:
    lows = [low if a == axis else 0 for a in range(view.ndim)]
    return view.box(lows, [high - low if a == axis else e for a, e in enumerate(view.shape)])
