"""Which operator set a model is written in: the oldest that has every operator in the form in which it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from onnx import GraphProto, NodeProto, defs, helper

from mlopt.diagnostics import InputError, UnsupportedError

OLDEST = 18
"""The oldest operator set that is written: the first in which reductions take their axes as an input."""

NEWEST = defs.onnx_opset_version()
"""The newest that the onnx package knows."""


class _Change(NamedTuple):
    """An operator has its meaning only since an operator set, where an attribute has a value (None: everywhere)."""

    operator: str
    attribute: str | None
    value: object
    since: int
    what: str


_CHANGES = (
    _Change(
        "AveragePool", "ceil_mode", 1, 22, "windows that would start in the padding at the end are ignored"
    ),
    _Change("GridSample", None, None, 20, "modes are called linear and cubic; any number of spatial axes"),
    _Change("GroupNormalization", None, None, 21, "a scale and bias for each channel, not for each group"),
    _Change("MaxPool", "ceil_mode", 1, 22, "windows that would start in the padding at the end are ignored"),
    _Change("Pad", "mode", b"wrap", 19, "there is this mode"),
    _Change("Resize", "coordinate_transformation_mode", b"half_pixel_symmetric", 19, "there is this mode"),
)
"""Versions after `OLDEST` with another meaning and the same signature, or with new values of an attribute."""


class _Form(NamedTuple):
    """How a node uses its operator: attributes, the types of inputs ("" for one left out) and outputs, and the operator
    set in which it came to mean this."""

    operator: str
    attributes: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    since: int


def check_opset(asked: int | None) -> None:
    """Raise `InputError` for an operator set that no model is written in; None asks for none."""
    if asked is not None and not OLDEST <= asked <= NEWEST:
        raise InputError(f"expected an operator set from {OLDEST} to {NEWEST}, found {asked}")


def choose_opset(graph: GraphProto, types: Mapping[str, str], asked: int | None) -> int:
    """The operator set `asked` for, or the oldest that has all nodes of a graph; `types` are those of its values.

    Errors are those of `check_opset`, and `UnsupportedError` for one that lacks operators, which it names.
    """
    check_opset(asked)
    forms = {_form(node, types) for node in _all_nodes(graph)}
    wanted = range(OLDEST, NEWEST + 1) if asked is None else (asked,)
    for opset in wanted:
        if all(_has(form, opset) for form in forms):
            return opset
    lacking = sorted({(form.operator, _opsets(form)) for form in forms if not _has(form, wanted[-1])})
    names = ", ".join(f"{operator} ({opsets})" for operator, opsets in lacking)
    raise UnsupportedError(f"operator set {wanted[-1]} does not have all that is written: {names}")


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


def _form(node: NodeProto, types: Mapping[str, str]) -> _Form:
    attributes = {attribute.name: attribute for attribute in node.attribute}
    since = 1
    for change in _CHANGES:
        if change.operator == node.op_type and (
            change.attribute is None
            or (
                change.attribute in attributes
                and helper.get_attribute_value(attributes[change.attribute]) == change.value
            )
        ):
            since = max(since, change.since)
    inputs, outputs = (
        tuple(types[name] if name else "" for name in names) for names in (node.input, node.output)
    )
    return _Form(node.op_type, frozenset(attributes), inputs, outputs, since)


@cache
def _has(form: _Form, opset: int) -> bool:
    """Whether an operator set has an operator in this form."""
    if opset < form.since or not defs.has(form.operator, opset):
        return False
    schema = defs.get_schema(form.operator, opset)
    allowed = {
        constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints
    }
    return (
        schema.min_input <= len(form.inputs) <= schema.max_input
        and schema.min_output <= len(form.outputs) <= schema.max_output
        and form.attributes <= schema.attributes.keys()
        and all(
            not type or type in allowed.get(formal.type_str, (formal.type_str,))
            for types, formals in ((form.inputs, schema.inputs), (form.outputs, schema.outputs))
            for type, formal in zip(types, _each(formals, len(types)), strict=True)
        )
    )


def _each(
    formals: Iterable[defs.OpSchema.FormalParameter], count: int
) -> list[defs.OpSchema.FormalParameter]:
    """The formal parameter of each of `count` values: the last one is that of all that follow."""
    known = [*formals]
    return [known[min(index, len(known) - 1)] for index in range(count)]


def _opsets(form: _Form) -> str:
    """The operator sets that have a form: `needs 21`."""
    first = next((opset for opset in range(OLDEST, NEWEST + 1) if _has(form, opset)), None)
    return "in none" if first is None else f"needs {first}"
