"""What Resize reads for each position of an axis: a static table of indices and weights.

Resize is separable: an axis after the other is resampled by its table. Coordinates and weights are computed in f32,
step by step as the standard writes them down and onnxruntime computes them, so that ties fall the same way.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

_F = np.float32

_TIE = _F(1e-6)
"""A coordinate that is this near to the middle between two elements is taken to lie there, as in onnxruntime."""

_UNITS = 1 << 22
"""With a `grid`, weights are whole multiples of this part of 1."""


class Resampling(NamedTuple):
    """How the axes of one Resize are resampled; the fields are the attributes of the ONNX operator.

    `fractional`: coordinates that depend on the length of the result take it as the scaled length of the input, before
    it was rounded down. `grid`: antialiasing weights are rounded to 22 bits, as Pillow and onnxruntime do for images of
    8 bits; sums of them are exact in f64.
    """

    mode: str = "linear"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    fractional: bool = False
    grid: bool = False


class AxisTable(NamedTuple):
    """For each position of the result along an axis, what it is made of.

    Position `o` is the sum over `k` of `weights[o, k]` times the element at `indices[o, k]`; without weights
    (nearest) it is the element at `indices[o, 0]`. Where `outside`, it is the extrapolation value instead.
    """

    indices: Indices
    weights: Floats | None
    outside: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def taps(self) -> int:
        """How many elements each position reads."""
        return self.indices.shape[1]


def axis_table(
    how: Resampling, size: int, result: int, scale: float, roi: tuple[float, float] = (0.0, 1.0)
) -> AxisTable | None:
    """The table of an axis of `size` elements that gets `result` positions; None if nothing changes along it.

    `scale` is in f32. `roi` is the part of the axis that `tf_crop_and_resize` takes, from 0 to 1.
    """
    crops = how.coordinates == "tf_crop_and_resize"
    if scale == 1 and size == result and (not crops or roi == (0.0, 1.0)):
        return None
    if size == 0 or result == 0:
        weights = None if how.mode == "nearest" else np.zeros((result, 1), np.float32)
        return AxisTable(np.zeros((result, 1), np.int64), weights, np.zeros(result, np.bool_))
    at = _source_coordinates(how, size, result, _F(scale), roi)
    outside = (at < 0) | (at > size - 1) if crops else np.zeros(result, np.bool_)
    if how.mode == "nearest":
        whole = np.clip(nearest_indices(how.nearest, at), 0, size - 1)
        return AxisTable(whole[:, None], None, outside)
    if how.antialias:
        indices, weights = _filtered(how, at, size, _F(scale))
    elif how.mode == "linear":
        indices, weights = _linear(at, size)
    else:
        indices, weights = _cubic(how, at, size)
    return AxisTable(indices, weights, outside)


def _source_coordinates(
    how: Resampling, size: int, result: int, scale: np.float32, roi: tuple[float, float]
) -> Floats:
    """Where each position of the result lies on the axis of the input."""
    x = np.arange(result, dtype=np.float32)
    half, last = _F(0.5), _F(size - 1)
    length = scale * _F(size) if how.fractional else _F(result)
    match how.coordinates:
        case "asymmetric":
            return x / scale
        case "pytorch_half_pixel" if result <= 1:
            return np.zeros(result, np.float32)
        case "align_corners":
            return x * last / (length - _F(1)) if length != 1 else np.zeros(result, np.float32)
        case "tf_crop_and_resize":
            start, end = map(_F, roi)
            if length != 1:
                return start * last + x * (end - start) * last / (length - _F(1))
            return np.full(result, half * (start + end) * last, np.float32)
        case "half_pixel_symmetric":
            adjustment = _F(result) / (scale * _F(size))
            offset = _F(size) / _F(2) * (_F(1) - adjustment)
            return (np.float64(offset) + (x.astype(np.float64) + 0.5) / np.float64(scale) - 0.5).astype(_F)
        case _:
            return (x + half) / scale - half


def nearest_indices(mode: str, at: Floats) -> Indices:
    """The whole number that stands for each coordinate; what is a half but for rounding is one."""
    match mode:
        case "floor":
            whole = np.floor(at)
        case "ceil":
            whole = np.ceil(at)
        case _:
            fraction = at - np.floor(at)
            is_tie = np.abs(fraction - _F(0.5)) <= _TIE
            up = np.where(is_tie, mode == "round_prefer_ceil", fraction > _F(0.5))
            whole = np.floor(at) + up
    return whole.astype(np.int64)


def _linear(at: Floats, size: int) -> tuple[Indices, Floats]:
    """The neighbours of the coordinate, which is brought into the axis first."""
    at = np.clip(at, _F(0), _F(size - 1))
    first = np.minimum(at.astype(np.int64), size - 1)
    second = np.minimum(first + 1, size - 1)
    weights = np.stack([np.abs(at - second.astype(_F)), np.abs(at - first.astype(_F))], axis=1)
    weights[first == second] = 0.5
    return np.stack([first, second], axis=1), weights


def _cubic(how: Resampling, at: Floats, size: int) -> tuple[Indices, Floats]:
    """Four neighbours weighted by cubic convolution: R. Keys, Cubic convolution interpolation (1981)."""
    first = np.floor(at)
    s, a = at - first, _F(how.cubic_a)
    one, four, five, eight = map(_F, (1, 4, 5, 8))

    def far(t: Floats) -> Floats:
        return ((a * t - five * a) * t + eight * a) * t - four * a

    def near(t: Floats) -> Floats:
        return ((a + _F(2)) * t - (a + _F(3))) * t * t + one

    weights = np.stack([far(s + one), near(s), near(one - s), far(_F(2) - s)], axis=1)
    indices = first.astype(np.int64)[:, None] + np.arange(-1, 3)
    if how.exclude_outside:
        weights = np.where((indices < 0) | (indices >= size), _F(0), weights)
        weights = weights * _inverse_totals(weights)
    return np.clip(indices, 0, size - 1), weights


def _filtered(how: Resampling, at: Floats, size: int, scale: np.float32) -> tuple[Indices, Floats]:
    """The elements under a filter that is stretched where the axis shrinks; what lies outside counts at the edge."""
    step = _F(1) / scale
    radius = _F(1 if how.mode == "linear" else 2)
    support = radius * step if step >= 1 else radius
    squeeze = _F(1) / step if step >= 1 else _F(1)
    center = _F(0.5) + at
    low = np.floor(center - support + _F(0.5)).astype(np.int64)
    high = np.floor(center + support + _F(0.5)).astype(np.int64)
    window = 2 * int(np.ceil(support)) + 1
    positions = low[:, None] + np.arange(window)
    distance = np.abs((positions.astype(_F) - center[:, None] + _F(0.5)) * squeeze)
    weights = np.where(positions < high[:, None], _filter(how, distance), _F(0))
    inside = np.clip(positions, 0, size - 1)
    if how.exclude_outside:
        weights = np.where(inside == positions, weights, _F(0))
    first = inside[:, :1]
    gathered = np.zeros_like(weights)
    rows = np.broadcast_to(np.arange(len(at))[:, None], weights.shape)
    for chosen in (inside == positions, inside != positions):
        np.add.at(gathered, (rows[chosen], (inside - first)[chosen]), weights[chosen])
    gathered = gathered * _inverse_totals(weights)
    used = max(1, int(np.max(np.nonzero(np.any(gathered != 0, axis=0))[0], initial=0)) + 1)
    indices = np.minimum(first + np.arange(used), np.clip(high[:, None] - 1, 0, size - 1))
    gathered = gathered[:, :used]
    if how.grid:
        gathered = (np.rint(gathered * _F(_UNITS)) / _F(_UNITS)).astype(_F)
    return indices, gathered


def _filter(how: Resampling, distance: Floats) -> Floats:
    """The value of the triangle or of the cubic filter at a distance from its centre."""
    if how.mode == "linear":
        return np.maximum(_F(1) - distance, _F(0))
    a, x = _F(how.cubic_a), distance
    near = ((a + _F(2)) * x - (a + _F(3))) * x * x + _F(1)
    far = (((x - _F(5)) * x + _F(8)) * x - _F(4)) * a
    return np.where(x < 1, near, np.where(x < 2, far, _F(0)))


def _inverse_totals(weights: Floats) -> Floats:
    """What makes the weights of each position sum up to 1; 1 where they are all 0."""
    total = weights.sum(axis=1, keepdims=True, dtype=np.float32)
    return np.reciprocal(np.where(total == 0, _F(1), total), dtype=np.float32)
