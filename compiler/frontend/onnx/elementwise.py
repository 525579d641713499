"""Import of elementwise operators: arithmetic, comparisons, logic, activations, selection and casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import NodeProto, TensorProto
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Attribute, SSAValue

from mlopt.diagnostics import UnsupportedError
from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, is_scale_float, is_tiny_float, tensor_type
from mlopt.frontend.onnx.node import Node
from mlopt.frontend.onnx.registry import ImportFunction, importer
from mlopt.frontend.onnx.scalars import scalar
from mlopt.frontend.onnx.widening import in_f32
from mlopt.ir.dtypes import from_numpy_dtype, largest_number, to_numpy_dtype
from mlopt.weights import sub_byte

_UNARY: dict[str, tuple[int, Callable[[SSAValue], graph.UnaryOp | graph.PredicateOp]]] = {
    "Abs": (1, graph.AbsOp),
    "Acos": (7, graph.AcosOp),
    "Acosh": (9, graph.AcoshOp),
    "Asin": (7, graph.AsinOp),
    "Asinh": (9, graph.AsinhOp),
    "Atan": (7, graph.AtanOp),
    "Atanh": (9, graph.AtanhOp),
    "BitwiseNot": (18, graph.NotOp),
    "Ceil": (1, graph.CeilOp),
    "Cos": (7, graph.CosOp),
    "Cosh": (9, graph.CoshOp),
    "Erf": (9, graph.ErfOp),
    "Exp": (1, graph.ExpOp),
    "Floor": (1, graph.FloorOp),
    "HardSwish": (14, graph.HardSwishOp),
    "IsNaN": (9, graph.IsNanOp),
    "Log": (1, graph.LogOp),
    "Neg": (1, graph.NegOp),
    "Not": (1, graph.NotOp),
    "Reciprocal": (1, graph.ReciprocalOp),
    "Relu": (1, graph.ReluOp),
    "Round": (11, graph.RoundOp),
    "Sigmoid": (1, graph.SigmoidOp),
    "Sign": (9, graph.SignOp),
    "Sin": (7, graph.SinOp),
    "Sinh": (9, graph.SinhOp),
    "Sqrt": (1, graph.SqrtOp),
    "Tan": (7, graph.TanOp),
    "Tanh": (1, graph.TanhOp),
}

# Before version 7 these had an attribute for broadcasting.
_BINARY: dict[str, tuple[int, Callable[[SSAValue, SSAValue], graph.BinaryOp]]] = {
    "Add": (7, graph.AddOp),
    "And": (7, graph.AndOp),
    "BitwiseAnd": (18, graph.AndOp),
    "BitwiseOr": (18, graph.OrOp),
    "BitwiseXor": (18, graph.XorOp),
    "Div": (7, graph.DivOp),
    "Equal": (7, graph.EqualOp),
    "Greater": (7, graph.GreaterOp),
    "GreaterOrEqual": (12, graph.GreaterEqualOp),
    "Less": (7, graph.LessOp),
    "LessOrEqual": (12, graph.LessEqualOp),
    "Mul": (7, graph.MulOp),
    "Or": (7, graph.OrOp),
    "Sub": (7, graph.SubOp),
    "Xor": (7, graph.XorOp),
}

_VARIADIC: dict[str, Callable[[SSAValue, SSAValue], graph.BinaryOp]] = {
    "Max": graph.MaxOp,
    "Min": graph.MinOp,
}


def _unary(build: Callable[[SSAValue], graph.UnaryOp | graph.PredicateOp]) -> ImportFunction:
    return lambda node: node.add(build(node.operand(0))).result


def _binary(build: Callable[[SSAValue, SSAValue], graph.BinaryOp]) -> ImportFunction:
    return lambda node: node.add(build(node.operand(0), node.operand(1))).result


def _variadic(build: Callable[[SSAValue, SSAValue], graph.BinaryOp]) -> ImportFunction:
    return lambda node: _fold(node, build)


for _op_type, (_since, _op) in _UNARY.items():
    importer(_op_type, since=_since)(_unary(_op))
for _op_type, (_since, _op) in _BINARY.items():
    importer(_op_type, since=_since)(_binary(_op))
for _op_type, _op in _VARIADIC.items():
    importer(_op_type, since=6)(_variadic(_op))


def _fold(node: Node, build: Callable[[SSAValue, SSAValue], graph.BinaryOp]) -> SSAValue:
    """The operands combined from left to right; a single one is the result itself."""
    total, *others = node.operands()
    for operand in others:
        total = node.add(build(total, operand)).result
    return total


@importer("Sum", since=6)
def sum(node: Node) -> SSAValue:
    """Of any number of inputs; a sum of more than two is rounded once."""
    add = _variadic(graph.AddOp)
    result = (in_f32(add) if len(node.inputs) > 2 else add)(node)
    assert isinstance(result, SSAValue)
    return result


@importer("Mean", since=6)
@in_f32
def mean(node: Node) -> SSAValue:
    """The sum of all inputs divided by their number."""
    count = scalar(node, len(node.operands()))
    return node.add(graph.DivOp(_fold(node, graph.AddOp), count)).result


@importer("Mod", since=10)
def mod(node: Node) -> SSAValue:
    """`fmod` decides whose sign the remainder has."""
    return node.add(graph.ModOp(node.operand(0), node.operand(1), fmod=node.integer("fmod", 0) == 1)).result


@importer("Pow", since=7)
def pow(node: Node) -> SSAValue:
    """The exponent may have another type than the base (since version 12).

    What is no number of the base's type is raised to in f64, and the result truncated or rounded.
    """
    base, exponent = node.operand(0), node.operand(1)
    own = node.type_of(0).element_type
    if _is_held(node, exponent, own):
        return node.add(graph.PowOp(base, _cast(node, exponent, own))).result
    power = node.add(graph.PowOp(_cast(node, base, f64), _cast(node, exponent, f64))).result
    return _cast(node, power, own)


def _is_held(node: Node, value: SSAValue, element: Attribute) -> bool:
    """Whether a type holds all floats that a value has or may have; integers count as held by every type."""
    own = tensor_type(value.type).element_type
    if not is_float(own) or own == element:
        return True
    if (array := node.constant_value(value)) is None:
        return is_float(element) and np.can_cast(to_numpy_dtype(own), to_numpy_dtype(element))
    return np.array_equal(array.astype(to_numpy_dtype(element)).astype(array.dtype), array)


@importer("IsInf", since=10)
def is_inf(node: Node) -> SSAValue:
    """Where only one sign is to be detected, a comparison with zero takes out the other."""
    x = node.operand(0)
    positive, negative = node.integer("detect_positive", 1), node.integer("detect_negative", 1)
    infinite = node.add(graph.IsInfOp(x)).result
    if positive and negative:
        return infinite
    if not positive and not negative:
        return node.add(graph.AndOp(infinite, node.constant(np.array(False)))).result
    compare = graph.GreaterOp if positive else graph.LessOp
    side = node.add(compare(x, scalar(node, 0))).result
    return node.add(graph.AndOp(infinite, side)).result


@importer("Where", since=9)
def where(node: Node) -> SSAValue:
    """Elementwise selection with broadcasting."""
    return node.add(graph.WhereOp(node.operand(0), node.operand(1), node.operand(2))).result


@importer("Clip", since=1)
def clip_by_attributes(node: Node) -> SSAValue:
    """Up to version 6 the bounds are attributes, by default the finite range of f32, whatever the type is."""
    widest, largest = largest_number(f32), largest_number(node.type_of(0).element_type)
    low, high = node.number("min", -widest), node.number("max", widest)
    lower = scalar(node, low) if low >= -largest else None
    upper = scalar(node, high) if high <= largest else None
    return node.add(graph.ClipOp(node.operand(0), lower, upper)).result


@importer("Clip", since=11)
def clip(node: Node) -> SSAValue:
    """Since version 11 the bounds are inputs; one that is left out is the lowest or largest finite number of the type.

    So an infinity becomes finite, where `graph.clip` without that bound leaves it. A bound may be a vector of one
    element, as in onnxruntime.
    """
    lower, upper = (_single(node, node.optional(index)) for index in (1, 2))
    element_type = node.type_of(0).element_type
    if is_float(element_type):
        largest = largest_number(element_type)
        lower = scalar(node, -largest) if lower is None else lower
        upper = scalar(node, largest) if upper is None else upper
    return node.add(graph.ClipOp(node.operand(0), lower, upper)).result


def _single(node: Node, value: SSAValue | None) -> SSAValue | None:
    """A vector of one element as a scalar; another value as it is."""
    is_vector = value is not None and tensor_type(value.type).get_shape() == (1,)
    return node.add(graph.ReshapeOp(value, ())).result if value is not None and is_vector else value


@importer("LeakyRelu", since=1)
def leaky_relu(node: Node) -> SSAValue:
    """`x` or `alpha * x`, by its sign."""
    return node.add(graph.LeakyReluOp(node.operand(0), node.number("alpha", 0.01))).result


@importer("PRelu", since=7)
def prelu(node: Node) -> SSAValue:
    """`slope * x` where x is negative, with a slope that broadcasts to x."""
    x, slope = node.operand(0), node.operand(1)
    negative = node.add(graph.LessOp(x, scalar(node, 0))).result
    scaled = node.add(graph.MulOp(slope, x)).result
    return node.add(graph.WhereOp(negative, scaled, x)).result


@importer("ThresholdedRelu", since=10)
def thresholded_relu(node: Node) -> SSAValue:
    """`x` above `alpha`, else 0."""
    x = node.operand(0)
    above = node.add(graph.GreaterOp(x, scalar(node, node.number("alpha", 1.0)))).result
    return node.add(graph.WhereOp(above, x, scalar(node, 0))).result


@importer("Softsign", since=1)
def softsign(node: Node) -> SSAValue:
    """`x / (1 + |x|)`."""
    x = node.operand(0)
    magnitude = node.add(graph.AbsOp(x)).result
    return node.add(graph.DivOp(x, node.add(graph.AddOp(magnitude, scalar(node, 1))).result)).result


@importer("Softplus", since=1)
def softplus(node: Node) -> SSAValue:
    """`log(1 + exp(x))` as `max(x, 0) + log(1 + exp(-|x|))`, which does not overflow."""
    x = node.operand(0)
    decay = node.add(graph.ExpOp(node.add(graph.NegOp(node.add(graph.AbsOp(x)).result)).result)).result
    above = node.add(graph.LogOp(node.add(graph.AddOp(decay, scalar(node, 1))).result)).result
    return node.add(graph.AddOp(node.add(graph.ReluOp(x)).result, above)).result


@importer("BitShift", since=11)
def bit_shift(node: Node) -> SSAValue:
    """`direction` names the operation."""
    direction = node.string("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise node.error(f'expected direction "LEFT" or "RIGHT", found "{direction}"')
    build = graph.ShiftLeftOp if direction == "LEFT" else graph.ShiftRightOp
    return node.add(build(node.operand(0), node.operand(1))).result


@importer("HardSigmoid", since=1)
def hard_sigmoid(node: Node) -> SSAValue:
    """`max(0, min(1, alpha * x + beta))`."""
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return node.add(graph.HardSigmoidOp(node.operand(0), alpha, beta)).result


@importer("Gelu", since=20)
def gelu(node: Node) -> SSAValue:
    """Exact, or the tanh form."""
    return node.add(graph.GeluOp(node.operand(0), node.string("approximate", "none"))).result


@importer("Swish", since=24)
def swish(node: Node) -> SSAValue:
    """`x * sigmoid(alpha * x)`."""
    return node.add(graph.SwishOp(node.operand(0), node.number("alpha", 1.0))).result


def cast_type(number: int) -> np.dtype | None:
    """The numpy type of an ONNX type number; None if there is no such type."""
    if number not in TensorProto.DataType.values() or number == TensorProto.UNDEFINED:
        return None
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def _cast_limit(node: NodeProto) -> str | None:
    to = next((attribute.i for attribute in node.attribute if attribute.name == "to"), TensorProto.UNDEFINED)
    dtype = cast_type(to)
    if dtype is None:
        return None
    try:
        from_numpy_dtype(dtype)
    except UnsupportedError:
        return f"to {TensorProto.DataType.Name(to).lower()}"
    return None


@importer("Cast", since=6, limit=_cast_limit)
def cast(node: Node) -> SSAValue:
    """`to` names the type."""
    dtype = cast_type(node.integer("to"))
    if dtype is None:
        raise node.error(f"expected a type as the attribute to, found {node.integer('to')}")
    return _converted(node, from_numpy_dtype(dtype))


@importer("BitCast", since=26, limit=_cast_limit)
def bit_cast(node: Node) -> SSAValue:
    """The same bits as numbers of the type `to`; a bool is 0 or 1 in 8 bits."""
    dtype, source = cast_type(node.integer("to")), to_numpy_dtype(node.type_of(0).element_type)
    if dtype is None or _bits(dtype) != _bits(source):
        raise node.error(
            f"expected a type as wide as {source} as the attribute to, found {node.integer('to')}"
        )
    integers = [sub_byte.is_integer(one) for one in (dtype, source)]
    if "c" in (dtype.kind, source.kind) or (any(integers) and not all(integers)):
        raise node.error(f"from {source} to {dtype} is not supported", UnsupportedError)
    # Integers of less than a byte wrap, which keeps their bits.
    build = graph.CastOp if all(integers) or np.bool_ in (dtype, source) else graph.BitcastOp
    return node.add(build(node.operand(0), from_numpy_dtype(dtype))).result


def _bits(dtype: np.dtype) -> int:
    return sub_byte.WIDTHS.get(dtype, 8 * dtype.itemsize)


@importer("CastLike", since=15)
def cast_like(node: Node) -> SSAValue:
    """The second input gives the type."""
    return _converted(node, node.type_of(1).element_type)


def _converted(node: Node, element_type: Attribute) -> SSAValue:
    """The operand in that type; `saturate`, which holds by default, is about floats of 8 bits or fewer only.

    `round_mode`, "up" by default, is about float8e8m0 only.
    """
    saturate = is_tiny_float(element_type) and node.integer("saturate", 1) == 1
    round_mode = node.string("round_mode", "up") if is_scale_float(element_type) else None
    return node.add(
        graph.CastOp(node.operand(0), element_type, saturate=saturate, round_mode=round_mode)
    ).result


def _cast(node: Node, value: SSAValue, element_type: Attribute) -> SSAValue:
    """`value` in that element type; nothing is added if it has it."""
    if tensor_type(value.type).element_type == element_type:
        return value
    return node.add(graph.CastOp(value, element_type)).result
