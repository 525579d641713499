"""Smaller plans by search, and proofs that there are none: the canonical-order search of MiniMalloc.

After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
Every plan can be pushed down until each buffer rests on another one, or on the bottom, without growing. So it is enough
to place buffers in the order of their offsets, each at the lowest offset that those below it leave. What remains is
which buffer comes next, and a depth-first search decides that:

- Canonical order: offsets never fall; among equal ones the ranking decides, since those buffers don't meet.
- Dominance: no buffer is placed so high that an unplaced one would fit below it.
- Bounds: at each moment the unplaced buffers, stacked in the order of their lowest offsets, must stay in the capacity.
- Decomposition: what no unplaced buffer connects in time any more is solved, and ranked anew, piece by piece. At the
  top this is why components are independent: each has its own smallest height, and the plan needs the largest.

Moments are maximal cliques: sets of buffers that are all live at once, to which no buffer could be added. Effort is
counted in nodes, buffers placed on trial; so results depend on the input alone, never on the speed of the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd, inf

from mlopt.memory.buffers import Buffer, align_up, conflicts, max_live
from mlopt.memory.planner import GAP, OPTIMAL, Plan, height_of, plan

_SHARE = 8
"""An attempt above the bound gets one part in so many of the nodes of one at the bound: some ten of them are made."""

PROVED = "optimal (proved)"
"""Status of a plan larger than the most bytes live at one moment, when a search has shown that none is smaller."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best plan found, the height that no plan can be below (bytes), and the nodes that took."""

    plan: Plan
    bound: int
    nodes: int

    @property
    def status(self) -> str:
        """`OPTIMAL` or `PROVED` if no smaller plan exists, else `GAP`."""
        if self.plan.status == OPTIMAL:
            return OPTIMAL
        return PROVED if self.plan.height == self.bound else GAP


