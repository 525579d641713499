"""Resize: axis by axis, each a map of affine reads where the table of the axis allows it, else of gathers.

A table whose indices run in a few arithmetic progressions (scales that are quotients of small numbers) becomes one map
per progression, which writes its positions of the destination; any other table becomes loads at indices that are read
from a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from xdsl.dialects import math, tensor
from xdsl.dialects.builtin import IndexType, TensorType, f64
from xdsl.ir import SSAValue

from mlopt.dialects import graph
from mlopt.dialects.graph.base import is_float, shape_of
from mlopt.dialects.graph.resampling import AxisTable, Indices
from mlopt.dialects.kernel import tensor_type
from mlopt.passes.convert_graph_to_kernel.conversion import Conversion, converts, element_of
from mlopt.passes.convert_graph_to_kernel.launch import Index, Launch, Operand, Space, position
from mlopt.passes.convert_graph_to_kernel.scalars import Scalars, accumulator, signless

_LONGEST_STEP = 8
"""The largest distance between positions of one progression."""

_MOST_PIECES = 16
"""How many maps may take the place of one with gathers."""


@converts(graph.ResizeOp)
def _resize(op: graph.ResizeOp, conversion: Conversion) -> None:
    """One launch per step; what floats are between two steps is as wide as their sums."""
    steps, shape = op.steps, list(shape_of(op.input))
    if not steps:
        conversion.replace(op, conversion.value(op.input))
        return
    value: SSAValue = op.input
    for number, tables in enumerate(steps):
        is_last = number == len(steps) - 1
        element = signless(element_of(op.result))
        if not is_last and is_float(element) and op.mode.data != "nearest":
            element = accumulator(element)
        for axis, table in tables.items():
            shape[axis] = len(table.indices)
        launch = conversion.launch(op, [TensorType(element, shape)])
        result = _Step(op, conversion, launch, tables).build(launch.use(value, "input"))
        if is_last:
            result = _extrapolated(op, launch, steps, result)
        (value,) = conversion.insert_launch(op, launch, op.results if is_last else (), result)
    conversion.replace(op, value)


class _Step:
    """The map, or the maps, that resample some axes together."""

    def __init__(
        self, op: graph.ResizeOp, conversion: Conversion, launch: Launch, tables: Mapping[int, AxisTable]
    ):
        self._op = op
        self._launch = launch
        self._tables = tables
        self._space = Space.over(tensor_type(launch.out).get_shape())
        self._element = element_of(op.input)
        self._wide = op.wide
        self._conversion = conversion
        self._columns: dict[tuple[str, int, int], SSAValue] = {}

    def build(self, source: SSAValue) -> SSAValue:
        """The destination with everything written that follows from `source`, an argument of the launch."""
        if len(self._tables) == 1:
            ((axis, table),) = self._tables.items()
            pieces = affine_pieces(table.indices)
            if pieces is not None:
                dest = self._launch.out
                for piece in pieces:
                    dest = self._affine(source, dest, axis, table, piece)
                return dest
        return self._gathered(source)

    def _affine(
        self, source: SSAValue, dest: SSAValue, axis: int, table: AxisTable, piece: Piece
    ) -> SSAValue:
        """The positions of one progression."""
        name = self._space.names[axis]
        space = Space({**self._space.bounds, name: piece.count})

        def along(first: int, step: int) -> Sequence[Index]:
            return [space[n] * step + first if n == name else space[n] for n in space.names]

        reads = [
            Operand(source, space.access(*along(start, stride)))
            for start, stride in zip(piece.starts, piece.strides, strict=True)
        ]
        at = slice(piece.first, piece.first + piece.step * piece.count, piece.step)
        equal: list[float | None] = []
        weights: list[Operand] = []
        for tap, column in enumerate(() if table.weights is None else table.weights.T):
            here = column[at]
            equal.append(float(here[0]) if (here == here[0]).all() else None)
            if equal[-1] is None:
                row = space[name] * piece.step + piece.first
                weights.append(Operand(self._column("weight", axis, tap), space.access(row)))

        def body(s: Scalars, *values: SSAValue) -> SSAValue:
            elements, given = values[: len(reads)], iter(values[len(reads) : -1])
            factors = [self._number(s, number) if number is not None else next(given) for number in equal]
            return self._sum(s, elements, factors)

        return self._launch.map(
            space, [*reads, *weights], Operand(dest, space.access(*along(piece.first, piece.step))), body
        )

    def _gathered(self, source: SSAValue) -> SSAValue:
        """All positions, with loads at indices that stand in constants."""
        space, launch = self._space, self._launch
        columns = [
            (kind, axis, tap)
            for axis, table in self._tables.items()
            for kind in ("index", *(("weight",) if table.weights is not None else ()))
            for tap in range(table.taps)
        ]
        ins = [Operand(self._column(*column), space.access(space.names[column[1]])) for column in columns]

        def body(s: Scalars, *values: SSAValue) -> SSAValue:
            given = dict(zip(columns, values, strict=False))
            at = {
                (axis, tap): s.index_cast(value, IndexType())
                for (kind, axis, tap), value in given.items()
                if kind == "index"
            }
            rest = {d: position(s, space, n) for d, n in enumerate(space.names) if d not in self._tables}
            elements: list[SSAValue] = []
            factors: list[SSAValue] = []
            for taps in product(*(range(table.taps) for table in self._tables.values())):
                chosen = list(zip(self._tables, taps, strict=True))
                index = {**rest, **{axis: at[axis, tap] for axis, tap in chosen}}
                element = signless(tensor_type(source).element_type)
                elements.append(s.emit(tensor.ExtractOp(source, [index[d] for d in sorted(index)], element)))
                weights = [given[key] for a, k in reversed(chosen) if (key := ("weight", a, k)) in given]
                for factor in weights[:1]:
                    for other in weights[1:]:
                        factor = s.mul(factor, other)
                    factors.append(factor)
            return self._sum(s, elements, factors)

        return launch.map(space, ins, Operand(launch.out, space.identity()), body)

    def _sum(self, s: Scalars, elements: Sequence[SSAValue], weights: Sequence[SSAValue]) -> SSAValue:
        """The weighted sum, rounded to the element type of the destination; without weights the only element."""
        if not weights:
            return elements[0]
        total: SSAValue | None = None
        for element, weight in zip(elements, weights, strict=True):
            wide = is_float(element.type)
            term = s.extend(element, self._wide) if wide else s.cast(element, self._element, self._wide)
            term = s.mul(term, weight)
            total = term if total is None else s.add(total, term)
        assert total is not None
        if is_float(self._element):
            return s.truncate(total, tensor_type(self._launch.out).element_type)
        if self._op.how.grid:
            total = s.emit(math.FloorOp(s.add(total, s.like(0.5, total))))
        elif self._op.antialias is not None:
            total = s.emit(math.RoundOp(total))
        elif self._op.mode.data == "cubic":
            total = s.emit(math.RoundEvenOp(total))
        return s.cast(total, self._wide, self._element)

    def _number(self, s: Scalars, number: float) -> SSAValue:
        return s.number(number, self._wide)

    def _column(self, kind: str, axis: int, tap: int) -> SSAValue:
        """The argument for a column of a table: the indices, or the weights, of one tap."""
        key = (kind, axis, tap)
        if key in self._columns:
            return self._columns[key]
        table = self._tables[axis]
        if kind == "index":
            array = table.indices[:, tap]
        else:
            assert table.weights is not None
            array = table.weights[:, tap].astype(np.float64 if self._wide == f64 else np.float32)
        name = f"{kind}_{self._space.names[axis]}_{tap}"
        constant = self._conversion.constant(self._op, np.ascontiguousarray(array), name)
        self._columns[key] = self._launch.use(constant, name)
        return self._columns[key]


def _extrapolated(
    op: graph.ResizeOp, launch: Launch, steps: Sequence[Mapping[int, AxisTable]], dest: SSAValue
) -> SSAValue:
    """`dest` with the extrapolation value wherever a position lies outside of the input along an axis."""
    shape, number = shape_of(op.result), op.extrapolation.value.data
    value = number if is_float(element_of(op.result)) else int(number)
    for axis, table in (item for tables in steps for item in tables.items()):
        for first, count in _runs(table.outside):
            space = Space.over([count if d == axis else size for d, size in enumerate(shape)])
            axes = [space[name] + (first if d == axis else 0) for d, name in enumerate(space.names)]

            def body(s: Scalars, old: SSAValue) -> SSAValue:
                return s.like(value, old)

            dest = launch.map(space, [], Operand(dest, space.access(*axes)), body)
    return dest


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, count) of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return [(int(a), int(b - a)) for a, b in edges.reshape(-1, 2)]


@dataclass(frozen=True, slots=True)
class Piece:
    """Positions `first + step * i` for `i < count`, where tap `k` reads element `starts[k] + strides[k] * i`."""

    first: int
    step: int
    count: int
    starts: tuple[int, ...]
    strides: tuple[int, ...]


def affine_pieces(indices: Indices) -> list[Piece] | None:
    """The fewest progressions that make up a table (position by tap); None if they are many."""
    best: list[Piece] | None = None
    for step in range(1, min(_LONGEST_STEP, len(indices)) + 1):
        pieces = [p for first in range(step) for p in _progressions(indices[first::step], first, step)]
        if len(pieces) <= _MOST_PIECES and (best is None or len(pieces) < len(best)):
            best = pieces
    return best


def _progressions(indices: Indices, first: int, step: int) -> list[Piece]:
    """The positions `first, first + step, ...`, cut wherever the stride of a tap changes."""
    pieces: list[Piece] = []
    start = 0
    while start < len(indices):
        end = start + 1
        strides = indices[end] - indices[start] if end < len(indices) else np.zeros_like(indices[start])
        while end < len(indices) and (indices[end] - indices[end - 1] == strides).all():
            end += 1
        taps = (tuple(map(int, numbers)) for numbers in (indices[start], strides))
        pieces.append(Piece(first + step * start, step, end - start, *taps))
        start = end
    return pieces
