"""The window attributes that convolution and pooling share: strides, dilations, pads and auto_pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlopt.frontend.onnx.node import Node


class WindowAttributes(NamedTuple):
    """One number per spatial dimension; `pads` has all low ones, then all high ones."""

    strides: list[int]
    dilations: list[int]
    pads: list[int]


def window_attributes(node: Node, spatial: Sequence[int], kernel: Sequence[int]) -> WindowAttributes:
    """The attributes of a window `kernel` over dimensions of sizes `spatial`, with `auto_pad` decided."""
    rank = len(spatial)
    if len(kernel) != rank:
        raise node.error(f"expected a window over {rank} dimensions, found kernel {list(kernel)}")
    strides = window_numbers(node, "strides", rank, 1, 1)
    dilations = window_numbers(node, "dilations", rank, 1, 1)
    mode = node.string("auto_pad", "NOTSET")
    if mode == "NOTSET":
        return WindowAttributes(strides, dilations, window_numbers(node, "pads", 2 * rank, 0, 0))
    if mode == "VALID":
        return WindowAttributes(strides, dilations, [0] * (2 * rank))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.error(f'expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, found "{mode}"')
    low: list[int] = []
    high: list[int] = []
    for size, extent, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        positions = -(-size // stride)
        total = max(0, (positions - 1) * stride + dilation * (extent - 1) + 1 - size)
        smaller = total // 2
        low.append(smaller if mode == "SAME_UPPER" else total - smaller)
        high.append(total - smaller if mode == "SAME_UPPER" else smaller)
    return WindowAttributes(strides, dilations, low + high)


def window_numbers(node: Node, name: str, count: int, default: int, minimum: int) -> list[int]:
    """The attribute `name`: `count` integers of at least `minimum`, all `default` if it is left out."""
    numbers = node.integers(name) or [default] * count
    if len(numbers) != count or any(number < minimum for number in numbers):
        raise node.error(f"expected {count} {name} of at least {minimum}, found {numbers}")
    return numbers
