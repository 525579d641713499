"""What a model declares of its values beside what its nodes make of them: element types and shapes.

A declaration that contradicts is a fault of the model, with one exception: where the model's inputs have symbolic
dimensions, tools that made them so often leave the old numbers in the declarations of other values, and onnxruntime
goes by what it finds. There a number that differs is a warning, and the shape that follows from the inputs holds.
Element types and ranks must always agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mlopt.dialects.graph.base import tensor_type
from mlopt.frontend.onnx.bounds import Bound
from mlopt.frontend.onnx.functions import onnx_type


class Contradiction(NamedTuple):
    """A value whose declaration does not fit. `node` defines it, if any; `extents` if no more than extents differ."""

    node: NodeProto | None
    message: str
    extents: bool


def contradictions(
    graph: GraphProto,
    values: Mapping[str, SSAValue | None],
    bounds: Mapping[SSAValue, Bound],
    *,
    shapes: bool,
) -> Iterator[Contradiction]:
    """Every value of a graph that its outputs, inputs or value_infos declare otherwise than it is.

    With `shapes` ranks and extents are compared too: inside a loop they may differ from trip to trip. An extent that
    depends on data (`bounds`) is not compared.
    """
    found: dict[str, tuple[ValueInfoProto, str, bool]] = {}
    for declared in (*graph.input, *graph.output, *graph.value_info):
        value = values.get(declared.name)
        kind = declared.type.WhichOneof("value")
        if value is None or kind is None or not isinstance(value.type, TensorType):
            continue
        differs = _difference(declared, value, bounds.get(value), shapes)
        if differs is not None:
            found.setdefault(declared.name, (declared, *differs))
    if not found:
        return
    nodes = {name: node for node in graph.node for name in node.output if name in found}
    for name, (_, message, extents) in found.items():
        node = nodes.get(name)
        yield Contradiction(node, f"{node.op_type}: {message}" if node is not None else message, extents)


def _difference(
    declared: ValueInfoProto, value: SSAValue, bound: Bound | None, shapes: bool
) -> tuple[str, bool] | None:
    """How a value differs from its declaration, and whether only in extents."""
    found = onnx_type(tensor_type(value.type)).tensor_type
    extents = [dim.dim_value for dim in found.shape.dim]
    kind = declared.type.WhichOneof("value")
    expected = declared.type.tensor_type
    what = f'the model declares "{declared.name}" as'
    if kind != "tensor_type":
        return f"{what} a {(kind or '').removesuffix('_type')}, found a tensor", False
    if expected.elem_type not in (TensorProto.UNDEFINED, found.elem_type):
        return f"{what} {_name(expected.elem_type)}, found {_name(found.elem_type)}", False
    if not shapes or not expected.HasField("shape"):
        return None
    dims = expected.shape.dim
    fits = [
        not dim.HasField("dim_value")
        or dim.dim_value < 0
        or dim.dim_value == extent
        or (bound is not None and bound.axis == axis)
        for axis, (dim, extent) in enumerate(zip(dims, extents, strict=False))
    ]
    if len(dims) == len(extents) and all(fits):
        return None
    texts = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims]
    return f"{what} [{', '.join(texts)}], found {extents}", len(dims) == len(extents)


def _name(element: int) -> str:
    known = element in TensorProto.DataType.values()
    return TensorProto.DataType.Name(element).lower() if known else f"of type {element}"
