"""The two factors of a contraction as matrices: which dimensions make up rows and columns, and what must be packed.

Every dimension is one of four: batch (in both factors and the output), row (left and output), column (right and
output), inner (not in the output). A factor goes to `np.matmul` as it lies in memory if its inner dimensions can be
walked as one and one of its two matrix strides is the size of an element; numpy would copy anything else behind our
back. Otherwise it is packed: written to scratch in a layout that BLAS takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mlopt.interpreter.elementwise import sorted_by_strides
from mlopt.interpreter.expressions import Expr, Gather, Index, Read, post_order
from mlopt.interpreter.lowering import Binding
from mlopt.interpreter.slabs import Slab, copied_read
from mlopt.interpreter.views import View, merged_strides
from mlopt.ir.dtypes import to_numpy_dtype

_SHORT_STEP = 4
"""Elements between neighbours that are still read well."""


class Roles(NamedTuple):
    """The dimensions of extent above 1 by role, outermost first."""

    batch: tuple[int, ...]
    row: tuple[int, ...]
    column: tuple[int, ...]
    inner: tuple[int, ...]


@dataclass(slots=True)
class Factor:
    """One factor: an expression, the view it reads if it can be used as it lies, and its part of the matrix.

    `outer` are its row or column dimensions. `packed` says that it is written to scratch first, with `layout` the
    order of its dimensions there.
    """

    expr: Expr
    view: View | None
    outer: tuple[int, ...]
    nbytes: int
    packed: bool = False
    layout: tuple[int, ...] = ()
    slab: Slab | None = None

    def runs_along(self, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """Whether neighbours in memory are neighbours along the rows' dimensions, not along the columns'."""
        if self.packed:
            return bool(self.layout) and self.layout[-1] in rows
        assert self.view is not None
        shortest = [
            min((abs(self.view.strides[d]) for d in dims if self.view.shape[d] > 1), default=math.inf)
            for dims in (rows, columns)
        ]
        return shortest[0] < shortest[1]


class Groups(NamedTuple):
    """The dimensions that make up the rows and the columns of one matrix, and those that count matrices."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batches: tuple[int, ...]


def varying_dims(expr: Expr, extents: Sequence[int]) -> frozenset[int]:
    """The dimensions that an expression depends on."""
    dims: set[int] = set()
    for node in post_order((expr,)):
        match node:
            case Read():
                dims.update(d for linear in node.index for d in linear.dims)
                dims.update(d for bound in node.bounds for d in bound.expr.dims)
            case Index():
                dims.update(node.value.dims)
            case Gather():
                dims.update(d for index in node.index if isinstance(index, Index) for d in index.value.dims)
            case _:
                pass
    return frozenset(d for d in dims if extents[d] > 1)


