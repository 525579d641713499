"""Import of normalizations, softmax and dropout."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from onnx import NodeProto
from xdsl.ir import SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, tensor_type
from mlopt.dialects.graph.normalization import SoftmaxBase
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction, importer


def _integer_attribute(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _batch_norm_limit(node: NodeProto) -> str | None:
    if _integer_attribute(node, "training_mode", 0):
        return "with training_mode = 1"
    return None if _integer_attribute(node, "spatial", 1) else "with spatial = 0"


@importer("BatchNormalization", since=7, limit=_batch_norm_limit)
def batch_norm(node: Node) -> SSAValue:
    """With the stored statistics. The parameters may have other types than the input."""
    element = node.type_of(0).element_type
    parameters: list[SSAValue] = []
    for index in range(1, 5):
        value = node.operand(index)
        if tensor_type(value.type).element_type != element:
            value = node.add(graph.CastOp(value, element)).result
        parameters.append(value)
    return node.add(
        graph.BatchNormOp(node.operand(0), *parameters, epsilon=node.number("epsilon", 1e-5))
    ).result


def _stash_limit(node: NodeProto) -> str | None:
    return None if _integer_attribute(node, "stash_type", 1) == 1 else "with a stash_type other than float"


@importer("LayerNormalization", since=17, limit=_stash_limit)
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


@importer("RMSNormalization", since=23, limit=_stash_limit)
def rms_norm(node: Node) -> SSAValue:
    """Over all dimensions from `axis` on."""
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    return node.add(graph.RmsNormOp(node.operand(0), node.operand(1), axis=axis, epsilon=epsilon)).result


def _along_axis(build: Callable[[SSAValue, int], SoftmaxBase]) -> ImportFunction:
    """Since version 13: along one axis, by default the last."""
    return lambda node: node.add(build(node.operand(0), node.integer("axis", -1))).result


def _over_rows(build: Callable[[SSAValue, int], SoftmaxBase]) -> ImportFunction:
    """Before version 13: over all dimensions from `axis` on together, by default from 1."""

    def softmax(node: Node) -> SSAValue:
        x, shape = node.operand(0), node.shape_of(0)
        axis = normalize_axis(node.integer("axis", 1), len(shape))
        if axis == len(shape) - 1:
            return node.add(build(x, axis)).result
        rows = node.add(graph.ReshapeOp(x, (prod(shape[:axis]), prod(shape[axis:])))).result
        result = node.add(build(rows, 1)).result
        return node.add(graph.ReshapeOp(result, shape)).result

    return softmax


for _op_type, _build in (("Softmax", graph.SoftmaxOp), ("LogSoftmax", graph.LogSoftmaxOp)):
    importer(_op_type, since=1)(_over_rows(_build))
    importer(_op_type, since=13)(_along_axis(_build))


@importer("Dropout", since=7)
def dropout(node: Node) -> SSAValue:
    """Nothing happens at inference. Since version 12 an input may ask for training."""
    if node.optional(2) is not None and node.known(2, "training_mode").any():
        raise node.error("training_mode is not supported", UnsupportedError)
    return node.operand(0)
