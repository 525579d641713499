"""Import of pooling operators. The global ones are reductions over the spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.windows import window_attributes


@importer("MaxPool", since=1)
def max_pool(node: Node) -> SSAValue:
    """The maximum of each window; `storage_order` only concerns the second output, which is not supported."""
    return _pool(node, graph.MaxPoolOp)


@importer("AveragePool", since=1)
def average_pool(node: Node) -> SSAValue:
    """The mean of each window."""
    count_include_pad = node.integer("count_include_pad", 0) == 1
    return _pool(node, partial(graph.AveragePoolOp, count_include_pad=count_include_pad))


@importer("GlobalAveragePool", since=1)
def global_average_pool(node: Node) -> SSAValue:
    """The mean over all spatial dimensions, which stay with size 1."""
    return node.add(graph.ReduceMeanOp(node.operand(0), range(2, node.rank_of(0)), keepdims=True)).result


@importer("GlobalMaxPool", since=1)
def global_max_pool(node: Node) -> SSAValue:
    """The maximum over all spatial dimensions, which stay with size 1."""
    return node.add(graph.ReduceMaxOp(node.operand(0), range(2, node.rank_of(0)), keepdims=True)).result


def _pool(node: Node, build: Callable[..., graph.PoolOp]) -> SSAValue:
    """The operation over the windows that the node describes."""
    kernel = node.integers("kernel_shape")
    if kernel is None:
        raise node.error('expected an attribute "kernel_shape", found none')
    window = window_attributes(node, node.shape_of(0)[2:], kernel)
    op = build(
        node.operand(0),
        kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        ceil_mode=_ceil_mode(node),
    )
    return node.add(op).result


def _ceil_mode(node: Node) -> bool:
    """`auto_pad` decides by itself: with SAME both roundings agree, VALID rounds down."""
    return node.integer("ceil_mode", 0) == 1 and node.string("auto_pad", "NOTSET") == "NOTSET"