class Factors:
    """What is decided about a contraction before it is known how much scratch there is.

    `direct` groups the dimensions for products that go to the output, `in_tile` for those that go to scratch;
    `must_tile` says that only the latter are possible, because BLAS can't write the output as it is wanted.
    """

    def __init__(self, binding: Binding, left: Expr, right: Expr, out: View, *, accumulates: bool):
        self.extents = out.shape
        self.out = out
        self.dtype = to_numpy_dtype(left.type)
        self._binding = binding
        self.roles = self._classify(left, right)
        self.left = self._factor(left, self.roles.row)
        self.right = self._factor(right, self.roles.column)
        self.inner = self._order_inner()
        self._decide_packing()
        for factor in (self.left, self.right):
            read = copied_read(factor.expr) if factor.packed else None
            factor.slab = Slab.of(factor.expr, binding, self.extents) if read and read.bounds else None
        self.direct = self._groups(out)
        self.in_tile = self._groups(None)
        if not self._are_taken(self.in_tile):
            self.in_tile = self.direct
        taken = self._takes_blas(out, self.direct.rows, self.direct.columns)
        self.must_tile = self.dtype != out.dtype or accumulates or not taken

    @property
    def kept(self) -> tuple[int, ...]:
        """The dimensions of the output."""
        return (*self.roles.batch, *self.roles.row, *self.roles.column)

    def matrix(
        self,
        view: View,
        shape: Mapping[int, int],
        batches: Sequence[int],
        rows: Sequence[int],
        columns: Sequence[int],
    ) -> View:
        """The view with the batch axes, then a row and a column axis."""
        (m, row), (n, column) = _axis(view, shape, rows), _axis(view, shape, columns)
        row, column = _canonical(m, n, row, column, view.itemsize)
        axes = [*((shape[d], view.strides[d]) for d in batches), (m, row), (n, column)]
        return replace(view, shape=tuple(e for e, _ in axes), strides=tuple(s for _, s in axes))

    def _classify(self, left: Expr, right: Expr) -> Roles:
        in_left, in_right = varying_dims(left, self.extents), varying_dims(right, self.extents)
        roles: dict[str, list[int]] = {"batch": [], "row": [], "column": [], "inner": []}
        for dim, extent in enumerate(self.extents):
            if extent == 1:
                continue
            if not self.out.strides[dim]:
                role = "inner"
            elif dim in in_right:
                role = "batch" if dim in in_left else "column"
            else:
                role = "row"
            roles[role].append(dim)
        ordered = {name: tuple(sorted_by_strides(dims, self.out)) for name, dims in roles.items()}
        return Roles(**ordered)

    def _factor(self, expr: Expr, outer: tuple[int, ...]) -> Factor:
        dims = (*self.roles.batch, *outer, *self.roles.inner)
        nbytes = self.dtype.itemsize * math.prod(self.extents[d] for d in dims)
        view = None
        if isinstance(expr, Read):
            view = self._binding.source(expr).over(expr.index, self.extents)
            if expr.bounds or view.dtype != self.dtype:
                view = None
        return Factor(expr, view, outer, nbytes)

    def _order_inner(self) -> tuple[int, ...]:
        """The order in which the inner dimensions are walked, and which factor must be packed to allow it.

        A factor whose inner dimensions can't be walked as one in any order is packed; if both can, but not in the
        same order, the smaller one is.
        """
        inner = self.roles.inner
        orders: list[tuple[int, ...] | None] = []
        for factor in (self.left, self.right):
            order = None
            if factor.view is not None:
                order = tuple(sorted_by_strides(inner, factor.view))
                if not self._walks_as_one(factor.view, order) or any(
                    not factor.view.strides[d] for d in inner
                ):
                    order = None
            factor.packed = order is None
            orders.append(order)
        first, second = orders
        if first is not None and second is not None and first != second:
            assert self.left.view is not None and self.right.view is not None
            if self._walks_as_one(self.right.view, first):
                return first
            if self._walks_as_one(self.left.view, second):
                return second
            smaller = self.left if self.left.nbytes <= self.right.nbytes else self.right
            smaller.packed = True
            return second if smaller is self.left else first
        return first or second or self._packed_order()

    def _walks_as_one(self, view: View, order: Sequence[int]) -> bool:
        groups = merged_strides([self.extents[d] for d in order], [[view.strides[d] for d in order]])
        return len(groups) <= 1

    def _packed_order(self) -> tuple[int, ...]:
        """With both factors packed, the inner dimensions as the larger one's source has them."""
        larger = max(self.left, self.right, key=lambda factor: factor.nbytes)
        source = self._source_view(larger)
        return self.roles.inner if source is None else tuple(sorted_by_strides(self.roles.inner, source))

    def _source_view(self, factor: Factor) -> View | None:
        """The first affine read of a factor, which decides how it is best walked."""
        for expr in post_order((factor.expr,)):
            if isinstance(expr, Read):
                return self._binding.source(expr).over(expr.index, self.extents)
        return None

    def _decide_packing(self) -> None:
        for factor, is_left in ((self.left, True), (self.right, False)):
            if not factor.packed and factor.view is not None:
                group = self._inner_group(factor, factor.outer, self.out)
                shape = (group, self.inner) if is_left else (self.inner, group)
                factor.packed = not self._takes_blas(factor.view, *shape)
            if factor.packed:
                factor.layout = self._layout(factor)

    def _layout(self, factor: Factor) -> tuple[int, ...]:
        """Batch dimensions, then rows or columns inside of the inner ones if they take short steps in the source.

        Convolutions do (the step is the stride, however many taps lie closer together), and long runs copy faster.
        """
        source = self._source_view(factor)
        order = (*factor.outer, *self.inner)
        if source is not None and factor.outer:
            step = min(abs(source.strides[d]) for d in factor.outer)
            inner = min((abs(source.strides[d]) for d in self.inner if source.strides[d]), default=0)
            if 0 < step <= max(inner, _SHORT_STEP * source.itemsize):
                order = (*self.inner, *factor.outer)
        return (*self.roles.batch, *order)

    def _groups(self, out: View | None) -> Groups:
        """The dimensions of one matrix, for products that go to `out`, or to scratch."""
        rows = self._inner_group(self.left, self.roles.row, out)
        columns = self._inner_group(self.right, self.roles.column, out)
        batches = sorted_by_strides((d for d in self.kept if d not in rows and d not in columns), self.out)
        return Groups(rows, columns, tuple(batches))

    def _inner_group(self, factor: Factor, dims: tuple[int, ...], out: View | None) -> tuple[int, ...]:
        """The innermost of the row or column dimensions that factor and output can both walk as one."""
        rows = [] if out is None else [[out.strides[d] for d in dims]]
        if not factor.packed and factor.view is not None:
            rows.append([factor.view.strides[d] for d in dims])
        groups = merged_strides([self.extents[d] for d in dims], rows)
        return tuple(dims[i] for i in groups[-1]) if groups else ()

    def _are_taken(self, groups: Groups) -> bool:
        """Whether BLAS takes the factors that are not packed as these matrices."""
        sides = ((self.left, groups.rows, self.inner), (self.right, self.inner, groups.columns))
        return all(f.packed or f.view is None or self._takes_blas(f.view, *shape) for f, *shape in sides)

    def _takes_blas(self, view: View, rows: Sequence[int], columns: Sequence[int]) -> bool:
        """Whether BLAS takes the matrix without a copy: one unit stride, the other at least a row long."""
        if self.dtype.kind != "f":
            return True
        item = view.itemsize
        (m, row), (n, column) = (_axis(view, self.extents, dims) for dims in (rows, columns))
        row, column = _canonical(m, n, row, column, item)
        return (column == item and row >= n * item and row % item == 0) or (
            row == item and column >= m * item and column % item == 0
        )


def _axis(view: View, shape: Mapping[int, int] | Sequence[int], dims: Sequence[int]) -> tuple[int, int]:
    """Extent and stride of dimensions walked as one."""
    extent, stride = 1, 0
    for dim in dims:
        if shape[dim] > 1:
            extent, stride = extent * shape[dim], view.strides[dim]
    return extent, stride


def _canonical(m: int, n: int, row: int, column: int, item: int) -> tuple[int, int]:
    """Strides of a matrix; an axis of extent 1 gets the stride that a contiguous matrix would have."""
    if n == 1 and m == 1:
        return item, item
    if n == 1:
        return row, item if row != item else m * item
    if m == 1:
        return n * item if column == item else item, column
    return row, column
