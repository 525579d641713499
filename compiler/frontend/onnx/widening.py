"""Operators of several steps on 16-bit floats: in f32, rounded once, as what is between may be too large for them."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction


def is_narrow(value: SSAValue) -> bool:
    """Whether a value has floats of 16 bits."""
    return isinstance(tensor_type(value.type).element_type, Float16Type | BFloat16Type)


def in_f32(function: ImportFunction) -> ImportFunction:
    """The import function of an operator of one output, which reads 16-bit floats as f32 and rounds its result."""

    def widened(node: Node) -> SSAValue:
        narrow = {i: value for i, value in enumerate(node.inputs) if value is not None and is_narrow(value)}
        wide = {i: node.add(graph.CastOp(value, f32)).result for i, value in narrow.items()}
        result = function(node.with_operands(wide) if wide else node)
        assert isinstance(result, SSAValue)
        if not wide:
            return result
        return node.add(graph.CastOp(result, node.type_of(0).element_type)).result

    return widened
