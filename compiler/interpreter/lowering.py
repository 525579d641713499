"""From the expressions of a body to nodes, for one binding of its memrefs and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from xdsl.ir import SSAValue

from mlopt.interpreter.expressions import (
    Apply,
    Captured,
    Const,
    Expr,
    Gather,
    Index,
    Linear,
    Read,
    post_order,
)
from mlopt.interpreter.nodes import IndexCheck, Leaf, Padded, Ref, Take
from mlopt.interpreter.primitives import INDEX, NodeBuilder, lower
from mlopt.interpreter.views import View, row_major
from mlopt.ir.dtypes import to_numpy_dtype


class Binding(Protocol):
    """What the values outside an op stand for in one place of the plan."""

    def source(self, expr: Read | Gather) -> View:
        """The memref that an expression reads."""
        ...

    def scalar(self, value: SSAValue) -> View | int | float:
        """A scalar: its value if it is known, else the cell that will hold it."""
        ...


class BodyLowering:
    """Lowers expressions over one iteration space to nodes; a shared expression becomes one node.

    `replaced` gives some expressions a constant value. `order` are the dimensions that are executed in whole
    arrays, from outermost to innermost; a gather of whole rows needs its row innermost.
    """

    def __init__(
        self,
        nodes: NodeBuilder,
        extents: tuple[int, ...],
        order: tuple[int, ...],
        binding: Binding,
        replaced: Mapping[Expr, object],
    ):
        self._nodes = nodes
        self._extents = extents
        self._order = order
        self._binding = binding
        self._replaced = replaced
        self._refs: dict[Expr, Ref] = {}

    def lower(self, root: Expr) -> Ref:
        """The node of an expression; `NoSteps` for an operation that numpy has none for."""
        for expr in post_order((root,)):
            if expr not in self._refs:
                self._refs[expr] = self._lower(expr)
        return self._refs[root]

    def _lower(self, expr: Expr) -> Ref:
        nodes = self._nodes
        if expr in self._replaced:
            return nodes.constant(self._replaced[expr], to_numpy_dtype(expr.type))
        match expr:
            case Const():
                return nodes.constant(expr.value, to_numpy_dtype(expr.type))
            case Captured():
                value = self._binding.scalar(expr.source)
                if isinstance(value, View):
                    return nodes.scalar(value)
                return nodes.constant(value, to_numpy_dtype(expr.type))
            case Index():
                return self._position(expr.value)
            case Read():
                return self._read(expr)
            case Gather():
                return self._gather(expr)
            case Apply():
                args = [self._refs[arg] for arg in expr.args]
                return lower(nodes, expr.name, args, to_numpy_dtype(expr.type), expr.predicate)
            case _:
                raise AssertionError(f"unknown expression {type(expr).__name__}")

    def _varying(self, strides: tuple[int, ...]) -> frozenset[int]:
        return frozenset(d for d, s in enumerate(strides) if s and self._extents[d] > 1)

    def _read(self, expr: Read) -> Ref:
        source = self._binding.source(expr)
        view = source.over(expr.index, self._extents)
        if expr.pad is None:
            return Ref(Leaf(view.dtype, self._varying(view.strides), view, source=source), view.dtype)
        dims = self._varying(view.strides) | frozenset(d for b in expr.bounds for d in b.expr.dims)
        return Ref(Padded(view.dtype, dims, view, expr.bounds, self._refs[expr.pad]), view.dtype)

    def _position(self, linear: Linear, offset: int = 0) -> Ref:
        """An affine position as int64 elements: one table per dimension it depends on, added up."""
        rest = linear.constant + offset
        total: Ref | None = None
        for dim in linear.dims:
            if self._extents[dim] <= 1:
                continue
            table = self._nodes.memory.table(np.arange(self._extents[dim]) * linear.coefficients[dim] + rest)
            strides = tuple(INDEX.itemsize if d == dim else 0 for d in range(len(self._extents)))
            view = View(table.region, table.offset, self._extents, strides, INDEX)
            leaf = Ref(Leaf(INDEX, frozenset((dim,)), view), INDEX)
            total = leaf if total is None else self._nodes.apply(np.add, total, leaf)
            rest = 0
        return self._nodes.constant(rest, INDEX) if total is None else total

    def _gather(self, expr: Gather) -> Ref:
        """Elements of a table at computed positions; whole rows of it where the innermost dimensions walk one."""
        source = self._binding.source(expr)
        if expr.speculative and not source.size:
            return self._nodes.constant(0, source.dtype)
        affine = Linear.of_constant(len(self._extents), source.offset)
        computed: list[tuple[Ref, int]] = []
        checks: list[IndexCheck] = []
        for axis, (index, stride) in enumerate(zip(expr.index, source.strides, strict=True)):
            if isinstance(index, Index):
                affine = affine + index.value.scaled(stride)
                continue
            at = self._nodes.cast(self._refs[index], INDEX)
            computed.append((at, stride))
            if not expr.speculative and not self._is_known_inside(index, source.shape[axis]):
                from_end = _counted_from_end(index, source.shape[axis]) is not None
                checks.append(IndexCheck(at, axis, source.shape[axis], from_end, expr.place))
        low, high = source.span() if source.size else (source.offset, source.offset)
        row = self._row(affine, computed, source.itemsize)
        if row:
            nbytes = source.itemsize * int(np.prod([self._extents[d] for d in row]))
            table = self._table(source, affine.constant, high, (nbytes // source.itemsize,))
            index = self._sum(computed, nbytes, Linear.of_constant(len(self._extents), 0))
        else:
            table = self._table(source, low, high, ())
            index = self._sum(
                computed, source.itemsize, affine + Linear.of_constant(len(self._extents), -low)
            )
        dims = index.node.dims | frozenset(row)
        return Ref(Take(source.dtype, dims, table, index, row, tuple(checks)), source.dtype)

    def _is_known_inside(self, index: Expr, size: int) -> bool:
        """Whether the index is read from constant memory, where every element can be looked at now."""
        counted = _counted_from_end(index, size)
        ref = self._refs[index if counted is None else counted]
        if (
            not isinstance(ref.node, Leaf)
            or ref.node.view.region.data is None
            or ref.node.view.region.writable
        ):
            return False
        numbers = ref.node.view.with_dtype(ref.dtype).array()
        low = 0 if counted is None else -size
        return numbers.size == 0 or (int(numbers.min()) >= low and int(numbers.max()) < size)

    def _row(self, affine: Linear, computed: list[tuple[Ref, int]], itemsize: int) -> tuple[int, ...]:
        """The innermost dimensions, if they walk exactly the contiguous rows that the computed indices choose."""
        walked = {d for d in affine.dims if self._extents[d] > 1}
        row = tuple(d for d in self._order if d in walked)
        inner = tuple(d for d in self._order if self._extents[d] > 1)[-len(row) :] if row else ()
        chosen = frozenset[int]().union(*(ref.node.dims for ref, _ in computed))
        if not computed or len(row) != len(walked) or row != inner or chosen & walked:
            return ()
        expected = row_major([self._extents[d] for d in row], itemsize)
        nbytes = itemsize * int(np.prod([self._extents[d] for d in row]))
        fits = all(affine.coefficients[d] == stride for d, stride in zip(row, expected, strict=True))
        return row if fits and all(stride and stride % nbytes == 0 for _, stride in computed) else ()

    @staticmethod
    def _table(source: View, low: int, high: int, row: tuple[int, ...]) -> View:
        """The bytes from `low` to `high` as a contiguous table of elements or rows."""
        nbytes = source.itemsize * (row[0] if row else 1)
        shape = (max((high - low) // nbytes, 0), *row)
        return View(source.region, low, shape, row_major(shape, source.itemsize), source.dtype)

    def _sum(self, computed: list[tuple[Ref, int]], unit: int, affine: Linear) -> Ref:
        """`sum(index * stride) + affine` (bytes), in units of `unit` bytes."""
        scaled = Linear(tuple(c // unit for c in affine.coefficients), affine.constant // unit)
        total: Ref | None = None
        for ref, stride in computed:
            term = ref
            if stride != unit:
                term = self._nodes.apply(np.multiply, term, self._nodes.constant(stride // unit, INDEX))
            total = term if total is None else self._nodes.apply(np.add, total, term)
        if total is None:
            return self._position(scaled)
        if scaled.is_constant and not scaled.constant:
            return total
        return self._nodes.apply(np.add, total, self._position(scaled))


_SLT = 2  # the number of a predicate of arith.cmpi


def _counted_from_end(index: Expr, size: int) -> Expr | None:
    """`i`, if the index is `i < 0 ? i + size : i`, else None."""
    if isinstance(index, Apply) and index.name == "arith.index_cast":
        (index,) = index.args
    match index:
        case Apply(
            name="arith.select",
            args=(
                Apply(name="arith.cmpi", predicate=predicate, args=(compared, zero)),
                Apply(name="arith.addi", args=(added, extent)),
                kept,
            ),
        ) if (
            predicate == _SLT
            and compared is kept
            and added is kept
            and _number(zero) == 0
            and _number(extent) == size
        ):
            return kept
        case _:
            return None


def _number(expr: Expr) -> int | float | None:
    """The value of a constant, or None."""
    match expr:
        case Const():
            return expr.value
        case Index() if expr.value.is_constant:
            return expr.value.constant
        case _:
            return None
