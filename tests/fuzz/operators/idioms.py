"""What exporters and people write for one thing: groups of nodes that passes look for, with their near misses.

All values in between may be used by what comes after, or be outputs.
"""

from __future__ import annotations

import numpy as np

from tests.fuzz.builder import F32, I32, Builder
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value


def _number(b: Builder, number: float) -> Value:
    return b.new([np.array(number, F32)] * b.program.runs, constant=True)


def _activation(b: Builder, x: Value) -> Value:
    match b.choice(("Relu", "Sigmoid", "Clip", "none", "LeakyRelu", "HardSwish")):
        case "none":
            return x
        case "Clip":
            return b.node("Clip", x, _number(b, 0.0), _number(b, 6.0))[0]
        case "HardSwish" if b.opset < 14:
            return x
        case name:
            return b.node(name, x)[0]


@operator("conv-norm")
def normalized_convolution(b: Builder, name: str) -> object:
    group = b.choice((1, 1, 2))
    channels, out = group * b.integer(1, 2), group * b.integer(1, 3)
    x = b.tensor((F32,), shape=(b.integer(1, 2), channels, b.integer(3, 6), b.integer(3, 6)), special=False)
    bias = b.parameter(F32, (out,)) if b.flag() else None
    transposed = b.rarely()
    shape = (channels, out // group, 2, 3) if transposed else (out, channels // group, 2, 3)
    weight = b.parameter(F32, shape)
    pads = [b.integer(0, 1) for _ in range(4)]
    (y,) = b.node("ConvTranspose" if transposed else "Conv", x, weight, bias, group=group, pads=pads)
    if b.rarely():
        (y,) = b.node("Add", y, b.parameter(F32, (out, 1, 1)))
    parameters = [b.parameter(F32, (out,), positive=i == 3) for i in range(4)]
    (y,) = b.node("BatchNormalization", y, *parameters)
    if b.flag():
        (y,) = b.node("Add", y, b.tensor((F32,), shape=y.shape, special=False))
    return _activation(b, y)


@operator("linear")
def linear(b: Builder, name: str) -> object:
    x = b.tensor((F32,), (2, 3), least=1, special=False)
    columns = b.integer(1, 6)
    if x.rank == 2 and b.flag():
        (y,) = b.node(
            "Gemm", x, b.parameter(F32, (columns, x.shape[-1])), b.parameter(F32, (columns,)), transB=1
        )
    else:
        (y,) = b.node("MatMul", x, b.parameter(F32, (x.shape[-1], columns)))
        (y,) = b.node("Add", *b.rng.sample([y, b.parameter(F32, (columns,))], 2))
    y = _activation(b, y)
    if y.rank == 2 and b.rarely():
        parameters = [b.parameter(F32, (columns,), positive=i == 3) for i in range(4)]
        (y,) = b.node("BatchNormalization", y, *parameters)
    return b.node("Add", y, b.tensor((F32,), shape=y.shape, special=False)) if b.flag() else y


@operator("movements")
def movements(b: Builder, name: str) -> object:
    """Transposes, reshapes, slices and concats that nearly cancel, with operators between them."""
    x = b.tensor((F32,), (2, 4), least=1)
    y = x
    for _ in range(b.integer(2, 5)):
        match b.choice(
            ("transpose", "transpose", "back", "reshape", "slice", "unary", "binary", "concat", "cast")
        ):
            case "transpose":
                (y,) = b.node("Transpose", y, perm=b.permutation(y.rank))
            case "back" if y.rank == x.rank:
                (y,) = b.node("Transpose", y, perm=list(reversed(range(y.rank))))
            case "reshape":
                (y,) = (
                    b.node(
                        "Reshape", y, b.numbers(b.choice((x.shape, y.shape, (-1, y.shape[-1]))), bound=False)
                    )
                    if (y.arrays[0].size == x.arrays[0].size)
                    else (y,)
                )
            case "slice":
                axis = b.integer(0, y.rank - 1)
                numbers = [[b.choice((0, 1, -1))], [b.choice((2**31, -1, 2))], [axis], [b.choice((1, 1, 2))]]
                if numbers[0][0] < y.shape[axis] - 1:
                    (y,) = b.node("Slice", y, *(b.numbers(values, bound=False) for values in numbers))
            case "unary":
                (y,) = b.node(b.choice(("Relu", "Neg", "Abs")), y)
            case "binary":
                (y,) = b.node(
                    b.choice(("Add", "Sub", "Mul")), *b.rng.sample([y, b.partner(y, dynamic=False)], 2)
                )
            case "concat":
                (y,) = b.node("Concat", y, y, axis=b.integer(0, y.rank - 1))
            case _:
                (y,) = b.node("Cast", b.node("Cast", y, to=11)[0], to=1)
        if 0 in y.shape or y.rank == 0:
            break
    return y


@operator("algebra")
def algebra(b: Builder, name: str) -> object:
    """Two or three steps of arithmetic with constants, of which rules make fewer."""
    x = b.tensor((F32, F32, I32), (1, 3), special=False)
    floats = x.dtype == F32

    def number() -> Value:
        numbers = (0, 1, -1, 2, 4, 3, 0.25, 0.3) if floats else (0, 1, -1, 2, 4, 3)
        array = np.full(b.choice(((), (), (1,), x.shape[-1:])), b.choice(numbers), x.dtype)
        return b.new([array] * b.program.runs, constant=True)

    y = x
    for _ in range(b.integer(2, 3)):
        match b.choice(("unary", "constant", "constant", "partner", "where")):
            case "unary":
                (y,) = b.node(
                    b.choice(("Neg", "Abs", "Relu") if floats or b.opset >= 14 else ("Neg", "Abs")), y
                )
            case "constant":
                kinds = ("Add", "Sub", "Mul", "Min", "Max", *(("Div", "Pow") if floats else ()))
                operands = [y, number()]
                (y,) = b.node(b.choice(kinds), *b.rng.sample(operands, 2))
            case "partner":
                (y,) = b.node(b.choice(("Add", "Sub", "Mul", "Min", "Max")), y, b.choice((x, y)))
            case _:
                (chosen,) = b.node("Less", x, number())
                if b.flag():
                    (chosen,) = b.node("Not", chosen)
                (y,) = b.node("Where", chosen, y, number())
    return y
