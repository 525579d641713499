"""Gathers with constant indices: those out of bounds, and those that form a grid, so that a slice reads the same."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.ir import Operation

from mlopt.diagnostics import InputError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.ir.locations import place_of_op

Gather = graph.GatherOp | graph.GatherElementsOp | graph.GatherNdOp


def simplify_gather(op: graph.GatherOp | graph.GatherNdOp, indices: np.ndarray) -> list[Operation]:
    """Operations that read the same elements as `op` without indices; the last one gives its result.

    None ([]) if the indices are not regular.
    """
    shape = shape_of(op.input)
    if isinstance(op, graph.GatherOp):
        axis = op.axis.value.data
        numbers = _progression(_wrap(indices, shape[axis : axis + 1]))
        ranges = None if numbers is None else {axis: numbers}
    elif op.batch_dims.value.data == 0:
        ranges = _grid(_wrap(indices, shape[: indices.shape[-1]]))
    else:
        ranges = None
    if ranges is None:
        return []
    every = [ranges.get(axis, (0, size, 1)) for axis, size in enumerate(shape)]
    sliced = graph.SliceOp(op.input, [r[0] for r in every], [r[1] for r in every], [r[2] for r in every])
    if sliced.result.type == op.result.type:
        return [sliced]
    return [sliced, graph.ReshapeOp(sliced, shape_of(op.result))]


def require_within(op: Gather, indices: np.ndarray) -> None:
    """`InputError`, which names the node, if an index is out of bounds for its axis."""
    shape = shape_of(op.input)
    if isinstance(op, graph.GatherNdOp):
        first = op.batch_dims.value.data
        by_axis = [(first + i, indices[..., i]) for i in range(indices.shape[-1])]
    else:
        by_axis = [(op.axis.value.data, indices)]
    for axis, numbers in by_axis:
        outside = numbers[(numbers < -shape[axis]) | (numbers >= shape[axis])]
        if outside.size:
            raise InputError(
                f"index {outside[0]} is out of bounds for axis {axis} of size {shape[axis]}",
                place=place_of_op(op),
            )


def _wrap(indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray | None:
    """Indices from 0, or None if one is out of range or there are none."""
    if indices.size == 0 or np.any(indices < -np.array(sizes)) or np.any(indices >= np.array(sizes)):
        return None
    return np.where(indices < 0, indices + np.array(sizes), indices)


def _progression(indices: np.ndarray | None) -> tuple[int, int, int] | None:
    """(start, stop, step) of indices in arithmetic progression."""
    if indices is None:
        return None
    numbers = indices.reshape(-1)
    first, last = int(numbers[0]), int(numbers[-1])
    step = int(numbers[1]) - first if numbers.size > 1 else 1
    if step == 0 or not np.array_equal(numbers, first + step * np.arange(numbers.size)):
        return None
    return first, max(last + (1 if step > 0 else -1), -1), step


def _grid(indices: np.ndarray | None) -> dict[int, tuple[int, int, int]] | None:
    """The ranges, by axis, of index tuples that run through a box in row-major order."""
    if indices is None:
        return None
    tuples = indices.reshape(-1, indices.shape[-1])
    low, high = tuples.min(axis=0), tuples.max(axis=0) + 1
    sizes = tuple(int(size) for size in high - low)
    if prod(sizes) != len(tuples):
        return None
    box = np.indices(sizes).reshape(len(sizes), -1).T + low
    if not np.array_equal(tuples, box):
        return None
    return {axis: (int(low[axis]), int(high[axis]), 1) for axis in range(len(sizes))}
