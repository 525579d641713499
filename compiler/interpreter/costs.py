"""What numpy calls cost, roughly, in nanoseconds: for choices between ways that differ by more than the error.

Measured on one core with AVX-512, operands in the second-level cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mlopt.interpreter.views import Slot, View, broadcast_strides, merged_strides

CALL = 500.0
"""A call on a handful of elements."""

PRODUCT = 1000.0
"""A call of `np.matmul` on small matrices."""

SLOT = 1000.0
"""What a call takes longer with an array whose memory is known only when it runs."""

EINSUM = 5000.0
"""A call of `np.einsum`, which reads its equation first."""

_MATRIX = 100.0
_MULTIPLY_ADD = 1 / 60
_ACROSS = 1.7
_SMALL_ACROSS = 1200
_OPERAND = 0.08
_SHORTEST_RUN = 5.0
_UFUNC_RUN = 15.0
_RUN = 2.5
_ELEMENT = 0.08
_SPREAD_ELEMENT = 0.18


def copy(elements: int, run: int, *, spread: bool = False) -> float:
    """`np.copyto` of so many elements in runs of `run` along the innermost axis.

    `spread`: the elements of a run do not lie side by side.
    """
    runs = elements / max(run, 1)
    element = _SPREAD_ELEMENT if spread else _ELEMENT
    return CALL + runs * max(_SHORTEST_RUN, _RUN + run * element)


def products(matrices: int, rows: int, inner: int, columns: int) -> float:
    """Products of `[rows, inner]` and `[inner, columns]` in BLAS, without the call itself.

    Narrow ones take as long as it takes to read the factors.
    """
    elements = rows * inner + inner * columns + rows * columns
    work = max(rows * inner * columns * _MULTIPLY_ADD, elements * _OPERAND)
    return matrices * (_MATRIX + work)


def lies_across(left: View, right: View, out: View) -> bool:
    """Whether both factors have the inner dimension innermost, and BLAS must pack them, which takes its time."""
    along = left.strides[-1] == left.itemsize and right.strides[-2] == right.itemsize
    flat = left.shape[-1] == 1 or out.shape[-1] == 1 or out.shape[-2] == 1
    return along and not flat and math.prod(out.shape[-2:]) > _SMALL_ACROSS


def step(elements: int, run: int, calls: int, *, spread: bool = False) -> float:
    """A ufunc of so many elements in all, in runs of `run`, in so many calls."""
    return calls * CALL + copy(elements, run, spread=spread) - CALL + elements / max(run, 1) * _UFUNC_RUN


def turn(elements: int) -> float:
    """`np.copyto` of so many elements to an array whose axes lie in another order."""
    return CALL + elements * 0.4


def einsum_run(elements: int) -> float:
    """A product of two runs of elements, added to a third, within `np.einsum`."""
    return 22.0 + elements * 0.11


def of_call(function: Callable[..., object], arguments: Sequence[object]) -> float:
    """Any call of a plan, by the shapes and the strides of its arrays."""
    views = [argument for argument in arguments if isinstance(argument, View)]
    start = SLOT if any(isinstance(view.region, Slot) for view in views) else 0.0
    if not views:
        return CALL
    if function is np.matmul:
        return start + PRODUCT + _products(*views)
    whole = max(views, key=lambda view: view.size)
    rows = [broadcast_strides(view, whole.ndim) for view in views if view.ndim <= whole.ndim]
    groups = merged_strides(whole.shape, rows)
    run = math.prod(whole.shape[axis] for axis in groups[-1]) if groups else 1
    spread = bool(groups) and any(abs(row[groups[-1][-1]]) > whole.itemsize for row in rows)
    if function is np.einsum:
        run = views[-1].shape[-1]
        return start + EINSUM + whole.size / max(run, 1) * einsum_run(run)
    if function is np.copyto or len(groups) < 2:
        return start + copy(whole.size, run, spread=spread)
    return start + step(whole.size, run, 1, spread=spread)


def _products(left: View, right: View, out: View) -> float:
    """The matrices of a `np.matmul`."""
    inner = left.shape[-1]
    if out.ndim < 2 or right.ndim < 2:
        return products(1, out.size, inner, 1)
    time = products(math.prod(out.shape[:-2]), out.shape[-2], inner, out.shape[-1])
    return time * _ACROSS if lies_across(left, right, out) else time
