"""What the operations mean that write at computed positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlopt.dialects import graph
from mlopt.interpreter.graph.movement import wrap_indices
from mlopt.interpreter.graph.registry import Array, evaluates

_COMBINE: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@evaluates(graph.ScatterElementsOp)
def scatter_elements(op: graph.ScatterElementsOp, data: Array, indices: Array, updates: Array) -> Array:
    axis = op.axis.value.data
    position = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    position[axis] = wrap_indices(op, indices, data.shape[axis])
    return _scattered(op, data, position, updates)


@evaluates(graph.ScatterNdOp)
def scatter_nd(op: graph.ScatterNdOp, data: Array, indices: Array, updates: Array) -> Array:
    depth = indices.shape[-1]
    position = [wrap_indices(op, indices[..., axis], data.shape[axis]) for axis in range(depth)]
    if not position:  # every update is a whole tensor
        data, updates = data[None], updates.reshape(-1, *data.shape)
        return _scattered(op, data, [np.zeros(len(updates), np.int64)], updates)[0]
    return _scattered(op, data, position, updates)


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
