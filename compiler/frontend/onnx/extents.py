"""Integers that are computed at run time and decide sizes: what they are made of, and how large they can be.

A `Size` is a number known at import or a scalar (i64, rank 0) of the graph level. What is asked about one is read
off the operations that compute it: which scalar stands at a place of a vector (`elements`), between what limits an
integer lies (`interval`), whether two are the same (`same`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import get_ints, is_integer, shape_of, tensor_type
from mlopt.frontend.onnx.node import Node
from mlopt.ir.dtypes import to_numpy_dtype

Size: TypeAlias = int | SSAValue
"""A number known at import, or a scalar of the graph level."""

Interval: TypeAlias = tuple[int, int]
"""The least and the largest value."""

_MAX_STEPS = 4096
"""Values looked at for one interval, or pairs for one comparison: what goes on longer is as good as unknown."""


class Sizes:
    """Arithmetic on sizes at a node: numbers known at import are computed, the rest becomes operations."""

    def __init__(self, node: Node):
        self._node = node

    def value(self, size: Size) -> SSAValue:
        """The size as a scalar."""
        return self._node.constant(np.array(size, np.int64)) if isinstance(size, int) else size

    def vector(self, sizes: Sequence[Size]) -> SSAValue:
        """The sizes as a tensor of rank 1."""
        if all(isinstance(size, int) for size in sizes):
            return self._node.constant(np.array(sizes, np.int64))
        parts = [self._node.add(graph.ReshapeOp(self.value(size), [1])).result for size in sizes]
        return parts[0] if len(parts) == 1 else self._node.add(graph.ConcatOp(parts, 0)).result

    def add(self, a: Size, b: Size) -> Size:
        """The sum."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        if not isinstance(b, int) and isinstance(b.owner, graph.SubOp) and same(b.owner.rhs, a):
            return elements(self._node, b.owner.lhs)[0]
        return self._node.add(graph.AddOp(self.value(a), self.value(b))).result

    def sub(self, a: Size, b: Size) -> Size:
        """The difference."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self._node.add(graph.SubOp(self.value(a), self.value(b))).result

    def mul(self, a: Size, factor: int) -> Size:
        """The product with a number."""
        if isinstance(a, int):
            return a * factor
        return a if factor == 1 else self._node.add(graph.MulOp(a, self.value(factor))).result

    def divide(self, a: Size, divisor: int) -> Size:
        """The quotient of a size of at least 0 by a positive number, rounded down."""
        if isinstance(a, int):
            return a // divisor
        return a if divisor == 1 else self._node.add(graph.DivOp(a, self.value(divisor))).result

    def least(self, a: Size, b: Size) -> Size:
        """The smaller one; one that is never larger than the other is taken as it is."""
        (low_a, high_a), (low_b, high_b) = interval(self._node, a), interval(self._node, b)
        if high_a <= low_b:
            return a
        if high_b <= low_a:
            return b
        return self._node.add(graph.MinOp(self.value(a), self.value(b))).result

    def largest(self, a: Size, b: Size) -> Size:
        """The larger one; one that is never smaller than the other is taken as it is."""
        (low_a, high_a), (low_b, high_b) = interval(self._node, a), interval(self._node, b)
        if low_a >= high_b:
            return a
        if low_b >= high_a:
            return b
        return self._node.add(graph.MaxOp(self.value(a), self.value(b))).result

    def from_end(self, position: Size, size: Size) -> Size:
        """A position that counts from the end if it is negative, as one that counts from the start."""
        low, high = interval(self._node, position)
        if low >= 0:
            return position
        shifted = self.add(position, size)
        if high < 0:
            return shifted
        negative = self._node.add(graph.LessOp(self.value(position), self.value(0))).result
        return self._node.add(graph.WhereOp(negative, self.value(shifted), self.value(position))).result

    def require_equal(self, a: Size, b: Size) -> Size:
        """The size `a`, which the run finds to be `b`, or it ends with an error."""
        if isinstance(a, int) and isinstance(b, int):
            if a != b:
                raise self._node.error(f"expected equal sizes, found {a} and {b}")
            return a
        if same(a, b):
            return a
        return self._node.add(graph.RequireEqualOp(self.value(a), self.value(b))).result


_MAX_ELEMENTS = 16
"""Numbers of a vector that are computed one by one."""


_MAX_NUMBERS = 1024
"""Numbers of a list of sizes or positions, of which there is one for each axis or a few."""


# What a value is made of


def elements(node: Node, value: SSAValue) -> list[Size]:
    """The numbers of an integer tensor of rank 0 or 1; an error if there are more than any list of sizes has."""
    if _is_long(value):
        raise node.error(f"expected a list of at most {_MAX_NUMBERS} sizes or positions, found {value.type}")
    known = node.constant_value(value)
    if known is not None:
        return [int(number) for number in known.reshape(-1)]
    found = _parts(node, value)
    if found is not None:
        return found
    shape = shape_of(value)
    if tensor_type(value.type).element_type != i64:
        value = node.add(graph.CastOp(value, i64)).result
    if not shape:
        return [value]
    if shape == (1,):
        return [node.add(graph.ReshapeOp(value, [])).result]
    positions = [node.constant(np.array(index)) for index in range(shape[0])]
    return [node.add(graph.GatherOp(value, position, 0)).result for position in positions]


def _parts(node: Node, value: SSAValue) -> list[Size] | None:
    """The numbers, where the operation that gives `value` only puts others together."""
    op = value.owner
    if isinstance(op, Operation) and any(map(_is_long, op.operands)):
        return None
    match op:
        case graph.ConcatOp():
            return [size for part in op.inputs for size in elements(node, part)]
        case graph.ReshapeOp() if len(shape_of(op.input)) <= 1:
            return elements(node, op.input)
        case graph.ExpandOp() if shape_of(op.input) in ((), (1,)):
            return elements(node, op.input) * prod(shape_of(value))
        case graph.CastOp() if is_integer(_element(op.input)) and _fits(node, op.input, value):
            return elements(node, op.input)
        case graph.SliceOp():
            ((start, stop, step),) = op.ranges
            whole = elements(node, op.input)
            return [whole[index] for index in range(start, stop, step)]
        case graph.GatherOp() if len(shape_of(op.input)) == 1:
            at = node.constant_value(op.indices)
            if at is None:
                return None
            whole = elements(node, op.input)
            if any(not -len(whole) <= index < len(whole) for index in at.reshape(-1)):
                return None
            return [whole[int(index)] for index in at.reshape(-1)]
        case graph.AddOp() | graph.SubOp() | graph.MulOp() if _element(value) == i64:
            return _arithmetic(node, op, prod(shape_of(value)))
        case _:
            return None


def _arithmetic(node: Node, op: graph.AddOp | graph.SubOp | graph.MulOp, count: int) -> list[Size] | None:
    """Sums, differences and multiples, number by number."""
    if count > _MAX_ELEMENTS or max(len(shape_of(operand)) for operand in op.operands) > 1:
        return None
    pairs = zip(*(_repeated(elements(node, operand), count) for operand in op.operands), strict=True)
    sizes, found = Sizes(node), list[Size]()
    for a, b in pairs:
        match op:
            case graph.AddOp():
                found.append(sizes.add(a, b))
            case graph.SubOp():
                found.append(sizes.sub(a, b))
            case _:
                if not isinstance(a, int) and not isinstance(b, int):
                    return None
                found.append(sizes.mul(a, b) if isinstance(b, int) else sizes.mul(b, int(a)))
    limits = np.iinfo(np.int64)
    wraps = any(isinstance(number, int) and not limits.min <= number <= limits.max for number in found)
    return None if wraps else found


def _is_long(value: SSAValue) -> bool:
    return tensor_type(value.type).element_count() > _MAX_NUMBERS


def _repeated(numbers: list[Size], count: int) -> list[Size]:
    return numbers * count if len(numbers) == 1 else numbers


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value.type).element_type


def _fits(node: Node, source: SSAValue, target: SSAValue) -> bool:
    """Whether no number of `source` changes when it is cast to the integer type of `target`."""
    limits = np.iinfo(to_numpy_dtype(_element(target)))
    low, high = interval(node, source)
    return bool(limits.min <= low and high <= limits.max)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal whatever the data: computed in the same way from the same values."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    pending, seen = [(a, b)], set[tuple[SSAValue, SSAValue]]()
    while pending:
        pair = pending.pop()
        one, other = pair
        if one is other or pair in seen:
            continue
        seen.add(pair)
        left, right = one.owner, other.owner
        if (
            len(seen) > _MAX_STEPS
            or not isinstance(left, graph.GraphOp)
            or not isinstance(right, graph.GraphOp)
        ):
            return False
        alike = type(left) is type(right) and left.properties == right.properties and one.type == other.type
        if not alike or len(left.operands) != len(right.operands):
            return False
        if not isinstance(one, OpResult) or not isinstance(other, OpResult) or one.index != other.index:
            return False
        pending += zip(left.operands, right.operands, strict=True)
    return True


def interval(node: Node, size: Size) -> Interval:
    """The limits of every number of an integer or bool tensor: those of its type if no more can be told."""
    if isinstance(size, int):
        return size, size
    return _Intervals(node).of(size)


class _Intervals:
    """Limits of values, each looked at once."""

    def __init__(self, node: Node):
        self._node = node
        self._known: dict[SSAValue, Interval] = {}

    def of(self, value: SSAValue) -> Interval:
        """The limits of a value; those of what it depends on are entered first."""
        pending = [value]
        while pending:
            current = pending[-1]
            op = current.owner
            if current in self._known:
                pending.pop()
                continue
            operands = op.operands if isinstance(op, _FOLLOWED) else ()
            waiting = [operand for operand in operands if operand not in self._known]
            if waiting and len(self._known) + len(pending) < _MAX_STEPS:
                pending += waiting
            else:
                self._known[current] = self._compute(current, op if not waiting else None)
                pending.pop()
        return self._known[value]

    def _compute(self, value: SSAValue, op: Operation | Block | None) -> Interval:
        """The limits by the operation; those of the type where there are none, or beyond which integers wrap."""
        whole = _of_type(value)
        found = None if op is None or isinstance(op, Block) else self._of_result(value, op)
        return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole

    def _of_result(self, value: SSAValue, op: Operation) -> Interval | None:
        match op:
            case graph.ConstantOp():
                array = self._node.constant_value(value)
                if array is None or not array.size or array.dtype.kind not in "iub":
                    return None
                return int(array.min()), int(array.max())
            case graph.ShapeOp():
                dimensions = op.dimensions()
                return (min(dimensions), max(dimensions)) if dimensions else None
            case graph.NonZeroOp() if value is op.count:
                return 0, shape_of(op.indices)[1]
            case graph.UniqueOp() if value is op.count:
                return 0, shape_of(op.indices)[0]
            case graph.NonMaxSuppressionOp() if value is op.count:
                return 0, shape_of(op.selected)[0]
            case graph.ArgMaxOp():
                return 0, max(0, shape_of(op.input)[op.axis.value.data] - 1)
            case graph.ReduceSumOp():
                low, high = self._known[op.input]
                count = prod(shape_of(op.input)[axis] for axis in get_ints(op.properties, "axes") or ())
                return low * count, high * count
            case _ if isinstance(op, _FOLLOWED):
                return _combined(op, [self._known[operand] for operand in op.operands])
            case _:
                return None


_FOLLOWED = (
    *(graph.AddOp, graph.SubOp, graph.MulOp, graph.DivOp, graph.NegOp, graph.AbsOp, graph.MinOp, graph.MaxOp),
    *(graph.WhereOp, graph.RequireEqualOp, graph.CastOp, graph.ReshapeOp, graph.ConcatOp, graph.SliceOp),
    *(graph.ExpandOp, graph.TransposeOp, graph.GatherOp),
    *(graph.ReduceSumOp, graph.ReduceMaxOp, graph.ReduceMinOp),
)
"""The operations whose operands tell something about their results."""


def _combined(op: Operation, of: Sequence[Interval]) -> Interval | None:
    """The limits of an operation's result by those of all its operands."""
    match op:
        case graph.AddOp():
            return of[0][0] + of[1][0], of[0][1] + of[1][1]
        case graph.SubOp():
            return of[0][0] - of[1][1], of[0][1] - of[1][0]
        case graph.MulOp():
            products = [x * y for x in of[0] for y in of[1]]
            return min(products), max(products)
        case graph.DivOp():
            known = of[0][0] >= 0 and of[1][0] > 0
            return (of[0][0] // of[1][1], of[0][1] // of[1][0]) if known else None
        case graph.NegOp():
            return -of[0][1], -of[0][0]
        case graph.AbsOp():
            low, high = of[0]
            return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
        case graph.MinOp():
            return min(of[0][0], of[1][0]), min(of[0][1], of[1][1])
        case graph.MaxOp():
            return max(of[0][0], of[1][0]), max(of[0][1], of[1][1])
        case graph.RequireEqualOp():
            return max(of[0][0], of[1][0]), min(of[0][1], of[1][1])
        case graph.WhereOp():
            return _hull(of[1:])
        case graph.GatherOp():
            return of[0]
        case _:
            return _hull(of)


def _hull(of: Sequence[Interval]) -> Interval:
    return min(low for low, _ in of), max(high for _, high in of)


def _of_type(value: SSAValue) -> Interval:
    """The limits of an element type; of one that is not for integers, more than any integer has."""
    element = _element(value)
    if element == i1:
        return 0, 1
    if not is_integer(element):
        return -(2**100), 2**100
    limits = np.iinfo(to_numpy_dtype(element))
    return int(limits.min), int(limits.max)
