"""Cumulative sums and products, and the largest elements, along an axis."""

from __future__ import annotations

from xdsl.dialects.builtin import i64

from mlopt.dialects import graph
from mlopt.export.builder import Builder
from mlopt.export.registry import exports


@exports(graph.CumSumOp)
def cum_sum(builder: Builder, op: graph.CumSumOp) -> None:
    _cumulative(builder, op, "CumSum", 14)


@exports(graph.CumProdOp)
def cum_prod(builder: Builder, op: graph.CumProdOp) -> None:
    _cumulative(builder, op, "CumProd", 26)


def _cumulative(builder: Builder, op: graph.CumSumOp | graph.CumProdOp, operator: str, since: int) -> None:
    axis = builder.scalar(op.axis.value.data, i64)
    attributes = {"exclusive": int(op.exclusive is not None), "reverse": int(op.reverse is not None)}
    builder.node(op, operator, [op.input, axis], attributes, since=since)


@exports(graph.TopKOp)
def top_k(builder: Builder, op: graph.TopKOp) -> None:
    attributes = {"axis": op.axis.value.data, "largest": int(op.smallest is None), "sorted": 1}
    builder.node(op, "TopK", [op.input, builder.ints([op.k.value.data])], attributes)
