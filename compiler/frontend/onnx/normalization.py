"""Import of normalizations and softmax. BatchNormalization is in `training`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

from onnx import NodeProto
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis
from mlopt.dialects.graph.normalization import SoftmaxBase
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.reduction import l1, l2
from mlopt.frontend.onnx.registry import ImportFunction, importer
from mlopt.frontend.onnx.scalars import scalar
from mlopt.frontend.onnx.widening import in_f32


def _integer_attribute(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def stash_limit(node: NodeProto) -> str | None:
    return None if _integer_attribute(node, "stash_type", 1) == 1 else "with a stash_type other than float"


@importer("LayerNormalization", since=17, limit=stash_limit)
def layer_norm(node: Node) -> SSAValue:
    """Over all dimensions from `axis` on."""
    op = graph.LayerNormOp(
        node.operand(0),
        node.operand(1),
        node.optional(2),
        axis=node.integer("axis", -1),
        epsilon=node.number("epsilon", 1e-5),
    )
    return node.add(op).result


@importer("RMSNormalization", since=23, limit=stash_limit)
def rms_norm(node: Node) -> SSAValue:
    """Over all dimensions from `axis` on."""
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    return node.add(graph.RmsNormOp(node.operand(0), node.operand(1), axis=axis, epsilon=epsilon)).result


AlongAxis: TypeAlias = Callable[[Node, SSAValue, int], SSAValue]
"""Adds what an operator does along one axis of a value."""


def along_axis(build: AlongAxis) -> ImportFunction:
    """Since version 13: along one axis, by default the last."""
    return lambda node: build(node, node.operand(0), node.integer("axis", -1))


def over_rows(build: AlongAxis) -> ImportFunction:
    """Before version 13: over all dimensions from `axis` on together, by default from 1."""

    def function(node: Node) -> SSAValue:
        x, shape = node.operand(0), node.shape_of(0)
        axis = normalize_axis(node.integer("axis", 1), len(shape))
        if axis == len(shape) - 1:
            return build(node, x, axis)
        rows = node.add(graph.ReshapeOp(x, (prod(shape[:axis]), prod(shape[axis:])))).result
        return node.add(graph.ReshapeOp(build(node, rows, 1), shape)).result

    return function


def _softmax(build: Callable[[SSAValue, int], SoftmaxBase]) -> AlongAxis:
    return lambda node, x, axis: node.add(build(x, axis)).result


for _op_type, _build in (("Softmax", graph.SoftmaxOp), ("LogSoftmax", graph.LogSoftmaxOp)):
    importer(_op_type, since=1)(over_rows(_softmax(_build)))
    importer(_op_type, since=13)(along_axis(_softmax(_build)))


@importer("InstanceNormalization", since=6)
def instance_norm(node: Node) -> SSAValue:
    """Each channel of each image by itself."""
    shape = node.shape_of(0)
    if len(shape) < 3:
        raise node.error(f"expected rank 3 or more, found {node.type_of(0)}")
    return _group_norm(node, shape[1])


@importer("GroupNormalization", since=21, limit=stash_limit)
def group_norm(node: Node) -> SSAValue:
    """Groups of channels of each image; before version 21 scale and bias are of groups."""
    return _group_norm(node, node.integer("num_groups"))


def _group_norm(node: Node, groups: int) -> SSAValue:
    x, scale, bias = (node.operand(index) for index in range(3))
    return node.add(graph.GroupNormOp(x, scale, bias, groups, epsilon=node.number("epsilon", 1e-5))).result


@importer("LpNormalization", since=1)
@in_f32
def lp_normalization(node: Node) -> SSAValue:
    """`x / (sum |x|^p)^(1/p)` along an axis for p = 1 or 2; 0 where that norm is 0."""
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise node.error(f"expected p = 1 or 2, found {p}")
    x = node.operand(0)
    norm = (l1 if p == 1 else l2)(node, x, [node.integer("axis", -1)], True)
    empty = node.add(graph.EqualOp(norm, scalar(node, 0))).result
    return node.add(graph.WhereOp(empty, scalar(node, 0), node.add(graph.DivOp(x, norm)).result)).result


@importer("MeanVarianceNormalization", since=9)
@in_f32
def mean_variance_normalization(node: Node) -> SSAValue:
    """`(x - m) / (deviation + 1e-9)`, the variance being the mean of squares of what is left without the mean.

    As the standard defines it, as a difference of two means, it could come out below 0.
    """
    axes = node.integers("axes")
    axes = [0, 2, 3] if axes is None else axes
    mean = node.add(graph.ReduceMeanOp(node.operand(0), axes, keepdims=True)).result
    centered = node.add(graph.SubOp(node.operand(0), mean)).result
    squares = node.add(graph.MulOp(centered, centered)).result
    deviation = node.add(
        graph.SqrtOp(node.add(graph.ReduceMeanOp(squares, axes, keepdims=True)).result)
    ).result
    return node.add(graph.DivOp(centered, node.add(graph.AddOp(deviation, scalar(node, 1e-9))).result)).result


@importer("LRN", since=1)
@in_f32
def local_response_normalization(node: Node) -> SSAValue:
    """`x / (bias + alpha * m)^beta`, m the mean of squares over `size` channels around, which are 0 outside."""
    shape, size = node.shape_of(0), node.integer("size")
    if len(shape) < 3 or size < 1:
        raise node.error(
            f"expected rank 3 or more and a size of at least 1, found {node.type_of(0)} and {size}"
        )
    batch, channels, *spatial = shape
    x = node.operand(0)
    squares = node.add(graph.MulOp(x, x)).result
    planes = node.add(graph.ReshapeOp(squares, (batch, 1, channels, prod(spatial)))).result
    low, high = (size - 1) // 2, size // 2
    pool = graph.AveragePoolOp(planes, [size, 1], pads=[low, 0, high, 0], count_include_pad=True)
    mean = node.add(graph.ReshapeOp(node.add(pool).result, shape)).result
    scaled = node.add(graph.MulOp(mean, scalar(node, node.number("alpha", 1e-4)))).result
    shifted = node.add(graph.AddOp(scaled, scalar(node, node.number("bias", 1.0)))).result
    power = node.add(graph.PowOp(shifted, scalar(node, node.number("beta", 0.75)))).result
    return node.add(graph.DivOp(x, power)).result
