"""Binary elementwise operations, and sums of any number: arithmetic, logic, shifts and comparisons."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, Signedness, i1, i32, i64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_bool, is_float, is_unsigned
from mlopt.export.builder import Builder, Value, cast_attributes, element_of
from mlopt.export.registry import exports, exports_plainly
from mlopt.export.types import integer_width

exports_plainly(
    {
        graph.AddOp: "Add",
        graph.DivOp: "Div",
        graph.EqualOp: "Equal",
        graph.GreaterEqualOp: "GreaterOrEqual",
        graph.GreaterOp: "Greater",
        graph.LessEqualOp: "LessOrEqual",
        graph.LessOp: "Less",
        graph.MaxOp: "Max",
        graph.MinOp: "Min",
        graph.MulOp: "Mul",
        graph.SubOp: "Sub",
    }
)


@exports(graph.AllReduceOp)
def all_reduce(builder: Builder, op: graph.AllReduceOp) -> None:
    """ONNX Sum is for floats only: integers are added one after the other."""
    first, *others = op.inputs
    if is_float(element_of(first)):
        builder.node(op, "Sum")
        return
    if not others:
        builder.node(op, "Identity")
        return
    total: SSAValue | Value = first
    for partial in others[:-1]:
        total = builder.part("Add", [total, partial])
    builder.node(op, "Add", [total, others[-1]])


@exports(graph.AndOp, graph.OrOp, graph.XorOp)
def logical(builder: Builder, op: graph.AndOp | graph.OrOp | graph.XorOp) -> None:
    """And, Or and Xor are for i1 only; integers have operators of their own."""
    logic = {"graph.and": "And", "graph.or": "Or", "graph.xor": "Xor"}[op.name]
    builder.node(op, logic if is_bool(element_of(op.lhs)) else f"Bitwise{logic}")


@exports(graph.PowOp)
def power(builder: Builder, op: graph.PowOp) -> None:
    """ONNX has integer powers of i32 and i64 only, and an exponent may be of another type than the base."""
    element = element_of(op.lhs)
    if is_float(element) or element in (i32, i64):
        builder.node(op, "Pow")
        return
    width = integer_width(element)
    if is_unsigned(element) and width == 64:
        raise builder.unsupported(f"ONNX Pow takes no {element} elements")
    wide = i64 if is_unsigned(element) and width == 32 else i32
    result = builder.part("Pow", [builder.cast(op.lhs, wide), builder.cast(op.rhs, wide)])
    builder.node(op, "Cast", [result], cast_attributes(element))


@exports(graph.ModOp)
def remainder(builder: Builder, op: graph.ModOp) -> None:
    """ONNX has no remainder of floats with the sign of the divisor: the other one is moved by a divisor."""
    element = element_of(op.lhs)
    if op.fmod is not None or not is_float(element):
        builder.node(op, "Mod", attributes={"fmod": int(op.fmod is not None)})
        return
    zero = builder.scalar(0.0, element)
    truncated = builder.part("Mod", [op.lhs, op.rhs], attributes={"fmod": 1})
    is_zero = builder.part("Equal", [truncated, zero], i1)
    below = builder.part("Less", [truncated, zero], i1)
    divisor_below = builder.part("Less", [op.rhs, zero], i1)
    is_other_sign = builder.part("Xor", [below, divisor_below])
    moved = builder.part("Add", [truncated, op.rhs])
    floored = builder.part("Where", [is_other_sign, moved, truncated], element)
    signed_zero = builder.part("Where", [divisor_below, builder.scalar(-0.0, element), zero], element)
    builder.node(op, "Where", [is_zero, signed_zero, floored])


@exports(graph.ShiftLeftOp)
def shift_left(builder: Builder, op: graph.ShiftLeftOp) -> None:
    shifted = _shift(builder, builder.value(op.lhs), op.rhs, "LEFT")
    builder.node(op, "Cast", [shifted], cast_attributes(element_of(op.lhs)))


@exports(graph.ShiftRightOp)
def shift_right(builder: Builder, op: graph.ShiftRightOp) -> None:
    """The bits of a negative number are inverted before and after, so that what comes in are ones."""
    element = element_of(op.lhs)
    if is_unsigned(element):
        shifted = _shift(builder, builder.value(op.lhs), op.rhs, "RIGHT")
        builder.node(op, "Cast", [shifted], cast_attributes(element))
        return
    negative = builder.part("Less", [op.lhs, builder.scalar(0, element)], i1)
    signs = builder.part("Neg", [builder.cast(negative, element)])
    bits = builder.part("BitwiseXor", [op.lhs, signs])
    shifted = builder.cast(_shift(builder, bits, op.rhs, "RIGHT"), element)
    builder.node(op, "BitwiseXor", [shifted, signs])


def _shift(builder: Builder, bits: Value, amount: SSAValue, direction: str) -> Value:
    """The shifted bits as ui32 or ui64; 0 where the amount is negative or the width or more.

    ONNX shifts unsigned numbers only, and leaves amounts of the width or more open.
    """
    element = element_of(amount)
    width = integer_width(element)
    wide = IntegerType(64 if width == 64 else 32, Signedness.UNSIGNED)
    # A negative amount becomes a large one.
    unsigned = builder.cast(builder.cast(amount, IntegerType(width, Signedness.UNSIGNED)), wide)
    fits = builder.cast(builder.part("Less", [unsigned, builder.scalar(width, wide)], i1), wide)
    safe = builder.part("Mul", [unsigned, fits])
    shifted = builder.part("BitShift", [builder.cast(bits, wide), safe], attributes={"direction": direction})
    return builder.part("Mul", [shifted, fits])
