"""What Resize means."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from mlopt.dialects import graph
from mlopt.dialects.graph.resampling import AxisTable
from mlopt.interpreter.graph.elementwise import truncate_saturating
from mlopt.interpreter.graph.registry import Array, evaluates, has_float_elements
from mlopt.ir.dtypes import to_numpy_dtype


@evaluates(graph.ResizeOp)
def resize(op: graph.ResizeOp, x: Array) -> Array:
    steps, result, wide = op.steps, x, to_numpy_dtype(op.wide)
    for tables in steps:
        if op.mode.data == "nearest":
            for axis, table in tables.items():
                result = np.take(result, table.indices[:, 0], axis)
        elif has_float_elements(op.input):
            result = _resampled(result, tables, wide)
        else:
            result = truncate_saturating(_rounded(op, _resampled(result, tables, wide)), x.dtype)
    result = result.astype(x.dtype, copy=False)
    for axis, table in (item for tables in steps for item in tables.items()):
        value = np.asarray(op.extrapolation.value.data).astype(x.dtype)
        result = np.where(_along(table.outside, axis, x.ndim), value, result)
    return result


def _resampled(x: Array, tables: Mapping[int, AxisTable], wide: np.dtype) -> Array:
    """These axes resampled together, with sums in `wide`."""
    total: Array | None = None
    for taps in product(*(range(table.taps) for table in tables.values())):
        element, weight = x, np.ones((), wide)
        for (axis, table), tap in reversed(list(zip(tables.items(), taps, strict=True))):
            assert table.weights is not None
            element = np.take(element, table.indices[:, tap], axis)
            weight = weight * _along(table.weights[:, tap].astype(wide), axis, x.ndim)
        term = element.astype(wide) * weight
        total = term if total is None else total + term
    assert total is not None
    return total


def _rounded(op: graph.ResizeOp, x: Array) -> Array:
    """What integers are rounded from, toward zero."""
    if op.antialias is not None:
        return np.floor(x + 0.5) if op.how.grid else np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)
    return np.rint(x) if op.mode.data == "cubic" else x


def _along(numbers: Array, axis: int, rank: int) -> Array:
    """One number per position of an axis, to broadcast to a tensor of that rank."""
    return numbers.reshape([-1] + [1] * (rank - axis - 1))
