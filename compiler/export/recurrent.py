"""Recurrent layers."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.export.builder import Builder
from mlopt.export.registry import exports


@exports(graph.LstmOp)
def lstm(builder: Builder, op: graph.LstmOp) -> None:
    operands = [op.input, op.weight, op.recurrence, op.bias, None, op.initial_h, op.initial_c]
    hidden = shape_of(op.recurrence)[2]
    builder.node(op, "LSTM", operands, {"direction": op.direction.data, "hidden_size": hidden})
