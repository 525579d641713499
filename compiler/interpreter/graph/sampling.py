"""What sampling images at computed positions means."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from mlopt.diagnostics import RunError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.interpreter.graph.registry import Array, evaluates, widen
from mlopt.ir.locations import place_of_op


@evaluates(graph.GridSampleOp)
def grid_sample(op: graph.GridSampleOp, x: Array, grid: Array) -> Array:
    wide = x if op.mode.data == "nearest" else widen(op, x)[0]
    work = np.float64 if grid.dtype == np.float64 else np.float32
    spatial, align = x.shape[2:], op.align_corners is not None
    at = [
        _from_normalized(grid[..., -1 - axis].astype(work), size, align=align)
        for axis, size in enumerate(spatial)
    ]
    edges = [(0.0, size - 1.0) if align else (-0.5, size - 0.5) for size in spatial]
    return _sampled(wide, at, op.mode.data, op.padding.data, edges).astype(x.dtype, copy=False)


def _from_normalized(x: Array, size: int, *, align: bool) -> Array:
    """A coordinate from -1 to 1 as a position, in which elements are 1 apart and the first lies at 0."""
    one, two = x.dtype.type(1), x.dtype.type(2)
    return (x + one) / two * x.dtype.type(size - 1) if align else ((x + one) * x.dtype.type(size) - one) / two


def _sampled(
    x: Array, at: Sequence[Array], mode: str, padding: str, edges: Sequence[tuple[float, float]]
) -> Array:
    """`x` `[n, c, spatial...]` at positions `[n, ...]`, one array per spatial axis: `[n, c, ...]`."""
    batch = np.arange(len(x)).reshape(-1, *[1] * (at[0].ndim - 1))
    taps: list[list[tuple[Array, Array, Array | None]]] = []
    for axis, (position, edge) in enumerate(zip(at, edges, strict=True)):
        taps.append(
            [
                (*_element(whole, x.shape[2 + axis], padding, edge), weight)
                for whole, weight in _taps(position, mode)
            ]
        )
    total: Array | None = None
    for chosen in product(*taps):
        index, inside, weights = zip(*chosen, strict=True)
        value = np.moveaxis(x[(batch, slice(None), *index)], -1, 1)
        value = np.where(np.logical_and.reduce(np.broadcast_arrays(*inside))[:, None], value, x.dtype.type(0))
        for weight in weights:
            if weight is not None:
                value = value * weight[:, None].astype(x.dtype)
        total = value if total is None else total + value
    assert total is not None
    return total


def _taps(at: Array, mode: str) -> list[tuple[Array, Array | None]]:
    """The whole positions that are read along an axis, and their weights."""
    if mode == "nearest":
        return [(np.rint(at), None)]
    low = np.floor(at)
    t, one = at - low, at.dtype.type(1)
    if mode == "linear":
        return [(low, one - t), (low + one, t)]
    a = at.dtype.type(-0.75)

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    weights = (far(t + one), near(t), near(one - t), far(2 - t))
    return [(low + at.dtype.type(k), weight) for k, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _element(position: Array, size: int, padding: str, edge: tuple[float, float]) -> tuple[Array, Array]:
    """Which element stands at a whole position, and whether one does; NaN stands nowhere, or at the first."""
    inside = np.ones(position.shape, np.bool_)
    if padding == "zeros":
        inside = (position >= 0) & (position <= size - 1)
    elif padding == "reflection":
        low, high = (position.dtype.type(number) for number in edge)
        length = high - low
        rest: Array = np.fmod(np.abs(position - low), 2 * length)
        position = np.trunc(low + np.where(rest <= length, rest, 2 * length - rest))
    number: Array = np.nan_to_num(position)
    return np.clip(number, 0, size - 1).astype(np.int64), inside


@evaluates(graph.RoiAlignOp)
def roi_align(op: graph.RoiAlignOp, x: Array, rois: Array, batch_indices: Array) -> Array:
    outside = batch_indices[(batch_indices < 0) | (batch_indices >= len(x))]
    if outside.size:
        raise RunError(
            f"'{op.name}': batch index {outside[0]} is out of bounds for {len(x)} images",
            place=place_of_op(op),
        )
    wide, boxes = widen(op, x, rois)
    result = np.zeros(shape_of(op.result), wide.dtype)
    half_pixel = op.half_pixel is not None
    corners = boxes * wide.dtype.type(op.scale.value.data) - wide.dtype.type(0.5 if half_pixel else 0)
    for region, corner, image in zip(result, corners, batch_indices, strict=True):
        along: list[tuple[Array, Array, tuple[Array, Array]]] = []
        for axis in (0, 1):
            start, end = corner[1 - axis], corner[3 - axis]
            length = end - start if half_pixel else np.maximum(end - start, wide.dtype.type(1))
            bin_size = length / wide.dtype.type(region.shape[1 + axis])
            adaptive = int(np.ceil(bin_size)) if np.isfinite(bin_size) else 0
            count = op.samples.value.data or max(0, adaptive)
            bins = np.arange(region.shape[1 + axis], dtype=wide.dtype)[:, None] * bin_size
            points = (np.arange(count, dtype=wide.dtype) + wide.dtype.type(0.5)) * bin_size
            at = start + bins + points / wide.dtype.type(max(count, 1))
            along.append(_clamped(at, wide.shape[2 + axis]))
        rows, columns = along
        region[...] = _pooled(wide[image], rows, columns, op.mode.data)
    return result.astype(x.dtype, copy=False)


def _pooled(
    image: Array,
    rows: tuple[Array, Array, tuple[Array, Array]],
    columns: tuple[Array, Array, tuple[Array, Array]],
    mode: str,
) -> Array:
    """`image` `[c, h, w]` at the points of its bins; no points give 0."""
    values: list[Array] = []
    for y, wy in zip(rows[:2], rows[2], strict=True):
        for x, wx in zip(columns[:2], columns[2], strict=True):
            weight = wy[:, None, :, None] * wx[None, :, None, :]
            values.append(image[:, y[:, None, :, None], x[None, :, None, :]] * weight)
    points = values[0].shape[-1] * values[0].shape[-2]
    if points == 0:
        return np.zeros(values[0].shape[:3], image.dtype)
    if mode == "max":
        return np.maximum.reduce(values).max(axis=(3, 4))
    return (values[0] + values[1] + values[2] + values[3]).sum(axis=(3, 4)) / image.dtype.type(points)


def _clamped(at: Array, size: int) -> tuple[Array, Array, tuple[Array, Array]]:
    """The two neighbours of a position and their weights, which are 0 where it is more than 1 outside."""
    one = at.dtype.type(1)
    is_valid = (at >= -one) & (at <= at.dtype.type(size))
    position = np.clip(np.nan_to_num(at), 0, size - 1).astype(at.dtype)
    low = position.astype(np.int64)
    t = position - low.astype(at.dtype)
    return low, np.minimum(low + 1, size - 1), (np.where(is_valid, one - t, 0), np.where(is_valid, t, 0))


@evaluates(graph.DeformConvOp)
def deform_conv(op: graph.DeformConvOp, x: Array, weight: Array, offset: Array, *mask: Array) -> Array:
    wide, w, moved, *by = widen(op, x, weight, offset, *mask)
    work = wide.dtype.type
    batch, channels, *spatial = x.shape
    features, _, *kernel = w.shape
    window, groups = op.window, op.offset_group.value.data
    positions = shape_of(op.result)[2:]
    moved = moved.reshape(batch * groups, *kernel, 2, *positions)
    at: list[Array] = []
    for axis in (0, 1):
        taps, places = np.arange(kernel[axis], dtype=work), np.arange(positions[axis], dtype=work)
        tap = taps.reshape((-1, 1, 1, 1) if axis == 0 else (1, -1, 1, 1)) * work(window.dilations[axis])
        place = places.reshape((-1, 1) if axis == 0 else (1, -1)) * work(window.strides[axis])
        at.append(moved[:, :, :, axis] + (tap + place - work(window.low[axis])))
    images = wide.reshape(batch * groups, channels // groups, *spatial)
    sampled = _sampled(images, at, "linear", "zeros", ((0, 0), (0, 0)))
    for numbers in by:
        sampled = sampled * numbers.reshape(batch * groups, 1, *kernel, *positions)
    group, taps_of_filter = op.group.value.data, prod(w.shape[1:])
    columns = sampled.reshape(batch, group, taps_of_filter, prod(positions))
    filters = w.reshape(group, features // group, taps_of_filter)
    result = np.einsum("gok,ngkp->ngop", filters, columns)
    return result.reshape(batch, features, *positions).astype(x.dtype, copy=False)
