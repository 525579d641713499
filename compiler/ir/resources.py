"""The blobs of `dense_resource` attributes: read into ordinary constants, so that no later step can lose them.

xDSL keeps blobs in a store shared by the whole process, where a second module with the same key loses its data. Here
a resource whose blob stands in the text becomes a `dense` attribute when the text has been read. One without a blob
(such as `dense_resource<__elided__>`) stays as it is: its data were never there.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    AnyDenseElement,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    MemRefType,
    ModuleOp,
    RankedStructure,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute

from mlopt.diagnostics import ParseFailure
from mlopt.ir.dense import ElementError, element_bytes
from mlopt.ir.locations import place_of_op

_ALIGNMENT_BYTES = 4


def replace_resources(module: ModuleOp, blobs: Mapping[str, str]) -> None:
    """Replace each resource of `module` whose blob is known (key → hexadecimal text) by its data, in place."""
    for op in module.walk():
        for attributes in (op.attributes, op.properties):
            for name, attribute in attributes.items():
                try:
                    attributes[name] = _with_data(attribute, blobs)
                except ElementError as error:
                    raise ParseFailure(str(error), place=place_of_op(op)) from error


def _with_data(attribute: Attribute, blobs: Mapping[str, str]) -> Attribute:
    match attribute:
        case DenseResourceAttr():
            blob = blobs.get(attribute.resource_handle.data)
            return attribute if blob is None else _dense(attribute, blob)
        case ArrayAttr():
            return ArrayAttr[Attribute](_with_data(element, blobs) for element in attribute)
        case DictionaryAttr():
            return DictionaryAttr({key: _with_data(value, blobs) for key, value in attribute.data.items()})
        case _:
            return attribute


def _has_data(type_: Attribute) -> TypeIs[RankedStructure[AnyDenseElement]]:
    return isinstance(type_, TensorType | VectorType | MemRefType)


def _dense(attribute: DenseResourceAttr, blob: str) -> DenseIntOrFPElementsAttr:
    key, type_ = attribute.resource_handle.data, attribute.type
    if not _has_data(type_) or not type_.has_static_shape():
        raise ElementError(f"resource '{key}' must have a type of static shape")
    try:
        data = bytes.fromhex(blob.removeprefix("0x"))[_ALIGNMENT_BYTES:]
    except ValueError:
        raise ElementError(
            f"the blob of resource '{key}' holds a character that is no hexadecimal digit"
        ) from None
    expected = type_.element_count() * element_bytes(type_.element_type)
    if len(data) != expected:
        raise ElementError(f"the blob of resource '{key}' must hold {expected} bytes, found {len(data)}")
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data))
