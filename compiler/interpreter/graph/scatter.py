"""What the operations mean that write at computed positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from mlopt.diagnostics import RunError
from mlopt.dialects import graph
from mlopt.interpreter.graph.movement import wrap_indices
from mlopt.interpreter.graph.registry import Array, evaluates
from mlopt.ir.locations import place_of_op

_COMBINE: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@evaluates(graph.ScatterElementsOp)
def scatter_elements(
    op: graph.ScatterElementsOp, data: Array, indices: Array, updates: Array, *count: Array
) -> Array:
    indices, updates = _counted(op, indices, updates, *count)
    axis = op.axis.value.data
    position = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    position[axis] = wrap_indices(op, indices, data.shape[axis])
    return _scattered(op, data, position, updates)


@evaluates(graph.ScatterNdOp)
def scatter_nd(op: graph.ScatterNdOp, data: Array, indices: Array, updates: Array, *count: Array) -> Array:
    indices, updates = _counted(op, indices, updates, *count)
    depth = indices.shape[-1]
    position = [wrap_indices(op, indices[..., axis], data.shape[axis]) for axis in range(depth)]
    if not position:  # every update is a whole tensor
        data, updates = data[None], updates.reshape(-1, *data.shape)
        return _scattered(op, data, [np.zeros(len(updates), np.int64)], updates)[0]
    return _scattered(op, data, position, updates)


def _counted(op: Operation, indices: Array, updates: Array, *count: Array) -> tuple[Array, Array]:
    """The indices and updates that count."""
    if not count:
        return indices, updates
    number = int(count[0])
    if not 0 <= number <= len(indices):
        raise RunError(f"expected a count from 0 to {len(indices)}, found {number}", place=place_of_op(op))
    return indices[:number], updates[:number]


def _scattered(
    op: graph.ScatterElementsOp | graph.ScatterNdOp, data: Array, position: Sequence[Array], updates: Array
) -> Array:
    """A copy of `data` with the updates at an index of numpy, one after the other."""
    result, reduction = data.copy(), op.reduction.data
    if reduction == "none":
        result[tuple(position)] = updates
    else:
        _COMBINE[reduction].at(result, tuple(position), updates)
    return result
