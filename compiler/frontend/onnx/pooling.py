"""Import of pooling operators. The global ones are reductions over the spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TypeVar

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.scalars import number_attribute, scalar
from mlopt.frontend.onnx.widening import in_f32
from mlopt.frontend.onnx.windows import window_attributes, window_numbers

_PoolT = TypeVar("_PoolT", bound=graph.PoolOp)


@importer("MaxPool", since=1)
def max_pool(node: Node) -> SSAValue:
    """The maximum of each window."""
    return _pool(node, node.operand(0), graph.MaxPoolOp).result


@importer("MaxPool", since=8, outputs=2)
def max_pool_with_indices(node: Node) -> Sequence[SSAValue]:
    """The maximum of each window, and where it stands if there is a second output, which `storage_order` is about."""
    if not any(node.proto.output[1:]):
        return [max_pool(node)]
    column_major = node.integer("storage_order", 0) == 1
    build = partial(graph.MaxPoolWithIndicesOp, column_major=column_major)
    return _pool(node, node.operand(0), build).results


@importer("MaxUnpool", since=9)
def max_unpool(node: Node) -> SSAValue:
    """The elements at the indices that MaxPool gave, and 0 elsewhere.

    The indices count the elements of the inferred shape, also if another one is given as the third input: as in the
    standard's own tests, the result is then filled up, or cut, at the ends.
    """
    kernel, shape = _kernel_shape(node), node.shape_of(0)
    if len(shape) != len(kernel) + 2 or node.shape_of(1) != shape:
        raise node.error(
            f"expected an input of rank {len(kernel) + 2} and indices of its shape, "
            f"found {node.type_of(0)} and {node.type_of(1)}"
        )
    strides = window_numbers(node, "strides", len(kernel), 1, 1)
    pads = window_numbers(node, "pads", 2 * len(kernel), 0, 0)
    inferred = list(shape[:2])
    for axis, (size, stride, extent) in enumerate(zip(shape[2:], strides, kernel, strict=True)):
        inferred.append((size - 1) * stride + extent - pads[axis] - pads[axis + len(kernel)])
    if any(size < 1 for size in inferred[2:]):
        raise node.error(f"expected a result of sizes of 1 or more, found {inferred}")
    zeros = node.add(graph.ExpandOp(scalar(node, 0), [prod(inferred)])).result
    indices, values = (
        node.add(graph.ReshapeOp(node.operand(index), [prod(shape)])).result for index in (1, 0)
    )
    flat = node.add(graph.ScatterElementsOp(zeros, indices, values, 0)).result
    result = node.add(graph.ReshapeOp(flat, inferred)).result
    wanted = node.optional_ints(2, "output shape")
    if wanted is None or wanted == inferred:
        return result
    if len(wanted) != len(inferred) or min(wanted) < 0:
        raise node.error(f"expected an output shape of {len(inferred)} numbers of 0 or more, found {wanted}")
    high = [size - have for size, have in zip(wanted, inferred, strict=True)]
    number = number_attribute(np.array(0), node.type_of(0).element_type)
    return node.add(graph.PadOp(result, [0] * len(high), high, number)).result


@importer("AveragePool", since=1)
def average_pool(node: Node) -> SSAValue:
    """The mean of each window."""
    return average_of_windows(node, node.operand(0))


def average_of_windows(node: Node, x: SSAValue) -> SSAValue:
    """The mean of each of the windows over `x` that the node describes."""
    count_include_pad = node.integer("count_include_pad", 0) == 1
    return _pool(node, x, partial(graph.AveragePoolOp, count_include_pad=count_include_pad)).result


@importer("GlobalAveragePool", since=1)
def global_average_pool(node: Node) -> SSAValue:
    """The mean over all spatial dimensions, which stay with size 1."""
    return node.add(graph.ReduceMeanOp(node.operand(0), range(2, node.rank_of(0)), keepdims=True)).result


@importer("GlobalMaxPool", since=1)
def global_max_pool(node: Node) -> SSAValue:
    """The maximum over all spatial dimensions, which stay with size 1."""
    return node.add(graph.ReduceMaxOp(node.operand(0), range(2, node.rank_of(0)), keepdims=True)).result


@importer("GlobalLpPool", since=2)
@in_f32
def global_lp_pool(node: Node) -> SSAValue:
    """`(sum |x|^p)^(1/p)` over all spatial dimensions, which stay with size 1."""
    spatial = range(2, node.rank_of(0))
    total = node.add(graph.ReduceSumOp(_absolute_powers(node), spatial, keepdims=True)).result
    return _root(node, total)


@importer("LpPool", since=2)
@in_f32
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


def _pool(node: Node, x: SSAValue, build: Callable[..., _PoolT]) -> _PoolT:
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
    return node.add(op)


def _kernel_shape(node: Node) -> list[int]:
    kernel = node.integers("kernel_shape")
    if kernel is None:
        raise node.error('expected an attribute "kernel_shape", found none')
    return kernel


def _ceil_mode(node: Node) -> bool:
    """`auto_pad` decides by itself: with SAME both roundings agree, VALID rounds down."""
    return node.integer("ceil_mode", 0) == 1 and node.string("auto_pad", "NOTSET") == "NOTSET"
