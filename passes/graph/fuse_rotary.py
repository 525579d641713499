"""`fuse-rotary`: pairs of numbers turned by angles, however the pairs are taken apart, become one operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from xdsl.ir import Operation, OpResult, SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import rank_of, shape_of
from mlopt.ir.context import CompilerContext
from mlopt.passes.graph.fusion import Fusion, Group, Miss, either_way, fuse
from mlopt.passes.graph.polynomials import once
from mlopt.passes.graph.rotary_tables import Tables
from mlopt.passmanager.base import Pass
from mlopt.passmanager.conditions import GRAPH_LEVEL

Side: TypeAlias = Literal[0, 1]
"""The first or the second numbers of the pairs."""


class FuseRotaryPass(Pass):
    """Make one `graph.rotary_embedding` of what turns pairs of numbers.

    1. `x * cos + rotated(x) * sin`, where `rotated` has the negative second half of x before the first, or interleaved
       the negative second number of each two before the first. Cosines and sines must be the same for both numbers of
       a pair, and must be known to be: constants whose halves are equal, or what is computed from a concat of a value
       with itself. One half of them is computed then.
    2. The pairs apart: `a * cos - b * sin` and `b * cos + a * sin`, put together by a concat, where a and b are the
       halves of x, or every other number. Halves are slices or parts of a split.

    Not fused: inner values that are used elsewhere or are graph outputs, tables that differ within a pair or enlarge
    x. In f32 and f64 every number is the same; f16 and bf16 are computed in f32 and rounded once. Remarks: each fusion,
    each near miss.
    """

    name = "fuse-rotary"
    requires: ClassVar = GRAPH_LEVEL

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return fuse(ctx, op, [FuseRotatedSum(ctx, self.name), FuseTurnedPairs(ctx, self.name)])


class _Part(NamedTuple):
    """The first (0) or second (1) numbers of the pairs of `source`, and the operations that take them out."""

    source: SSAValue
    side: Side
    interleaved: bool
    ops: tuple[Operation, ...]


def _part(value: SSAValue) -> _Part | None:
    """The half of a value that a slice, or a part of a split, is."""
    op = value.owner
    if isinstance(op, graph.SplitOp):
        sizes = [shape_of(part)[-1] for part in op.parts]
        assert isinstance(value, OpResult)
        last = op.axis.value.data == rank_of(op.input) - 1
        if not last or len(sizes) != 2 or sizes[0] != sizes[1]:
            return None
        return _Part(op.input, 1 if value.index else 0, interleaved=False, ops=(op,))
    if not isinstance(op, graph.SliceOp) or not shape_of(op.input):
        return None
    *outer, size = shape_of(op.input)
    *ranges, (start, stop, step) = op.ranges
    if size % 2 or shape_of(value) != (*outer, size // 2) or any(step != 1 for _, _, step in ranges):
        return None
    if step == 1 and start in (0, size // 2):
        return _Part(op.input, 1 if start else 0, interleaved=False, ops=(op,))
    if step == 2 and start in (0, 1) and stop >= size - 1:
        return _Part(op.input, 1 if start else 0, interleaved=True, ops=(op,))
    return None


class _Joined(NamedTuple):
    """Two values as first and second numbers of pairs, and the operations that put them together."""

    first: SSAValue
    second: SSAValue
    interleaved: bool
    ops: tuple[Operation, ...]


def _joined(value: SSAValue) -> Iterator[_Joined]:
    """The ways in which a value is put together: one after the other along the last dimension, or in turn."""
    op = value.owner
    if isinstance(op, graph.ConcatOp) and len(op.inputs) == 2 and op.axis.value.data == rank_of(value) - 1:
        first, second = op.inputs
        if first.type == second.type:
            yield _Joined(first, second, interleaved=False, ops=(op,))
    elif isinstance(op, graph.ReshapeOp) and isinstance(stack := op.input.owner, graph.ConcatOp):
        apart = (*shape_of(value)[:-1], shape_of(value)[-1] // 2, 1) if shape_of(value) else ()
        reshapes = [operand.owner for operand in stack.inputs]
        last = stack.axis.value.data == len(apart) - 1
        if len(reshapes) != 2 or not last or any(shape_of(part) != apart for part in stack.inputs):
            return
        first, second = reshapes
        if isinstance(first, graph.ReshapeOp) and isinstance(second, graph.ReshapeOp):
            flat = apart[:-1]
            if shape_of(first.input) == flat == shape_of(second.input):
                ops = (op, stack, first, second)
                yield _Joined(first.input, second.input, interleaved=True, ops=ops)


class FuseRotatedSum(Fusion):
    """x * cos + rotated(x) * sin -> rotary_embedding(x, cos, sin)"""

    statistic: ClassVar[str] = "rotary-embeddings-fused"
    roots: ClassVar = (graph.AddOp,)

    def __init__(self, ctx: CompilerContext, pass_name: str):
        super().__init__(ctx, pass_name)
        self.tables = Tables(ctx)

    def match(self, op: Operation) -> Group | Miss | None:
        for plain, turned in either_way(op):
            if not isinstance(plain.owner, graph.MulOp) or not isinstance(turned.owner, graph.MulOp):
                continue
            for rotated, sin in either_way(turned.owner):
                if (found := self._rotated(rotated)) is None:
                    continue
                x, interleaved, ops = found
                for value, cos in either_way(plain.owner):
                    if value == x:
                        ops = once((op, plain.owner, turned.owner, *ops))
                        return self._group(x, cos, sin, ops, interleaved=interleaved)
        return None

    def _rotated(self, value: SSAValue) -> tuple[SSAValue, bool, tuple[Operation, ...]] | None:
        """What a value is the rotated form of, whether pairs are neighbours, and the operations."""
        for joined in _joined(value):
            negation = joined.first.owner
            if not isinstance(negation, graph.NegOp):
                continue
            first, second = _part(negation.input), _part(joined.second)
            if _are_halves(second, first, interleaved=joined.interleaved):
                assert first is not None and second is not None
                return first.source, joined.interleaved, (*joined.ops, negation, *first.ops, *second.ops)
        return None

    def _group(
        self, x: SSAValue, cos: SSAValue, sin: SSAValue, ops: tuple[Operation, ...], *, interleaved: bool
    ) -> Group | Miss:
        if ops[0].results[0].type != x.type:
            return Miss(f"a table enlarges {x.type} to {ops[0].results[0].type}")
        for name, table in (("cosines", cos), ("sines", sin)):
            if not self.tables.has_half(table, shape_of(x)[-1], interleaved=interleaved):
                return Miss(f"the {name} of the two numbers of a pair are not known to be equal")

        def build() -> list[Operation]:
            new: list[Operation] = []
            halves = [self.tables.half(table, new, interleaved=interleaved) for table in (cos, sin)]
            return [*new, graph.RotaryEmbeddingOp(x, *halves, interleaved=interleaved)]

        return Group(ops, build, "'rotary_embedding'")


class FuseTurnedPairs(Fusion):
    """concat(a * cos - b * sin, b * cos + a * sin) -> rotary_embedding(x, cos, sin), a and b the pairs of x"""

    statistic: ClassVar[str] = "rotary-embeddings-fused"
    roots: ClassVar = (graph.ConcatOp, graph.ReshapeOp)

    def match(self, op: Operation) -> Group | Miss | None:
        for joined in _joined(op.results[0]):
            difference, total = joined.first.owner, joined.second.owner
            if not isinstance(difference, graph.SubOp) or not isinstance(total, graph.AddOp):
                continue
            for first, cos, minuend in _products(difference.lhs):
                for second, sin, subtrahend in _products(difference.rhs):
                    halves = _part(first), _part(second)
                    if not _are_halves(*halves, interleaved=joined.interleaved):
                        continue
                    sums = self._sum(total, (second, cos), (first, sin))
                    if sums is None:
                        continue
                    assert halves[0] is not None and halves[1] is not None
                    ops = (
                        *(*joined.ops, difference, total, minuend, subtrahend, *sums),
                        *(*halves[0].ops, *halves[1].ops),
                    )
                    return self._group(
                        op, halves[0].source, cos, sin, once(ops), interleaved=joined.interleaved
                    )
        return None

    def _sum(
        self, total: graph.AddOp, *factors: tuple[SSAValue, SSAValue]
    ) -> tuple[Operation, Operation] | None:
        """The operations of the two products of these factors, if the total is of those."""
        for one, other in either_way(total):
            products = one.owner, other.owner
            if all(
                isinstance(product, graph.MulOp) and wanted in either_way(product)
                for product, wanted in zip(products, factors, strict=True)
            ):
                first, second = products
                assert isinstance(first, Operation) and isinstance(second, Operation)
                return first, second
        return None

    def _group(
        self,
        op: Operation,
        x: SSAValue,
        cos: SSAValue,
        sin: SSAValue,
        ops: tuple[Operation, ...],
        *,
        interleaved: bool,
    ) -> Group | Miss:
        if op.results[0].type != x.type:
            return Miss(f"a table enlarges {x.type} to {op.results[0].type}")
        return Group(
            ops,
            lambda: [graph.RotaryEmbeddingOp(x, cos, sin, interleaved=interleaved)],
            "'rotary_embedding'",
        )


def _products(value: SSAValue) -> Iterator[tuple[SSAValue, SSAValue, Operation]]:
    """The factors of a product in both orders, and its operation."""
    if isinstance(value.owner, graph.MulOp):
        for a, b in either_way(value.owner):
            yield a, b, value.owner


def _are_halves(first: _Part | None, second: _Part | None, *, interleaved: bool) -> bool:
    """Are these the first and the second numbers of the same pairs?"""
    if first is None or second is None or first.source != second.source:
        return False
    if (first.side, second.side) != (0, 1):
        return False
    is_pair = shape_of(first.source)[-1] == 2
    return is_pair or first.interleaved == second.interleaved == interleaved