def search(
    buffers: Sequence[Buffer],
    *,
    nodes: int | None = None,
    target: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """The smallest plan that is found with at most `nodes` nodes (None: until it is proved to be the smallest).

    Starts from the portfolio of `plan`, so it is never worse than that. Stops early at a plan of at most `target`
    bytes. `watch` is told now and then the nodes so far, and the height of the best plan. A node costs time in
    proportion to the buffers live around it, about a millisecond for some hundred buffers.

    Raises:
        ValueError: for two buffers of one id.
    """
    start = plan(buffers)
    components = [_Component.of(members, start) for members in _components(buffers)]

    def spent(used: int) -> None:
        if watch is not None:
            watch(used, max(component.height for component in components))

    budget = _Budget(nodes, spent)
    limit = 2 * len(buffers)
    with _deep_recursion(len(buffers)):
        while budget.left > 0:
            goal = max([target, *(component.bound for component in components)])
            open_ = [component for component in components if component.height > goal]
            if not open_:
                break
            for component in open_:
                component.improve(goal, limit, budget)
            limit *= 2
    offsets = dict(start.offsets)
    for component in components:
        offsets.update(component.offsets)
    height = height_of(buffers, [offsets[buffer.id] for buffer in buffers])
    bound = max((component.bound for component in components), default=0)
    return SearchResult(Plan(offsets, height, start.lower_bound), bound, budget.used)


@dataclass
class _Budget:
    """Nodes that may be spent in all, and that were."""

    total: int | None
    spent: Callable[[int], None]
    """Told what was used, after each attempt."""
    used: int = 0

    def spend(self, nodes: int) -> None:
        self.used += nodes
        self.spent(self.used)

    @property
    def left(self) -> float:
        return inf if self.total is None else self.total - self.used


def _components(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """The buffers that take bytes, split where nothing is live."""
    components: list[list[Buffer]] = []
    end: float = -inf
    for buffer in sorted((b for b in buffers if b.size), key=lambda b: (b.lower, b.id)):
        if buffer.lower >= end:
            components.append([])
        components[-1].append(buffer)
        end = max(end, buffer.upper)
    return components


@dataclass
class _Component:
    """Buffers that are connected in time, the best offsets known for them, and a height that none can be below."""

    buffers: list[Buffer]
    offsets: dict[str, int]
    height: int
    bound: int
    unit: int
    """All heights of pushed-down plans are multiples of this."""
    shape: _Shape = field(repr=False)

    @staticmethod
    def of(buffers: list[Buffer], start: Plan) -> _Component:
        """A component with what a plan has for it."""
        unit = gcd(*(buffer.footprint for buffer in buffers))
        if any(unit % buffer.alignment for buffer in buffers):
            unit = gcd(unit, *(buffer.alignment for buffer in buffers))
        offsets = {buffer.id: start.offsets[buffer.id] for buffer in buffers}
        height = height_of(buffers, list(offsets.values()))
        return _Component(buffers, offsets, height, max_live(buffers), unit, _Shape.of(buffers))

    def improve(self, goal: int, limit: int, budget: _Budget) -> None:
        """One round: attempts at the bound with `limit` nodes per ranking, then halfway to the best with fewer.

        Stops at a height of at most `goal`, below which it makes no difference to the whole.
        """
        capacity, limit_at_bound = max(goal, self.bound), limit
        while self.height > max(goal, self.bound) and capacity < self.height and budget.left > 0:
            outcome = self._attempt(capacity, limit, budget)
            if outcome is None:
                step = (self.height - capacity) // 2 // self.unit * self.unit
                capacity += max(step, self.unit)
                limit = min(limit, limit_at_bound // _SHARE)
            elif not outcome:
                self.bound = max(self.bound, (capacity // self.unit + 1) * self.unit)
                capacity = max(capacity, self.bound)

    def _attempt(self, capacity: int, limit: int, budget: _Budget) -> bool | None:
        """Whether the buffers fit into `capacity`; None if no ranking could tell. Keeps the plan if they do."""
        for ranking in _RANKINGS:
            descent = _Descent(self.shape, capacity, ranking, int(min(limit, budget.left)))
            try:
                found = descent.run()
            except _OutOfNodesError:
                continue
            finally:
                budget.spend(descent.nodes)
            if found:
                self.offsets = {b.id: o for b, o in zip(self.buffers, descent.offsets, strict=True)}
                self.height = height_of(self.buffers, descent.offsets)
            return found
        return None


@dataclass(frozen=True)
class _Shape:
    """The buffers of a component by position, in the form that the search reads fast.

    `first` and `end` give each buffer's range of cliques, `cliques` the buffers in each.
    """

    sizes: list[int]
    alignments: list[int]
    widths: list[int]
    neighbours: list[list[int]]
    first: list[int]
    end: list[int]
    cliques: list[list[int]]

    @staticmethod
    def of(buffers: Sequence[Buffer]) -> _Shape:
        neighbours: list[list[int]] = [[] for _ in buffers]
        for one, other in conflicts(buffers):
            neighbours[one].append(other)
            neighbours[other].append(one)
        events = [(b.upper, 0, i) for i, b in enumerate(buffers)]
        events += [(b.lower, 1, i) for i, b in enumerate(buffers)]
        first, end = [0] * len(buffers), [0] * len(buffers)
        cliques: list[list[int]] = []
        live: dict[int, None] = {}
        grown = False
        for _, starts, index in sorted(events):
            if starts:
                live[index] = None
                first[index] = len(cliques)
                grown = True
                continue
            if grown:
                cliques.append(list(live))
                grown = False
            del live[index]
            end[index] = len(cliques)
        return _Shape(
            [b.footprint for b in buffers],
            [b.alignment for b in buffers],
            [b.upper - b.lower for b in buffers],
            neighbours,
            first,
            end,
            cliques,
        )


_Ranking = Callable[[int, int, int], tuple[int, int, int]]
"""From a buffer's total (bytes unplaced in its fullest clique), width (lifetime) and size to a key: smallest first."""

_RANKINGS: tuple[_Ranking, ...] = (
    lambda total, width, size: (-total, -width, -size),
    lambda total, width, size: (-total, -width * size, -width),
    lambda total, width, size: (-width, -width * size, -total),
)
"""MiniMalloc's three, by total, width and area: none of them is fast on all instances."""


class _OutOfNodesError(Exception):
    """The node limit is spent."""


class _Descent:
    """One depth-first search for a plan of at most `capacity` bytes, with one ranking.

    `floors` is the lowest offset that placed buffers leave to each buffer, infinite for a placed one; `totals` the
    unplaced bytes in each clique; `bridges` how many unplaced buffers are in both a clique and the next.
    """

    def __init__(self, shape: _Shape, capacity: int, ranking: _Ranking, limit: int):
        self.shape = shape
        self.capacity = capacity
        self.ranking = ranking
        self.limit = limit
        self.nodes = 0
        self.offsets = [0] * len(shape.sizes)
        self.floors: list[float] = [0] * len(shape.sizes)
        self.totals = [sum(shape.sizes[i] for i in clique) for clique in shape.cliques]
        self.bridges = [0] * len(shape.cliques)
        for first, end in zip(shape.first, shape.end, strict=True):
            for clique in range(first, end - 1):
                self.bridges[clique] += 1

    def run(self) -> bool:
        """Whether there is a plan; its offsets are then in `offsets`."""
        return self._solve_piece(list(range(len(self.shape.sizes))), 0, len(self.shape.cliques))

    def _solve_piece(self, members: list[int], begin: int, end: int) -> bool:
        """Place `members`, the unplaced buffers of a range of cliques, ranked by what is unplaced now."""
        shape, totals = self.shape, self.totals

        def key(index: int) -> tuple[tuple[int, int, int], int]:
            total = max(totals[shape.first[index] : shape.end[index]])
            return self.ranking(total, shape.widths[index], shape.sizes[index]), index

        return self._branch(sorted(members, key=key), begin, end, 0, 0)

    def _branch(self, members: list[int], begin: int, end: int, lowest: float, start: int) -> bool:
        """Place ranked members, all at `lowest` or above, and one at `lowest` itself only if it ranks from `start`."""
        floors = [self.floors[index] for index in members]
        sizes = self.shape.sizes
        dominated = min([floor + sizes[index] for floor, index in zip(floors, members, strict=True)])
        highest = self.capacity - max(self.totals[begin:end])
        for position in sorted(range(len(members)), key=floors.__getitem__):
            offset = floors[position]
            if offset >= dominated or offset > highest:
                return False
            in_order = offset > lowest or (offset == lowest and position >= start)
            if in_order and self._place(members, position, int(offset), begin, end):
                return True
        return False

    def _place(self, members: list[int], position: int, offset: int, begin: int, end: int) -> bool:
        """Place one member on trial and go on with the others; leaves the state as it was."""
        if self.nodes >= self.limit:
            raise _OutOfNodesError
        self.nodes += 1
        index = members[position]
        raised = self._raise_neighbours(index, offset + self.shape.sizes[index])
        own_floor = self.floors[index]
        self.floors[index] = inf
        cuts = self._take_out(index)
        try:
            if not self._fits(raised):
                return False
            rest = members[:position] + members[position + 1 :]
            if self._solve_rest(rest, [begin, *cuts, end], offset, position):
                self.offsets[index] = offset
                return True
            return False
        finally:
            self._put_back(index)
            self.floors[index] = own_floor
            for other, floor in raised:
                self.floors[other] = floor

    def _solve_rest(self, rest: list[int], bounds: list[int], offset: int, position: int) -> bool:
        if not rest:
            return True
        if len(bounds) == 2:
            return self._branch(rest, bounds[0], bounds[1], offset, position)
        # The order of offsets binds the whole, not the pieces: it is checked here, and each piece starts afresh.
        if offset + max(self.totals[bounds[0] : bounds[-1]]) > self.capacity:
            return False
        for begin, end in pairwise(bounds):
            piece = [index for index in rest if begin <= self.shape.first[index] < end]
            if piece and not self._solve_piece(piece, begin, end):
                return False
        return True

    def _raise_neighbours(self, index: int, top: int) -> list[tuple[int, float]]:
        """Lift the unplaced neighbours of a buffer above it; returns them with the floors they had."""
        floors, alignments = self.floors, self.shape.alignments
        raised: list[tuple[int, float]] = []
        for other in self.shape.neighbours[index]:
            floor = floors[other]
            if floor < top:
                raised.append((other, floor))
                floors[other] = align_up(top, alignments[other])
        return raised

    def _take_out(self, index: int) -> list[int]:
        """Take a buffer out of its cliques; returns the cliques that a new piece begins at."""
        totals, bridges, size = self.totals, self.bridges, self.shape.sizes[index]
        first, last = self.shape.first[index], self.shape.end[index] - 1
        cuts: list[int] = []
        for clique in range(first, last):
            totals[clique] -= size
            bridges[clique] -= 1
            if not bridges[clique]:
                cuts.append(clique + 1)
        totals[last] -= size
        return cuts

    def _put_back(self, index: int) -> None:
        size = self.shape.sizes[index]
        first, last = self.shape.first[index], self.shape.end[index] - 1
        for clique in range(first, last):
            self.totals[clique] += size
            self.bridges[clique] += 1
        self.totals[last] += size

    def _fits(self, raised: list[tuple[int, float]]) -> bool:
        """Whether the cliques of raised buffers can still be stacked: each unplaced buffer on those of lower floors."""
        if not raised:
            return True
        shape, floors, sizes, capacity = self.shape, self.floors, self.shape.sizes, self.capacity
        indices = [index for index, _ in raised]
        highest = max([floors[index] for index in indices])
        if any(floors[index] + sizes[index] > capacity for index in indices):
            return False
        begin = min([shape.first[index] for index in indices])
        end = max([shape.end[index] for index in indices])
        for clique in range(begin, end):
            # Above the raised buffers nothing has changed, and with all unplaced ones on top of them it fits.
            if highest + self.totals[clique] <= capacity:
                continue
            top: float = 0
            for index in sorted(shape.cliques[clique], key=floors.__getitem__):
                floor = floors[index]
                if floor == inf:
                    break
                top = (floor if floor > top else top) + sizes[index]
            if top > capacity:
                return False
        return True


@contextmanager
def _deep_recursion(buffers: int) -> Generator[None]:
    """Room for the search: a few Python frames per buffer."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 4 * buffers + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
