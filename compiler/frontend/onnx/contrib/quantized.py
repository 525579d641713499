"""Import of operators on quantized tensors that the standard does not have.

- A product (QGemm, QLinearConv, MatMulIntegerToFloat, DynamicQuantizeMatMul) is that of the integers, times the scales.
- Any other (QLinearAdd, ...) is the operator itself between dequantize and quantize. Its operands are three inputs
  each: numbers, scale, and zero point, which is 0 if it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import normalize_axis, rank_of, shape_of
from mlopt.frontend.onnx.contrib.attention import self_attention
from mlopt.frontend.onnx.contrib.limits import MICROSOFT, without
from mlopt.frontend.onnx.formulas import Formula
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.pooling import average_of_windows
from mlopt.frontend.onnx.quantization import (
    dynamically_quantized,
    integer_matmul,
    parameter_of_columns,
    parameter_of_rows,
    qlinear_conv,
    requantized,
    scaled_sum,
    whole_parameter,
)
from mlopt.frontend.onnx.registry import ImportFunction, importer

# Products

importer("QLinearConv", since=1, domain=MICROSOFT, limit=without(attributes={"channels_last": 0}))(
    qlinear_conv
)


@importer("QGemm", since=1, domain=MICROSOFT)
def qgemm(node: Node) -> SSAValue:
    """As Gemm; C, in i32, has the scale of the products. Without a scale for the result, that is in f32."""
    a, b = (
        node.add(graph.TransposeOp(node.operand(index))).result
        if node.integer(attribute, 0)
        else node.operand(index)
        for index, attribute in ((0, "transA"), (3, "transB"))
    )
    a_zero_point = whole_parameter(node, node.operand(2))
    total = integer_matmul(node, a, a_zero_point, b, parameter_of_columns(node, node.operand(5)))
    c, y_scale = node.optional(6), node.optional(7)
    if c is not None:
        total = node.add(graph.AddOp(total, c)).result
    scales = [whole_parameter(node, node.operand(1)), parameter_of_columns(node, node.operand(4))]
    if node.number("alpha", 1.0) != 1.0:
        scales.insert(0, node.constant(np.array(node.number("alpha", 1.0), np.float32)))
    if y_scale is None:
        return scaled_sum(node, total, scales)
    y_zero_point = whole_parameter(node, node.operand(8))
    return requantized(node, total, scales, whole_parameter(node, y_scale), y_zero_point)


@importer("MatMulIntegerToFloat", since=1, domain=MICROSOFT)
def matmul_integer_to_float(node: Node) -> SSAValue:
    """The product of the integers less their zero points, times both scales, plus a bias, in f32."""
    a_zero_point, b_zero_point = node.optional(4), node.optional(5)
    total = integer_matmul(
        *(node, node.operand(0), a_zero_point and parameter_of_rows(node, a_zero_point)),
        *(node.operand(1), b_zero_point and parameter_of_columns(node, b_zero_point)),
    )
    scales = [parameter_of_rows(node, node.operand(2)), parameter_of_columns(node, node.operand(3))]
    return _biased(node, scaled_sum(node, total, scales), node.optional(6))


@importer("DynamicQuantizeMatMul", since=1, domain=MICROSOFT)
def dynamic_quantize_matmul(node: Node) -> SSAValue:
    """The same of an `A` that is quantized here, as its numbers ask for."""
    a, scale, zero_point = dynamically_quantized(node, node.operand(0))
    b_zero_point = node.optional(3)
    total = integer_matmul(
        *(node, a, zero_point, node.operand(1), b_zero_point and parameter_of_columns(node, b_zero_point))
    )
    product = scaled_sum(node, total, [scale, parameter_of_columns(node, node.operand(2))])
    return _biased(node, product, node.optional(4))


def _biased(node: Node, value: SSAValue, bias: SSAValue | None) -> SSAValue:
    return value if bias is None else Formula(node).add(value, bias)


_attention_limit = without(attributes={"do_rotary": 0, "past_present_share_buffer": 0})


@importer("QAttention", since=1, domain=MICROSOFT, limit=_attention_limit, outputs=2)
def quantized_attention(node: Node) -> Sequence[SSAValue]:
    """As Attention, with a projection of quantized numbers and weights."""
    a_zero_point, b_zero_point = node.optional(6), node.optional(7)
    total = integer_matmul(
        *(node, node.operand(0), a_zero_point and whole_parameter(node, a_zero_point)),
        *(node.operand(1), b_zero_point and parameter_of_columns(node, b_zero_point)),
    )
    scales = [whole_parameter(node, node.operand(3)), parameter_of_columns(node, node.operand(4))]
    projected = _biased(node, scaled_sum(node, total, scales), node.operand(2))
    return self_attention(Formula(node), projected, mask=node.optional(5), past=node.optional(8))


# Operators between dequantize and quantize


def _qlinear(count: int, build: Callable[..., SSAValue]) -> ImportFunction:
    """The import of an operator on `count` tensors; the scale and the zero point of the result come last."""

    def function(node: Node) -> SSAValue:
        operands = [_dequantized(node, 3 * index) for index in range(count)]
        return _quantized(node, build(node, *operands), 3 * count, like=0)

    return function


def _dequantized(node: Node, index: int) -> SSAValue:
    """The tensor whose numbers are the input at `index`."""
    parameters = _parameters(node, index + 1)
    return node.add(graph.DequantizeOp(node.operand(index), *parameters)).result


def _quantized(node: Node, value: SSAValue, index: int, *, like: int) -> SSAValue:
    """With the scale and zero point at `index`, as numbers of the type of the input `like`."""
    return node.add(
        graph.QuantizeOp(value, *_parameters(node, index), node.type_of(like).element_type)
    ).result


def _parameters(node: Node, index: int) -> tuple[SSAValue, SSAValue | None]:
    zero_point = node.optional(index + 1)
    scale = whole_parameter(node, node.operand(index))
    return scale, None if zero_point is None else whole_parameter(node, zero_point)


def _leaky_relu(node: Node, x: SSAValue) -> SSAValue:
    return node.add(graph.LeakyReluOp(x, node.number("alpha", 0.01))).result


def _sigmoid(node: Node, x: SSAValue) -> SSAValue:
    return node.add(graph.SigmoidOp(x)).result


def _add(node: Node, a: SSAValue, b: SSAValue) -> SSAValue:
    return node.add(graph.AddOp(a, b)).result


def _mul(node: Node, a: SSAValue, b: SSAValue) -> SSAValue:
    return node.add(graph.MulOp(a, b)).result


def _average_pool(node: Node, x: SSAValue) -> SSAValue:
    formula, last = Formula(node), rank_of(x) - 1
    if not node.integer("channels_last", 0):
        return average_of_windows(node, x)
    pooled = average_of_windows(node, formula.transpose(x, [0, last, *range(1, last)]))
    return formula.transpose(pooled, [0, *range(2, last + 1), 1])


def _softmax(node: Node, x: SSAValue) -> SSAValue:
    """Along an axis, or as of versions before 13 over all dimensions from it on."""
    formula, shape = Formula(node), shape_of(x)
    axis = normalize_axis(node.integer("axis", -1), len(shape))
    if node.integer("opset") >= 13:
        return node.add(graph.SoftmaxOp(x, axis)).result
    rows = formula.reshape(x, (prod(shape[:axis]), prod(shape[axis:])))
    return formula.reshape(node.add(graph.SoftmaxOp(rows, 1)).result, shape)


for _op_type, _count, _build in (
    ("QLinearAdd", 2, _add),
    ("QLinearAveragePool", 1, _average_pool),
    ("QLinearLeakyRelu", 1, _leaky_relu),
    ("QLinearMul", 2, _mul),
    ("QLinearSigmoid", 1, _sigmoid),
    ("QLinearSoftmax", 1, _softmax),
):
    importer(_op_type, since=1, domain=MICROSOFT)(_qlinear(_count, _build))


@importer("QLinearGlobalAveragePool", since=1, domain=MICROSOFT)
def qlinear_global_average_pool(node: Node) -> SSAValue:
    """The sum of the integers less their zero point, times `x_scale / (y_scale * count)`."""
    formula, shape = Formula(node), node.shape_of(0)
    axes = range(1, len(shape) - 1) if node.integer("channels_last", 0) else range(2, len(shape))
    (x_scale, x_zero_point), (y_scale, y_zero_point) = _parameters(node, 1), _parameters(node, 3)
    x = formula.cast(node.operand(0), i32)
    if x_zero_point is not None:
        x = formula.sub(x, formula.cast(x_zero_point, i32))
    total = node.add(graph.ReduceSumOp(x, axes, keepdims=True)).result
    divisor = formula.scaled(y_scale, prod(shape[axis] for axis in axes))
    zero = formula.number(0, node.operand(0)) if y_zero_point is None else y_zero_point
    return requantized(node, total, [x_scale], divisor, zero)


@importer("QLinearConcat", since=1, domain=MICROSOFT)
def qlinear_concat(node: Node) -> SSAValue:
    """The scale and the zero point of the result come first."""
    parts = [_dequantized(node, index) for index in range(2, len(node.operands()), 3)]
    if not parts:
        raise node.error("expected at least one tensor, found none")
    return _quantized(node, Formula(node).concat(parts, node.integer("axis")), 0, like=2)


@importer("QLinearWhere", since=1, domain=MICROSOFT)
def qlinear_where(node: Node) -> SSAValue:
    """The condition comes first."""
    op = graph.WhereOp(node.operand(0), _dequantized(node, 1), _dequantized(node, 4))
    return _quantized(node, node.add(op).result, 7, like=1)
