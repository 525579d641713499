"""Quantization, and operators on quantized tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.builder import F8, F32, I4, I8, I16, I32, U4, U8, U16, Builder
from tests.fuzz.operators.table import operator
from tests.fuzz.program import MICROSOFT, Value

BYTES = (U8, I8)


def _scale(b: Builder, shape: Sequence[int] = ()) -> Value:
    array = np.asarray(b.seed().uniform(0.01, 0.1, shape)).astype(F32)
    if b.flag():
        array = np.full(shape, b.choice((0.125, 0.0625, 0.5)), F32)
    return b.new([array] * 2, constant=b.integer(0, 3) > 0, structural=True)


def _zero(b: Builder, dtype: np.dtype, shape: Sequence[int] = ()) -> Value:
    return b.new([b.fill(dtype, shape)] * 2, constant=b.integer(0, 3) > 0, structural=True)


def _side(b: Builder, dtype: np.dtype, *, constant: bool = False) -> tuple[Value, Value]:
    side = _scale(b), _zero(b, dtype)
    if constant:
        for value in side:
            value.kind = "constant"
    return side


@operator("QuantizeLinear DequantizeLinear")
def quantize(b: Builder, name: str) -> object:
    dtypes: tuple[np.dtype, ...] = (U8, I8, U8, I8)
    if b.opset >= 19:
        dtypes = (*dtypes, *F8[:1])
    if b.opset >= 21:
        dtypes = (*dtypes, I16, U16, I4, U4)
    dtype = b.choice(dtypes)
    if name == "QuantizeLinear":
        x = b.tensor((F32,), (0, 4), special=False)
    else:
        x = b.tensor((dtype, *((I32,) if dtype == I8 else ())), (0, 4))
    shape: tuple[int, ...] = ()
    attributes: dict[str, Any] = {}
    if x.rank and b.flag():
        axis = b.axis(x.rank)
        shape, attributes["axis"] = (x.shape[axis],), axis
        divisors = [n for n in (1, 2, 3) if x.shape[axis] and x.shape[axis] % n == 0]
        if b.opset >= 21 and divisors and b.flag() and x.rank > 1:
            block = b.choice(divisors)
            blocks = list(x.shape)
            blocks[axis] //= block
            shape, attributes["block_size"] = tuple(blocks), block
    if name == "DequantizeLinear":
        dtype = x.dtype
        zero = _zero(b, dtype, shape) if dtype != I32 and b.flag() else None
    else:
        zero = _zero(b, dtype, shape) if dtype != U8 or b.flag() else None
    if zero is not None and dtype in F8:
        zero.arrays = tuple(np.zeros_like(array) for array in zero.arrays)
    return b.node(name, x, _scale(b, shape), zero, **attributes)


@operator("qdq")
def quantized_region(b: Builder, name: str) -> object:
    """What quantisers put around an operator: quantize, dequantize, the operator, quantize, dequantize."""
    x = b.tensor((F32,), (2, 4), special=False, least=1)
    side = _side(b, b.choice(BYTES))
    (q,) = b.node("QuantizeLinear", x, *side)
    (d,) = b.node("DequantizeLinear", q, *side)
    if b.flag():
        (y,) = b.node("Relu", d)
    else:
        weight = b.new([b.fill(I8, (x.shape[-1], b.integer(1, 4)))] * 2, constant=True)
        (w,) = b.node("DequantizeLinear", weight, _scale(b), None)
        (y,) = b.node("MatMul", d, w)
    if b.flag():
        side = _side(b, b.choice(BYTES))
        (q,) = b.node("QuantizeLinear", y, *side)
        (y,) = b.node("DequantizeLinear", q, *side)
    return b.node("Mul", y, b.numbers(0.5, F32, bound=False))


@operator("qdq_conv")
def quantized_conv_region(b: Builder, name: str) -> object:
    """A convolution of quantized numbers, with bias and relu, quantized again; then what moves or adds the integers."""
    c, out, x_side, y_side = (
        b.integer(1, 3),
        b.integer(1, 3),
        _side(b, b.choice(BYTES)),
        _side(b, b.choice(BYTES)),
    )
    x = b.tensor((F32,), shape=(1, c, b.integer(3, 6), b.integer(3, 6)), special=False)
    (q,) = b.node("QuantizeLinear", x, *x_side)
    (d,) = b.node("DequantizeLinear", q, *x_side)
    weight = b.new([b.fill(I8, (out, c, 2, 3))] * 2, constant=True)
    (w,) = b.node("DequantizeLinear", weight, _scale(b, (out,)), None, axis=0)
    bias = b.new([b.fill(F32, (out,), special=False)] * 2, constant=True) if b.flag() else None
    (y,) = b.node("Conv", d, w, bias, pads=[b.integer(0, 1) for _ in range(4)] if b.flag() else None)
    if b.flag():
        (y,) = b.node("Relu", y)
    for kind in (b.choice(("Transpose", "MaxPool", "Add")), None):
        (q,) = b.node("QuantizeLinear", y, *y_side)
        (y,) = b.node("DequantizeLinear", q, *y_side)
        if kind == "MaxPool":
            (y,) = b.node(kind, y, kernel_shape=[2, 1])
        elif kind is not None:
            (y,) = b.node(kind, *([y, y] if kind == "Add" else [y]))
    return y


@operator("DynamicQuantizeLinear")
def dynamic_quantize(b: Builder, name: str) -> object:
    return b.node(name, b.tensor((F32,), (1, 3), least=1, special=False), outputs=3)


@operator("MatMulInteger")
def integer_matmul(b: Builder, name: str) -> object:
    x = b.tensor(BYTES, (2, 3))
    columns = b.size(least=1)
    dtype = b.choice(BYTES)
    y = b.new([b.fill(dtype, (x.shape[-1], columns)) for _ in range(2)])
    zeros = [
        _zero(b, x.dtype) if b.flag() else None,
        _zero(b, dtype, b.choice(((), (columns,)))) if b.flag() else None,
    ]
    return b.node(name, x, y, *zeros)


@operator("ConvInteger")
def integer_convolution(b: Builder, name: str) -> object:
    c, h, w = b.integer(1, 3), b.integer(3, 6), b.integer(3, 6)
    x = b.tensor((U8,), shape=(1, c, h, w))
    weight = b.new([b.fill(U8, (b.integer(1, 3), c, 2, 3))] * 2)
    zeros = [_zero(b, U8) if b.flag() else None, _zero(b, U8) if b.flag() else None]
    pads = [b.integer(0, 1) for _ in range(4)] if b.flag() else None
    return b.node(name, x, weight, *zeros, pads=pads, strides=b.choice((None, [1, 2])))


@operator("QLinearMatMul")
def quantized_matmul(b: Builder, name: str) -> object:
    # Of no columns, onnxruntime gives 0 whatever the zero point is.
    x = b.tensor(BYTES, (2, 3), where=lambda v: v.shape[-1] > 0)
    dtype = b.choice(BYTES) if x.dtype == U8 else I8
    y = b.new([b.fill(dtype, (x.shape[-1], b.size(least=1)))] * 2)
    return b.node(name, x, *_side(b, x.dtype), y, *_side(b, dtype), *_side(b, x.dtype))


@operator("QLinearConv")
def quantized_convolution(b: Builder, name: str) -> object:
    c, h, w, out = b.integer(1, 3), b.integer(3, 6), b.integer(3, 6), b.integer(1, 3)
    x = b.tensor((U8,), shape=(1, c, h, w))
    dtype = b.choice(BYTES)
    weight = b.new([b.fill(dtype, (out, c, 2, 3))] * 2)
    per_channel = b.flag()
    scale = _scale(b, (out,) if per_channel else ())
    zero = _zero(b, dtype)
    if per_channel:
        zero = b.new([np.full((out,), zero.arrays[0])] * 2, structural=True)
    bias = b.new([b.fill(I32, (out,))] * 2, constant=True) if b.flag() else None
    pads = [b.integer(0, 1) for _ in range(4)] if b.flag() else None
    operands = (x, *_side(b, U8), weight, scale, zero, *_side(b, U8), bias)
    return b.node(name, *operands, pads=pads, strides=b.choice((None, [2, 1])))


@operator(
    "QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearConcat QLinearSoftmax QLinearWhere",
    domain=MICROSOFT,
)
def quantized_elementwise(b: Builder, name: str) -> object:
    x = b.tensor(BYTES, (1, 4), least=1)
    # onnxruntime makes tables from scales and zero points of these; QLinearWhere crashes where one is no constant.
    tabled = name in ("QLinearSoftmax", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearWhere")
    side, out = (_side(b, x.dtype, constant=tabled) for _ in range(2))
    match name:
        case "QLinearAdd" | "QLinearMul":
            y = b.partner(x)
            operands: list[Value] = [x, *side, y, *_side(b, x.dtype), *out]
            return b.node(name, *operands, domain=MICROSOFT)
        case "QLinearSigmoid":
            return b.node(name, x, *side, *out, domain=MICROSOFT)
        case "QLinearLeakyRelu":
            return b.node(name, x, *side, *out, alpha=b.choice((None, 0.3)), domain=MICROSOFT)
        case "QLinearConcat":
            y = b.tensor([x.dtype], shape=x.shape)
            return b.node(name, *out, x, *side, y, *_side(b, x.dtype), axis=b.axis(x.rank), domain=MICROSOFT)
        case "QLinearSoftmax":
            return b.node(name, x, *side, *out, axis=b.axis(x.rank), opset=13, domain=MICROSOFT)
        case _:
            mask = b.tensor((np.dtype(np.bool_),), shape=x.shape)
            y = b.tensor([x.dtype], shape=x.shape)
            return b.node(name, mask, x, *side, y, *_side(b, x.dtype, constant=True), *out, domain=MICROSOFT)


@operator("QLinearAveragePool QLinearGlobalAveragePool", domain=MICROSOFT)
def quantized_pool(b: Builder, name: str) -> object:
    x = b.tensor(BYTES, 4, least=2)
    side, out = _side(b, x.dtype), _side(b, x.dtype)
    if name == "QLinearGlobalAveragePool":
        return b.node(name, x, *side, *out, channels_last=b.choice((0, 1)), domain=MICROSOFT)
    pads = [b.integer(0, 1) for _ in range(4)]
    return b.node(
        name, x, *side, *out, kernel_shape=[2, 2], pads=pads, strides=b.choice((None, [2, 1])),
        count_include_pad=b.choice((None, 1)), domain=MICROSOFT,
    )  # fmt: skip


@operator("QGemm", domain=MICROSOFT)
def quantized_gemm(b: Builder, name: str) -> object:
    x = b.tensor((U8, I8), 2, least=1)
    dtype, columns = b.choice(BYTES) if x.dtype == U8 else I8, b.size(least=1)
    flags = b.choice((0, 1)), b.choice((0, 1))
    inner = x.shape[0] if flags[0] else x.shape[1]
    y = b.new([b.fill(dtype, (columns, inner) if flags[1] else (inner, columns))] * 2, constant=True)
    bias = b.new([b.fill(I32, (columns,))] * 2, constant=True) if b.flag() else None
    out: tuple[Value, ...] = _side(b, x.dtype) if b.flag() else ()
    operands = (x, *_side(b, x.dtype), y, *_side(b, dtype), bias, *out)
    return b.node(
        name, *operands, transA=flags[0], transB=flags[1], alpha=b.choice((None, 0.5)), domain=MICROSOFT
    )


@operator("MatMulIntegerToFloat DynamicQuantizeMatMul", domain=MICROSOFT)
def products_of_bytes(b: Builder, name: str) -> object:
    columns, dtype = b.size(least=1), b.choice(BYTES)
    scale_shape = b.choice(((), (columns,)))
    if name == "DynamicQuantizeMatMul":
        x = b.tensor((F32,), (2, 3), special=False, least=1)
        y = b.new([b.fill(dtype, (x.shape[-1], columns))] * 2)
        zero = _zero(b, dtype, scale_shape) if b.flag() else None
        return b.node(name, x, y, _scale(b, scale_shape), zero, domain=MICROSOFT)
    x = b.tensor(BYTES, (2, 3), least=1)
    if x.dtype == I8:
        dtype = I8
    y = b.new([b.fill(dtype, (x.shape[-1], columns))] * 2)
    zeros = [_zero(b, x.dtype) if b.flag() else None, _zero(b, dtype, scale_shape) if b.flag() else None]
    return b.node(name, x, y, _scale(b), _scale(b, scale_shape), *zeros, domain=MICROSOFT)


@operator("MatMulNBits", domain=MICROSOFT)
def packed_matmul(b: Builder, name: str) -> object:
    k, n, block = b.choice((16, 20, 32, 40)), b.integer(1, 4), 16
    blocks = -(-k // block)
    x = b.tensor((F32,), shape=(b.integer(1, 3), k), special=False)
    weight = b.new(
        [np.asarray(b.seed().integers(0, 256, (n, blocks, block // 2))).astype(U8)] * 2, constant=True
    )
    scale = b.new([np.asarray(b.seed().uniform(0.05, 0.2, n * blocks)).astype(F32)] * 2, constant=True)
    zero = None
    if b.flag():
        zero = b.new(
            [np.asarray(b.seed().integers(0, 256, n * -(-blocks // 2))).astype(U8)] * 2, constant=True
        )
    return b.node(name, x, weight, scale, zero, K=k, N=n, bits=4, block_size=block, domain=MICROSOFT)
