"""Operators that work element by element."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from mlopt.compare import is_floating
from tests.fuzz.builder import (
    ANY,
    BF16,
    BOOL,
    F8,
    F16,
    F32,
    F64,
    FLOATS,
    I2,
    I4,
    I32,
    I64,
    INTEGERS,
    NUMBERS,
    SIGNED,
    U2,
    U4,
    U16,
    U32,
    U64,
    UNSIGNED,
    Builder,
    Unfit,
)  # fmt: skip
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value

RANKS = (0, 4)


@operator("HardSwish", since=14)
@operator("Mish", since=18)
@operator(
    "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Reciprocal Round Sigmoid Sin Sinh Softplus"
    " Softsign Sqrt Tan Tanh IsNaN"
)
def unary(b: Builder, name: str) -> object:
    x = b.tensor(FLOATS, RANKS, dynamic=True)
    if name == "Softplus" and x.dtype == F64 and any((array > 700).any() for array in x.arrays):
        raise Unfit("onnxruntime takes the logarithm of exp(x) + 1, which is infinite")
    return b.node(name, x)


@operator("Abs Neg Sign Relu")
def signed_unary(b: Builder, name: str) -> object:
    dtypes = (*FLOATS, *SIGNED) if name != "Relu" or b.opset >= 14 else FLOATS
    x = b.tensor(dtypes, RANKS, dynamic=True)
    if name == "Sign" and x.dtype == F16 and not x.finite:
        raise Unfit("onnxruntime makes it 0")
    return b.node(name, x)


@operator("Identity")
def identity(b: Builder, name: str) -> object:
    return b.node(name, b.tensor(ANY, RANKS, dynamic=True))


@operator("Gelu", since=20)
@operator("Swish", since=24)
@operator("LeakyRelu Elu Selu Celu ThresholdedRelu HardSigmoid Shrink IsInf")
def with_parameters(b: Builder, name: str) -> object:
    dtypes = (F32,) if name == "Celu" else (F32, F32, F64) if name == "IsInf" and b.opset < 20 else FLOATS
    x = b.tensor(dtypes, RANKS, dynamic=True)
    number = b.choice((None, 0.25, 1.0, 2.0, -0.5))
    positive = b.choice((None, 0.25, 1.0, 2.0))
    match name:
        case "LeakyRelu" | "Elu" | "ThresholdedRelu" | "Swish":
            return b.node(name, x, alpha=number)
        case "Celu":
            return b.node(name, x, alpha=positive)
        case "Selu":
            return b.node(name, x, alpha=positive, gamma=number)
        case "HardSigmoid":
            return b.node(name, x, alpha=number, beta=b.choice((None, 0.25)))
        case "Shrink":
            return b.node(name, x, lambd=positive, bias=number)
        case "Gelu":
            return b.node(name, x, approximate=b.choice((None, "none", "tanh")))
        case _:
            flags = {f"detect_{sign}": b.choice((None, 0, 1)) for sign in ("negative", "positive")}
            return b.node(name, x, **flags)


@operator("PRelu")
def prelu(b: Builder, name: str) -> object:
    x = b.tensor((*FLOATS, I32, I64), RANKS)
    shape = tuple(b.choice((1, size)) for size in x.shape)
    return b.node(name, x, b.parameter(x.dtype, shape[b.integer(0, len(shape)) :]))


def _numbers(b: Builder) -> tuple[np.dtype, ...]:
    """The types of arithmetic: integers of 8 and 16 bits came later."""
    return NUMBERS if b.opset >= 14 else (*FLOATS, I32, I64, U32, U64)


@operator("Add Sub Mul")
def arithmetic(b: Builder, name: str) -> object:
    x = b.tensor(_numbers(b), RANKS, dynamic=True)
    y = x if b.rarely() else b.partner(x)
    return b.node(name, *((y, x) if b.flag() else (x, y)))


@operator("Div")
def divide(b: Builder, name: str) -> object:
    x = b.tensor(_numbers(b), RANKS, dynamic=True)
    if is_floating(x.arrays[0]):
        return b.node(name, x, x if b.rarely() else b.partner(x))
    return b.node(name, x, _divisor(b, x))


def _divisor(b: Builder, x: Value) -> Value:
    """Integers that are neither 0 nor -1, so that no quotient overflows."""
    options = (-7, -3, -2, 1, 2, 5) if x.dtype.kind == "i" else (1, 2, 3, 7)
    shape = () if x.dynamic else x.shape[b.integer(0, x.rank) :]
    arrays = [np.asarray(b.seed().choice(options, shape)).astype(x.dtype) for _ in range(b.program.runs)]
    return b.new(arrays)


@operator("Mod")
def modulo(b: Builder, name: str) -> object:
    x = b.tensor(NUMBERS, RANKS, dynamic=True)
    if is_floating(x.arrays[0]):
        return b.node(name, x, b.partner(x), fmod=1)
    return b.node(name, x, _divisor(b, x), fmod=b.choice((None, 0, 1)))


@operator("Pow")
def power(b: Builder, name: str) -> object:
    exponents = (0, 1, 2, 3, -1, 0.5, -2, 4, 2.5)
    if b.rarely():  # of integers, with exponents that truncate; numbers as small as the power can be
        dtype, shape = b.choice((I32, I64)), b.shape(2)
        x = b.new([b.seed().integers(1, 9, shape).astype(dtype) for _ in range(b.program.runs)])
        return b.node(name, x, b.new([np.array(b.choice((0.5, 1.5, 2.0, 3.0)), F32)] * b.program.runs))
    x = b.tensor(FLOATS, RANKS, dynamic=True)
    if b.flag():
        dtype = b.choice((x.dtype, F32, I64, I32))
        number = b.choice(exponents if is_floating(np.empty(0, dtype)) else (0, 1, 2, 3))
        return b.node(name, x, b.new([np.array(number, dtype)] * b.program.runs))
    return b.node(name, x, b.partner(x))


@operator("Equal Less LessOrEqual Greater GreaterOrEqual")
def comparison(b: Builder, name: str) -> object:
    x = b.tensor((*NUMBERS, BOOL) if name == "Equal" else NUMBERS, RANKS, dynamic=True)
    return b.node(name, x, b.partner(x))


@operator("And Or Xor")
def logical(b: Builder, name: str) -> object:
    x = b.tensor((BOOL,), RANKS, dynamic=True)
    return b.node(name, x, b.partner(x))


@operator("Not")
def logical_not(b: Builder, name: str) -> object:
    return b.node(name, b.tensor((BOOL,), RANKS, dynamic=True))


@operator("BitwiseAnd BitwiseOr BitwiseXor", since=18)
def bitwise(b: Builder, name: str) -> object:
    x = b.tensor(INTEGERS, RANKS, dynamic=True)
    return b.node(name, x, b.partner(x))


@operator("BitwiseNot", since=18)
def bitwise_not(b: Builder, name: str) -> object:
    return b.node(name, b.tensor(INTEGERS, RANKS, dynamic=True))


@operator("BitShift")
def bit_shift(b: Builder, name: str) -> object:
    x = b.tensor(UNSIGNED, RANKS)
    arrays = [
        np.asarray(b.seed().integers(0, 8 * x.dtype.itemsize, x.shape)).astype(x.dtype) for _ in range(2)
    ]
    return b.node(name, x, b.new(arrays), direction=b.choice(("LEFT", "RIGHT")))


@operator("Max Min Sum Mean")
def variadic(b: Builder, name: str) -> object:
    x = b.tensor(FLOATS if name in ("Sum", "Mean") else NUMBERS, RANKS, dynamic=True)
    others = [b.partner(x) for _ in range(b.integer(0, 2))]
    return b.node(name, x, *others)


@operator("Where")
def where(b: Builder, name: str) -> object:
    x = b.tensor(ANY, RANKS)
    y = b.partner(x, dynamic=False)
    shape = np.broadcast_shapes(x.shape, y.shape)
    shape = tuple(b.choice((1, size)) for size in shape)
    return b.node(name, b.tensor((BOOL,), shape=shape[b.integer(0, len(shape)) :]), x, y)


@operator("Clip")
def clip(b: Builder, name: str) -> object:
    x = b.tensor(NUMBERS if b.opset >= 12 else FLOATS, RANKS, dynamic=True)
    low = 1 if x.dtype.kind == "u" else -1
    shape = (1,) * b.rarely()
    bounds = [
        b.new([np.full(shape, bound, x.dtype)] * b.program.runs) for bound in (low, b.choice((2, 3, low)))
    ]
    return b.node(name, x, *(bound if b.flag() else None for bound in bounds))


SMALL = (I4, U4, I2, U2, *F8)


@operator("Cast")
@operator("CastLike", since=19)
def cast(b: Builder, name: str) -> object:
    since = {BF16: 13, I4: 21, U4: 21, I2: 25, U2: 25} | dict.fromkeys(F8, 19)
    dtypes = [dtype for dtype in (*ANY, BF16, *SMALL) if since.get(dtype, 1) <= b.opset]
    x = b.tensor(dtypes, RANKS, dynamic=True)
    to = b.choice(dtypes)
    if is_floating(x.arrays[0]) and not is_floating(np.empty(0, to)) and to != BOOL:
        _require_in_range(x, to)
    if name == "CastLike":
        return b.node(name, x, b.tensor((to,), RANKS))
    return b.node(name, x, to=helper.np_dtype_to_tensor_dtype(to))


def _require_in_range(x: Value, to: np.dtype) -> None:
    """A number that the type does not have may become any."""
    import ml_dtypes

    info = ml_dtypes.iinfo(to) if to.kind == "V" else np.iinfo(to)
    for array in x.arrays:
        wide = array.astype(np.float64)
        if not np.isfinite(wide).all() or (wide <= int(info.min) - 1).any() or (wide >= int(info.max)).any():
            raise Unfit("numbers that the type does not have")


@operator("BitCast", since=26)
def bit_cast(b: Builder, name: str) -> object:
    pairs = {F32: (I32, U32), I32: (F32, U32), F64: (I64, U64), F16: (U16,), U16: (F16, BF16)}
    x = b.tensor(tuple(pairs), RANKS)
    to = b.choice(pairs[x.dtype])
    return b.node(name, x, to=helper.np_dtype_to_tensor_dtype(to))


@operator("Dropout")
def dropout(b: Builder, name: str) -> object:
    x = b.tensor(FLOATS, RANKS)
    if b.opset < 12:
        return b.node(name, x, ratio=0.25)
    ratio = b.numbers(0.5, F32, bound=False) if b.flag() else None
    mode = b.numbers(False, BOOL, bound=False) if b.flag() else None
    return b.node(name, x, ratio, mode, outputs=b.integer(1, 2))


@operator("EyeLike")
def eye_like(b: Builder, name: str) -> object:
    dtype = b.choice((None, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL))
    return b.node(name, b.tensor((F32, I64), 2), k=b.choice((None, 0, 1, -1, 5)), dtype=dtype)


@operator("Trilu", since=14)
def trilu(b: Builder, name: str) -> object:
    k = b.numbers(b.choice((0, 1, -1, 5, -7)), bound=False) if b.flag() else None
    return b.node(name, b.tensor(ANY, (2, 4)), k, upper=b.choice((None, 0, 1)))
