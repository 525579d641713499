"""Matrix multiplication, convolution and determinants."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.dialects.graph import Window
from mlopt.export.builder import Attributes, Builder
from mlopt.export.registry import exports, exports_plainly

exports_plainly({graph.MatMulOp: "MatMul", graph.DetOp: "Det"})


@exports(graph.ConvOp)
def convolution(builder: Builder, op: graph.ConvOp) -> None:
    builder.node(op, "Conv", attributes={**window_attributes(op.window), "group": op.groups})


def window_attributes(window: Window) -> Attributes:
    """The attributes of a window as Conv and the pools have them."""
    return {
        "kernel_shape": window.kernel,
        "strides": window.strides,
        "pads": window.low + window.high,
        "dilations": window.dilations,
    }
