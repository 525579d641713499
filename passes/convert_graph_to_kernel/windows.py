"""Sliding windows in index maps: what convolution and pooling share."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlopt.dialects.graph import Window
from mlopt.dialects.kernel import NO_PAD, LinearExpr, tensor_type
from mlopt.passes.convert_graph_to_kernel.launch import Index, Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import Number, number_attr


def spatial_names(prefix: str, rank: int) -> list[str]:
    """Names of spatial dimensions: `ow`, `oh ow` or `od oh ow`."""
    return [prefix + axis for axis in "dhw"[3 - rank :]]


def window_axes(space: Space, window: Window) -> list[LinearExpr]:
    """Where the window's element `k` is read at position `o`: `stride * o + dilation * k - low` on each axis."""
    rank = len(window.kernel)
    return [
        space[o] * stride + space[k] * dilation + -low
        for o, k, stride, dilation, low in zip(
            spatial_names("o", rank),
            spatial_names("k", rank),
            window.strides,
            window.dilations,
            window.low,
            strict=True,
        )
    ]


def padded_read(space: Space, value: SSAValue, axes: Sequence[Index], pad: Number) -> Operand:
    """A read that gives `pad` out of bounds; a plain one if it never is."""
    type, access = tensor_type(value), space.access(*axes)
    bounds = tuple(space.bounds.values())
    empty = 0 in bounds
    inside = empty or all(
        low >= 0 and high < size
        for (low, high), size in zip(access.extent(bounds), type.get_shape(), strict=True)
    )
    return Operand(value, access, NO_PAD if inside else number_attr(pad, type.element_type))
