"""Import of operators on weights of few bits, packed in bytes: MatMulNBits and GatherBlockQuantized.

A number is `(packed - zero point) * scale`, with a scale and a zero point for each block of so many along one axis. In
a byte the first number has the lowest bits. Without a zero point it is the middle of the range, `2^(bits - 1)`.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, rank_of, shape_of, tensor_type
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.quantization import repeated
from mlopt.frontend.onnx.registry import importer


def _bits_limit(node: NodeProto) -> str | None:
    """With bits other than 2, 4 or 8."""
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


@importer("GatherBlockQuantized", since=1, domain=MICROSOFT, limit=_bits_limit)
def gather_block_quantized(node: Node) -> SSAValue:
    """Slices of quantized numbers along `gather_axis`, dequantized in blocks along `quantize_axis`.

    Numbers of 4 bits have 0 as zero point if none is given. Bytes hold several along the last axis.
    """
    formula, rank, bits = Formula(node), node.rank_of(0), node.integer("bits", 4)
    axis = normalize_axis(node.integer("gather_axis", 0), rank)
    quantized_axis = normalize_axis(node.integer("quantize_axis", 1), rank)
    block = node.integer("block_size", 128)
    if axis == quantized_axis:
        raise node.error(f"a gather_axis {axis} that is the quantize_axis is not supported", UnsupportedError)
    if block < 1 or node.rank_of(2) != rank or node.shape_of(2)[axis] != node.shape_of(0)[axis]:
        raise node.error(
            f"expected a block_size of at least 1 and scales as the numbers are on axis {axis}, "
            f"found {block} and {node.type_of(2)} for {node.type_of(0)}"
        )
    indices, zero_points = node.operand(1), node.optional(3)

    def gathered(value: SSAValue) -> SSAValue:
        return node.add(graph.GatherOp(value, indices, axis)).result

    scales = gathered(node.operand(2))
    element, in_bytes = tensor_type(scales.type).element_type, node.type_of(0).element_type == _UI8
    numbers = gathered(node.operand(0))
    points = None if zero_points is None else gathered(zero_points)
    if in_bytes:
        numbers = _unpacked(formula, numbers, bits)
        points = points and formula.part(_unpacked(formula, points, bits), -1, 0, shape_of(scales)[-1])
    along = quantized_axis + (rank_of(indices) - 1 if quantized_axis > axis else 0)
    size = shape_of(numbers)[along]
    if shape_of(scales)[along] != -(-size // block):
        raise node.error(
            f"expected one scale per block of {block} of {size} numbers, found {node.type_of(2)}"
        )
    result = formula.cast(numbers, element)
    if points is not None:
        result = formula.sub(result, repeated(node, formula.cast(points, element), along, block, size))
    elif in_bytes:
        result = formula.sub(result, formula.number(1 << (bits - 1), result))
    return formula.mul(result, repeated(node, scales, along, block, size))


_UI8 = IntegerType(8, Signedness.UNSIGNED)
