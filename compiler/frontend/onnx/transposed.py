"""Import of ConvTranspose and Col2Im."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.windows import window_numbers


@importer("ConvTranspose", since=1)
def conv_transpose(node: Node) -> SSAValue:
    """Input, weight and an optional bias; the kernel's shape is that of the weight."""
    shape, weight = node.shape_of(0), node.shape_of(1)
    if len(shape) < 3 or len(weight) != len(shape):
        raise node.error(
            f"expected an input of rank 3 or more and a weight of that rank, "
            f"found {node.type_of(0)} and {node.type_of(1)}"
        )
    spatial, kernel = shape[2:], list(weight[2:])
    declared = node.integers("kernel_shape")
    if declared is not None and declared != kernel:
        raise node.error(f"expected kernel_shape {kernel} as the weight has it, found {declared}")
    strides = window_numbers(node, "strides", len(kernel), 1, 1)
    dilations = window_numbers(node, "dilations", len(kernel), 1, 1)
    extra = window_numbers(node, "output_padding", len(kernel), 0, 0)
    full = [
        stride * (size - 1) + dilation * (taps - 1) + 1 + more
        for stride, size, dilation, taps, more in zip(strides, spatial, dilations, kernel, extra, strict=True)
    ]
    pads, extra = _pads(node, spatial, strides, full, extra)
    op = graph.ConvTransposeOp(
        node.operand(0),
        node.operand(1),
        node.optional(2),
        strides=strides,
        pads=pads,
        dilations=dilations,
        output_padding=extra,
        group=node.integer("group", 1),
    )
    return node.add(op).result


def _pads(
    node: Node, spatial: Sequence[int], strides: Sequence[int], full: Sequence[int], extra: Sequence[int]
) -> tuple[list[int], list[int]]:
    """What is cut off (lows, then highs) from the sizes `full`, and what is added behind.

    A given output_shape, or SAME, decides what is cut off; of an odd number the larger part is cut off at the end for
    SAME_UPPER, else at the start. An output_shape that is larger than `full` is filled up at the end; SAME does not
    fill up, as in onnxruntime.
    """
    mode = node.string("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.error(f'expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, found "{mode}"')
    wanted = node.integers("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [min(size * stride, most) for size, stride, most in zip(spatial, strides, full, strict=True)]
    if wanted is None:
        none = [0] * (2 * len(full))
        return none if mode == "VALID" else window_numbers(node, "pads", 2 * len(full), 0, 0), list(extra)
    if len(wanted) == len(full) + 2:  # with batch and channels, as onnxruntime also takes it
        wanted = wanted[2:]
    if len(wanted) != len(full) or any(size < 0 for size in wanted):
        raise node.error(f"expected {len(full)} numbers of 0 or more as the output_shape, found {wanted}")
    cut = [max(0, size - target) for size, target in zip(full, wanted, strict=True)]
    missing = [max(0, target - size) for size, target in zip(full, wanted, strict=True)]
    smaller, larger = [number // 2 for number in cut], [number - number // 2 for number in cut]
    pads = smaller + larger if mode == "SAME_UPPER" else larger + smaller
    return pads, [more + number for more, number in zip(extra, missing, strict=True)]


@importer("Col2Im", since=18)
def col2im(node: Node) -> SSAValue:
    """Inputs: the columns, the shape of the image, the shape of a block (the window)."""
    image, kernel = node.known_ints(1, "image shape"), node.known_ints(2, "block shape")
    rank = len(kernel)
    op = graph.Col2ImOp(
        node.operand(0),
        image,
        kernel,
        strides=window_numbers(node, "strides", rank, 1, 1),
        pads=window_numbers(node, "pads", 2 * rank, 0, 0),
        dilations=window_numbers(node, "dilations", rank, 1, 1),
    )
    return node.add(op).result
