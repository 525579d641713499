"""Sampling images at computed positions."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints
from mlopt.export.builder import AttributeValue, Builder
from mlopt.export.contraction import window_attributes
from mlopt.export.registry import exports


@exports(graph.GridSampleOp)
def grid_sample(builder: Builder, op: graph.GridSampleOp) -> None:
    attributes: dict[str, AttributeValue] = {
        "mode": op.mode.data,
        "padding_mode": op.padding.data,
        "align_corners": int(op.align_corners is not None),
    }
    builder.node(op, "GridSample", attributes=attributes)


@exports(graph.RoiAlignOp)
def roi_align(builder: Builder, op: graph.RoiAlignOp) -> None:
    height, width = get_ints(op.properties, "size") or (1, 1)
    attributes: dict[str, AttributeValue] = {
        "mode": op.mode.data,
        "output_height": height,
        "output_width": width,
        "sampling_ratio": op.samples.value.data,
        "spatial_scale": op.scale.value.data,
        "coordinate_transformation_mode": "half_pixel" if op.half_pixel is not None else "output_half_pixel",
    }
    builder.node(op, "RoiAlign", attributes=attributes)


@exports(graph.DeformConvOp)
def deform_conv(builder: Builder, op: graph.DeformConvOp) -> None:
    attributes: dict[str, AttributeValue] = {
        **window_attributes(op.window),
        "group": op.group.value.data,
        "offset_group": op.offset_group.value.data,
    }
    operands = [op.input, op.weight, op.offset, None, op.mask]
    builder.node(op, "DeformConv", operands, attributes)
