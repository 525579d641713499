"""Activations. Where a zero goes in, onnxruntime's Celu and Selu lose its sign, as its Where does in their formulas."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Float16Type, Float32Type
from xdsl.ir import Operation

from mlopt.dialects import graph
from mlopt.dialects.graph.base import tensor_type
from mlopt.export.builder import Builder, element_of
from mlopt.export.composites.formula import (
    Formula,
    Match,
    Numbers,
    Parameter,
    Variable,
    call,
    result_of,
    where,
)
from mlopt.export.composites.registry import Composite, Finder, composite

x, slope = Variable("x"), Variable("slope")
alpha, gamma, inverse = Parameter("alpha"), Parameter("gamma"), Parameter("inverse")
bias, lambd, below = Parameter("bias"), Parameter("lambd"), Parameter("below")


def absolute(a: Formula) -> Formula:
    return call(graph.AbsOp, a)


def exp(a: Formula) -> Formula:
    return call(graph.ExpOp, a)


def elu(a: Formula, scale: Formula) -> Formula:
    return where(a < 0, scale * (exp(a) - 1), a)


def elu_of_1(a: Formula) -> Formula:
    return where(a < 0, exp(a) - 1, a)


def celu(a: Formula) -> Formula:
    return alpha * (elu(a, Parameter("one")) | elu_of_1(a))


softplus = call(graph.ReluOp, x) + call(graph.LogOp, exp(-absolute(x)) + 1)


def _as_found(numbers: Numbers) -> Numbers | None:
    return numbers


def _positive_alpha(numbers: Numbers) -> Numbers | None:
    return numbers if numbers["alpha"] > 0 else None


def _celu(numbers: Numbers) -> Numbers | None:
    """Celu divides by alpha, or multiplies by its inverse."""
    if numbers.get("one", 1.0) != 1 or numbers["alpha"] <= 0:
        return None
    if numbers.get("inverse", 1 / numbers["alpha"]) != 1 / numbers["alpha"]:
        return None
    return {"alpha": numbers["alpha"]}


def _shrink(numbers: Numbers) -> Numbers | None:
    """ONNX compares with `-lambd` and `lambd`; without a bias it is 0."""
    if numbers["below"] != -numbers["lambd"]:
        return None
    return {"lambd": numbers["lambd"], "bias": numbers.get("bias", 0.0)}


def _activation(
    onnx_op: str,
    root: type[Operation],
    meaning: Formula,
    attributes: Callable[[Numbers], Numbers | None] = _as_found,
    elements: type | tuple[type, ...] = (Float32Type, Float16Type),
) -> Finder:
    """Enter an operator of one operand `x`, of one of these element types, and numbers; a `slope` is a second operand.

    `attributes` makes those of the node from the numbers, or None if they do not fit.
    """

    @composite(root)
    def find(builder: Builder, op: Operation) -> Composite | None:
        result = result_of(op)
        if not isinstance(element_of(result), elements):
            return None
        for found in meaning.match(result, Match(), builder):
            numbers = attributes(found.numbers)
            if numbers is not None and tensor_type(found.values["x"].type) == result.type:
                return Composite(onnx_op, found.ops, [*found.values.values()], numbers)
        return None

    return find


# Of f32 only: onnxruntime runs others by the definition in the standard, which overflows.
_activation("Softplus", graph.AddOp, softplus, elements=Float32Type)
_activation("Softsign", graph.DivOp, x / (1 + absolute(x)))
_activation("Mish", graph.MulOp, x * call(graph.TanhOp, softplus))
_activation("PRelu", graph.WhereOp, where(x < 0, x * slope, x))
_activation("ThresholdedRelu", graph.WhereOp, where(x > alpha, x, 0))
_activation("Elu", graph.WhereOp, elu(x, alpha))
_activation("Elu", graph.WhereOp, elu_of_1(x))
_activation("Celu", graph.MulOp, celu(x / alpha) | celu(x * inverse), _celu, Float32Type)
_activation(
    "Selu",
    graph.WhereOp,
    where(x < 0, gamma * (alpha * exp(x) - alpha), gamma * x),
    _positive_alpha,
)
_activation(
    "Shrink",
    graph.WhereOp,
    where(x < below, x + bias, where(x > lambd, x - bias, 0)),
    _shrink,
)
_activation("Shrink", graph.WhereOp, where(x < below, x + 0 | x, where(x > lambd, x, 0)), _shrink)
