"""Operations that read at computed positions."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.export.builder import Builder
from mlopt.export.registry import exports


@exports(graph.GatherOp)
def gather(builder: Builder, op: graph.GatherOp) -> None:
    builder.node(op, "Gather", attributes={"axis": op.axis.value.data})


@exports(graph.GatherElementsOp)
def gather_elements(builder: Builder, op: graph.GatherElementsOp) -> None:
    builder.node(op, "GatherElements", attributes={"axis": op.axis.value.data})


@exports(graph.GatherNdOp)
def gather_nd(builder: Builder, op: graph.GatherNdOp) -> None:
    builder.node(op, "GatherND", attributes={"batch_dims": op.batch_dims.value.data})
