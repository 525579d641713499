"""What all graph operations share: the base classes, element kinds, and the helpers of type inference.

A graph operation is a pure function of tensors of static shape. Its class states, next to its operands and
properties, how its result type follows from them (`infer`); the constructor and the verifier both use that
one
definition.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, traits_def
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

Tensor: TypeAlias = TensorType[Attribute]
Operand: TypeAlias = SSAValue | Operation
I64Array: TypeAlias = DenseArrayBase[I64]
I64Attr: TypeAlias = IntegerAttr[I64]
Dense: TypeAlias = DenseIntOrFPElementsAttr[IntegerType | AnyFloat]
F64Attr: TypeAlias = FloatAttr[Float64Type]
Properties: TypeAlias = Mapping[str, Attribute]

SIGNATURE = "attr-dict `:` functional-type(operands, results)"
"""The end of most assembly formats."""


@dataclass(frozen=True, slots=True)
class Elements:
    """A set of element types, and the words for it in messages."""

    description: str
    accepts: Callable[[Attribute], bool]


_SIGNED_INTEGERS: Collection[Attribute] = frozenset(IntegerType(width) for width in (8, 16, 32, 64))
_UNSIGNED_INTEGERS: Collection[Attribute] = frozenset(
    IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64)
)
_UNSIGNED_SUB_BYTE: Collection[Attribute] = frozenset(
    IntegerType(width, Signedness.UNSIGNED) for width in (2, 4)
)
_SUB_BYTE: Collection[Attribute] = _UNSIGNED_SUB_BYTE | frozenset(IntegerType(width) for width in (2, 4))


def is_float(element: Attribute) -> bool:
    """Is it one of the floating-point types that operators compute in: f16, bf16, f32, f64?"""
    return isinstance(element, Float16Type | BFloat16Type | Float32Type | Float64Type)


def is_tiny_float(element: Attribute) -> bool:
    """Is it one of the floating-point types that are for storage only, of 8, 6 or 4 bits?"""
    return is_scale_float(element) or isinstance(
        element,
        Float8E4M3FNType
        | Float8E4M3FNUZType
        | Float8E5M2Type
        | Float8E5M2FNUZType
        | Float6E2M3FNType
        | Float6E3M2FNType
        | Float4E2M1FNType,
    )


def is_scale_float(element: Attribute) -> bool:
    """Is it f8E8M0FNU, whose numbers are the powers of two from 2^-127 to 2^127, and NaN?"""
    return isinstance(element, Float8E8M0FNUType)


def is_bool(element: Attribute) -> bool:
    """Is it `i1`?"""
    return element == i1


def is_integer(element: Attribute) -> bool:
    """Is it `iN` (signed) or `uiN` (unsigned), N one of 8, 16, 32, 64?"""
    return element in _SIGNED_INTEGERS or element in _UNSIGNED_INTEGERS


def is_sub_byte(element: Attribute) -> bool:
    """Is it an integer of 4 or 2 bits: i4, i2, ui4 or ui2, which are for storage only?"""
    return element in _SUB_BYTE


def is_unsigned(element: Attribute) -> bool:
    """Is it `uiN`?"""
    return element in _UNSIGNED_INTEGERS or element in _UNSIGNED_SUB_BYTE


FLOAT = Elements("floating-point elements (f16, bf16, f32, f64)", is_float)
INTEGER = Elements("integer elements (i8 to i64, ui8 to ui64)", is_integer)
BOOL = Elements("i1 elements", is_bool)
NUMERIC = Elements("floating-point or integer elements", lambda e: is_float(e) or is_integer(e))
SIGNED = Elements(
    "floating-point or signed integer elements",
    lambda e: is_float(e) or (is_integer(e) and not is_unsigned(e)),
)
BITS = Elements("integer or i1 elements", lambda e: is_integer(e) or is_bool(e))
INDEX = Elements("i32 or i64 elements", lambda e: e in (i32, i64))
CASTABLE = Elements(
    "integer, i1 or floating-point elements",
    lambda e: BITS.accepts(e) or is_sub_byte(e) or is_float(e) or is_tiny_float(e),
)
ANY = Elements("any elements", lambda e: True)


class GraphOp(IRDLOperation, HasCanonicalizationPatternsInterface, abc.ABC):
    """Base of all graph operations: pure, on tensors of static shape.

    A subclass either says how its result types follow from its operands and properties (`InferredOp`), or,
    where the result type is a choice (`graph.reshape`, `graph.expand`, ...), checks the one it is given
    (`verify_types`).
    """

    traits = traits_def(Pure())

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            require_static(tensor_type(value.type))
        self.verify_types()

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from mlopt.passes.graph.canonicalization import patterns_of

        return patterns_of(cls)

    @abc.abstractmethod
    def verify_types(self) -> None:
        """Check operand, property and result types against each other; raises `VerifyException`."""


class InferredOp(GraphOp):
    """A graph operation whose result types follow from its operand types and properties."""

    def __init__(
        self,
        operands: Sequence[Operand | Sequence[Operand] | None],
        properties: Mapping[str, Attribute | None] | None = None,
    ):
        """Build the operation and infer its result types; raises `VerifyException` if they don't fit.

        `operands` has one entry per operand definition, None for one that is left out; properties that are
        None are left out.
        """
        given = {name: value for name, value in (properties or {}).items() if value is not None}
        types = [tensor_type(SSAValue.get(value).type) for value in _flatten(operands)]
        for operand_type in types:
            require_static(operand_type)
        known = given
        if type(self).get_irdl_definition().options:
            known = {**given, _SEGMENTS: _segments([len(_flatten([operand])) for operand in operands])}
        super().__init__(
            operands=[[] if operand is None else operand for operand in operands],
            properties=given,
            result_types=list(type(self).infer(types, known)),
        )

    @classmethod
    @abc.abstractmethod
    def infer(cls, operands: Sequence[Tensor], properties: Properties) -> Sequence[Tensor]:
        """The result types for these operand types and properties.

        Absent optional operands are left out (`by_definition` tells which), properties that have their default may be.
        Raises `VerifyException` with one sentence that says what was expected and what was found.
        """

    def verify_types(self) -> None:
        expected = type(self).infer([tensor_type(value.type) for value in self.operands], self.properties)
        for want, result in zip(expected, self.results, strict=True):
            require_result(want, tensor_type(result.type))


_SEGMENTS = AttrSizedOperandSegments.attribute_name


def _segments(sizes: Sequence[int]) -> Attribute:
    return DenseArrayBase.from_list(i32, sizes)


def by_definition(operands: Sequence[Tensor], properties: Properties) -> list[Tensor | None]:
    """The operand types of an operation whose operands are single or optional: None for one that is left out."""
    remaining = list(operands)
    return [remaining.pop(0) if size else None for size in get_ints(properties, _SEGMENTS) or ()]


def _flatten(operands: Iterable[Operand | Sequence[Operand] | None]) -> list[Operand]:
    flat: list[Operand] = []
    for operand in operands:
        if isinstance(operand, SSAValue | Operation):
            flat.append(operand)
        elif operand is not None:
            flat.extend(operand)
    return flat


# Types.


def tensor_type(attribute: Attribute) -> Tensor:
    """`attribute` as a tensor type; raises `VerifyException` if it is none."""
    if not isinstance(attribute, TensorType):
        raise VerifyException(f"expected a tensor, found {attribute}")
    return cast(Tensor, attribute)


def shape_of(value: Operand) -> tuple[int, ...]:
    """The shape of a value that must be a tensor."""
    return tensor_type(SSAValue.get(value).type).get_shape()


def rank_of(value: Operand) -> int:
    """The rank of a value that must be a tensor."""
    return len(shape_of(value))


def with_shape(like: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor type of `shape` with the element type of `like`."""
    return TensorType(like.element_type, shape)


