"""Windows over channels-last tensors: ONNX has them on channels-first ones, so they stand between transposes."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of
from mlopt.dialects.graph.channels_last import channels_first, channels_last, kernel_last
from mlopt.export.builder import NONE, Builder, Value
from mlopt.export.contraction import Node, finish, window_attributes
from mlopt.export.pooling import pool_attributes
from mlopt.export.registry import exports


@exports(graph.ChannelsLastConvOp)
def convolution(builder: Builder, op: graph.ChannelsLastConvOp) -> None:
    """The residual is added to the channels-last result."""
    rank = rank_of(op.input)
    weight = builder.part("Transpose", [op.weight], attributes={"perm": kernel_last(rank)})
    operands: list[SSAValue | Value] = [_first(builder, op.input), weight]
    operands += [] if op.bias is None else [op.bias]
    nodes: list[Node] = [
        ("Conv", operands, {**window_attributes(op.window), "group": op.groups}),
        ("Transpose", (), {"perm": channels_last(rank)}),
    ]
    if op.residual is not None:
        nodes.append(("Add", (op.residual,), NONE))
    finish(builder, op, nodes, op.activation)


@exports(graph.ChannelsLastMaxPoolOp)
def max_pool(builder: Builder, op: graph.ChannelsLastMaxPoolOp) -> None:
    pooled = builder.part("MaxPool", [_first(builder, op.input)], attributes=pool_attributes(op))
    builder.node(op, "Transpose", [pooled], {"perm": channels_last(rank_of(op.input))})


@exports(graph.ChannelsLastAveragePoolOp)
def average_pool(builder: Builder, op: graph.ChannelsLastAveragePoolOp) -> None:
    attributes = {**pool_attributes(op), "count_include_pad": int(op.count_include_pad is not None)}
    pooled = builder.part("AveragePool", [_first(builder, op.input)], attributes=attributes)
    builder.node(op, "Transpose", [pooled], {"perm": channels_last(rank_of(op.input))})


def _first(builder: Builder, value: SSAValue) -> Value:
    return builder.part("Transpose", [value], attributes={"perm": channels_first(rank_of(value))})
