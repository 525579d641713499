"""Smaller plans by search, and proofs that there are none: the canonical-order search of MiniMalloc, and more.

After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023).
Every plan can be pushed down until each buffer rests on another one, on the bottom, or where it is fixed, without
growing. So it is enough to place buffers in the order of their offsets, each at the lowest offset that those below it
leave. What remains is which buffer comes next, and a depth-first search decides that:

- Canonical order: offsets never fall; among equal ones the ranking decides, since those buffers don't meet.
- Dominance: no buffer is placed so high that an unplaced one would fit below it, or that a fixed one is passed.
- Bounds: at each moment the unplaced buffers, stacked in the order of their lowest offsets, must stay in the capacity.
- Late buffers: one whose turn has passed must be lifted by an unplaced neighbour. So it is no lower than the lowest end
  that any of these can have, and the bounds take that for its lowest offset. With no such neighbour, there is no plan.
- Groups: of two buffers that are live at the same moments, stacked directly, one order is enough.
- Decomposition: what no unplaced buffer connects in time any more is solved, and ranked anew, piece by piece. At the
  top this is why components are independent: each has its own smallest height, and the plan needs the largest.

That the rules agree with each other: take, of the plans within the capacity, one with the smallest sum of offsets, each
times a weight that grows with the size and falls along the order of a group. Pushing down, filling a hole and swapping
two of a group that are in the wrong order each make that sum smaller: so that plan obeys all rules.

Effort is counted in nodes, buffers placed on trial, so results depend on the input alone, never on the speed of the
machine, nor on whether the kernel is compiled. Components of very many buffers are improved window by window, and
segment by segment (`windows`, `segments`), without proofs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from mlopt.memory.buffers import Buffer, max_live
from mlopt.memory.descent import Budget, Descents, KernelChoice, compiled_kernel
from mlopt.memory.instance import Instance, unit_of
from mlopt.memory.kernel import FOUND, NONE, SPENT
from mlopt.memory.native import NativeKernel
from mlopt.memory.planner import Plan, height_of, plan, status_of
from mlopt.memory.segments import LENGTHS, Segments
from mlopt.memory.windows import mend

WHOLE = 2500
"""Buffers of the largest components that are searched as a whole: a node costs time in proportion."""

_SHARE = 8
"""An attempt above the bound gets one part in so many of the nodes of one at the bound: some ten of them are made."""


class SearchResult(NamedTuple):
    """The best plan found, the height that no plan can be below (bytes), and the nodes that took."""

    plan: Plan
    bound: int
    nodes: int

    @property
    def status(self) -> str:
        """As `status_of` says it."""
        return status_of(self.plan.height, self.plan.lower_bound, self.bound)


def search(
    buffers: Sequence[Buffer],
    *,
    nodes: int | None = None,
    target: int = 0,
    watch: Callable[[int, int], None] | None = None,
    start: Plan | None = None,
    choice: KernelChoice = "auto",
) -> SearchResult:
    """The smallest plan that is found with at most `nodes` nodes (None: until it is proved to be the smallest).

    Starts from the plan `start`, or from the greedy ones of `plan` without repairs, so it is never worse than that.
    Stops early at a plan of at most `target` bytes. `watch` is told now and then the nodes so far, and the height of
    the best plan. A node takes some microseconds compiled, and a hundred times that as Python; the result is the same.

    Raises:
        ValueError: for two buffers of one id.
        PlanError: if fixed buffers overlap each other.
        UnsupportedError: if `choice` is `native` and there is no compiled kernel.
    """
    start = start or plan(buffers, repairs=0)
    compiled = compiled_kernel(choice, nodes)
    components = [_component(members, start, compiled) for members in split(buffers)]
    budget = Budget(nodes, lambda used: watch and watch(used, max(part.height for part in components)))
    limit = 2 * len(buffers)
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
        offsets.update(zip((buffer.id for buffer in component.buffers), component.offsets, strict=True))
    height = height_of(buffers, [offsets[buffer.id] for buffer in buffers])
    bound = max((component.bound for component in components), default=0)
    return SearchResult(Plan(offsets, height, start.lower_bound), bound, budget.used)


def split(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """The components: the buffers that take bytes, split where nothing is live."""
    components: list[list[Buffer]] = []
    end: float = -inf
    for buffer in sorted((b for b in buffers if b.size), key=lambda b: (b.lower, b.id)):
        if buffer.lower >= end:
            components.append([])
        components[-1].append(buffer)
        end = max(end, buffer.upper)
    return components


@dataclass
class _Component(ABC):
    """Buffers that are connected in time, the best offsets known for them, and a height that no plan can be below."""

    buffers: list[Buffer]
    offsets: list[int]
    height: int
    bound: int
    unit: int
    """All heights of pushed-down plans are multiples of this."""

    def improve(self, goal: int, limit: int, budget: Budget) -> None:
        """One round: attempts at the bound with `limit` nodes per ranking, then halfway to the best with fewer.

        Stops at a height of at most `goal`, below which it makes no difference to the whole.
        """
        capacity, limit_at_bound = max(goal, self.bound), limit
        while self.height > max(goal, self.bound) and capacity < self.height and budget.left > 0:
            outcome = self._attempt(capacity, limit, budget)
            if outcome == FOUND:
                self.height = height_of(self.buffers, self.offsets)
            elif outcome == NONE:
                self.bound = max(self.bound, (capacity // self.unit + 1) * self.unit)
                capacity = max(capacity, self.bound)
            else:
                step = (self.height - capacity) // 2 // self.unit * self.unit
                capacity += max(step, self.unit)
                limit = max(limit_at_bound // _SHARE, 2 * len(self.buffers))

    @abstractmethod
    def _attempt(self, capacity: int, limit: int, budget: Budget) -> int:
        """FOUND, with offsets of at most `capacity`, NONE if there are none, or SPENT."""


class _Whole(_Component):
    """A component that is searched as a whole."""

    def __init__(self, buffers: list[Buffer], offsets: list[int], compiled: NativeKernel | None):
        instance = Instance.of(buffers)
        super().__init__(buffers, offsets, height_of(buffers, offsets), max_live(buffers), instance.unit)
        self._descents = Descents(instance, compiled)

    def _attempt(self, capacity: int, limit: int, budget: Budget) -> int:
        outcome = self._descents.attempt(capacity, limit, budget)
        if outcome == FOUND:
            self.offsets = self._descents.offsets
        return outcome


class _Large(_Component):
    """A component of very many buffers: a plan whose faults are mended one by one, or one in segments."""

    def __init__(self, buffers: list[Buffer], offsets: list[int], compiled: NativeKernel | None):
        super().__init__(buffers, offsets, height_of(buffers, offsets), max_live(buffers), unit_of(buffers))
        self._compiled = compiled
        self._segments: dict[int, Segments] = {}

    def _attempt(self, capacity: int, limit: int, budget: Budget) -> int:
        if mend(self.buffers, self.offsets, capacity, budget, self._compiled):
            return FOUND
        for longest in LENGTHS:
            if longest not in self._segments:
                self._segments[longest] = Segments(self.buffers, longest, self._compiled)
            segments = self._segments[longest]
            if segments.fit(capacity, max(2, limit // len(self.buffers)), budget):
                self.offsets = list(segments.offsets)
                return FOUND
        return SPENT


def _component(buffers: list[Buffer], start: Plan, compiled: NativeKernel | None) -> _Component:
    offsets = [start.offsets[buffer.id] for buffer in buffers]
    return (_Whole if len(buffers) <= WHOLE else _Large)(buffers, offsets, compiled)
