"""Pooling over windows."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.export.builder import Attributes, Builder
from mlopt.export.contraction import window_attributes
from mlopt.export.registry import exports


@exports(graph.MaxPoolOp)
def max_pool(builder: Builder, op: graph.MaxPoolOp) -> None:
    builder.node(op, "MaxPool", attributes=pool_attributes(op))


@exports(graph.MaxPoolWithIndicesOp)
def max_pool_with_indices(builder: Builder, op: graph.MaxPoolWithIndicesOp) -> None:
    storage_order = int(op.column_major is not None)
    builder.node(op, "MaxPool", attributes={**pool_attributes(op), "storage_order": storage_order})


@exports(graph.AveragePoolOp)
def average_pool(builder: Builder, op: graph.AveragePoolOp) -> None:
    """Dilations, which older operator sets don't have here, only where they are some."""
    attributes = {**pool_attributes(op), "count_include_pad": int(op.count_include_pad is not None)}
    if all(dilation == 1 for dilation in op.window.dilations):
        del attributes["dilations"]
    builder.node(op, "AveragePool", attributes=attributes)


def pool_attributes(op: graph.PoolOp) -> Attributes:
    """What MaxPool and AveragePool have in common."""
    return {**window_attributes(op.window), "ceil_mode": int(op.ceil_mode is not None)}
