"""Import of GridSample, RoiAlign and DeformConv."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.windows import window_attributes

_NAMES = {
    "bilinear": "linear",
    "bicubic": "cubic",
    "nearest": "nearest",
    "linear": "linear",
    "cubic": "cubic",
}
"""How interpolation is called before operator set 20, and from it on."""


@importer("GridSample", since=16)
def grid_sample(node: Node) -> SSAValue:
    """The image and the grid; before operator set 20 the modes are called bilinear and bicubic, and 2-D only."""
    mode = node.string("mode", "bilinear" if node.opset < 20 else "linear")
    if mode not in _NAMES:
        raise node.error(f'expected mode to be one of {", ".join(_NAMES)}, found "{mode}"')
    image, element = node.operand(0), node.type_of(0).element_type
    sampled = image
    if not is_float(element) and _NAMES[mode] != "nearest":
        sampled = node.add(graph.CastOp(image, node.type_of(1).element_type)).result
    op = graph.GridSampleOp(
        sampled,
        node.operand(1),
        _NAMES[mode],
        node.string("padding_mode", "zeros"),
        align_corners=node.integer("align_corners", 0) != 0,
    )
    result = node.add(op).result
    return result if sampled is image else node.add(graph.CastOp(result, element)).result


@importer("RoiAlign", since=10)
def roi_align(node: Node) -> SSAValue:
    """Before operator set 16 regions are not shifted by half an element."""
    if node.integer("sampling_ratio", 0) < 0:
        raise node.error(f"expected a sampling_ratio of 0 or more, found {node.integer('sampling_ratio')}")
    shift = (
        node.string("coordinate_transformation_mode", "half_pixel")
        if node.opset >= 16
        else "output_half_pixel"
    )
    if shift not in ("half_pixel", "output_half_pixel"):
        raise node.error(
            f'expected coordinate_transformation_mode half_pixel or output_half_pixel, found "{shift}"'
        )
    op = graph.RoiAlignOp(
        node.operand(0),
        node.operand(1),
        node.operand(2),
        [node.integer("output_height", 1), node.integer("output_width", 1)],
        node.integer("sampling_ratio", 0),
        mode=node.string("mode", "avg"),
        scale=node.number("spatial_scale", 1.0),
        half_pixel=shift == "half_pixel",
    )
    return node.add(op).result


@importer("DeformConv", since=19)
def deform_conv(node: Node) -> SSAValue:
    """Input, weight, offset, and an optional bias, which is added, and mask. Images only."""
    if node.rank_of(0) != 4:
        raise node.error(f"expected an input of rank 4, found {node.type_of(0)}")
    kernel = node.shape_of(1)[2:]
    window = window_attributes(node, node.shape_of(0)[2:], kernel)
    op = graph.DeformConvOp(
        node.operand(0),
        node.operand(1),
        node.operand(2),
        node.optional(4),
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        group=node.integer("group", 1),
        offset_group=node.integer("offset_group", 1),
    )
    result, bias = node.add(op).result, node.optional(3)
    if bias is None:
        return result
    column = node.add(graph.ReshapeOp(bias, [node.shape_of(1)[0], 1, 1])).result
    return node.add(graph.AddOp(result, column)).result
