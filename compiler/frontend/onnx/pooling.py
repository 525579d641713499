"""Import of pooling operators. The global ones are reductions over the spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.scalars import scalar
from mlopt.frontend.onnx.windows import window_attributes


@importer("MaxPool", since=1)
def max_pool(node: Node) -> SSAValue:
    """The maximum of each window; `storage_order` only concerns the second output, which is not supported."""
    return _pool(node, node.operand(0), graph.MaxPoolOp)


@importer("AveragePool", since=1)
def average_pool(node: Node) -> SSAValue:
    """The mean of each window."""
    return average_of_windows(node, node.operand(0))


def average_of_windows(node: Node, x: SSAValue) -> SSAValue:
    """The mean of each of the windows over `x` that the node describes."""
    count_include_pad = node.integer("count_include_pad", 0) == 1
    return _pool(node, x, partial(graph.AveragePoolOp, count_include_pad=count_include_pad))


@importer("GlobalAveragePool", since=1)
def global_average_pool(node: Node) -> SSAValue:
    """The mean over all spatial dimensions, which stay with size 1."""
    return node.add(graph.ReduceMeanOp(node.operand(0), range(2, node.rank_of(0)), keepdims=True)).result


@importer("GlobalMaxPool", since=1)
def global_max_pool(node: Node) -> SSAValue:
    """The maximum over all spatial dimensions, which stay with size 1."""
    return node.add(graph.ReduceMaxOp(node.operand(0), range(2, node.rank_of(0)), keepdims=True)).result


@importer("GlobalLpPool", since=2)
def global_lp_pool(node: Node) -> SSAValue:
    """`(sum |x|^p)^(1/p)` over all spatial dimensions, which stay with size 1."""
    spatial = range(2, node.rank_of(0))
    total = node.add(graph.ReduceSumOp(_absolute_powers(node), spatial, keepdims=True)).result
    return _root(node, total)


@importer("LpPool", since=2)
def lp_pool(node: Node) -> SSAValue:
    """`(sum |x|^p)^(1/p)` of each window; the sum is a convolution of each channel with ones."""
    kernel = _kernel_shape(node)
    if node.rank_of(0) < 3:
        raise node.error(f"expected rank 3 or more, found {node.type_of(0)}")
    _, channels, *spatial = node.shape_of(0)
    window = window_attributes(node, spatial, kernel)
    pads = list(window.pads)
    if _ceil_mode(node):
        for axis, (size, extent) in enumerate(zip(spatial, kernel, strict=True)):
            rest = size + pads[axis] + pads[axis + len(kernel)] - window.dilations[axis] * (extent - 1) - 1
            if (rest // window.strides[axis] + 1) * window.strides[axis] < size + pads[axis]:
                pads[axis + len(kernel)] += -rest % window.strides[axis]
    powers = _absolute_powers(node)
    weight = node.add(graph.ExpandOp(scalar(node, 1), (channels, 1, *kernel))).result
    op = graph.ConvOp(
        powers, weight, strides=window.strides, pads=pads, dilations=window.dilations, group=channels
    )
    return _root(node, node.add(op).result)


def _absolute_powers(node: Node) -> SSAValue:
    """`|x|^p`."""
    magnitude, p = node.add(graph.AbsOp(node.operand(0))).result, node.integer("p", 2)
    if p < 1:
        raise node.error(f"expected p of at least 1, found {p}")
    if p == 1:
        return magnitude
    return node.add(graph.PowOp(magnitude, scalar(node, p))).result


def _root(node: Node, total: SSAValue) -> SSAValue:
    """`total^(1/p)`."""
    p = node.integer("p", 2)
    if p <= 2:
        return total if p == 1 else node.add(graph.SqrtOp(total)).result
    return node.add(graph.PowOp(total, scalar(node, 1 / p))).result


def _pool(node: Node, x: SSAValue, build: Callable[..., graph.PoolOp]) -> SSAValue:
    """The operation over the windows that the node describes."""
    kernel = _kernel_shape(node)
    window = window_attributes(node, shape_of(x)[2:], kernel)
    op = build(
        x,
        kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        ceil_mode=_ceil_mode(node),
    )
    return node.add(op).result


def _kernel_shape(node: Node) -> list[int]:
    kernel = node.integers("kernel_shape")
    if kernel is None:
        raise node.error('expected an attribute "kernel_shape", found none')
    return kernel


def _ceil_mode(node: Node) -> bool:
    """`auto_pad` decides by itself: with SAME both roundings agree, VALID rounds down."""
    return node.integer("ceil_mode", 0) == 1 and node.string("auto_pad", "NOTSET") == "NOTSET"
