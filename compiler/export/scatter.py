"""Operations that write at computed positions."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.export.builder import Builder
from mlopt.export.registry import exports


@exports(graph.ScatterElementsOp)
def scatter_elements(builder: Builder, op: graph.ScatterElementsOp) -> None:
    attributes = {"axis": op.axis.value.data, "reduction": op.reduction.data}
    builder.node(op, "ScatterElements", attributes=attributes)


@exports(graph.ScatterNdOp)
def scatter_nd(builder: Builder, op: graph.ScatterNdOp) -> None:
    builder.node(op, "ScatterND", attributes={"reduction": op.reduction.data})
