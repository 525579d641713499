"""Building the scalar bodies of structured ops: `arith` and `math` ops chosen by element type and signedness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    f8E8M0FNU,
    f32,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlopt.dialects.graph.base import (
    Tensor,
    is_bool,
    is_float,
    is_scale_float,
    is_sub_byte,
    is_tiny_float,
    is_unsigned,
)
from mlopt.ir.dtypes import largest_number

Number: TypeAlias = int | float
Relation: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]


def signless(element: Attribute) -> Attribute:
    """The element type below the graph level: `iN` for `uiN`, others as they are.

    Integers of 4 and 2 bits are i8 there: the same numbers, which ops keep in range.
    """
    if is_sub_byte(element):
        return i8
    return IntegerType(integer_type(element).bitwidth) if is_unsigned(element) else element


def keeps_bytes(source: Attribute, target: Attribute) -> bool:
    """Whether the cast from one graph-level type to another leaves every element's bytes as they are."""
    if signless(source) != signless(target):
        return False
    if source == target or not is_sub_byte(target):
        return True
    return lowest(source) >= lowest(target) and highest(source) <= highest(target)


def signless_type(type: Tensor) -> Tensor:
    """A tensor type with the element type it has below the graph level."""
    return TensorType(signless(type.element_type), type.get_shape())


def accumulator(element: Attribute) -> Attribute:
    """The type that sums of this type are kept in: f32 for narrower floats, else the type itself (signless)."""
    return f32 if is_float(element) and float_type(element).bitwidth < 32 else signless(element)


def float_type(element: Attribute) -> AnyFloat:
    """`element`, which the caller knows to be a float type."""
    assert isinstance(element, AnyFloat)
    return element


def integer_type(element: Attribute) -> IntegerType:
    """`element`, which the caller knows to be an integer type."""
    assert isinstance(element, IntegerType)
    return cast(IntegerType, element)


def number_attr(value: Number, element: Attribute) -> FloatAttr | IntegerAttr:
    """A number of a signless element type; an unsigned value is given by its bits."""
    if isinstance(element, AnyFloat):
        return FloatAttr(float(value), element)
    if isinstance(element, IndexType):
        return IntegerAttr(int(value), element)
    integer = integer_type(element)
    number, width = int(value), integer.bitwidth
    if width > 1 and number >= 1 << (width - 1):
        number -= 1 << width
    return IntegerAttr(number, integer)


def lowest(element: Attribute) -> Number:
    """The smallest number of a graph-level element type: -inf, the smallest integer."""
    if is_float(element):
        return float("-inf")
    return 0 if is_unsigned(element) else -(1 << (integer_type(element).bitwidth - 1))


def highest(element: Attribute) -> Number:
    """The largest number of a graph-level element type: inf, the largest integer."""
    if is_float(element):
        return float("inf")
    return (1 << (integer_type(element).bitwidth - (0 if is_unsigned(element) else 1))) - 1


def _byte(element: Attribute) -> IntegerType:
    """The integer of 8 bits of the same signedness."""
    return IntegerType(8, integer_type(element).signedness)