def require_static(tensor: Tensor) -> None:
    """Raise unless every dimension is a number."""
    if not tensor.has_static_shape():
        raise VerifyException(f"expected a static shape, found {tensor}")


def require_result(expected: Tensor, found: Tensor) -> None:
    """Raise unless the result type is the expected one."""
    if expected != found:
        raise VerifyException(f"expected result type {expected}, found {found}")


def require_elements(elements: Elements, tensor: Tensor, what: str) -> None:
    """Raise unless the element type of `what` belongs to `elements`."""
    if not elements.accepts(tensor.element_type):
        raise VerifyException(f"expected {elements.description} for {what}, found {tensor}")


def require_same_elements(reference: Tensor, tensor: Tensor, what: str) -> None:
    """Raise unless `tensor` has the element type of `reference`."""
    if tensor.element_type != reference.element_type:
        raise VerifyException(f"expected {reference.element_type} elements for {what}, found {tensor}")


def require_shape(shape: Sequence[int], tensor: Tensor, what: str) -> None:
    """Raise unless `tensor` has exactly this shape."""
    if tensor.get_shape() != tuple(shape):
        raise VerifyException(f"expected shape {shape_text(shape)} for {what}, found {tensor}")


def require_rank_at_least(rank: int, tensor: Tensor, what: str) -> None:
    """Raise unless `tensor` has `rank` or more dimensions."""
    if len(tensor.get_shape()) < rank:
        raise VerifyException(f"expected rank {rank} or more for {what}, found {tensor}")


