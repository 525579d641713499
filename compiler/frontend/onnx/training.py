"""Import of operators that do something else in training: BatchNormalization and Dropout.

What training means is imported where it is determined by the inputs: the statistics of a batch. Where it draws random
numbers (Dropout with a ratio other than 0) it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of, tensor_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.ir.dtypes import to_numpy_dtype


def _integer_attribute(node: NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


# BatchNormalization


def _old_batch_norm_limit(node: NodeProto) -> str | None:
    """Before version 7 an attribute asks for training, up to version 13 more outputs than one."""
    if not _integer_attribute(node, "is_test", 0):
        return "with is_test = 0"
    return _batch_norm_limit(node)


def _batch_norm_limit(node: NodeProto) -> str | None:
    if any(node.output[1:]):
        return "with the outputs of training"
    return None if _integer_attribute(node, "spatial", 1) else "with spatial = 0"


@importer("BatchNormalization", since=1, limit=_old_batch_norm_limit)
@importer("BatchNormalization", since=7, limit=_batch_norm_limit)
def batch_norm(node: Node) -> SSAValue:
    """With the stored statistics. The parameters may have other types than the input."""
    element = node.type_of(0).element_type
    parameters = [_cast(node, node.operand(index), element) for index in range(1, 5)]
    return node.add(
        graph.BatchNormOp(node.operand(0), *parameters, epsilon=node.number("epsilon", 1e-5))
    ).result


@importer("BatchNormalization", since=14, outputs=3)
def batch_norm_in_either_mode(node: Node) -> SSAValue | Sequence[SSAValue]:
    """In training with the statistics of the batch, which also move the stored ones.

    As in the standard: the variance is that of the population, and statistics of 16-bit floats are taken in f32.
    """
    if node.integer("training_mode", 0) != 1:
        if any(node.proto.output[1:]):
            raise node.error("expected one output without training_mode, found more")
        return batch_norm(node)
    x = node.operand(0)
    element = tensor_type(x.type).element_type
    work = f32 if to_numpy_dtype(element).itemsize == 2 else element
    scale, bias, mean, variance = (_cast(node, node.operand(index), work) for index in range(1, 5))
    x = _cast(node, x, work)
    channels = shape_of(scale)
    along_x = (*channels, *[1] * (node.rank_of(0) - 2))
    axes = [axis for axis in range(node.rank_of(0)) if axis != 1]

    def of_batch(values: SSAValue) -> SSAValue:
        return node.add(graph.ReduceMeanOp(values, axes)).result

    def spread(statistic: SSAValue) -> SSAValue:
        return node.add(graph.ReshapeOp(statistic, along_x)).result

    batch_mean = of_batch(x)
    difference = node.add(graph.SubOp(x, spread(batch_mean))).result
    batch_variance = of_batch(node.add(graph.MulOp(difference, difference)).result)
    epsilon = _number(node, node.number("epsilon", 1e-5), work)
    deviation = node.add(graph.SqrtOp(node.add(graph.AddOp(batch_variance, epsilon)).result)).result
    normal = node.add(graph.DivOp(difference, spread(deviation))).result
    scaled = node.add(graph.MulOp(normal, spread(scale))).result
    y = node.add(graph.AddOp(scaled, spread(bias))).result
    momentum = node.number("momentum", 0.9)
    moved = [
        _cast(node, _mix(node, old, new, momentum, work), node.type_of(index).element_type)
        for index, old, new in ((3, mean, batch_mean), (4, variance, batch_variance))
    ]
    return _cast(node, y, element), *moved


def _mix(node: Node, old: SSAValue, new: SSAValue, weight: float, element: Attribute) -> SSAValue:
    """`old * weight + new * (1 - weight)`."""
    kept = node.add(graph.MulOp(old, _number(node, weight, element))).result
    added = node.add(graph.MulOp(new, _number(node, 1 - weight, element))).result
    return node.add(graph.AddOp(kept, added)).result


# Dropout


def _old_dropout_limit(node: NodeProto) -> str | None:
    return None if _integer_attribute(node, "is_test", 0) else "with is_test = 0"


@importer("Dropout", since=1, limit=_old_dropout_limit)
@importer("Dropout", since=7)
def dropout(node: Node) -> SSAValue:
    """Nothing happens at inference. These versions leave open what the mask is then."""
    return node.operand(0)


@importer("Dropout", since=12, outputs=2)
def dropout_with_mask(node: Node) -> Sequence[SSAValue]:
    """The mask is true everywhere: nothing is dropped at inference, nor in training with a ratio of 0."""
    if node.optional(2) is not None and node.known(2, "training_mode").any():
        ratio = node.known(1, "ratio") if node.optional(1) is not None else np.array(0.5)
        if ratio.any():
            message = (
                f"training_mode with a ratio of {ratio.item():g} draws random numbers, which is not supported"
            )
            raise node.error(message, UnsupportedError)
    mask = graph.ExpandOp(node.constant(np.array(True)), node.shape_of(0))
    return node.operand(0), node.add(mask).result


def _number(node: Node, number: float, element: Attribute) -> SSAValue:
    return node.constant(np.array(number).astype(to_numpy_dtype(element)))


def _cast(node: Node, value: SSAValue, element: Attribute) -> SSAValue:
    if tensor_type(value.type).element_type == element:
        return value
    return node.add(graph.CastOp(value, element)).result
