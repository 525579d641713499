"""Transposed convolution and the sum of columns."""

from __future__ import annotations

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints
from mlopt.export.builder import AttributeValue, Builder
from mlopt.export.contraction import finish, window_attributes
from mlopt.export.registry import exports


@exports(graph.ConvTransposeOp)
def conv_transpose(builder: Builder, op: graph.ConvTransposeOp) -> None:
    attributes: dict[str, AttributeValue] = {**window_attributes(op.window), "group": op.groups}
    extra = get_ints(op.properties, "output_padding")
    if extra is not None:
        attributes["output_padding"] = extra
    finish(builder, op, [("ConvTranspose", op.operands, attributes)], op.activation)


@exports(graph.Col2ImOp)
def col2im(builder: Builder, op: graph.Col2ImOp) -> None:
    window, image = op.window, get_ints(op.properties, "image") or ()
    attributes = {name: value for name, value in window_attributes(window).items() if name != "kernel_shape"}
    operands = [op.input, builder.ints(image), builder.ints(window.kernel)]
    builder.node(op, "Col2Im", operands, attributes)