def shape_text(shape: Sequence[int]) -> str:
    """A shape as messages print it: `[2, 3]`."""
    return f"[{', '.join(map(str, shape))}]"


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The common shape under numpy's rule (aligned at the right, 1 stretches); raises if there is none."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for sizes in zip(*padded, strict=True):
        stretched = {size for size in sizes if size != 1}
        if len(stretched) > 1:
            found = " and ".join(shape_text(shape) for shape in shapes)
            raise VerifyException(f"expected shapes that broadcast to one shape, found {found}")
        result.append(stretched.pop() if stretched else 1)
    return tuple(result)


def require_broadcast_to(shape: Sequence[int], tensor: Tensor, what: str) -> None:
    """Raise unless `tensor` broadcasts to exactly `shape`."""
    own = tensor.get_shape()
    aligned = zip(reversed(own), reversed(shape), strict=False)
    if len(own) > len(shape) or any(size not in (1, wanted) for size, wanted in aligned):
        raise VerifyException(
            f"expected a shape that broadcasts to {shape_text(shape)} for {what}, found {tensor}"
        )


# Axes. The IR holds axes as numbers from 0; constructors accept negative ones, counted from the end, as ONNX
# does.


def normalize_axis(axis: int, rank: int) -> int:
    """`axis` in [-rank, rank) as a number from 0; raises if it is outside."""
    if not -rank <= axis < rank:
        raise VerifyException(f"expected an axis in [{-rank}, {rank}), found {axis}")
    return axis % rank


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes as distinct numbers from 0 in ascending order."""
    result = sorted(normalize_axis(axis, rank) for axis in axes)
    require_axes(result, rank)
    return tuple(result)


def require_axis(axis: int, rank: int) -> None:
    """Raise unless 0 <= axis < rank."""
    if not 0 <= axis < rank:
        raise VerifyException(f"expected an axis in [0, {rank}), found {axis}")


def require_axes(axes: Sequence[int], rank: int) -> None:
    """Raise unless the axes are ascending, without repetition, and in [0, rank)."""
    for axis in axes:
        require_axis(axis, rank)
    if any(a >= b for a, b in pairwise(axes)):
        raise VerifyException(f"expected ascending axes without repetition, found {shape_text(axes)}")


# Properties: from and to plain Python values.


def int_attr(value: int) -> I64Attr:
    """An i64 attribute."""
    return IntegerAttr(value, i64)


def ints_attr(values: Iterable[int]) -> I64Array:
    """An array attribute of i64 numbers."""
    return DenseArrayBase.from_list(i64, list(values))


def unit_attr(present: bool) -> UnitAttr | None:
    """A flag: present or not."""
    return UnitAttr() if present else None


def number_type(attribute: Attribute) -> Attribute:
    """The type of a number attribute; raises `VerifyException` if it is none."""
    if not isinstance(attribute, IntegerAttr | FloatAttr):
        raise VerifyException(f"expected a number, found {attribute}")
    return cast(Attribute, attribute.type)


def dense_attr(attribute: Attribute) -> Dense | None:
    """`attribute` if it is `dense<...>`, else None."""
    return cast(Dense, attribute) if isinstance(attribute, DenseIntOrFPElementsAttr) else None


def get_int(properties: Properties, name: str, default: int = 0) -> int:
    """The value of an i64 property."""
    attribute = properties.get(name)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else default


def get_ints(properties: Properties, name: str) -> tuple[int, ...] | None:
    """The values of an i64 array property, or None if it is left out."""
    attribute = properties.get(name)
    if attribute is None:
        return None
    assert isinstance(attribute, DenseArrayBase)
    return tuple(int(value) for value in attribute.iter_values())
