"""What follows products and convolutions: biases, residuals and activations in any order, and their near misses.

All values in between may be used by what comes after, or be outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.builder import F32, F64, I32, Builder
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value

Shape = tuple[int, ...]


@operator("product-tail")
def product_and_what_follows(b: Builder, name: str) -> object:
    x = b.tensor((F32, F32, F64, I32), (1, 3), special=False)
    columns = b.integer(0, 4)
    y = _product(b, x, columns)
    if b.rarely():
        (y,) = b.node("Add", y, _product(b, x, columns))
    return _tail(b, y, [(columns,), (columns,), (*(1 for _ in y.shape[1:]), columns)])


@operator("conv-tail")
def convolution_and_what_follows(b: Builder, name: str) -> object:
    group, rank = b.choice((1, 1, 2)), b.integer(1, 2)
    channels, out = group * b.integer(1, 2), group * b.integer(1, 2)
    sizes = [b.integer(2, 5) for _ in range(rank)]
    x = b.tensor((F32,), shape=(b.integer(1, 2), channels, *sizes), special=False)
    transposed = b.rarely()
    shape = (channels, out // group) if transposed else (out, channels // group)
    bias = b.parameter(F32, (out,)) if b.flag() else None
    weight = b.parameter(F32, (*shape, *(b.integer(1, 2) for _ in sizes)))
    (y,) = b.node("ConvTranspose" if transposed else "Conv", x, weight, bias, group=group)
    return _tail(b, y, [(out, *(1 for _ in sizes)), (1, out, *(1 for _ in sizes))])


def _product(b: Builder, x: Value, columns: int) -> Value:
    return b.node("MatMul", x, b.parameter(x.dtype, (x.shape[-1], columns)))[0]


def _tail(b: Builder, y: Value, biases: Sequence[Shape]) -> Value:
    """Up to three sums and activations, in any order."""
    for _ in range(b.integer(1, 3)):
        if b.integer(0, 2):
            (y,) = b.node("Add", *b.rng.sample([y, _addend(b, y, biases)], 2))
        elif y.dtype != I32:
            y = _activation(b, y)
    return y


def _addend(b: Builder, y: Value, biases: Sequence[Shape]) -> Value:
    """A bias, a residual, or what is neither, or depends on the sum itself."""
    match b.choice(
        ("bias", "bias", "residual", "residual", "itself", "by another way", "broadcast", "enlarging")
    ):
        case "bias":
            return b.parameter(y.dtype, b.choice(biases))
        case "residual":
            return b.tensor((y.dtype,), shape=y.shape, special=False)
        case "itself":
            return y
        case "by another way":
            return b.node(b.choice(("Neg", "Abs")), y)[0]
        case "broadcast":
            return b.parameter(y.dtype, tuple(b.choice((1, size)) for size in y.shape))
        case _:
            return b.parameter(y.dtype, (2, *(1 for _ in y.shape)))


def _activation(b: Builder, y: Value) -> Value:
    kinds = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip", "HardSwish", "Gelu")
    since = {"HardSwish": 14, "Gelu": 20}
    match b.choice([kind for kind in kinds if since.get(kind, 0) <= b.opset]):
        case "Clip":
            low, high = (b.numbers(number, y.dtype, bound=False) for number in (-0.5, 1.0))
            return b.node("Clip", y, *b.choice(((low, high), (low, None), (None, high))))[0]
        case name:
            return b.node(name, y)[0]
