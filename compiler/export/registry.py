"""The table of exporters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from xdsl.ir import Operation

from mlopt.dialects.graph import GraphOp
from mlopt.export.builder import Builder

Exporter: TypeAlias = Callable[[Builder, Any], None]
_ExporterT = TypeVar("_ExporterT", bound=Callable[..., None])

EXPORTERS: dict[type[Operation], Exporter] = {}
"""Operation class → a function that adds the nodes of one such operation to a model."""


def exports(*op_types: type[Operation]) -> Callable[[_ExporterT], _ExporterT]:
    """Register the decorated function as the ONNX form of these operations."""

    def register(exporter: _ExporterT) -> _ExporterT:
        EXPORTERS.update(dict.fromkeys(op_types, exporter))
        return exporter

    return register


def exports_plainly(operators: dict[type[GraphOp], str]) -> None:
    """Register operations that are one ONNX node of the same operands, without attributes."""

    def exporter(onnx_op: str) -> Exporter:
        return lambda builder, op: builder.node(op, onnx_op)

    EXPORTERS.update({op_type: exporter(onnx_op) for op_type, onnx_op in operators.items()})
