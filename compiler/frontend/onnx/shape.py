"""Import of constants, ranges, and operators whose result depends on a shape only."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np
from onnx import NodeProto
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_text
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.scalars import number_attribute

_SUPPORTED_CONSTANTS = frozenset({"value", "value_float", "value_floats", "value_int", "value_ints"})


@importer("Shape", since=1)
def shape(node: Node) -> SSAValue:
    """The extents from `start` to `end` (since version 15; before, all)."""
    end = node.integer("end") if node.has("end") else None
    return node.add(graph.ShapeOp(node.operand(0), node.integer("start", 0), end)).result


@importer("Size", since=1)
def size(node: Node) -> SSAValue:
    """The number of elements."""
    return node.constant(np.array(prod(node.shape_of(0)), np.int64))


def _constant_limit(node: NodeProto) -> str | None:
    unknown = [attribute.name for attribute in node.attribute if attribute.name not in _SUPPORTED_CONSTANTS]
    return f"with {unknown[0]}" if unknown else None


@importer("Constant", since=1, limit=_constant_limit)
def constant(node: Node) -> SSAValue:
    """A tensor, a number or a list of numbers."""
    value = node.tensor("value")
    if value is not None:
        return node.constant(value)
    if node.has("value_float"):
        return node.constant(np.array(node.number("value_float"), np.float32))
    if node.has("value_int"):
        return node.constant(np.array(node.integer("value_int"), np.int64))
    integers = node.integers("value_ints")
    if integers is not None:
        return node.constant(np.array(integers, np.int64))
    return node.constant(np.array(node.numbers("value_floats"), np.float32))


@importer("ConstantOfShape", since=9)
def constant_of_shape(node: Node) -> SSAValue:
    """One number (0 in f32 by default) in every element."""
    extents = _extents(node, node.known_ints(0, "shape"))
    value = node.tensor("value")
    if value is None:
        value = np.zeros(1, np.float32)
    if value.size != 1:
        raise node.error(f"expected a value of one element, found {value.size}")
    if all(extent == 1 for extent in extents):
        return node.constant(np.broadcast_to(value.reshape(()), extents))
    return node.add(graph.ExpandOp(node.constant(value.reshape(())), extents)).result


def _extents(node: Node, extents: Sequence[int]) -> Sequence[int]:
    if any(extent < 0 for extent in extents):
        raise node.error(f"expected extents of at least 0, found {shape_text(extents)}")
    return extents


@importer("Range", since=11)
def range_(node: Node) -> SSAValue:
    """From start to below limit in steps of delta, all of rank 0."""
    start, limit, delta = (node.known(index, what) for index, what in enumerate(("start", "limit", "delta")))
    if start.size != 1 or limit.size != 1 or delta.size != 1:
        raise node.error("expected single numbers as start, limit and delta")
    step = delta.reshape(())
    if step == 0 or not all(np.isfinite(number).all() for number in (start, limit, delta)):
        raise node.error("expected finite numbers and a delta other than 0")
    length = _range_length(start.reshape(()), limit.reshape(()), step)
    element_type = node.type_of(0).element_type
    numbers = number_attribute(start.reshape(()), element_type), number_attribute(step, element_type)
    return node.add(graph.RangeOp(*numbers, length)).result


def _range_length(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> int:
    """`max(0, ceil((limit - start) / delta))`, in whole numbers for integers."""
    if start.dtype.kind in "iu":
        return max(0, -((int(start) - int(limit)) // int(delta)))
    return max(0, ceil((float(limit) - float(start)) / float(delta)))
