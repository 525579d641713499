"""`fuse-group-norm`: instances of groups of channels that are normalized, then scaled and shifted by channel."""

from __future__ import annotations

from math import prod
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.constants import constant_value
from mlopt.passes.graph.fusion import Fusion, Group, Miss, either_way, fuse, is_number
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


class FuseGroupNormPass(Pass):
    """Make one `graph.group_norm` of one of groups, without scale and bias, and the scale and bias of channels.

    1. `reshape(group_norm(reshape(x), 1, 0)) * scale + bias`, as exporters write it whose operator set has no group
       normalization, becomes `group_norm(x, scale, bias)`.

    Not fused: scales and biases that are not one number for each channel; a bias that is not constant or has -0.0,
    which shows the sign of a zero before it; inner values that are used elsewhere or are graph outputs. f16 and bf16
    are computed in f32 and rounded once. Remarks: each fusion, each near miss.
    """

    name = "fuse-group-norm"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse(ctx, op, [FuseGroupNorm(ctx, self.name)])


class FuseGroupNorm(Fusion):
    """reshape(group_norm(reshape(x), 1, 0)) * scale + bias -> group_norm(x, scale, bias)"""

    statistic: ClassVar[str] = "group-norms-fused"
    roots: ClassVar = (graph.AddOp,)

    def match(self, op: Operation) -> Group | Miss | None:
        for product, bias in either_way(op):
            if not isinstance(product.owner, graph.MulOp):
                continue
            for shaped, scale in either_way(product.owner):
                reshape = shaped.owner
                norm = reshape.input.owner if isinstance(reshape, graph.ReshapeOp) else None
                if isinstance(reshape, graph.ReshapeOp) and isinstance(norm, graph.GroupNormOp):
                    return self._group(op, product.owner, reshape, norm, scale, bias)
        return None

    def _group(
        self,
        op: Operation,
        product: graph.MulOp,
        reshape: graph.ReshapeOp,
        norm: graph.GroupNormOp,
        scale: SSAValue,
        bias: SSAValue,
    ) -> Group | Miss | None:
        shape, groups = shape_of(reshape.result), norm.groups.value.data
        if (
            shape_of(op.results[0]) != shape
            or len(shape) < 2
            or shape[0] != norm.rows[0]
            or shape[1] % groups
        ):
            return Miss("the scale and bias are of other dimensions than images and channels")
        if not is_number(norm.scale, 1, self.ctx) or not is_number(norm.bias, 0, self.ctx):
            return Miss("the normalization has a scale or bias of its own")
        if not all(_is_of_channels(value, shape) for value in (scale, bias)):
            return Miss("the scale or bias is not one number for each channel")
        numbers = constant_value(bias, self.ctx)
        if numbers is None or bool(np.any((numbers == 0) & np.signbit(numbers))):
            return Miss("the bias is not constant, or has -0.0")

        def build() -> list[Operation]:
            x = norm.input
            made: list[Operation] = []
            if isinstance(x.owner, graph.ReshapeOp) and shape_of(x.owner.input) == shape:
                x = x.owner.input
            else:
                made.append(graph.ReshapeOp(x, shape))
                x = made[-1].results[0]
            of_channels = [graph.ReshapeOp(value, (shape[1],)) for value in (scale, bias)]
            fused = graph.GroupNormOp(
                x, of_channels[0], of_channels[1], groups, epsilon=norm.epsilon.value.data
            )
            return [*made, *of_channels, fused]

        return Group([op, product, reshape, norm], build, "'group_norm'")


def _is_of_channels(value: SSAValue, shape: tuple[int, ...]) -> bool:
    """Whether a value has one number for each position on axis 1 of this shape, which it broadcasts to."""
    own = (1,) * (len(shape) - len(shape_of(value))) + shape_of(value)
    return len(own) == len(shape) and own[1] == shape[1] and prod(own) == shape[1]
