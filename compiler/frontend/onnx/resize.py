"""Import of Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, shape_of
from mlopt.dialects.graph.resampling import COORDINATES, MODES, NEAREST, Resampling, nearest_indices
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer

_BY_TENSORFLOW = "tf_half_pixel_for_nn"

_FRACTIONAL_SINCE = 19
"""The first operator set whose node tests compute coordinates with a scaled length that is not rounded."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """What becomes of each axis: its size, and the scale (an f32 number) that coordinates are computed with."""

    shape: list[int]
    scales: list[float]

    def are_exact(self, old: Sequence[int]) -> bool:
        """Whether no scaled size had to be rounded."""
        return all(
            np.float32(size) * np.float32(scale) == new
            for size, scale, new in zip(old, self.scales, self.shape, strict=True)
        )


def _limit(node: NodeProto) -> str | None:
    """`tf_half_pixel_for_nn` is defined for the nearest neighbour alone."""
    texts = {attribute.name: attribute.s.decode("utf-8", "replace") for attribute in node.attribute}
    mode = texts.get("mode", "nearest")
    if texts.get("coordinate_transformation_mode") == _BY_TENSORFLOW and mode != "nearest":
        return f'with coordinate_transformation_mode = "{_BY_TENSORFLOW}" and mode = "{mode}"'
    return None


@importer("Resize", since=11, limit=_limit)
def resize(node: Node) -> SSAValue:
    """Inputs: the tensor, roi, scales or sizes. Which elements are read depends on the values of all but the first."""
    coordinates = _choice(
        node, "coordinate_transformation_mode", (*COORDINATES, _BY_TENSORFLOW), "half_pixel"
    )
    how = Resampling(
        _choice(node, "mode", MODES, "nearest"),
        coordinates,
        _choice(node, "nearest_mode", NEAREST, "round_prefer_floor"),
        node.number("cubic_coeff_a", -0.75),
        node.integer("exclude_outside", 0) != 0,
        node.integer("antialias", 0) != 0,
    )
    rank = node.rank_of(0)
    axes = [normalize_axis(axis, rank) for axis in node.integers("axes") or range(rank)]
    sizes = _sizes(node, axes)
    if node.opset >= _FRACTIONAL_SINCE and coordinates in ("align_corners", "tf_crop_and_resize"):
        how = how._replace(fractional=not sizes.are_exact(node.shape_of(0)))
    if coordinates == _BY_TENSORFLOW:
        return _by_tensorflow(node, sizes, how.nearest)
    roi = _roi(node, axes) if coordinates == "tf_crop_and_resize" else None
    extrapolation = node.number("extrapolation_value", 0.0)
    op = graph.ResizeOp(node.operand(0), sizes.shape, sizes.scales, how, roi=roi, extrapolation=extrapolation)
    return node.add(op).result


@importer("Resize", since=10)
@importer("Upsample", since=9)
def upsample(node: Node) -> SSAValue:
    """Inputs: the tensor and the scales."""
    return _upsample(node, node.known(1, "scales"))


@importer("Upsample", since=7)
def upsample_7(node: Node) -> SSAValue:
    """The scales are an attribute."""
    return _upsample(node, np.array(node.numbers("scales"), np.float32))


def _upsample(node: Node, scales: np.ndarray) -> SSAValue:
    """Asymmetric coordinates. Axes that grow take the element before the coordinate, those that shrink the next one.

    The latter is onnxruntime's reading: the standard does not say it.
    """
    mode = _choice(node, "mode", ("nearest", "linear"), "nearest")
    sizes = _scaled(node, list(range(node.rank_of(0))), scales)
    how = Resampling(mode, "asymmetric", "floor")
    if mode == "linear":
        return _resized(node, node.operand(0), sizes, how)
    result = node.operand(0)
    for nearest, chosen in (
        ("ceil", [scale < 1 for scale in sizes.scales]),
        ("floor", [scale > 1 for scale in sizes.scales]),
    ):
        if any(chosen):
            part = _Sizes(
                [
                    new if c else old
                    for c, new, old in zip(chosen, sizes.shape, shape_of(result), strict=True)
                ],
                [scale if c else 1.0 for c, scale in zip(chosen, sizes.scales, strict=True)],
            )
            result = _resized(node, result, part, how._replace(nearest=nearest))
    return result


def _resized(node: Node, value: SSAValue, sizes: _Sizes, how: Resampling) -> SSAValue:
    return node.add(graph.ResizeOp(value, sizes.shape, sizes.scales, how)).result


def _sizes(node: Node, axes: Sequence[int]) -> _Sizes:
    """From the scales or the sizes, whichever is given and not empty."""
    if node.optional(2) is not None and node.shape_of(2) != (0,):
        return _scaled(node, axes, node.known(2, "scales"))
    given = node.known_ints(3, "sizes")
    if len(given) != len(axes) or any(size < 0 for size in given):
        raise node.error(f"expected {len(axes)} sizes of 0 or more, found {given}")
    old = node.shape_of(0)
    shape, scales = list(old), [np.float32(1)] * len(old)
    for axis, size in zip(axes, given, strict=True):
        if old[axis] == 0 != size:
            raise node.error(f"expected size 0 for the empty axis {axis}, found {size}")
        shape[axis] = size
        scales[axis] = np.float32(size) / np.float32(old[axis]) if old[axis] else np.float32(1)
    policy = _choice(node, "keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"), "stretch")
    if policy != "stretch":
        choose = min if policy == "not_larger" else max
        scale = choose(scales[axis] for axis in axes)
        for axis in axes:
            scales[axis] = scale
            shape[axis] = int(np.floor(scale * np.float32(old[axis]) + np.float32(0.5)))
    return _Sizes(shape, [float(scale) for scale in scales])


def _scaled(node: Node, axes: Sequence[int], numbers: np.ndarray) -> _Sizes:
    """Sizes times scales, rounded down."""
    given = [np.float32(number) for number in numbers.reshape(-1)]
    if len(given) != len(axes) or not all(0 < scale < np.inf for scale in given):
        raise node.error(f"expected {len(axes)} scales above 0, found {numbers.tolist()}")
    shape, scales = list(node.shape_of(0)), [1.0] * node.rank_of(0)
    for axis, scale in zip(axes, given, strict=True):
        scales[axis] = float(scale)
        shape[axis] = int(np.floor(np.float32(shape[axis]) * scale))
    return _Sizes(shape, scales)


def _roi(node: Node, axes: Sequence[int]) -> list[float]:
    """Starts, then ends, for all axes: those that are not named are taken whole."""
    given, rank = node.known(1, "roi").reshape(-1), node.rank_of(0)
    if len(given) != 2 * len(axes):
        raise node.error(f"expected {2 * len(axes)} numbers as the roi, found {len(given)}")
    roi = [0.0] * rank + [1.0] * rank
    for position, axis in enumerate(axes):
        roi[axis], roi[rank + axis] = float(given[position]), float(given[len(axes) + position])
    return roi


def _by_tensorflow(node: Node, sizes: _Sizes, nearest: str) -> SSAValue:
    """The nearest element to `(o + 0.5) / scale`, an old mode: along each axis the elements at known positions."""
    result = node.operand(0)
    for axis, (old, new, scale) in enumerate(zip(node.shape_of(0), sizes.shape, sizes.scales, strict=True)):
        if scale != 1:
            at = (np.arange(new, dtype=np.float32) + np.float32(0.5)) / np.float32(scale)
            indices = np.clip(nearest_indices(nearest, at), 0, old - 1)
            result = node.add(graph.GatherOp(result, node.constant(indices), axis)).result
    return result


def _choice(node: Node, name: str, allowed: Sequence[str], default: str) -> str:
    found = node.string(name, default)
    if found not in allowed:
        raise node.error(f'expected {name} to be one of {", ".join(allowed)}, found "{found}"')
    return found
