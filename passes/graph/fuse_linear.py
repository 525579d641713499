"""`fuse-linear`: a matrix product takes the bias, the residual and the activation that follow it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.epilogues import Epilogue, Products, fuse_epilogues
from mlopt.passes.graph.fusion import described
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL


class FuseLinearPass(Pass):
    """Make one `graph.linear` of a matrix product and what follows it, in this order, each once or not at all.

    1. A sum with a bias: one number for each column, `[n]` or `[1, ..., 1, n]`. ONNX Gemm is imported as such a sum.
    2. A sum with a residual, which has exactly the shape of the result.
    3. An activation: relu, clip, leaky_relu, sigmoid, tanh, gelu, swish, hard_swish, hard_sigmoid.

    The result is the same, bit by bit: `graph.linear` rounds where its parts do. Not fused: a product that something
    else uses too, or that is a graph output; a weight that is no matrix; a sum that is larger than the product, or
    with anything else (one number for each row); a bias after a residual, or anything after an activation; a clip of
    integers, or with bounds that are not finite constants. Where both sides of a sum are products, that which is
    computed last takes the other as its residual. Remarks: each fusion, each near miss.
    """

    name = "fuse-linear"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse_epilogues(ctx, op, self.name, MatrixProducts())


class MatrixProducts(Products):
    """`graph.matmul` with a matrix on the right, and `graph.linear`."""

    kinds: ClassVar = (graph.MatMulOp, graph.LinearOp)

    def into(self, op: Operation) -> str:
        return "linear"

    def epilogue(self, op: Operation) -> Epilogue:
        return Epilogue(op.bias, op.residual, op.activation) if isinstance(op, graph.LinearOp) else Epilogue()

    def extended(self, op: Operation, epilogue: Epilogue) -> Sequence[Operation]:
        input, weight = op.operands[:2]
        return [graph.LinearOp(input, weight, epilogue.bias, epilogue.residual, epilogue.activation)]

    def is_bias(self, op: Operation, value: SSAValue) -> bool:
        return graph.is_bias_of(shape_of(value), shape_of(op.results[0]))

    def obstacle(self, op: Operation, role: str) -> str | None:
        weight = op.operands[1]
        return None if rank_of(weight) == 2 else f"the weight of {described(op)} is no matrix: {weight.type}"
