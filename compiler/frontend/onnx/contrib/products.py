"""Import of matrix products and convolutions with something fused to them: FusedMatMul, FusedGemm, FusedConv, ..."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlopt.dialects.graph.base import rank_of
from mlopt.frontend.onnx.contrib.activations import activated, activation_limit
from mlopt.frontend.onnx.contrib.limits import MICROSOFT
from mlopt.frontend.onnx.convolution import convolution
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.matmul import gemm
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.widening import in_f32


@importer("TransposeMatMul", since=1, domain=MICROSOFT)
@importer("FusedMatMul", since=1, domain=MICROSOFT)
def fused_matmul(node: Node) -> SSAValue:
    """`alpha * A' @ B'`; a product of 16-bit floats that is to be scaled stays in f32 until then."""
    result = (_fused_matmul if node.number("alpha", 1.0) == 1.0 else in_f32(_fused_matmul))(node)
    assert isinstance(result, SSAValue)
    return result


def _fused_matmul(node: Node) -> SSAValue:
    formula = Formula(node)
    a, b = (
        _turned(
            formula,
            node.operand(index),
            node.integer(f"trans{name}", 0),
            node.integer(f"transBatch{name}", 0),
        )
        for index, name in enumerate("AB")
    )
    return formula.scaled(formula.matmul(a, b), node.number("alpha", 1.0))


def _turned(formula: Formula, x: SSAValue, matrix: int, batch: int) -> SSAValue:
    """The first dimension becomes the last but one (`batch`), then the last two change places (`matrix`)."""
    rank = rank_of(x)
    if rank < 2:
        return x
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if matrix:
        order[-2:] = reversed(order[-2:])
    return formula.transpose(x, order)


@importer("FusedGemm", since=1, domain=MICROSOFT, limit=activation_limit)
def fused_gemm(node: Node) -> SSAValue:
    """Gemm, and an activation with up to three parameters."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return activated(node, gemm(node), [node.number(name) for name in names if node.has(name)])


@importer("FusedConv", since=1, domain=MICROSOFT, limit=activation_limit)
def fused_conv(node: Node) -> SSAValue:
    """Conv, a sum with `Z`, and an activation."""
    result = convolution(node, node.operand(0), node.operand(1), node.optional(2))
    addend = node.optional(3)
    if addend is not None:
        result = Formula(node).add(result, addend)
    return activated(node, result, node.numbers("activation_params") if node.has("activation_params") else ())
