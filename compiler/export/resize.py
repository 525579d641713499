"""Resize."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import f32

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.export.builder import AttributeValue, Builder
from mlopt.export.registry import exports


@exports(graph.ResizeOp)
def resize(builder: Builder, op: graph.ResizeOp) -> None:
    """By scales if they give the sizes, else by sizes if they give the scales, else by the policy that gives both."""
    how = op.how
    attributes: dict[str, AttributeValue] = {
        "mode": how.mode,
        "coordinate_transformation_mode": how.coordinates,
        "cubic_coeff_a": how.cubic_a,
        "exclude_outside": int(how.exclude_outside),
        "antialias": int(how.antialias),
        "extrapolation_value": op.extrapolation.value.data,
    }
    if how.mode == "nearest":
        attributes["nearest_mode"] = how.nearest
    old, new = shape_of(op.input), shape_of(op.result)
    scales = [np.float32(scale) for scale in op.scales.get_values()]
    roi = None if op.roi is None else builder.numbers(np.array(op.roi.get_values(), np.float32), f32)
    each = list(zip(old, new, scales, strict=True))
    by_length = how.coordinates in ("align_corners", "tf_crop_and_resize") and not how.fractional
    if not by_length and all(int(np.float32(size) * scale) == wanted for size, wanted, scale in each):
        by_scales = builder.numbers(np.array(scales, np.float32), f32)
        builder.node(op, "Resize", [op.input, roi, by_scales], attributes)
        return
    if all(_quotient(wanted, size) == scale for size, wanted, scale in each) or (
        by_length and not how.antialias
    ):
        builder.node(op, "Resize", [op.input, roi, None, builder.ints(new)], attributes)
        return
    scale = next(scale for scale in scales if scale != 1)
    axes = [axis for axis, own in enumerate(scales) if own == scale]
    nearest = [round(old[axis] * scale) for axis in axes]
    exact = [_quotient(size, old[axis]) == scale for axis, size in zip(axes, nearest, strict=True)]
    sizes = [
        size if is_exact else math.ceil(old[axis] * scale)
        for axis, size, is_exact in zip(axes, nearest, exact, strict=True)
    ]
    by_policy = [int(np.float32(size) * own + np.float32(0.5)) for size, own in zip(old, scales, strict=True)]
    if not any(exact) or set(scales) - {scale, 1} or by_policy != list(new):
        raise builder.unsupported(f"ONNX has no Resize from {list(old)} to {list(new)} with these scales")
    attributes |= {"axes": axes, "keep_aspect_ratio_policy": "not_larger"}
    if op.roi is not None:
        numbers = op.roi.get_values()
        ends = [numbers[len(old) + axis] for axis in axes]
        roi = builder.numbers(np.array([*(numbers[axis] for axis in axes), *ends], np.float32), f32)
    builder.node(op, "Resize", [op.input, roi, None, builder.ints(sizes)], attributes)


def _quotient(size: int, old: int) -> np.float32:
    return np.float32(size) / np.float32(old) if old else np.float32(1)
