"""Import of Attention: the definition of the standard, taken in f32 where operands are 16-bit floats.

The definition rounds the scaled queries and keys, the scores and the weights to the type of the operands. In f32,
rounded once at the end, the result is the nearest number to the exact one nearly everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Attribute, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.frontend.onnx.functions import definition, onnx_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer

_PRESENT_VALUE = 2


@importer("Attention", since=23, outputs=4)
def attention(node: Node) -> Sequence[SSAValue]:
    """Outputs have the type of the queries, the values for the next call (the third output) their own."""
    given = [node.optional(index) for index in range(len(node.proto.input))]
    operands = [None if value is None else _widened(node, value) for value in given]
    types = [onnx_type(None if value is None else tensor_type(value.type)) for value in operands]
    body = definition(node.proto, "", node.opset, types)
    if body is None:
        raise node.error("its definition does not allow inputs of these types", UnsupportedError)
    queries, values = (node.type_of(index).element_type for index in (0, 2))
    y, *others = node.expand(body, operands)
    assert y is not None  # the output that every node has
    result = _cast(node, y, queries)
    # What the node does not ask for is not in its definition; nothing reads what stands in its place.
    return [
        result,
        *(
            result if value is None else _cast(node, value, values if index == _PRESENT_VALUE else queries)
            for index, value in enumerate(others, 1)
        ),
    ]


def _widened(node: Node, value: SSAValue) -> SSAValue:
    """A 16-bit float in f32, anything else as it is."""
    is_narrow = isinstance(tensor_type(value.type).element_type, Float16Type | BFloat16Type)
    return _cast(node, value, f32) if is_narrow else value


def _cast(node: Node, value: SSAValue, element: Attribute) -> SSAValue:
    if tensor_type(value.type).element_type == element:
        return value
    return node.add(graph.CastOp(value, element)).result
