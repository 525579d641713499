"""Operations that write at computed positions."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.export.builder import Builder, Value
from mlopt.export.registry import exports


@exports(graph.ScatterElementsOp)
def scatter_elements(builder: Builder, op: graph.ScatterElementsOp) -> None:
    attributes = {"axis": op.axis.value.data, "reduction": op.reduction.data}
    builder.node(op, "ScatterElements", _operands(builder, op), attributes)


@exports(graph.ScatterNdOp)
def scatter_nd(builder: Builder, op: graph.ScatterNdOp) -> None:
    builder.node(op, "ScatterND", _operands(builder, op), {"reduction": op.reduction.data})


def _operands(builder: Builder, op: graph.ScatterElementsOp | graph.ScatterNdOp) -> list[SSAValue | Value]:
    """Indices and updates are cut to those that count."""
    if op.count is None:
        return [op.data, op.indices, op.updates]
    end = builder.part("Reshape", [op.count, builder.ints([1])])
    first = builder.ints([0])
    return [op.data, *(builder.part("Slice", [value, first, end]) for value in (op.indices, op.updates))]
