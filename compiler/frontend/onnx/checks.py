"""What the ONNX standard says of every node: its attributes, how many inputs and outputs, and their element types.

One mechanism for all operators, driven by the schemas of the `onnx` package; an operator without a schema is the
importer's own business. The rules are those of onnxruntime, which refuses the same nodes:

- an attribute that the operator does not have at that opset, one of another kind, one twice, a required one missing;
- more or fewer inputs and outputs than the operator has, an empty name where one is required;
- an element type that the operator does not take, or two types where it takes one;
- an operator that the standard has withdrawn (Upsample from opset 10 on).

An attribute whose name begins with `__` is a note of the tool that wrote the model, as it is for onnxruntime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import onnx.defs
from onnx import AttributeProto, NodeProto
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from mlopt.dialects.graph.base import tensor_type
from mlopt.frontend.onnx.functions import onnx_type

_SINGLE = onnx.defs.OpSchema.FormalParameterOption.Single
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic
_NAMES_SHOWN = 6


class _Parameter(NamedTuple):
    """One formal input: the types it takes, and the name of the type that it shares with others, if any."""

    name: str
    types: Collection[str]
    shared: str | None


class _Signature(NamedTuple):
    """What a schema says, in the form that the checks need. `required_inputs` are positions that must have a name."""

    attributes: Mapping[str, int]
    required_attributes: tuple[str, ...]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    required_inputs: tuple[int, ...]
    required_outputs: tuple[int, ...]
    parameters: tuple[_Parameter, ...]
    withdrawn: int | None

    def parameter(self, index: int) -> _Parameter:
        """The formal input at a position; the last one, if variadic, stands for all that follow."""
        return self.parameters[min(index, len(self.parameters) - 1)]


def node_fault(node: NodeProto, domain: str, opset: int) -> str | None:
    """What is wrong with a node as it stands in the file, in a sentence that begins with its operator, or None."""
    signature = _signature(node.op_type, domain, opset)
    fault = None if signature is None else next(_faults(node, signature, opset), None)
    return None if fault is None else f"{node.op_type}: {fault}"


def type_fault(node: NodeProto, domain: str, opset: int, operands: Sequence[SSAValue | None]) -> str | None:
    """What is wrong with the element types of a node's operands, or None."""
    fault = _type_fault(node.op_type, domain, opset, tuple(map(_element_of, operands)))
    if fault is None:
        return None
    index, message = fault
    return f'{node.op_type}: input {index} "{node.input[index]}": {message}'


def _element_of(value: SSAValue | None) -> Attribute | None:
    if value is None or not isinstance(value.type, TensorType):
        return None
    return tensor_type(cast(Attribute, value.type)).element_type


def _faults(node: NodeProto, signature: _Signature, opset: int) -> Iterator[str]:
    if signature.withdrawn is not None:
        yield (
            f"the standard has no such operator since opset {signature.withdrawn}, found it at opset {opset}"
        )
    yield from _attribute_faults(node, signature, opset)
    for what, names, bounds, required in (
        ("input", node.input, signature.inputs, signature.required_inputs),
        ("output", node.output, signature.outputs, signature.required_outputs),
    ):
        if not bounds[0] <= len(names) <= bounds[1]:
            yield f"expected {_range(bounds, what)} at opset {opset}, found {len(names)}"
        for index in required:
            if index < len(names) and not names[index]:
                yield f"expected an {what} at position {index}, found an empty name"


def _attribute_faults(node: NodeProto, signature: _Signature, opset: int) -> Iterator[str]:
    seen: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if name in seen:
            yield f'two attributes have the name "{name}"'
        seen.add(name)
        kind = signature.attributes.get(name)
        if kind is None:
            if not name.startswith("__"):
                known = ", ".join(signature.attributes) or "none"
                yield f'has no attribute "{name}" at opset {opset}; its attributes are: {known}'
        elif attribute.type != kind:
            yield f'attribute "{name}": expected {_kind_name(kind)}, found {_kind_name(attribute.type)}'
    for name in signature.required_attributes:
        if name not in seen:
            yield f'expected an attribute "{name}", found none'


@lru_cache(maxsize=4096)
def _type_fault(
    op_type: str, domain: str, opset: int, elements: tuple[Attribute | None, ...]
) -> tuple[int, str] | None:
    """The position of the first operand whose element type does not fit, and what is wrong with it."""
    signature = _signature(op_type, domain, opset)
    if signature is None or not signature.parameters:
        return None
    bound: dict[str, tuple[int, str]] = {}
    for index, element in enumerate(elements):
        if element is None:
            continue
        found, parameter = _onnx_name(element), signature.parameter(index)
        if found not in parameter.types:
            return index, f"expected {_listed(parameter.types)} elements, found {_short(found)}"
        if parameter.shared is None:
            continue
        first, expected = bound.setdefault(parameter.shared, (index, found))
        if found != expected:
            return index, f"expected {_short(expected)} elements as in input {first}, found {_short(found)}"
    return None


@lru_cache(maxsize=4096)
def _signature(op_type: str, domain: str, opset: int) -> _Signature | None:
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    # The kinds are an IntEnum with the numbers of AttributeProto, which the type stubs of onnx do not say.
    attributes = {name: int(cast(int, attribute.type)) for name, attribute in schema.attributes.items()}
    return _Signature(
        attributes,
        tuple(name for name, attribute in schema.attributes.items() if attribute.required),
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(index for index, formal in enumerate(schema.inputs) if formal.option == _SINGLE),
        tuple(index for index, formal in enumerate(schema.outputs) if formal.option == _SINGLE),
        tuple(map(_parameter, schema.inputs)),
        schema.since_version if schema.deprecated else None,
    )


def _parameter(formal: onnx.defs.OpSchema.FormalParameter) -> _Parameter:
    alike = formal.option != _VARIADIC or formal.is_homogeneous
    return _Parameter(formal.name, formal.types, formal.type_str if alike else None)


@lru_cache(maxsize=256)
def _onnx_name(element: Attribute) -> str:
    """An element type as schemas name it: `tensor(float)`."""
    proto = onnx_type(TensorType(element, []))
    return f"tensor({onnx.TensorProto.DataType.Name(proto.tensor_type.elem_type).lower()})"


def _short(type_name: str) -> str:
    return type_name.removeprefix("tensor(").removesuffix(")")


def _listed(types: Collection[str]) -> str:
    names = sorted(_short(name) for name in types if name.startswith("tensor("))
    more = len(names) - _NAMES_SHOWN
    if more > 0:
        return f"{', '.join(names[:_NAMES_SHOWN])} or {more} other kinds of"
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _range(bounds: tuple[int, int], what: str) -> str:
    low, high = bounds
    plural = "" if (low if high >= 2**31 - 1 else high) == 1 else "s"
    if high >= 2**31 - 1:
        return f"at least {low} {what}{plural}"
    return f"{low} {what}{plural}" if low == high else f"{low} to {high} {what}{plural}"


def _kind_name(kind: int) -> str:
    return AttributeProto.AttributeType.Name(kind).lower()
