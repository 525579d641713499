"""What the operations mean that move elements, read at computed positions, or make tensors of their own."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from mlopt.diagnostics import RunError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import FLOAT, tensor_type
from mlopt.interpreter.graph.registry import Array, evaluates
from mlopt.ir.dtypes import to_numpy_dtype
from mlopt.ir.locations import place_of_op


@evaluates(graph.ReshapeOp)
def reshape(op: graph.ReshapeOp, x: Array) -> Array:
    return x.reshape(tensor_type(op.result.type).get_shape())


@evaluates(graph.TransposeOp)
def transpose(op: graph.TransposeOp, x: Array) -> Array:
    return np.transpose(x, op.permutation)


@evaluates(graph.ConcatOp, graph.AllGatherOp)
def concat(op: graph.ConcatOp | graph.AllGatherOp, *xs: Array) -> Array:
    return np.concatenate(xs, axis=op.axis.value.data)


@evaluates(graph.SplitOp)
def split(op: graph.SplitOp, x: Array) -> tuple[Array, ...]:
    axis = op.axis.value.data
    sizes = [tensor_type(part.type).get_shape()[axis] for part in op.parts]
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis=axis))


@evaluates(graph.SliceOp)
def slice_(op: graph.SliceOp, x: Array) -> Array:
    return x[np.ix_(*(np.arange(*numbers) for numbers in op.ranges))]


@evaluates(graph.ExpandOp)
def expand(op: graph.ExpandOp, x: Array) -> Array:
    return np.broadcast_to(x, tensor_type(op.result.type).get_shape())


@evaluates(graph.PadOp)
def pad(op: graph.PadOp, x: Array) -> Array:
    if not op.widths:  # of rank 0, which numpy does not pad
        return x
    grown = [(max(low, 0), max(high, 0)) for low, high in op.widths]
    padded = np.pad(x, grown, constant_values=number(op.value, x.dtype))
    cropped = [
        slice(max(-low, 0), size - max(-high, 0))
        for (low, high), size in zip(op.widths, padded.shape, strict=True)
    ]
    return padded[tuple(cropped)]


@evaluates(graph.GatherOp)
def gather(op: graph.GatherOp, x: Array, indices: Array) -> Array:
    axis = op.axis.value.data
    return np.take(x, wrap_indices(op, indices, x.shape[axis]), axis=axis)


@evaluates(graph.GatherElementsOp)
def gather_elements(op: graph.GatherElementsOp, x: Array, indices: Array) -> Array:
    axis = op.axis.value.data
    position = list(np.ogrid[tuple(slice(size) for size in indices.shape)])
    position[axis] = wrap_indices(op, indices, x.shape[axis])
    return x[tuple(position)]


@evaluates(graph.GatherNdOp)
def gather_nd(op: graph.GatherNdOp, x: Array, indices: Array) -> Array:
    batch = op.batch_dims.value.data
    *positions, length = indices.shape
    coordinates = list(np.ogrid[tuple(slice(size) for size in positions)][:batch])
    for component in range(length):
        coordinates.append(wrap_indices(op, indices[..., component], x.shape[batch + component]))
    return np.broadcast_to(x[tuple(coordinates)], tensor_type(op.result.type).get_shape())


@evaluates(graph.RangeOp)
def range_(op: graph.RangeOp) -> Array:
    element = tensor_type(op.result.type).element_type
    dtype = to_numpy_dtype(element)
    wide = np.dtype(np.float64 if FLOAT.accepts(element) else np.int64)
    steps = np.arange(op.length.value.data).astype(wide)
    return (number(op.start, wide) + steps * number(op.delta, wide)).astype(dtype)


@evaluates(graph.ShapeOp)
def shape(op: graph.ShapeOp, x: Array) -> Array:
    return np.array(op.dimensions(), np.int64)


def wrap_indices(op: graph.GraphOp, indices: Array, size: int) -> Array:
    """Indices in [-size, size) as indices from 0; `RunError` if one is outside."""
    outside = (indices < -size) | (indices >= size)
    if np.any(outside):
        raise RunError(
            f"'{op.name}': expected indices in [{-size}, {size}), found {indices[outside][0]}",
            place=place_of_op(op),
        )
    return np.where(indices < 0, indices + size, indices)


def number(attribute: object, dtype: np.dtype) -> Array:
    """A number attribute as an array of rank 0."""
    assert isinstance(attribute, FloatAttr | IntegerAttr)
    value = attribute.value.data
    return np.array(value != 0 if dtype.kind == "b" else value).astype(dtype)
