"""Bodies executed in whole arrays: tiles of the iteration space, a register per temporary, one call per node.

A kernel computes `outs[j] = yields[j]` for every point of a box. Its dimensions are ordered as the first output lies in
memory, and neighbours that every operand can walk as one are merged. Temporaries live in scratch; an output's tile
serves as a register as long as nothing that is still to be read stands in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from mlopt.interpreter import column_blocks, costs
from mlopt.interpreter.expressions import Bound, Expr, Linear
from mlopt.interpreter.lowering import Binding, BodyLowering
from mlopt.interpreter.nodes import Cast, Compute, Leaf, Node, Padded, Ref, Select, Take
from mlopt.interpreter.plan import CheckIndices, Memory, PlanBuilder, Repeats
from mlopt.interpreter.primitives import CLIP, NodeBuilder, number_of
from mlopt.interpreter.registers import Out, Registers, assign
from mlopt.interpreter.row_blocks import FUNCTIONS, copies, emit_by_rows, written_out
from mlopt.interpreter.scratch import Scratch
from mlopt.interpreter.views import Region, View, may_overlap, merged_strides, row_major
from mlopt.interpreter.zeros import may_be_negative_zero

TILE_BYTES = 256 << 10
"""Preferred size of what one tile touches: it should stay in a core's second-level cache."""

MINIMUM_TILE = 4096
"""Elements of the smallest tile; below it calls cost more than the work in them."""

MINIMUM_TEMPORARIES = 32 << 10
"""Bytes of temporaries that the smallest tile may take; with more, it is made smaller, down to a quarter."""

