"""`fuse-conv`: a convolution takes the bias, the residual and the activation that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, shape_of, tensor_type
from mlopt.ir.context import CompilerContext
from mlopt.ir.names import set_name
from mlopt.passes.graph.constants import constant_value, make_constant, name_of
from mlopt.passes.graph.epilogues import Epilogue, Products, fuse_epilogues
from mlopt.passes.graph.fusion import described
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


class FuseConvPass(Pass):
    """Make what follows a `graph.conv` part of it, in this order, each once or not at all.

    1. A sum with a bias: one number for each channel, `[m, 1, ...]` or `[1, m, 1, ...]`.
    2. A sum with a residual, which has exactly the shape of the result.
    3. An activation: relu, clip, leaky_relu, sigmoid, tanh, gelu, swish, hard_swish, hard_sigmoid.

    `graph.conv_transpose` takes a bias and an activation. The result is the same, bit by bit. Not fused: a convolution
    that something else uses too, or that is a graph output; a bias in f16 and bf16, where the convolution rounds once,
    after its bias, what was rounded twice; a sum that is larger than the convolution, or with anything else; a bias
    after a residual, or anything after an activation; a clip of integers, or with bounds that are not finite
    constants. Where both sides of a sum are convolutions, that which is computed last takes the other as its residual.
    Remarks: each fusion, each near miss.
    """

    name = "fuse-conv"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse_epilogues(ctx, op, self.name, Convolutions(ctx))


@dataclass
class Convolutions(Products):
    """`graph.conv` and `graph.conv_transpose`."""

    ctx: CompilerContext
    kinds: ClassVar = (graph.ConvOp, graph.ConvTransposeOp)

    def epilogue(self, op: Operation) -> Epilogue:
        assert isinstance(op, graph.ConvOp | graph.ConvTransposeOp)
        residual = op.residual if isinstance(op, graph.ConvOp) else None
        return Epilogue(op.bias, residual, op.activation)

    def extended(self, op: Operation, epilogue: Epilogue) -> Sequence[Operation]:
        assert isinstance(op, graph.ConvOp | graph.ConvTransposeOp)
        made: list[Operation] = []
        bias = epilogue.bias
        if bias is not None and bias is not op.bias:
            made.append(self._vector(bias))
            bias = made[0].results[0]
        return [*made, _again(op, bias, epilogue.residual, epilogue.activation)]

    def _vector(self, bias: SSAValue) -> Operation:
        """A bias of the rank of the result as one of rank 1."""
        shape = (prod(shape_of(bias)),)
        array = constant_value(bias, self.ctx)
        if array is None:
            reshape = graph.ReshapeOp(bias, shape)
            set_name(reshape.result, bias.name_hint or "bias")
            return reshape
        return make_constant(array.reshape(shape), self.ctx, name_of(bias, "bias"))

    def is_bias(self, op: Operation, value: SSAValue) -> bool:
        result, shape = shape_of(op.results[0]), shape_of(value)
        filled = (1,) * (len(result) - len(shape)) + shape
        return filled == (1, result[1], *(1 for _ in result[2:]))

    def takes_residual(self, op: Operation) -> bool:
        return isinstance(op, graph.ConvOp)

    def obstacle(self, op: Operation, role: str) -> str | None:
        element = tensor_type(op.results[0].type).element_type
        if role == "bias" and isinstance(element, Float16Type | BFloat16Type):
            return f"{described(op)} would round its sums to {element} after the bias only"
        return None


def _again(
    op: graph.ConvOp | graph.ConvTransposeOp,
    bias: SSAValue | None,
    residual: SSAValue | None,
    activation: graph.ActivationAttr | None,
) -> Operation:
    """The convolution with another epilogue; a transposed one has no residual."""
    window, pads = op.window, op.window.low + op.window.high
    if isinstance(op, graph.ConvOp):
        return graph.ConvOp(
            op.input,
            op.weight,
            bias,
            residual,
            strides=window.strides,
            pads=pads,
            dilations=window.dilations,
            group=op.groups,
            activation=activation,
        )
    return graph.ConvTransposeOp(
        op.input,
        op.weight,
        bias,
        strides=window.strides,
        pads=pads,
        dilations=window.dilations,
        output_padding=get_ints(op.properties, "output_padding"),
        group=op.groups,
        activation=activation,
    )
