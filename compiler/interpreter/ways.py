"""How a contraction is cut into blocks and how their factors are packed: whatever is cheapest within the scratch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlopt.interpreter import costs
from mlopt.interpreter.expressions import Apply
from mlopt.interpreter.factors import Factor, Factors, Groups
from mlopt.interpreter.scratch import aligned
from mlopt.interpreter.slabs import Slab, copied_read

BLOCK_BYTES = 4 << 20
"""Preferred limit of what one block of a contraction keeps in scratch: larger blocks bring nothing."""

SMALLEST_BLOCK_BYTES = 16 << 10
"""Blocks are not made smaller than this where the extents can be cut further: calls would cost more than the work."""

PREFERRED_CUT = 64
"""The innermost row and column dimensions need not be cut below this: a product gets slow."""

_SMALLEST_CUT = 16
"""They are not cut below this to make use of the scratch there is."""

_MOST_SCARCE_BLOCKS = 1 << 13
"""Where scratch is scarce, a contraction is cut into no more blocks than that: each is a few calls."""

_SMALLEST_INNER_CUT = 32
"""Products are not summed in pieces shorter than this."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a contraction is cut into blocks, and how their factors are packed.

    `block` are the extents per dimension. With `slabs`, padded factors are packed from a slab by one call, else by a
    call per tap; a slab holds what several blocks in a row read, of the extents `ahead` in all. With `flat`, the
    dimension `flat` is walked in whole rows of the slab, `row` elements each: the taps of all rows are then one run,
    which copies several times as fast, and the product has columns that nobody wants. `tiled` products go to scratch
    first: the output does not take them, or takes them only as many small matrices, or they are sums in pieces
    (`block` cuts the inner dimensions), added up in the output.
    """

    block: Mapping[int, int]
    groups: Groups
    tiled: bool
    slabs: bool = False
    ahead: Mapping[int, int] = field(default_factory=dict[int, int])
    flat: int | None = None
    row: int = 0

    @property
    def slab_block(self) -> dict[int, int]:
        """The extents per dimension that a slab is for."""
        return {**self.block, **self.ahead}

    def stored(self, block: Mapping[int, int]) -> dict[int, int]:
        """The extents of a block in packed factors and in the product."""
        stored = dict(block)
        if self.flat is not None:
            stored[self.flat] = self.row
        return stored


class Ways:
    """The ways of one contraction: what they need, what they cost."""

    def __init__(self, factors: Factors):
        self._factors = factors
        self._extents = factors.extents

    @property
    def only(self) -> Way | None:
        """The way in one block that takes no scratch, if there is no other."""
        way = self._simplest(dict(enumerate(self._extents)))
        return way if not self.need(way) and next(self._candidates(way.block), None) is None else None

    def _simplest(self, whole: Mapping[int, int]) -> Way:
        """In one block, in the way that takes the least scratch."""
        groups = self._factors.in_tile if self._factors.must_tile else self._factors.direct
        return Way(whole, groups, self._factors.must_tile)

    def choose(self, room: int, slab_room: int) -> Way:
        """The cheapest way that fits; without enough scratch for any, tap by tap in the smallest blocks.

        `room` and `slab_room` are the bytes that blocks may take without slabs and with them. If that is more than
        nothing and still not enough, blocks get as small as it takes, at any cost.
        """
        budget = min(max(room, SMALLEST_BLOCK_BYTES), BLOCK_BYTES)
        whole = dict(enumerate(self._extents))
        best = self._cut(self._simplest(whole), budget, room)
        if self.need(best) > budget and self._sums_in_pieces():
            best = self._cut_inner(Way(whole, self._factors.in_tile, tiled=True), budget, room)
        for candidate in self._candidates(whole):
            available = slab_room if candidate.slabs else room
            way = self._cut(candidate, min(max(available, SMALLEST_BLOCK_BYTES), BLOCK_BYTES), available)
            way = self._looking_ahead(way, available)
            if self.need(way) <= available and self.cost(way) < self.cost(best):
                best = way
        return best if not 0 < room < self.need(best) else self._scarce(room)

    def _scarce(self, room: int) -> Way:
        """The cheapest way in blocks that fit, cut down to single rows and columns and short sums if need be."""
        whole, roles = dict(enumerate(self._extents)), self._factors.roles
        columns, rows = ([(d, 1) for d in dims] for dims in ((*roles.batch, *roles.column), roles.row))
        most = _MOST_SCARCE_BLOCKS
        ways = [self._cut_dims(self._simplest(whole), [*columns, *rows], room, room, most)]
        if self._factors.dtype == self._factors.out.dtype:
            tiled, pieces = Way(whole, self._factors.in_tile, tiled=True), self._cuts_of_sums()
            ways.append(self._cut_dims(tiled, [*columns, *pieces, *rows], room, room, most))
            if self._sums_in_pieces():
                ways.append(self._cut_dims(tiled, [*pieces, *columns, *rows], room, room, most))
        fitting = [way for way in ways if self.need(way) <= room]
        return min(fitting, key=self.cost) if fitting else min(ways, key=self.need)

    def _candidates(self, block: Mapping[int, int]) -> Iterator[Way]:
        """Ways that take more scratch than the simplest."""
        in_tile = Way(block, self._factors.in_tile, tiled=True)
        if not self._factors.must_tile and self._factors.in_tile != self._factors.direct:
            yield in_tile
        slabs = [(factor, group) for factor, group in self._sides() if factor.slab is not None]
        if slabs:
            yield replace(in_tile, slabs=True)
            if not self._factors.must_tile:
                yield Way(block, self._factors.direct, tiled=False, slabs=True)
        for factor, group in slabs:
            assert factor.slab is not None
            if len(group) < 2 or factor.layout[-2:] != group[-2:]:
                continue
            outer, inner = group[-2:]
            strides = factor.slab.strides(block)
            row, rest = divmod(strides[outer], factor.slab.itemsize)
            if strides[inner] == factor.slab.itemsize and not rest and row >= self._extents[inner]:
                yield replace(in_tile, slabs=True, flat=inner, row=row)

    def _sides(self) -> tuple[tuple[Factor, tuple[int, ...]], ...]:
        """Both factors with their rows or columns."""
        factors, groups = self._factors, self._factors.in_tile
        return (factors.left, groups.rows), (factors.right, groups.columns)

    def need(self, way: Way) -> int:
        """Bytes of scratch for one block."""
        stored = way.stored(way.block)
        factors = (self._factors.left, self._factors.right)
        total = sum(self.packed_bytes(factor, stored) for factor in factors if factor.packed)
        if way.slabs:
            total += sum(self.slab_bytes(factor.slab, way) for factor in factors if factor.slab)
        if way.tiled:
            total += self.nbytes(self._factors.kept, stored)
        return total

    def slab_bytes(self, slab: Slab, way: Way) -> int:
        """Bytes of a slab; rows walked whole reach a little beyond its end."""
        tail = 0 if way.flat is None else way.row - self._extents[way.flat]
        return slab.nbytes(way.slab_block, tail)

    def nbytes(self, dims: Sequence[int], block: Mapping[int, int]) -> int:
        """Bytes of a block of these dimensions, in the type of the sum."""
        return aligned(self._factors.dtype.itemsize * math.prod(block[d] for d in dims))

    def packed_bytes(self, factor: Factor, block: Mapping[int, int]) -> int:
        """Bytes of a packed block of a factor."""
        return self.nbytes(factor.layout, block)

    def _cut(self, way: Way, budget: int, room: int) -> Way:
        """The way with extents cut until a block fits `budget`: batches, then columns, then rows.

        Extents are halved; what is left of `room` after that is used up.
        """
        roles = self._factors.roles
        for smallest in (PREFERRED_CUT, _SMALLEST_CUT) if room > 0 else (PREFERRED_CUT,):
            cuts = [(d, 1) for d in (*roles.batch, *roles.column[:-1])]
            cuts += [(d, smallest) for d in roles.column[-1:]]
            cuts += [(d, 1) for d in roles.row[:-1]]
            cuts += [(d, smallest) for d in roles.row[-1:]]
            way = self._cut_dims(way, cuts, budget, room)
        return way

    def _looking_ahead(self, way: Way, room: int) -> Way:
        """The way with slabs for as many blocks in a row as there is room for."""
        padded = [factor for factor in (self._factors.left, self._factors.right) if factor.slab is not None]
        cut = [d for factor in padded for d in factor.outer if way.block[d] < self._extents[d]]
        if not way.slabs or not cut:
            return way
        dim = cut[-1]
        for extent in range(2 * way.block[dim], self._extents[dim] + way.block[dim], way.block[dim]):
            further = replace(way, ahead={dim: extent})
            if self.need(further) > room:
                break
            way = further
        return way

    def _cut_inner(self, way: Way, budget: int, room: int) -> Way:
        """The way with sums cut into pieces until a block fits, then cut as the others are.

        What that leaves of the room goes to longer pieces: each is another product, and adds all of the output.
        """
        cuts = self._cuts_of_sums()
        batches = [(d, 1) for d in self._factors.roles.batch]
        way = self._cut(self._cut_dims(way, batches + cuts, budget, room), budget, room)
        return self._cut_dims(way, cuts, budget, room)

    def _cuts_of_sums(self) -> list[tuple[int, int]]:
        """The inner dimensions, and down to which extent they may be cut."""
        inner = self._factors.inner
        return [(d, 1) for d in inner[:-1]] + [(d, _SMALLEST_INNER_CUT) for d in inner[-1:]]

    def _sums_in_pieces(self) -> bool:
        """Whether a factor is packed only to be converted: the pieces of a sum are then converted once each."""
        factors = (self._factors.left, self._factors.right)
        converted = any(f.packed and isinstance(f.expr, Apply) for f in factors)
        return (
            converted and not any(f.slab for f in factors) and self._factors.dtype == self._factors.out.dtype
        )

    def _cut_dims(
        self, way: Way, cuts: Sequence[tuple[int, int]], budget: int, room: int, most: float = math.inf
    ) -> Way:
        """The way with these dimensions cut in turn, down to at least an extent each, into at most so many blocks."""

        def with_parts(dim: int, parts: int, least: int) -> Way:
            return replace(way, block={**way.block, dim: max(least, -(-self._extents[dim] // parts))})

        for dim, least in cuts:
            if dim == way.flat or self.need(with_parts(dim, self._extents[dim], 1)) == self.need(way):
                continue
            parts = -(-self._extents[dim] // way.block[dim])
            while self.need(way) > budget and way.block[dim] > least:
                finer = with_parts(dim, 2 * parts, least)
                if self._blocks(finer) > most:
                    break
                parts, way = 2 * parts, finer
            while parts > 1 and self.need(with_parts(dim, parts - 1, least)) <= min(budget, room):
                parts -= 1
                way = with_parts(dim, parts, least)
        return way

    def _blocks(self, way: Way) -> int:
        """How many blocks a contraction is cut into."""
        return math.prod(-(-extent // way.block[d]) for d, extent in enumerate(self._extents))

    def cost(self, way: Way) -> float:
        """Nanoseconds that the contraction takes, roughly."""
        batches, rows, columns = (
            math.prod(-(-self._extents[d] // way.block[d]) for d in dims)
            for dims in (self._factors.roles.batch, self._factors.roles.row, self._factors.roles.column)
        )
        pieces = math.prod(-(-self._extents[d] // way.block[d]) for d in self._factors.inner)
        stored = way.stored(way.block)
        total = batches * rows * pieces * self._packing_cost(self._factors.left, way, stored)
        blocks = batches * rows * columns * pieces
        repacked = blocks if columns > 1 or pieces > 1 else batches
        total += repacked * self._packing_cost(self._factors.right, way, stored)
        outer = self._factors.kept
        matrix = [
            math.prod(stored[d] for d in dims)
            for dims in (way.groups.batches, way.groups.rows, self._factors.inner, way.groups.columns)
        ]
        total += blocks * (costs.PRODUCT + costs.products(*matrix))
        if way.tiled:
            run = way.block[outer[-1]] if outer else 1
            total += blocks * costs.copy(math.prod(way.block[d] for d in outer), run)
        return total

    @property
    def least_cost(self) -> float:
        """The cost of one block, with nothing copied but to pack each factor once."""
        whole, groups = dict(enumerate(self._extents)), self._factors.in_tile
        total = costs.PRODUCT + costs.products(
            *(
                math.prod(whole[d] for d in dims)
                for dims in (groups.batches, groups.rows, self._factors.inner, groups.columns)
            )
        )
        for factor in (self._factors.left, self._factors.right):
            if factor.packed and factor.layout:
                total += costs.copy(math.prod(whole[d] for d in factor.layout), whole[factor.layout[-1]])
        return total

    def _packing_cost(self, factor: Factor, way: Way, stored: Mapping[int, int]) -> float:
        """What it costs to pack one block of a factor."""
        if not factor.packed:
            return 0.0
        elements = math.prod(stored[d] for d in factor.layout)
        run = stored[factor.layout[-1]] if factor.layout else 1
        if factor.slab is not None and way.slabs:
            slab = factor.slab.shape(way.slab_block)
            blocks = math.prod(extent // way.block[d] for d, extent in way.ahead.items())
            innermost = factor.slab.strides(way.block)[factor.layout[-1]]
            if way.flat is not None:
                run *= stored[factor.layout[-2]]
            spread = innermost != factor.slab.itemsize
            return (
                costs.copy(elements, run, spread=spread)
                + (costs.CALL + costs.copy(math.prod(slab), slab[-1])) / blocks
            )
        read = copied_read(factor.expr)
        calls = 1
        for bound in () if read is None else read.bounds:
            extents = [way.block[d] for d in bound.expr.dims if way.block[d] > 1]
            calls *= min(extents, default=1) if len(extents) > 1 else 1
        return calls * costs.CALL + costs.copy(elements, run)
