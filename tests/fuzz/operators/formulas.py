"""Norms, activations and rotary embeddings as exporters write them, and formulas that nearly are one.

Each has its numbers, its axes or its shapes wrong now and then; all values in between may be used by what comes after,
or be outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.fuzz.bounds import largest
from tests.fuzz.builder import F32, F64, I32, Builder, Unfit
from tests.fuzz.operators.table import operator
from tests.fuzz.program import Value

FLOATS = (F32, F32, F32, F64)
"""Not f16: onnxruntime, which runs what is exported, leaves out roundings between two operators."""
END = 2**31


class Formula:
    """Nodes of a formula of `x`: numbers have its type."""

    def __init__(self, b: Builder, x: Value):
        self.b = b
        self.x = x

    def number(self, *numbers: float) -> Value:
        """One of the numbers, of rank 0, or now and then of a shape that broadcasts, or enlarges what it meets."""
        shape = self.b.choice(((), (), (), (1,), (1,) * self.x.rank, (1,) * (self.x.rank + 1)))
        array = np.full(shape, self.b.choice(numbers), self.x.dtype)
        return self.b.new([array] * self.b.program.runs, constant=True)

    def __call__(self, op_type: str, *operands: Value, **attributes: object) -> Value:
        return self.b.node(op_type, *operands, **attributes)[0]

    def swapped(self, op_type: str, *operands: Value) -> Value:
        """A commutative operation of its operands in any sequence."""
        return self(op_type, *self.b.rng.sample(operands, len(operands)))

    def scaled(self, value: Value, *factors: float) -> Value:
        if self.b.flag():
            return self.swapped("Mul", value, self.number(*factors))
        return self("Div", value, self.number(*(1 / factor for factor in factors)))

    def mean(self, value: Value, axes: Sequence[int]) -> Value:
        keepdims = int(not self.b.rarely())
        if self.b.opset >= 18:
            return self.b.node("ReduceMean", value, self.b.numbers(axes, bound=False), keepdims=keepdims)[0]
        return self.b.node("ReduceMean", value, axes=list(axes), keepdims=keepdims)[0]

    def square(self, value: Value) -> Value:
        if self.b.flag():
            return self("Mul", value, value)
        return self("Pow", value, self.number(2.0, 2.0, 2.0, 3.0))

    def row(self) -> Value:
        """A parameter of a norm: a row, or something else that broadcasts."""
        shape = self.x.shape
        return self.b.parameter(
            self.x.dtype,
            self.b.choice((shape[-1:], shape[-1:], (1, *shape[-1:]), (*shape[-2:-1], 1), (1,), shape)),
        )


@operator("layer-norm rms-norm")
def norm(b: Builder, name: str) -> object:
    # Rows of two numbers at least: of one the difference from the mean is 0, or what rounding makes of it.
    f = Formula(b, b.tensor(FLOATS, (2, 3), least=2 - b.rarely(), special=False))
    axes = b.choice(([-1], [-1], [-1], [0], [-2, -1]))
    d = f.x if name == "rms-norm" else f("Sub", f.x, f.mean(f.x, b.choice((axes, axes, axes, [0]))))
    shifted = f.mean(f.square(d), axes)
    if not b.rarely():
        shifted = f.swapped("Add", shifted, f.number(1e-5, 1e-5, 0.1, 0.0))
    match b.choice(("Div", "Reciprocal", "Pow", "scale first")):
        case "Div":
            y = f("Div", d, f("Sqrt", shifted))
        case "Reciprocal":
            y = f.swapped("Mul", d, f("Reciprocal", f("Sqrt", shifted)))
        case "Pow":
            y = f.swapped("Mul", d, f("Pow", shifted, f.number(-0.5, -0.5, -0.5, -0.4)))
        case _:
            y = f.swapped("Mul", d, f.swapped("Mul", f("Reciprocal", f("Sqrt", shifted)), f.row()))
    if b.flag():
        y = f.swapped("Mul", y, f.row())
    return f.swapped("Add", y, f.row()) if b.flag() else y


def _product(f: Formula, *values: Value) -> Value:
    """The product of all, in any sequence."""
    remaining = list(values)
    while len(remaining) > 1:
        a, b = (remaining.pop(f.b.integer(0, len(remaining) - 1)) for _ in range(2))
        remaining.append(f("Mul", a, b))
    return remaining[0]


@operator("gelu")
def gelu(b: Builder, name: str) -> object:
    f = Formula(b, b.tensor(FLOATS, (0, 3), special=False))
    x = f.x
    if b.flag():
        gate = f("Erf", f.scaled(x, 2**-0.5, 2**-0.5, 2**-0.5, 0.7))
    else:
        cubed = _product(f, x, x, x) if b.flag() else f("Pow", x, f.number(3.0))
        inner = f.swapped("Add", x, f.scaled(cubed, 0.044715, 0.044715, 0.05))
        gate = f("Tanh", f.scaled(inner, (2 / np.pi) ** 0.5))
    if b.rarely():
        gate = f.scaled(gate, 0.5)
        return _product(f, x, f.swapped("Add", gate, f.number(0.5, 0.5, 1.0)))
    gate = f.swapped("Add", gate, f.number(1.0, 1.0, 1.0, 0.9))
    return _product(f, x, gate, f.number(0.5, 0.5, 0.5, 0.6))


@operator("swish")
def swish(b: Builder, name: str) -> object:
    f = Formula(b, b.tensor(FLOATS, (0, 3), special=False))
    inner = b.choice((f.x, f.x, None)) or f.scaled(f.x, 1.702, 0.5, -1.0)
    if b.rarely():
        inner = f.swapped("Add", inner, f.number(0.5))
    match b.choice(("sigmoid", "quotient", "reciprocal")):
        case "sigmoid":
            return f.swapped("Mul", f.x, f("Sigmoid", inner))
        case form:
            total = f.swapped("Add", f("Exp", f("Neg", inner)), f.number(1.0, 1.0, 1.0, 2.0))
            if form == "quotient":
                return f("Div", f.x, total)
            return f.swapped("Mul", f.x, f("Reciprocal", total))


@operator("hard-swish")
def hard_swish(b: Builder, name: str) -> object:
    """Of something that is not exact, so that the roundings of the formula do not count."""
    if b.rarely():  # of integers, which no formula is of
        f = Formula(b, b.tensor((I32,), (0, 3)))
    else:
        f = Formula(b, *b.node("Asinh", b.tensor((F32,), (0, 3), special=False)))
    shifted = f.swapped("Add", f.x, f.number(3.0, 3.0, 3.0, 2.5))
    lower, upper = (
        b.new([np.array(number, f.x.dtype)] * b.program.runs, constant=True)
        for number in (b.choice((0.0, 0.0, -1.0)), b.choice((6.0, 6.0, 5.0)))
    )
    clipped = b.flag()
    gate = shifted if clipped else f.swapped("Max", shifted, lower)
    gate = f("Clip", gate, lower, upper) if clipped else f.swapped("Min", gate, upper)
    if b.flag():
        return f.scaled(f.swapped("Mul", f.x, gate), 1 / 6, 1 / 6, 1 / 6, 0.2)
    return f.swapped("Mul", f.x, f.scaled(gate, 1 / 6))


@operator("rotary")
def rotary(b: Builder, name: str) -> object:
    rank, half = b.integer(1, 4), b.integer(1, 4)
    shape = (*b.shape(rank - 1, least=1), 2 * half)
    f = Formula(b, b.tensor((*FLOATS, I32), shape=shape, special=False))
    interleaved = b.flag()

    def part(start: int, stop: int, step: int) -> Value:
        return f("Slice", f.x, *(b.numbers([n], bound=False) for n in (start, stop, -1, step)))

    parts = [part(0, END, 2), part(1, END, 2)] if interleaved else [part(0, half, 1), part(half, END, 1)]
    if b.rarely():
        parts.reverse()

    def joined(first: Value, second: Value) -> Value:
        if not interleaved:
            return f("Concat", first, second, axis=-1)
        apart = [
            f("Reshape", value, b.numbers((*shape[:-1], half, 1), bound=False)) for value in (first, second)
        ]
        return f("Reshape", f("Concat", *apart, axis=-1), b.numbers(shape, bound=False))

    outer = shape[-1 - b.integer(0, rank - 1) : -1]
    if b.flag():
        cos, sin = (b.parameter(f.x.dtype, (*outer, half)) for _ in range(2))
        first = f("Sub", f.swapped("Mul", parts[0], cos), f.swapped("Mul", parts[1], sin))
        second = f.swapped("Add", f.swapped("Mul", parts[1], cos), f.swapped("Mul", parts[0], sin))
        return joined(first, second)
    doubled_alike = interleaved != b.rarely()

    def table() -> Value:
        numbers = b.fill(f.x.dtype, (*outer, half), special=False)
        whole = np.repeat(numbers, 2, -1) if doubled_alike else np.concatenate([numbers, numbers], -1)
        if b.rarely():
            whole = whole + np.arange(whole.shape[-1]).astype(whole.dtype)
        return b.new([whole] * b.program.runs, constant=True)

    turned = joined(f("Neg", parts[1]), parts[0])
    return f.swapped("Add", f.swapped("Mul", f.x, table()), f.swapped("Mul", turned, table()))


@operator("softmax")
def softmax(b: Builder, name: str) -> object:
    """Written out, or the logarithm of it; with the largest number subtracted or not."""
    f = Formula(b, b.tensor(FLOATS, (2, 3), least=2, special=False))
    if not f.x.finite or max(largest(array) for array in f.x.arrays) > 80:
        raise Unfit("exponentials may overflow, which stabilize-softmax repairs")
    axis = b.choice((-1, -1, 0))
    axes = b.numbers([axis], bound=False)

    def along(kind: str, value: Value) -> Value:
        if kind == "ReduceSum" or b.opset >= 18:
            return f(kind, value, axes)
        return f(kind, value, axes=[axis])

    maximum = along("ReduceMax", f.x) if b.flag() else None
    shifted = f.x if maximum is None else f("Sub", f.x, maximum)
    if b.rarely():
        return f("Log", f("Softmax", shifted, axis=axis))
    exponentials = f("Exp", shifted)
    total = along("ReduceSum", exponentials)
    if b.rarely():
        total = f.swapped("Add", total, f.number(1.0))
    match b.choice(("quotient", "product", "logarithm", "logarithm")):
        case "quotient":
            return f("Div", exponentials, total)
        case "product":
            return f.swapped("Mul", exponentials, f("Reciprocal", total))
        case _ if maximum is not None and b.flag():
            return f("Sub", f.x, f.swapped("Add", f("Log", total), maximum))
        case _:
            return f("Sub", shifted, f("Log", total))


@operator("group-norm")
def group_norm(b: Builder, name: str) -> object:
    """As exporters write it: instances of groups, then a scale and a bias for each channel."""
    groups, channels = b.choice((1, 2, 3)), b.integer(1, 3)
    shape = (b.integer(1, 2), groups * channels, *b.shape(b.integer(1, 2), least=2))
    f = Formula(b, b.tensor((F32,), shape=shape, special=False))
    apart = f("Reshape", f.x, b.numbers((shape[0], groups, -1), bound=False))
    ones, zeros = (
        b.new([np.full(groups, number, F32)] * b.program.runs, constant=True)
        for number in (b.choice((1.0, 1.0, 2.0)), 0.0)
    )
    y = f("InstanceNormalization", apart, ones, zeros, epsilon=0.1)
    y = f("Reshape", y, b.numbers(shape, bound=False))
    each = (shape[1], *(1 for _ in shape[2:]))
    shapes = (each, each, (1, *each), (1,), shape)
    y = f.swapped("Mul", y, b.parameter(F32, b.choice(shapes)))
    return f.swapped("Add", y, b.parameter(F32, b.choice(shapes)))