class Scalars:
    """Appends scalar ops to a block. Operands are signless; `unsigned` says how integers among them are meant."""

    def __init__(self, block: Block, *, unsigned: bool = False):
        self.block = block
        self.unsigned = unsigned

    def emit(self, op: Operation) -> SSAValue:
        """Append an op; its result."""
        self.block.add_op(op)
        return op.results[0]

    def number(self, value: Number, element: Attribute) -> SSAValue:
        """A constant of a signless element type."""
        return self.emit(arith.ConstantOp(number_attr(value, element)))

    def like(self, value: Number, x: SSAValue) -> SSAValue:
        """A constant of the type of `x`."""
        return self.number(value, x.type)

    def _choose(
        self,
        floating: Callable[[SSAValue, SSAValue], Operation],
        signed: Callable[[SSAValue, SSAValue], Operation],
        unsigned: Callable[[SSAValue, SSAValue], Operation],
        a: SSAValue,
        b: SSAValue,
    ) -> SSAValue:
        if is_float(a.type):
            return self.emit(floating(a, b))
        return self.emit(unsigned(a, b) if self.unsigned else signed(a, b))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a + b`; integers wrap."""
        return self._choose(arith.AddfOp, arith.AddiOp, arith.AddiOp, a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a - b`; integers wrap."""
        return self._choose(arith.SubfOp, arith.SubiOp, arith.SubiOp, a, b)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a * b`; integers wrap."""
        return self._choose(arith.MulfOp, arith.MuliOp, arith.MuliOp, a, b)

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a / b`, toward zero for integers, where b is not zero and the result fits."""
        return self._choose(arith.DivfOp, arith.DivSIOp, arith.DivUIOp, a, b)

    def maximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The larger of both; NaN if either is."""
        return self._choose(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp, a, b)

    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The smaller of both; NaN if either is."""
        return self._choose(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp, a, b)

    def compare(self, relation: Relation, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a relation b` as i1; with a NaN only "ne" is true."""
        if is_float(a.type):
            return self.emit(arith.CmpfOp(a, b, ("u" if relation == "ne" else "o") + relation))
        if relation in ("eq", "ne"):
            return self.emit(arith.CmpiOp(a, b, relation))
        return self.emit(arith.CmpiOp(a, b, ("u" if self.unsigned else "s") + relation))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a` where the condition holds, else `b`."""
        return self.emit(arith.SelectOp(condition, a, b))

    def either(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Whether one of two i1 holds."""
        return self.emit(arith.OrIOp(a, b))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Whether two i1 hold."""
        return self.emit(arith.AndIOp(a, b))

    def is_nan(self, x: SSAValue) -> SSAValue:
        """Whether a float is NaN."""
        return self.emit(arith.CmpfOp(x, x, "uno"))

    def extend(self, x: SSAValue, element: Attribute) -> SSAValue:
        """A float in a type that is at least as wide."""
        return x if x.type == element else self.emit(arith.ExtFOp(x, float_type(element)))

    def truncate(self, x: SSAValue, element: Attribute) -> SSAValue:
        """A float rounded to a type that is at most as wide."""
        return x if x.type == element else self.emit(arith.TruncFOp(x, float_type(element)))

    def widen(self, x: SSAValue) -> SSAValue:
        """A float narrower than f32 in f32; anything else as it is."""
        return self.extend(x, accumulator(x.type)) if is_float(x.type) else x

    def index_cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        """An index as an integer or an integer as an index."""
        return self.emit(arith.IndexCastOp(x, element))

    def wrapped_index(self, index: SSAValue, size: int) -> SSAValue:
        """A signed integer in [-size, size) as an index in [0, size): a negative one counts from the end."""
        negative = self.emit(arith.CmpiOp(index, self.like(0, index), "slt"))
        from_end = self.emit(arith.AddiOp(index, self.like(size, index)))
        return self.index_cast(self.select(negative, from_end, index), IndexType())

    def cast(
        self,
        x: SSAValue,
        source: Attribute,
        target: Attribute,
        *,
        saturate: bool = False,
        round_mode: str = "up",
    ) -> SSAValue:
        """`x`, an element of graph-level type `source`, converted to graph-level type `target` as `graph.cast` says."""
        if keeps_bytes(source, target) and not saturate:
            return x
        if is_tiny_float(source):  # f32 holds all of them
            return self.cast(self.extend(x, f32), f32, target, saturate=saturate, round_mode=round_mode)
        if is_sub_byte(source):
            source = _byte(source)
        if is_sub_byte(target):
            return self._to_sub_byte(x, source, integer_type(target))
        if is_scale_float(target):
            return self._to_power_of_two(x, source, saturate, round_mode)
        if is_tiny_float(target):
            return self._to_tiny_float(x, source, target, saturate)
        if is_bool(target):
            return self.compare("ne", x, self.like(0, x))
        if is_float(source) and is_float(target):
            return self._cast_float(x, target)
        if is_float(source):
            return self._float_to_integer(x, target)
        zero_extended = is_unsigned(source) or is_bool(source)
        if is_float(target):
            conversion = arith.UIToFPOp if zero_extended else arith.SIToFPOp
            return self.emit(conversion(x, float_type(target)))
        narrow, wide = integer_type(source).bitwidth, integer_type(target)
        if narrow > wide.bitwidth:
            return self.emit(arith.TruncIOp(x, integer_type(signless(wide))))
        extension = arith.ExtUIOp if zero_extended else arith.ExtSIOp
        return self.emit(extension(x, integer_type(signless(wide))))

    def _to_tiny_float(self, x: SSAValue, source: Attribute, target: Attribute, saturate: bool) -> SSAValue:
        x = self.widen(x) if is_float(source) else self.cast(x, source, f32)
        if saturate:
            largest = largest_number(target)
            x = self.minimum(self.maximum(x, self.like(-largest, x)), self.like(largest, x))
        return self.truncate(x, target)

    def _to_sub_byte(self, x: SSAValue, source: Attribute, target: IntegerType) -> SSAValue:
        """The low bits of a float as i32, or of an integer, extended to a byte."""
        if is_float(source):
            x, source = self._float_to_integer(x, i32), i32
        x = self.cast(x, source, i8)
        if is_bool(source):
            return x
        if is_unsigned(target):
            return self.emit(arith.AndIOp(x, self.like(highest(target), x)))
        unused = self.like(8 - target.bitwidth, x)
        return self.emit(arith.ShRSIOp(self.emit(arith.ShLIOp(x, unused)), unused))

    def _to_power_of_two(self, x: SSAValue, source: Attribute, saturate: bool, round_mode: str) -> SSAValue:
        """f8E8M0FNU: `2^(byte - 127)`, or NaN (byte 255).

        In f64 all its numbers are normal, so that carrying into the exponent rounds.
        """
        x = self.cast(x, source, f64)
        bits = self.emit(arith.BitcastOp(self.emit(math.AbsFOp(x)), i64))
        carry = {"up": (1 << 52) - 1, "nearest": 1 << 51, "down": 0}[round_mode]
        exponent = self.emit(arith.ShRUIOp(self.add(bits, self.like(carry, bits)), self.like(52, bits)))
        byte = self.sub(exponent, self.like(1023 - 127, exponent))
        low, high, none = (self.like(number, byte) for number in (0, 254, 255))
        if saturate:
            byte = self.emit(arith.MinSIOp(self.emit(arith.MaxSIOp(byte, low)), high))
        else:
            inside = self.emit(arith.CmpiOp(byte, none, "ult"))
            byte = self.select(inside, byte, none)
        valid = self.compare("ge", x, self.like(0, x))  # not NaN and not negative
        byte = self.emit(arith.TruncIOp(self.select(valid, byte, none), i8))
        return self.emit(arith.BitcastOp(byte, f8E8M0FNU))

    def _cast_float(self, x: SSAValue, target: Attribute) -> SSAValue:
        narrow, wide = float_type(x.type).bitwidth, float_type(target).bitwidth
        if narrow < wide:
            return self.extend(x, target)
        if narrow == wide:  # f16 and bf16: neither holds the other
            x = self.extend(x, f32)
        return self.truncate(x, target)

    def _float_to_integer(self, x: SSAValue, target: Attribute) -> SSAValue:
        """Toward zero, to the nearest integer of the type where out of range, 0 for NaN.

        The bounds are powers of two, which floats hold exactly; in f16 they may round to infinity, which is right too.
        """
        x = self.widen(x)
        low, high = lowest(target), highest(target)
        conversion = arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp
        whole = self.emit(conversion(x, integer_type(signless(target))))
        above = self.compare("ge", x, self.like(high + 1, x))
        whole = self.select(above, self.like(high, whole), whole)
        below = self.compare("le", x, self.like(low, x))
        whole = self.select(below, self.like(low, whole), whole)
        return self.select(self.is_nan(x), self.like(0, whole), whole)
