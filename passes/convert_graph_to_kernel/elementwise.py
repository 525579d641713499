"""Elementwise ops: one `kernel.map` each, broadcasting by index maps, the op's formula as the body.

Formulas of several steps are computed in f32 for f16 and bf16 and rounded once, as the reference evaluation does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import pi, sqrt
from typing import TypeAlias, TypeVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.arith import RemfOp
from mlopt.dialects.graph.base import GraphOp, is_float, is_unsigned, shape_of
from mlopt.passes.convert_graph_to_kernel.conversion import (
    CONVERSIONS,
    Conversion,
    converts,
    element_of,
    unsupported,
)
from mlopt.passes.convert_graph_to_kernel.launch import Operand, Space
from mlopt.passes.convert_graph_to_kernel.scalars import (
    Relation,
    Scalars,
    integer_type,
    keeps_bytes,
    signless,
)

_Op = TypeVar("_Op", bound=GraphOp)

Formula: TypeAlias = Callable[..., SSAValue]
"""The body of an elementwise op: `(scalars, op, *elements of its operands) → element of its result`."""

FORMULAS: dict[type[GraphOp], Formula] = {}
"""The formula of each elementwise op that has one form for all element types."""


def convert_elementwise(op: GraphOp, conversion: Conversion, formula: Formula) -> None:
    """Convert an op whose result at each position depends on the operands there, broadcast to the result."""
    launch = conversion.launch(op)
    space = Space.over(shape_of(op.results[0]))
    numbers = [conversion.number(value) for value in op.operands]
    read = list(
        dict.fromkeys(value for value, number in zip(op.operands, numbers, strict=True) if number is None)
    )
    names = _operand_names(op)
    ins = [Operand(launch.use(value, names[value]), space.broadcast(shape_of(value))) for value in read]

    def body(s: Scalars, *elements: SSAValue) -> SSAValue:
        given = dict(zip(read, elements, strict=False))
        scalars = [
            given[value] if number is None else s.number(number, signless(element_of(value)))
            for value, number in zip(op.operands, numbers, strict=True)
        ]
        return formula(s, op, *scalars)

    result = launch.map(space, ins, Operand(launch.out, space.identity()), body)
    conversion.finish(op, launch, result)


def elementwise(*classes: type[_Op]) -> Callable[[Formula], Formula]:
    """Register the decorated formula for these op classes."""

    def register(formula: Formula) -> Formula:
        def convert(op: GraphOp, conversion: Conversion) -> None:
            convert_elementwise(op, conversion, formula)

        CONVERSIONS.update(dict.fromkeys(classes, convert))
        FORMULAS.update(dict.fromkeys(classes, formula))
        return formula

    return register


def _operand_names(op: GraphOp) -> dict[SSAValue, str]:
    """What the op's definition calls each operand, numbered where there may be any number of them.

    The first name for one that stands twice.
    """
    names: dict[SSAValue, str] = {}
    for name, _ in op.get_irdl_definition().operands:
        value: SSAValue | Sequence[SSAValue] | None = getattr(op, name)
        if isinstance(value, SSAValue):
            names.setdefault(value, name)
        else:
            for index, one in enumerate(value or ()):
                names.setdefault(one, f"{name}{index}")
    return names


def _in_f32(formula: Formula) -> Formula:
    """The formula with operands and result widened to f32 where they are narrower floats."""

    def widened(s: Scalars, op: GraphOp, *operands: SSAValue) -> SSAValue:
        result = formula(s, op, *map(s.widen, operands))
        return s.truncate(result, operands[0].type) if is_float(operands[0].type) else result

    return widened


# Unary


for _op_class, _math_class in {
    graph.AcosOp: math.AcosOp,
    graph.AcoshOp: math.AcoshOp,
    graph.AsinOp: math.AsinOp,
    graph.AsinhOp: math.AsinhOp,
    graph.AtanOp: math.AtanOp,
    graph.AtanhOp: math.AtanhOp,
    graph.CeilOp: math.CeilOp,
    graph.CosOp: math.CosOp,
    graph.CoshOp: math.CoshOp,
    graph.ErfOp: math.ErfOp,
    graph.ExpOp: math.ExpOp,
    graph.FloorOp: math.FloorOp,
    graph.LogOp: math.LogOp,
    graph.RoundOp: math.RoundEvenOp,
    graph.SinOp: math.SinOp,
    graph.SinhOp: math.SinhOp,
    graph.SqrtOp: math.SqrtOp,
    graph.TanOp: math.TanOp,
    graph.TanhOp: math.TanhOp,
}.items():

    def _unary(
        s: Scalars, op: GraphOp, x: SSAValue, math_class: Callable[[SSAValue], Operation] = _math_class
    ) -> SSAValue:
        return s.emit(math_class(x))

    elementwise(_op_class)(_unary)


@elementwise(graph.AbsOp)
def _abs(s: Scalars, op: graph.AbsOp, x: SSAValue) -> SSAValue:
    if is_float(x.type):
        return s.emit(math.AbsFOp(x))
    return x if s.unsigned else s.emit(math.AbsIOp(x))


@elementwise(graph.NegOp)
def _neg(s: Scalars, op: graph.NegOp, x: SSAValue) -> SSAValue:
    return s.emit(arith.NegfOp(x)) if is_float(x.type) else s.sub(s.like(0, x), x)


@elementwise(graph.ReluOp)
def _relu(s: Scalars, op: graph.ReluOp, x: SSAValue) -> SSAValue:
    return s.maximum(x, s.like(0, x))


@elementwise(graph.ReciprocalOp)
def _reciprocal(s: Scalars, op: graph.ReciprocalOp, x: SSAValue) -> SSAValue:
    return s.div(s.like(1, x), x)


@elementwise(graph.SignOp)
def _sign(s: Scalars, op: graph.SignOp, x: SSAValue) -> SSAValue:
    zero = s.like(0, x)
    result = s.select(s.compare("gt", x, zero), s.like(1, x), x)  # NaN and 0 stay what they are
    return result if s.unsigned else s.select(s.compare("lt", x, zero), s.like(-1, x), result)


@elementwise(graph.NotOp)
def _not(s: Scalars, op: graph.NotOp, x: SSAValue) -> SSAValue:
    return s.emit(arith.XOrIOp(x, s.like(-1, x)))


@elementwise(graph.SigmoidOp)
@_in_f32
def _sigmoid(s: Scalars, op: graph.SigmoidOp, x: SSAValue) -> SSAValue:
    one = s.like(1, x)
    return s.div(one, s.add(one, s.emit(math.ExpOp(s.emit(arith.NegfOp(x))))))


@elementwise(graph.SwishOp)
@_in_f32
def _swish(s: Scalars, op: graph.SwishOp, x: SSAValue) -> SSAValue:
    alpha = op.alpha.value.data
    exponent = s.emit(arith.NegfOp(x)) if alpha == 1 else s.mul(x, s.like(-alpha, x))
    return s.div(x, s.add(s.like(1, x), s.emit(math.ExpOp(exponent))))


@elementwise(graph.HardSwishOp)
@_in_f32
def _hard_swish(s: Scalars, op: graph.HardSwishOp, x: SSAValue) -> SSAValue:
    bounded = s.minimum(s.maximum(s.add(x, s.like(3, x)), s.like(0, x)), s.like(6, x))
    return s.mul(x, s.div(bounded, s.like(6, x)))


@elementwise(graph.HardSigmoidOp)
@_in_f32
def _hard_sigmoid(s: Scalars, op: graph.HardSigmoidOp, x: SSAValue) -> SSAValue:
    scaled = s.mul(x, s.like(op.alpha.value.data, x))
    return _clamp01(s, s.add(scaled, s.like(op.beta.value.data, x)))


def _clamp01(s: Scalars, x: SSAValue) -> SSAValue:
    return s.maximum(s.minimum(x, s.like(1, x)), s.like(0, x))


@elementwise(graph.GeluOp)
@_in_f32
def _gelu(s: Scalars, op: graph.GeluOp, x: SSAValue) -> SSAValue:
    if op.approximate.data == "tanh":
        cube = s.mul(s.mul(s.mul(s.like(0.044715, x), x), x), x)
        inner = s.emit(math.TanhOp(s.mul(s.add(x, cube), s.like(sqrt(2 / pi), x))))
    else:
        inner = s.emit(math.ErfOp(s.div(x, s.like(sqrt(2), x))))
    return s.mul(x, s.mul(s.add(inner, s.like(1, x)), s.like(0.5, x)))


@elementwise(graph.LeakyReluOp)
@_in_f32
def _leaky_relu(s: Scalars, op: graph.LeakyReluOp, x: SSAValue) -> SSAValue:
    scaled = s.mul(x, s.like(op.alpha.value.data, x))
    return s.select(s.compare("ge", x, s.like(0, x)), x, scaled)


@elementwise(graph.IsNanOp)
def _is_nan(s: Scalars, op: graph.IsNanOp, x: SSAValue) -> SSAValue:
    return s.is_nan(x)


@elementwise(graph.IsInfOp)
def _is_inf(s: Scalars, op: graph.IsInfOp, x: SSAValue) -> SSAValue:
    return s.compare("eq", s.emit(math.AbsFOp(x)), s.like(float("inf"), x))


@converts(graph.CastOp)
def _cast(op: graph.CastOp, conversion: Conversion) -> None:
    source, target = element_of(op.input), element_of(op.result)
    saturate = op.saturate is not None
    round_mode = "up" if op.round_mode is None else op.round_mode.data
    if keeps_bytes(source, target) and not saturate:
        conversion.replace(op, conversion.value(op.input))
        return

    def formula(s: Scalars, op: GraphOp, x: SSAValue) -> SSAValue:
        return s.cast(x, source, target, saturate=saturate, round_mode=round_mode)

    convert_elementwise(op, conversion, formula)


@converts(graph.BitcastOp)
def _bitcast(op: graph.BitcastOp, conversion: Conversion) -> None:
    target = signless(element_of(op.result))
    if signless(element_of(op.input)) == target:
        conversion.replace(op, conversion.value(op.input))
        return

    def formula(s: Scalars, op: GraphOp, x: SSAValue) -> SSAValue:
        return s.emit(arith.BitcastOp(x, target))

    convert_elementwise(op, conversion, formula)


# Binary


for _op_class, _method in {
    graph.AddOp: Scalars.add,
    graph.MaxOp: Scalars.maximum,
    graph.MinOp: Scalars.minimum,
    graph.MulOp: Scalars.mul,
    graph.SubOp: Scalars.sub,
}.items():

    def _binary(
        s: Scalars,
        op: GraphOp,
        a: SSAValue,
        b: SSAValue,
        method: Callable[[Scalars, SSAValue, SSAValue], SSAValue] = _method,
    ) -> SSAValue:
        return method(s, a, b)

    elementwise(_op_class)(_binary)


@elementwise(graph.AllReduceOp)
def _all_reduce(s: Scalars, op: graph.AllReduceOp, *partials: SSAValue) -> SSAValue:
    return reduce(s.add, partials)


@elementwise(graph.AndOp)
def _and(s: Scalars, op: graph.AndOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.emit(arith.AndIOp(a, b))


@elementwise(graph.OrOp)
def _or(s: Scalars, op: graph.OrOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.emit(arith.OrIOp(a, b))


@elementwise(graph.XorOp)
def _xor(s: Scalars, op: graph.XorOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.emit(arith.XOrIOp(a, b))


@elementwise(graph.DivOp)
def _div(s: Scalars, op: graph.DivOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.div(a, b) if is_float(a.type) else integer_division(s, a, b)


@elementwise(graph.ModOp)
def _mod(s: Scalars, op: graph.ModOp, a: SSAValue, b: SSAValue) -> SSAValue:
    remainder = s.emit(RemfOp(a, b)) if is_float(a.type) else integer_remainder(s, a, b)
    if op.fmod is not None or s.unsigned:
        return remainder
    # With the sign of the divisor: a remainder of the other sign is moved up (or down) by one divisor.
    zero = s.like(0, a)
    signs = (s.compare("lt", remainder, zero), s.compare("lt", b, zero))
    moved = s.select(s.emit(arith.XOrIOp(*signs)), s.add(remainder, b), remainder)
    unmoved = s.emit(math.CopySignOp(zero, b)) if is_float(a.type) else zero
    return s.select(s.compare("ne", remainder, zero), moved, unmoved)


def integer_division(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """`a / b` toward zero; 0 for `b = 0`, and the smallest number divided by -1 is itself."""
    quotient, is_zero, is_minus_one = _guarded(s, a, b, s.div)
    if is_zero is None:
        return quotient
    zero = s.like(0, a)
    if is_minus_one is not None:
        quotient = s.select(is_minus_one, s.sub(zero, a), quotient)
    return s.select(is_zero, zero, quotient)


def integer_remainder(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    """The remainder of `a / b` toward zero; 0 for `b = 0`."""

    def rem(a: SSAValue, b: SSAValue) -> SSAValue:
        return s.emit(arith.RemUIOp(a, b) if s.unsigned else arith.RemSIOp(a, b))

    # The remainder by 1, which stands for the divisors 0 and -1, is 0.
    remainder, _, _ = _guarded(s, a, b, rem)
    return remainder


def _guarded(
    s: Scalars, a: SSAValue, b: SSAValue, divide: Callable[[SSAValue, SSAValue], SSAValue]
) -> tuple[SSAValue, SSAValue | None, SSAValue | None]:
    """`divide(a, b)` with divisors that `arith` leaves undefined replaced by 1, and whether they were 0 or -1.

    A constant divisor that is neither is not guarded (None).
    """
    if _constant(b) not in (None, 0, -1):
        return divide(a, b), None, None
    is_zero = s.compare("eq", b, s.like(0, b))
    is_minus_one = None if s.unsigned else s.compare("eq", b, s.like(-1, b))
    special = is_zero if is_minus_one is None else s.either(is_zero, is_minus_one)
    return divide(a, s.select(special, s.like(1, b), b)), is_zero, is_minus_one


def _constant(x: SSAValue) -> int | float | None:
    """The number that a scalar is known to be."""
    if isinstance(x.owner, arith.ConstantOp) and isinstance(x.owner.value, IntegerAttr | FloatAttr):
        return x.owner.value.value.data
    return None


@elementwise(graph.ShiftLeftOp)
def _shift_left(s: Scalars, op: graph.ShiftLeftOp, a: SSAValue, b: SSAValue) -> SSAValue:
    zero = s.like(0, a)
    valid = _leaves_bits(s, b)
    return s.select(valid, s.emit(arith.ShLIOp(a, s.select(valid, b, zero))), zero)


@elementwise(graph.ShiftRightOp)
def _shift_right(s: Scalars, op: graph.ShiftRightOp, a: SSAValue, b: SSAValue) -> SSAValue:
    zero = s.like(0, a)
    valid = _leaves_bits(s, b)
    if s.unsigned:
        return s.select(valid, s.emit(arith.ShRUIOp(a, s.select(valid, b, zero))), zero)
    all_but_sign = s.like(integer_type(a.type).bitwidth - 1, a)
    return s.emit(arith.ShRSIOp(a, s.select(valid, b, all_but_sign)))


def _leaves_bits(s: Scalars, amount: SSAValue) -> SSAValue:
    """Whether a shift is by less than the width; read as unsigned, a negative one is not."""
    return s.emit(arith.CmpiOp(amount, s.like(integer_type(amount.type).bitwidth, amount), "ult"))


@converts(graph.PowOp)
def _pow(op: graph.PowOp, conversion: Conversion) -> None:
    element = element_of(op.lhs)
    if is_unsigned(element) and integer_type(element).bitwidth == 64:
        raise unsupported(op, "the power of ui64 numbers has no form at the kernel level")
    formula = (
        _float_power if is_float(element) else _unsigned_power if is_unsigned(element) else _signed_power
    )
    convert_elementwise(op, conversion, formula)


def _float_power(s: Scalars, op: graph.PowOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.mul(a, a) if _constant(b) == 2 else s.emit(math.PowFOp(a, b))


def _signed_power(s: Scalars, op: graph.PowOp, a: SSAValue, b: SSAValue) -> SSAValue:
    # math.ipowi leaves a negative power of 0 undefined; here it is 0, that is, 0 to the power of 1.
    zero = s.like(0, a)
    undefined = s.both(s.compare("eq", a, zero), s.compare("lt", b, zero))
    return s.emit(math.IPowIOp(a, s.select(undefined, s.like(1, b), b)))


def _unsigned_power(s: Scalars, op: graph.PowOp, a: SSAValue, b: SSAValue) -> SSAValue:
    # math.ipowi is signed: in a wider type the exponent is not negative.
    wide = IntegerType(64)
    power = s.emit(math.IPowIOp(s.emit(arith.ExtUIOp(a, wide)), s.emit(arith.ExtUIOp(b, wide))))
    return s.emit(arith.TruncIOp(power, integer_type(a.type)))


_RELATIONS: dict[type[GraphOp], Relation] = {
    graph.EqualOp: "eq",
    graph.GreaterEqualOp: "ge",
    graph.GreaterOp: "gt",
    graph.LessEqualOp: "le",
    graph.LessOp: "lt",
}


@elementwise(*_RELATIONS)
def _comparison(s: Scalars, op: GraphOp, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.compare(_RELATIONS[type(op)], a, b)


# Ternary


@elementwise(graph.WhereOp)
def _where(s: Scalars, op: graph.WhereOp, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.select(condition, a, b)


@elementwise(graph.ClipOp)
def _clip(s: Scalars, op: graph.ClipOp, x: SSAValue, *bounds: SSAValue) -> SSAValue:
    remaining = list(bounds)
    if op.lower is not None:
        x = s.maximum(x, remaining.pop(0))
    if op.upper is not None:
        x = s.minimum(x, remaining.pop(0))
    return x
