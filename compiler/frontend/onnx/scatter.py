"""Import of operators that write at computed positions."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of
from mlopt.frontend.onnx.bounded import Results, alike, carries, refusal
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.positions import positions
from mlopt.frontend.onnx.registry import ImportFunction, importer


@importer("Scatter", since=9)
@importer("ScatterElements", since=11)
def scatter_elements(node: Node) -> SSAValue:
    """Single elements along `axis`; there are reductions since version 16, and `max` and `min` since 18."""
    axis, reduction = node.integer("axis", 0), _reduction(node)
    return node.add(
        graph.ScatterElementsOp(node.operand(0), node.operand(1), node.operand(2), axis, reduction)
    ).result


@importer("ScatterND", since=11)
def scatter_nd(node: Node) -> SSAValue:
    """Slices at index tuples; reductions as for ScatterElements."""
    return node.add(
        graph.ScatterNdOp(node.operand(0), node.operand(1), node.operand(2), _reduction(node))
    ).result


@carries("ScatterElements", "ScatterND")
def _scatter_bounded(node: Node, function: ImportFunction) -> Results:
    """Indices and updates that are bounded along the same axis: of both only what is there is written."""
    data, indices, updates = (node.operand(index) for index in range(3))
    of_indices, of_updates = node.bound_of(indices), node.bound_of(updates)
    if node.bound_of(data) is not None:
        raise refusal(node, "into which is written", 0)
    is_nd = node.proto.op_type == "ScatterND"
    if of_indices is None or of_updates is None or of_indices.axis != of_updates.axis:
        raise refusal(node, "along which the indices and the updates differ")
    axis = of_indices.axis
    if is_nd and axis == len(shape_of(indices)) - 1:
        raise refusal(node, "which is that of the coordinates")
    pair = [(1, indices, axis, of_indices.extent), (2, updates, axis, of_updates.extent)]
    operands, extent = alike(node, pair)
    indices, updates = (_first_axis(node, operands[index], axis) for index in (1, 2))
    if is_nd:
        return node.add(graph.ScatterNdOp(data, indices, updates, _reduction(node), extent)).result
    moved, along = _first_axis(node, data, axis), node.integer("axis", 0) % len(shape_of(data))
    along = {0: axis, axis: 0}.get(along, along)
    op = graph.ScatterElementsOp(moved, indices, updates, along, _reduction(node), extent)
    return _first_axis(node, node.add(op).result, axis)


def _first_axis(node: Node, value: SSAValue, axis: int) -> SSAValue:
    """The value with an axis exchanged for the first one."""
    perm = [*range(len(shape_of(value)))]
    perm[0], perm[axis] = axis, 0
    return node.add(graph.TransposeOp(value, perm)).result if axis else value


def _reduction(node: Node) -> str:
    known = ("none", "add", "mul") if node.opset < 18 else ("none", "add", "mul", "max", "min")
    reduction = node.string("reduction", "none")
    if reduction not in known:
        raise node.error(f"expected a reduction (one of {', '.join(known)}), found {reduction!r}")
    return reduction


@importer("TensorScatter", since=24)
def tensor_scatter(node: Node) -> SSAValue:
    """A cache with an update written along `axis` from each batch entry's own position on; `circular` wraps around."""
    shape, written = node.shape_of(0), node.shape_of(1)
    axis = normalize_axis(node.integer("axis", -2), len(shape))
    fits = len(written) == len(shape) and all(
        (n <= size if d == axis else n == size)
        for d, (n, size) in enumerate(zip(written, shape, strict=True))
    )
    if axis == 0 or not fits:
        raise node.error(
            f"expected an update like {node.type_of(0)} but for an axis that is not 0, found {node.type_of(1)} and "
            f"axis {axis}"
        )
    mode = node.string("mode", "linear")
    if mode not in ("linear", "circular"):
        raise node.error(f"expected linear or circular as the mode, found {mode!r}")
    places = _along(node, _cache_positions(node, shape[axis], written[axis], mode), written, axis, {0, axis})
    coordinates = [
        places if d == axis else _along(node, positions(node, written[d], 0), written, axis, {d})
        for d in range(axis + 1)
    ]
    indices = node.add(graph.ConcatOp(coordinates, axis + 1)).result
    return node.add(graph.ScatterNdOp(node.operand(0), indices, node.operand(1))).result


def _cache_positions(node: Node, size: int, length: int, mode: str) -> SSAValue:
    """Where each of the `length` elements of each batch entry goes on an axis of `size`; out of bounds stays so."""
    steps = positions(node, length, 0)
    start = node.optional(2)
    if start is None:
        batch = node.constant(np.zeros((node.shape_of(0)[0], 1), np.int64))
        return node.add(graph.AddOp(batch, steps)).result
    column = node.add(graph.ReshapeOp(start, [node.shape_of(0)[0], 1])).result
    places = node.add(graph.AddOp(column, steps)).result
    limit = node.constant(np.array(size))
    if mode == "circular":
        return node.add(graph.ModOp(places, limit)).result
    negative = node.add(graph.LessOp(places, node.constant(np.array(0)))).result
    return node.add(graph.WhereOp(negative, limit, places)).result


def _along(node: Node, numbers: SSAValue, written: tuple[int, ...], axis: int, on: set[int]) -> SSAValue:
    """Numbers that vary on the axes `on`, repeated on all up to `axis`, as one component of index tuples."""
    spread = [size if d in on else 1 for d, size in enumerate(written[: axis + 1])]
    column = node.add(graph.ReshapeOp(numbers, [*spread, 1])).result
    return node.add(graph.ExpandOp(column, [*written[: axis + 1], 1])).result