_LEAST_CLIPPED = 2048
"""Elements from which `clip` with one bound, and a sum behind it, take less time than `maximum` or `minimum`."""

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""First position and extent per axis."""


class WrittenOut(NamedTuple):
    """Operands that are the same in every row, written out a few times, and scratch for those that vary by row only."""

    rows: Mapping[Leaf, View] = {}
    space: View | None = None


class Kernel:
    """`outs[j] = yields[j]` over the box `extents`; `outs` have one axis per dimension.

    `blocks` are the dimensions from outermost to innermost, in groups within which neighbours may be merged; without
    it they lie as the first output does. Dimensions in `sequential` come first and are not part of a tile: the caller
    walks them (see `points`), and the outputs have stride 0 along them. Without `outs` the values stay where they are
    (see `emit_box`); `riders` are views that are only brought to the kernel's axes, `bounds` are conditions that must
    still be sayable on them.

    No operand may overlap an output other than element for element. Raises `NoSteps` for an operation that numpy
    has no steps for.
    """

    def __init__(
        self,
        memory: Memory,
        extents: tuple[int, ...],
        outs: Sequence[View],
        yields: Sequence[Expr],
        binding: Binding,
        *,
        sequential: frozenset[int] = frozenset(),
        blocks: Sequence[Sequence[int]] | None = None,
        riders: Sequence[View] = (),
        bounds: Sequence[Bound] = (),
        replaced: Mapping[Expr, object] | None = None,
    ):
        if blocks is None:
            blocks = [sorted_by_strides((d for d in range(len(extents)) if d not in sequential), outs[0])]
        order = tuple(d for block in blocks for d in block)
        nodes = NodeBuilder(memory, len(extents))
        lowering = BodyLowering(nodes, extents, order, binding, replaced or {})
        self.outs = list(outs)
        self.riders = list(riders)
        self.full = extents
        self.yields = [lowering.lower(root) for root in yields]
        self._own_leaf_results(nodes)
        self.order = self._post_order()
        self._merge(extents, tuple(sorted(sequential)), blocks, [bound.expr.coefficients for bound in bounds])
        self._make_indices_contiguous(nodes)
        self.registers_of: dict[tuple[int, ...], Registers] = {}
        self._repeats = Repeats(memory)
        self._may_be_negative_zero: dict[Ref, bool] = {}

    def may_be_negative_zero(self, ref: Ref) -> bool:
        """Whether an element of an operand may be -0.0."""
        if ref not in self._may_be_negative_zero:
            self._may_be_negative_zero[ref] = may_be_negative_zero(ref)
        return self._may_be_negative_zero[ref]

    def _own_leaf_results(self, nodes: NodeBuilder) -> None:
        """With several outputs, a result that only is an operand is copied before any output is written."""
        if len(self.outs) > 1:
            self.yields = [nodes.copy(r) if isinstance(r.node, Leaf) else r for r in self.yields]

    def _post_order(self) -> list[Node]:
        seen: set[Node] = set()
        found: list[Node] = []
        stack = [(ref.node, False) for ref in reversed(self.yields)]
        while stack:
            node, done = stack.pop()
            if done:
                found.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((ref.node, False) for ref in reversed(node.operands))
        return found

    def _merge(
        self,
        extents: tuple[int, ...],
        sequential: tuple[int, ...],
        blocks: Sequence[Sequence[int]],
        kept: Sequence[tuple[int, ...]],
    ) -> None:
        """Renumber dimensions to axes: the sequential ones, then the others with neighbours merged.

        Neighbours are merged where all views, and the coefficients `kept`, allow it.
        """
        rows = [*kept]
        rows += [view.strides for view in (*self.outs, *self.riders)]
        rows += [
            node.view.strides for node in self.order if isinstance(node, Leaf | Padded) and node.view.ndim
        ]
        for node in self.order:
            if isinstance(node, Padded):
                rows += [bound.expr.coefficients for bound in node.bounds]
            if isinstance(node, Take) and node.row:
                row_strides = row_major([extents[d] for d in node.row], 1)
                rows.append(
                    tuple(
                        dict(zip(node.row, row_strides, strict=True)).get(d, 0) for d in range(len(extents))
                    )
                )
        groups = [[d] for d in sequential if extents[d] > 1]
        self.sequential = frozenset(range(len(groups)))
        for block in blocks:
            permuted = [[row[d] for d in block] for row in rows]
            merged = merged_strides([extents[d] for d in block], permuted)
            groups += [[block[i] for i in group] for group in merged]
        self.axes = groups
        self.extents = tuple(math.prod(extents[d] for d in group) for group in groups)
        axis_of = {d: axis for axis, group in enumerate(groups) for d in group}
        self.outs = [self._on_axes(out) for out in self.outs]
        self.riders = [self._on_axes(rider) for rider in self.riders]
        for node in self.order:
            node.dims = frozenset(axis_of[d] for d in node.dims if d in axis_of)
            if isinstance(node, Leaf | Padded) and node.view.ndim:
                node.view = self._on_axes(node.view)
            if isinstance(node, Padded):
                node.bounds = tuple(b._replace(expr=self.linear_on_axes(b.expr)) for b in node.bounds)
            if isinstance(node, Take):
                node.row = tuple(sorted({axis_of[d] for d in node.row}))

    def _on_axes(self, view: View) -> View:
        strides = tuple(view.strides[group[-1]] for group in self.axes)
        return View(view.region, view.offset, self.extents, strides, view.dtype)

    def linear_on_axes(self, linear: Linear) -> Linear:
        """An affine function of the dimensions as one of the axes; merged dimensions must agree with it."""
        return Linear(tuple(linear.coefficients[group[-1]] for group in self.axes), linear.constant)

    def _make_indices_contiguous(self, nodes: NodeBuilder) -> None:
        """`np.take` copies positions that are not contiguous; a planned copy takes the place of a hidden one."""
        for node in list(self.order):
            if isinstance(node, Take) and isinstance(leaf := node.index.node, Leaf) and leaf.view.ndim:
                axes = sorted(leaf.dims)
                if not leaf.view.transposed(axes).is_contiguous:
                    node.index = nodes.copy(node.index)
                    self.order.insert(self.order.index(node), node.index.node)

    # Tiles

    def whole_axes(self) -> frozenset[int]:
        """Axes that a tile may not cut."""
        return frozenset[int]().union(*(node.row for node in self.order if isinstance(node, Take)))

    def tile(self, elements: int) -> tuple[int, ...]:
        """A tile of about so many elements: inner axes whole, one cut evenly, outer ones 1."""
        whole = self.whole_axes()
        shape = [1] * len(self.extents)
        rest = max(1, elements)
        for axis in reversed(range(len(self.extents))):
            extent = self.extents[axis]
            if axis in self.sequential:
                continue
            if axis in whole or extent <= rest:
                shape[axis] = extent
            else:
                parts = -(-extent // rest)
                shape[axis] = -(-extent // parts)
            rest = rest // shape[axis] if shape[axis] == extent else 0
            rest = max(rest, 1)
        return tuple(shape)

    def registers(self, tile: tuple[int, ...]) -> Registers:
        """Where every node's result goes, for tiles of at most this shape."""
        if tile not in self.registers_of:
            self.registers_of[tile] = assign(self.order, self.yields, self.outs, tile)
        return self.registers_of[tile]

    def choose_tile(
        self, fits: Callable[[int], bool], extra: Callable[[tuple[int, ...]], int] = lambda tile: 0
    ) -> tuple[int, ...]:
        """The largest tile up to the preferred size whose temporaries' bytes fit, or the smallest one.

        `extra` are bytes of scratch that the caller needs for a tile.
        """
        total = math.prod(e for a, e in enumerate(self.extents) if a not in self.sequential)
        steps = sum(not isinstance(node, Leaf) for node in self.order)
        elements = total
        while True:
            tile = self.tile(elements)
            registers = self.registers(tile)
            is_small = registers.nbytes <= MINIMUM_TEMPORARIES or elements <= MINIMUM_TILE // 4
            if elements <= MINIMUM_TILE and (is_small or fits(registers.nbytes + extra(tile))):
                return tile
            light = steps <= 1 and not registers.nbytes
            light = light or self._touched(tile, registers) <= TILE_BYTES
            if light and fits(registers.nbytes + extra(tile)):
                return tile
            least = MINIMUM_TILE if elements > MINIMUM_TILE else MINIMUM_TILE // 4
            elements = max(least, elements // 2)

    def _touched(self, tile: tuple[int, ...], registers: Registers) -> int:
        leaves = [node for node in self.order if isinstance(node, Leaf | Padded)]
        nbytes = sum(math.prod(tile[a] for a in node.dims) * node.dtype.itemsize for node in leaves)
        return registers.nbytes + nbytes + sum(math.prod(tile) * out.itemsize for out in self.outs)

    def tiles(self, tile: tuple[int, ...], box: Box | None = None) -> Iterator[Box]:
        """The tiles that cover a box, in row-major order; sequential axes stand at 0 with extent 1."""
        first, extents = box or ((0,) * len(self.extents), self.extents)
        ends = [
            low + (1 if a in self.sequential else e)
            for a, (low, e) in enumerate(zip(first, extents, strict=True))
        ]
        for lows in product(*(range(low, end, t) for low, end, t in zip(first, ends, tile, strict=True))):
            yield lows, tuple(min(t, end - low) for t, end, low in zip(tile, ends, lows, strict=True))

    def box_on_axes(self, lows: Mapping[int, int], shape: Mapping[int, int]) -> Box:
        """A box given per dimension, on axes. Of merged dimensions, those inside of one that is cut must be whole."""
        first: list[int] = []
        extents: list[int] = []
        for axis, group in enumerate(self.axes):
            rest, low, extent = self.extents[axis], 0, 1
            for dim in group:
                rest //= self.full[dim]
                low += lows[dim] * rest
                extent *= shape[dim]
            first.append(low)
            extents.append(extent)
        return tuple(first), tuple(extents)

    def points(self) -> Iterator[tuple[int, ...]]:
        """The positions along the sequential axes, in row-major order."""
        return product(*(range(self.extents[a]) for a in sorted(self.sequential)))

    # Emission

    def emit(self, builder: PlanBuilder, scratch: Scratch, box: Box | None = None) -> None:
        """A box (the whole one unless given), tile by tile."""
        if 0 in self.extents:
            return
        with scratch.frame():
            tile = self.choose_tile(scratch.fits)
            registers = self.registers(tile)
            base = self.take_base(scratch, registers)
            rows = self._write_rows_out(builder, scratch, registers, tile)
            written = WrittenOut(rows, self._column_space(builder, scratch, registers, tile))
            for lows, shape in self.tiles(tile, box):
                for point in self.points():
                    self.emit_outs(builder, registers, base, (*point, *lows[len(point) :]), shape, written)

    def _write_rows_out(
        self, builder: PlanBuilder, scratch: Scratch, registers: Registers, tile: tuple[int, ...]
    ) -> dict[Leaf, View]:
        """Copies of the operands that are the same in every row of a tile, where they pay."""
        blocks: dict[Leaf, View] = {}
        if not tile or not self.outs or tile[-1] != self.extents[-1]:
            return blocks
        width, rows = tile[-1], math.prod(tile[:-1])
        if copies(rows, width) == 1:
            return blocks
        start = (0,) * len(tile)
        trial = _Emitter(self, builder, registers, (Region("temporaries", 0), 0), start, tile, WrittenOut())
        for node in self.order:
            leaf = trial.row_of(node) if isinstance(node, Compute) else None
            if leaf is not None and leaf not in blocks:
                row = leaf.view.box(start, trial.shape_of(leaf)).reshaped((width,))
                block = written_out(builder, scratch, row, copies(rows, width))
                if block is not None:
                    blocks[leaf] = block
        return blocks

    def _column_space(
        self, builder: PlanBuilder, scratch: Scratch, registers: Registers, tile: tuple[int, ...]
    ) -> View | None:
        """Scratch to write operands out in that are one number in each row, where the result stands in the way."""
        start = (0,) * len(tile)
        trial = _Emitter(self, builder, registers, (Region("temporaries", 0), 0), start, tile, WrittenOut())
        for node in self.order:
            if isinstance(node, Compute) and trial.is_column_in_place(node):
                shape, itemsize = [e for e in tile if e > 1], node.dtype.itemsize
                elements = column_blocks.elements_at_a_time(shape, itemsize, scratch.is_spare)
                return scratch.array((elements,), node.dtype) if elements else None
        return None

    def emit_box(
        self,
        builder: PlanBuilder,
        registers: Registers,
        base: tuple[Region, int] | None,
        lows: tuple[int, ...],
        shape: tuple[int, ...],
        written: WrittenOut | None = None,
    ) -> list[View]:
        """One tile at one point of the sequential axes. `base` is where the temporaries are.

        Returns where the values are, for a kernel without outputs: views of the tile's shape on all axes.
        """
        return _Emitter(self, builder, registers, base, lows, shape, written or WrittenOut()).run()

    def emit_outs(
        self,
        builder: PlanBuilder,
        registers: Registers,
        base: tuple[Region, int] | None,
        lows: tuple[int, ...],
        shape: tuple[int, ...],
        written: WrittenOut | None = None,
    ) -> None:
        """What `emit_box` does, of a kernel with outputs; boxes of one kind are measured once."""
        steps = partial(self.emit_box, builder, registers, base, lows, shape, written)
        self._repeats.emit((id(registers), *self.kind_of(lows, shape)), steps)

    def kind_of(self, lows: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Hashable, ...]:
        """What tells the steps of one box from those of another: its shape, and where it has padding."""
        padded = (node for node in self.order if isinstance(node, Padded))
        return shape, *(moved(bound, lows).cut(shape) for node in padded for bound in node.bounds)

    def retarget(self, position: int, out: View) -> None:
        """Write an output elsewhere from now on; `out` has one axis per dimension, and overlaps no operand."""
        self.outs[position] = self._on_axes(out)

    def take_base(self, scratch: Scratch, registers: Registers) -> tuple[Region, int] | None:
        """Memory for the temporaries of a tile."""
        return scratch.take(registers.nbytes) if registers.nbytes else None


class _Emitter:
    """Emits the calls of one tile."""

    def __init__(
        self,
        kernel: Kernel,
        builder: PlanBuilder,
        registers: Registers,
        base: tuple[Region, int] | None,
        lows: tuple[int, ...],
        shape: tuple[int, ...],
        written: WrittenOut,
    ):
        self._written = written
        self._kernel = kernel
        self._builder = builder
        self._registers = registers
        self._base = base
        self._lows = lows
        self._shape = shape
        self._kept = [a for a, e in enumerate(shape) if e > 1]

    def run(self) -> list[View]:
        kernel = self._kernel
        for node in kernel.order:
            if not isinstance(node, Leaf):
                self._emit(node, self._place(node))
        if not kernel.outs:
            return [self._spread(ref) for ref in kernel.yields]
        for position, (node, _) in enumerate(kernel.yields):
            if self._registers.places.get(node) != Out(position):
                self._builder.call(
                    np.copyto, self._squeeze(self._out(position, node.dtype)), self._value(node)
                )
        return []

    def _spread(self, ref: Ref) -> View:
        """A value on all axes, with stride 0 where it is constant."""
        view = self._full(ref.node)
        strides = view.strides if view.ndim else (0,) * len(self._shape)
        strides = tuple(s if a in ref.node.dims else 0 for a, s in enumerate(strides))
        return View(view.region, view.offset, self._shape, strides, ref.dtype)

    def _out(self, position: int, dtype: np.dtype) -> View:
        return self._kernel.outs[position].box(self._lows, self._shape).with_dtype(dtype)

    def _place(self, node: Node) -> View:
        """The memory of a node's result in this tile, with all axes."""
        place = self._registers.places[node]
        if isinstance(place, Out):
            return self._out(place.position, node.dtype)
        assert self._base is not None
        region, offset = self._base
        shape = self.shape_of(node)
        strides = row_major(shape, node.dtype.itemsize)
        return View(region, offset + place, shape, strides, node.dtype)

    def shape_of(self, node: Node) -> tuple[int, ...]:
        return tuple(e if a in node.dims else 1 for a, e in enumerate(self._shape))

    def _squeeze(self, view: View) -> View:
        """Without the axes along which this tile has extent 1."""
        return view.transposed(self._kept)

    def _full(self, node: Node) -> View:
        """Where a node's elements stand, with all axes; constants have none."""
        if isinstance(node, Leaf):
            return node.view.box(self._lows, self.shape_of(node)) if node.view.ndim else node.view
        return self._place(node)

    def _value(self, ref: Node | Ref) -> View:
        node, dtype = (ref, ref.dtype) if isinstance(ref, Node) else ref
        view = self._full(node)
        return (self._squeeze(view) if view.ndim else view).with_dtype(dtype)

    def _emit(self, node: Node, place: View) -> None:
        call = self._builder.call
        target = self._squeeze(place)
        match node:
            case Compute() if self._is_there_already(node):
                pass
            case Compute():
                args = [self._value(ref) for ref in node.args]
                row = self.row_of(node)
                block = None if row is None else self._written.rows.get(row)
                if block is not None:
                    others = [
                        None if ref.node is row else arg for ref, arg in zip(node.args, args, strict=True)
                    ]
                    emit_by_rows(self._builder, node.function, others, block, target)
                elif self._emit_by_columns(node, args, target):
                    pass
                elif node.function in (np.maximum, np.minimum):
                    self._emit_bound(node, args, target)
                else:
                    call(node.function, *args, target)
            case Cast():
                call(np.copyto, target, self._value(node.source), casting="unsafe")
            case Select():
                condition, yes, no = (self._value(ref) for ref in node.operands)
                if no != target:
                    call(np.copyto, target, no)
                call(np.copyto, target, yes, where=condition)
            case Take():
                self._emit_take(node, place)
            case Padded():
                source = node.view.box(self._lows, self._shape)
                bounds = tuple(moved(bound, self._lows) for bound in node.bounds)
                emit_padded(self._builder, place, source, bounds, self._value(node.pad), self._shape)
            case _:
                raise AssertionError(f"no steps for {type(node).__name__}")

    def _emit_by_columns(self, node: Compute, args: Sequence[View], target: View) -> bool:
        """Whether an operand that is one number in each row could be written out first."""
        column, space = self.column_of(node), self._written.space
        if column is None:
            return False
        if space is not None and space.dtype != node.dtype:
            space = None
        return column_blocks.emit_by_columns(self._builder, node.function, args, column, space, target)

    def is_column_in_place(self, node: Compute) -> bool:
        """Whether an operand is one number in each row, and the other one stands where the result goes."""
        column = self.column_of(node)
        return column is not None and may_overlap(self._value(node.args[1 - column]), self._place(node))

    def column_of(self, node: Compute) -> int | None:
        """The position of an operand that is one number in each row of this tile, all else being without gaps."""
        if node.function not in column_blocks.FUNCTIONS:
            return None
        place = self._squeeze(self._place(node))
        if not column_blocks.pays(place.shape) or not place.is_contiguous or place.dtype != node.dtype:
            return None
        found: int | None = None
        for position, ref in enumerate(node.args):
            view = self._value(ref)
            if not ref.dtype == ref.node.dtype == node.dtype:
                return None
            if view.ndim == 0 or (view.shape == place.shape and view.is_contiguous):
                continue
            if found is not None or view.shape != (*place.shape[:-1], 1):
                return None
            found = position
        return found

    def _is_there_already(self, node: Compute) -> bool:
        """Whether adding 0.0 to what `clip` leaves in the same place changes nothing, since nothing is -0.0."""
        if node.function is not np.add or number_of(node.args[1]) != 0:
            return False
        inner = node.args[0].node
        if not isinstance(inner, Compute) or inner.function is not CLIP:
            return False
        return self._place(inner) == self._place(node) and not self._kernel.may_be_negative_zero(
            inner.args[0]
        )

    def _emit_bound(self, node: Compute, args: Sequence[View], target: View) -> None:
        """The larger or smaller of two; of a value and a number by `clip`, which takes a third of the time.

        `clip` compares: where -0.0 should become the bound 0.0, adding 0.0 makes it one.
        """
        call, constant = self._builder.call, self._builder.memory.table
        is_upper = node.function is np.minimum
        for value, ref, other in zip(args, node.args, node.args[::-1], strict=True):
            number = number_of(other)
            if number is None or np.isnan(number) or node.dtype.kind != "f" or node.dtype.itemsize < 4:
                continue
            is_zero = number == 0
            if target.size < _LEAST_CLIPPED or (is_upper and is_zero and np.signbit(number)):
                break
            low, high = (-np.inf, number) if is_upper else (number, np.inf)
            call(CLIP, value, *(constant(np.asarray(bound, node.dtype)) for bound in (low, high)), target)
            is_sum_needed = is_zero and not is_upper and not np.signbit(number)
            if is_sum_needed and self._kernel.may_be_negative_zero(ref):
                call(np.add, target, constant(np.zeros((), node.dtype)), target)
            return
        call(node.function, *args, out=target)

    def row_of(self, node: Compute) -> Leaf | None:
        """The operand that is the same in every row of this tile, if all else is contiguous or the same everywhere."""
        last = len(self._shape) - 1
        place = self._place(node)
        if node.function not in FUNCTIONS or place.shape != self._shape or not place.is_contiguous:
            return None
        found: Leaf | None = None
        for ref in node.args:
            operand, view = ref.node, self._full(ref.node)
            if not ref.dtype == operand.dtype == node.dtype:
                return None
            if view.ndim == 0 or (view.shape == self._shape and view.is_contiguous):
                continue
            if (
                not isinstance(operand, Leaf)
                or operand.dims != frozenset((last,))
                or found not in (None, operand)
            ):
                return None
            if view.strides[last] != view.itemsize:
                return None
            found = operand
        return found

    def _emit_take(self, node: Take, place: View) -> None:
        for check in node.checks:
            located = self._builder.locate(check.place)
            step = CheckIndices(check.axis, check.size, check.from_end, located)
            self._builder.call(step, self._value(check.index).with_dtype(np.dtype(np.uint64)))
        index = self._full(node.index.node).with_dtype(node.index.dtype)
        flat = index.reshaped((index.size,))
        target = place.reshaped((index.size, *node.table.shape[1:]))
        self._builder.call(np.take, node.table, flat, axis=0, out=target, mode="clip")


def sorted_by_strides(dims: Iterable[int], view: View) -> list[int]:
    """The dimensions as they lie in memory, outermost first."""
    return sorted(dims, key=lambda d: -abs(view.strides[d]) if view.shape[d] > 1 else 0)


def moved(bound: Bound, lows: Sequence[int]) -> Bound:
    """The bound in positions relative to `lows`."""
    shift = sum(c * low for c, low in zip(bound.expr.coefficients, lows, strict=True))
    return bound._replace(expr=replace(bound.expr, constant=bound.expr.constant + shift))


def inside(bounds: Sequence[Bound], lows: Sequence[int], shape: Sequence[int]) -> Box | None:
    """The sub-box of a box in which all bounds hold; None if there is none.

    Every bound must depend on at most one axis along which the box has more than one position.
    """
    first, last = list(lows), [low + e for low, e in zip(lows, shape, strict=True)]
    for bound in bounds:
        axes = [a for a in bound.expr.dims if shape[a] > 1]
        at = bound.expr.constant + sum(
            c * low
            for a, (c, low) in enumerate(zip(bound.expr.coefficients, lows, strict=True))
            if a not in axes
        )
        low = -math.inf if bound.low is None else bound.low - at
        high = math.inf if bound.high is None else bound.high - at
        if not axes:
            if not low <= 0 < high:
                return None
            continue
        (axis,) = axes
        factor = bound.expr.coefficients[axis]
        if factor < 0:  # -f * i in [low, high) is f * i in [1 - high, 1 - low)
            factor, low, high = -factor, 1 - high, 1 - low
        if low != -math.inf:
            first[axis] = max(first[axis], -(-int(low) // factor))
        if high != math.inf:
            last[axis] = min(last[axis], -(-int(high) // factor))
    if any(b <= a for a, b in zip(first, last, strict=True)):
        return None
    return tuple(first), tuple(b - a for a, b in zip(first, last, strict=True))


def emit_padded(
    builder: PlanBuilder,
    target: View,
    source: View,
    bounds: tuple[Bound, ...],
    pad: View,
    shape: tuple[int, ...],
) -> None:
    """Copy `source` to `target` where the bounds hold, and write `pad` elsewhere; positions start at 0.

    `target` may have extent 1 along axes on which nothing depends.
    """
    shape = tuple(min(t, e) for t, e in zip(target.shape, shape, strict=True))
    bounds = tuple(bound for bound in bounds if not bound.holds_everywhere(shape))
    start = (0,) * len(shape)
    boxes: list[Box] = []
    edges: list[View] = []
    for lows, extents in _simple_boxes(bounds, start, shape):
        box = inside(bounds, lows, extents)
        if box is not None:
            boxes.append(box)
        edges += [_nonunit(target.box(*edge)) for edge in border(box, lows, extents)]
    if sum(costs.of_call(np.copyto, [edge]) for edge in edges) >= costs.of_call(np.copyto, [target]):
        edges = [target] if edges else []
    for edge in edges:
        builder.call(np.copyto, edge, pad)
    for box in boxes:
        builder.call(np.copyto, _nonunit(target.box(*box)), _nonunit(source.box(*box)))


def _nonunit(view: View) -> View:
    return view.transposed([a for a, e in enumerate(view.shape) if e > 1])


def _simple_boxes(bounds: Sequence[Bound], lows: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Box]:
    """Parts of a box in which every bound depends on at most one axis, by walking the shortest axes."""
    for bound in bounds:
        axes = [a for a in bound.expr.dims if shape[a] > 1]
        if len(axes) > 1:
            axis = min(axes, key=lambda a: shape[a])
            for position in range(lows[axis], lows[axis] + shape[axis]):
                yield from _simple_boxes(
                    bounds,
                    (*lows[:axis], position, *lows[axis + 1 :]),
                    (*shape[:axis], 1, *shape[axis + 1 :]),
                )
            return
    yield lows, shape


def border(box: Box | None, lows: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Box]:
    """Disjoint boxes that cover what is in the outer box and not in `box`."""
    if box is None:
        yield lows, shape
        return
    first, extents = list(lows), list(shape)
    for axis, (low, extent) in enumerate(zip(*box, strict=True)):
        end = first[axis] + extents[axis]
        for start, stop in ((first[axis], low), (low + extent, end)):
            if start < stop:
                yield (
                    (*first[:axis], start, *first[axis + 1 :]),
                    (*extents[:axis], stop - start, *extents[axis + 1 :]),
                )
        first[axis], extents[axis] = low, extent
