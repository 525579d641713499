"""Import of matrix products and convolutions with something fused to them: FusedMatMul, FusedGemm, FusedConv, ..."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of, tensor_type
from mlopt.frontend.onnx.contrib.activations import activated, activation_limit
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.convolution import convolution
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.matmul import gemm
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer


@importer("TransposeMatMul", since=1, domain=MICROSOFT)
@importer("FusedMatMul", since=1, domain=MICROSOFT)
def fused_matmul(node: Node) -> SSAValue:
    """`alpha * A' @ B'`."""
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


# Products with packed weights


def _bits_limit(node: NodeProto) -> str | None:
    bits = next((attribute.i for attribute in node.attribute if attribute.name == "bits"), 4)
    return None if bits in (2, 4, 8) else f"with bits = {bits}"


def _packed_limit(node: NodeProto) -> str | None:
    """With bits other than 2, 4 or 8, weight_prepacked other than 0, g_idx."""
    return _bits_limit(node) or without(attributes={"weight_prepacked": 0}, inputs={4: "g_idx"})(node)


@importer("MatMulNBits", since=1, domain=MICROSOFT, limit=_packed_limit)
def matmul_n_bits(node: Node) -> SSAValue:
    """`A @ W^T + bias`, `W` of shape `[N, K]` the product of packed numbers less a zero point with a scale per block.

    A row of `W` is stored in blocks of `block_size` numbers, the lowest bits of a byte first. What is computed does not
    depend on `accuracy_level`, which allows less than the type of `A` has.
    """
    formula = Formula(node)
    rows, depth, block, bits = (node.integer(name) for name in ("N", "K", "block_size", "bits"))
    if block < 1 or block * bits % 8:
        raise node.error(
            f"expected a block_size that makes whole bytes, found {block} numbers of {bits} bits"
        )
    a = node.operand(0)
    blocks = -(-depth // block)
    packed = formula.reshape(node.operand(1), (rows, blocks, block * bits // 8))
    numbers = formula.cast(_unpacked(formula, packed, bits), tensor_type(a.type).element_type)
    scales = formula.reshape(node.operand(2), (rows, blocks, 1))
    weights = formula.mul(formula.sub(numbers, _zero_points(formula, rows, blocks, bits)), scales)
    matrix = formula.part(formula.reshape(weights, (rows, blocks * block)), 1, 0, depth)
    product = formula.matmul(a, formula.swap(matrix, 0, 1))
    bias = node.optional(5)
    return product if bias is None else formula.add(product, bias)


def _zero_points(formula: Formula, rows: int, blocks: int, bits: int) -> SSAValue:
    """One number per block, `[rows, blocks, 1]`, or one for all; packed as the numbers are, or of the type of `A`."""
    node = formula.node
    zero_points, a = node.optional(3), node.operand(0)
    if zero_points is None:
        return formula.number(1 << (bits - 1), a)
    element = tensor_type(a.type).element_type
    if tensor_type(zero_points.type).element_type == _UI8:
        packed = formula.reshape(zero_points, (rows, -(-blocks * bits // 8)))
        zero_points = formula.part(_unpacked(formula, packed, bits), 1, 0, blocks)
    return formula.cast(formula.reshape(zero_points, (rows, blocks, 1)), element)


def _unpacked(formula: Formula, packed: SSAValue, bits: int) -> SSAValue:
    """Bytes as numbers of so many bits, the lowest first: the last dimension becomes `8 / bits` times as long."""
    if bits == 8:
        return packed
    node, shape = formula.node, shape_of(packed)
    shifts = formula.array(np.arange(0, 8, bits), packed)
    apart = node.add(graph.ShiftRightOp(formula.reshape(packed, (*shape, 1)), shifts)).result
    numbers = node.add(graph.AndOp(apart, formula.number((1 << bits) - 1, packed))).result
    return formula.reshape(numbers, (*shape[:-1], shape[-1] * (8 // bits)))


_UI8 = IntegerType(8, Signedness.UNSIGNED)
