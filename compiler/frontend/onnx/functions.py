"""Operators that the ONNX standard itself defines by others: Attention, NegativeLogLikelihoodLoss, Shrink, ...

An operator without an importer of its own, or one whose importer can't do what a node asks for, is imported as the
nodes of its definition: a function in the operator's schema. Definitions may depend on the types of a node's inputs and
on its attributes. An importer of its own is for operators whose definition is slow, or loses what other ways of
computing the same keep (Softplus overflows as it is defined).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, cast

import onnx
import onnx.defs
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto, helper

from mlopt.dialects.graph.base import Tensor
from mlopt.frontend.onnx.structure import subgraphs
from mlopt.ir.dtypes import to_numpy_dtype


class _Schema(Protocol):
    """What the schema of an operator says about its definition."""

    attributes: Mapping[str, onnx.defs.OpSchema.Attribute]
    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]

    def get_function_with_opset_version(self, opset: int, /) -> bytes: ...

    def get_context_dependent_function_with_opset_version(
        self, opset: int, node: bytes, types: Sequence[bytes], /
    ) -> bytes: ...


ANY_TYPE: TypeProto = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
"""Stands for a type that is not known yet; which operators a definition uses does not depend on it."""


def onnx_type(type: Tensor | None) -> TypeProto:
    """A tensor type as ONNX writes it; an empty type for an input that is left out."""
    if type is None:
        return TypeProto()
    element = helper.np_dtype_to_tensor_dtype(to_numpy_dtype(type.element_type))
    return helper.make_tensor_type_proto(element, type.get_shape())


def definition(node: NodeProto, domain: str, opset: int, types: Sequence[TypeProto]) -> FunctionProto | None:
    """The function that defines the operator of `node` at that opset, or None if it is a primitive.

    `types` has one entry per input. The nodes of the function have the attributes of `node`, or their defaults, where
    they refer to them. The function says which operator set version it is written for: the newest up to `opset`, or
    the first if all are newer, which defines the same operator.
    """
    schema = _schema(node, domain, opset)
    if schema is None:
        return None
    try:
        data = _function_data(schema, node, opset, types)
    except (ValueError, RuntimeError):  # types that the definition does not fit
        return None
    if not data:
        return None
    defaults = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    function = FunctionProto.FromString(data)
    if not domain and node.op_type in _CORRECTIONS:
        _CORRECTIONS[node.op_type](function)
    return with_attributes(function, node, defaults)


def with_attributes(
    function: FunctionProto, node: NodeProto, defaults: Mapping[str, AttributeProto] | None = None
) -> FunctionProto:
    """A function whose nodes have the attributes of `node`, which calls it, where they refer to them."""
    bound = FunctionProto()
    bound.CopyFrom(function)
    attributes = {**(defaults or {})}
    attributes |= {attribute.name: attribute for attribute in function.attribute_proto}
    attributes |= {attribute.name: attribute for attribute in node.attribute}
    for inner in bound.node:
        _bind_attributes(inner, attributes)
    return bound


def _correct_celu(function: FunctionProto) -> None:
    """Its alpha is a tensor of one element there: the result of an operand of rank 0 would have rank 1."""
    for inner in function.node:
        if inner.op_type == "Constant":
            del inner.attribute[0].t.dims[:]


def _correct_affine_grid(function: FunctionProto) -> None:
    """It leaves out the axis of a Squeeze, so that a batch of 1 would go too, and divides by the size less one.

    The only position along an axis of size 1 is at -1, as the standard has it for the depth and the reference
    evaluator for all axes.
    """
    for inner in _all_nodes(function.node):
        if inner.op_type == "Squeeze" and len(inner.input) == 1:
            inner.input.append("one_1d")
        for graph in subgraphs(inner):
            for position, division in reversed(list(enumerate(graph.node))):
                if division.op_type == "Div" and division.input[1] in _SIZES_LESS_ONE:
                    safe = f"{division.input[1]}_or_one"
                    graph.node.insert(position, helper.make_node("Max", [division.input[1], "one_f"], [safe]))
                    graph.node[position + 1].input[1] = safe


_SIZES_LESS_ONE = ("H_float_nimus_one", "W_float_nimus_one")
"""Their names in the definition of AffineGrid."""


_CORRECTIONS: Mapping[str, Callable[[FunctionProto], None]] = {
    "AffineGrid": _correct_affine_grid,
    "Celu": _correct_celu,
}
"""What is wrong in definitions of the standard, for operands of some shapes."""


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those in their bodies."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _all_nodes(graph.node)


def depends_on_types(node: NodeProto, domain: str, opset: int) -> bool:
    """Whether the operator's definition is made for a node with its types."""
    schema = _schema(node, domain, opset)
    return schema is not None and schema.has_context_dependent_function


def _schema(node: NodeProto, domain: str, opset: int) -> _Schema | None:
    try:
        # The type stubs of onnx leave out what schemas say about functions.
        return cast(_Schema, onnx.defs.get_schema(node.op_type, opset, domain))
    except onnx.defs.SchemaError:
        return None


def _function_data(schema: _Schema, node: NodeProto, opset: int, types: Sequence[TypeProto]) -> bytes:
    if schema.has_context_dependent_function:
        version = _version(schema.context_dependent_function_opset_versions, opset)
        arguments = [type.SerializeToString() for type in types]
        return schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), arguments
        )
    if schema.has_function:
        return schema.get_function_with_opset_version(_version(schema.function_opset_versions, opset))
    return b""


def _version(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=min(versions))


def _bind_attributes(node: NodeProto, attributes: Mapping[str, AttributeProto]) -> None:
    """Replace what refers to an attribute of the outer node by its value; drop it if there is none."""
    bound: list[AttributeProto] = []
    for graph in subgraphs(node):
        for inner in graph.node:
            _bind_attributes(inner, attributes)
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.append(attribute)
            continue
        value = attributes.get(attribute.ref_attr_name)
        if value is not None and value.type != AttributeProto.UNDEFINED:
            copy = AttributeProto()
            copy.CopyFrom(value)
            copy.name = attribute.name
            bound.append(copy)
    del node.attribute[:]
    node.attribute.extend(bound)
