"""Import of MatMul and Gemm."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import importer
from mlopt.frontend.onnx.widening import in_f32
from mlopt.ir.dtypes import to_numpy_dtype


@importer("MatMul", since=1)
def matmul(node: Node) -> SSAValue:
    """As `numpy.matmul`."""
    return node.add(graph.MatMulOp(node.operand(0), node.operand(1))).result


@importer("Gemm", since=7)
def gemm(node: Node) -> SSAValue:
    """`alpha * A' @ B' + beta * C`, taken apart; factors of 1 and a missing C (since 11) add nothing.

    A product of 16-bit floats that is to be scaled stays in f32 until then.
    """
    result = (_gemm if node.number("alpha", 1.0) == 1.0 else in_f32(_gemm))(node)
    assert isinstance(result, SSAValue)
    return result


def _gemm(node: Node) -> SSAValue:
    for index in (0, 1):
        if node.rank_of(index) != 2:
            raise node.error(f"expected a matrix as input {index}, found {node.type_of(index)}")
    a = _transposed(node, node.operand(0), node.integer("transA", 0))
    b = _transposed(node, node.operand(1), node.integer("transB", 0))
    product = _scaled(node, node.add(graph.MatMulOp(a, b)).result, node.number("alpha", 1.0))
    c = node.optional(2)
    if c is None:
        return product
    return node.add(graph.AddOp(product, _scaled(node, c, node.number("beta", 1.0)))).result


def _transposed(node: Node, matrix: SSAValue, wanted: int) -> SSAValue:
    return node.add(graph.TransposeOp(matrix)).result if wanted else matrix


def _scaled(node: Node, value: SSAValue, factor: float) -> SSAValue:
    if factor == 1.0:
        return value
    scale = np.array(factor).astype(to_numpy_dtype(node.type_of(0).element_type))
    return node.add(graph.MulOp(value, node.constant(scale))).result


@importer("Det", since=11)
def determinant(node: Node) -> SSAValue:
    """Of the matrices in the last two axes."""
    return node.add(graph.DetOp(node.operand(0))).result
