"""Assigning offsets to buffers: strategies from no reuse to the best of a portfolio of greedy orders.

The greedy rule is that of TFLite's arena planner (decreasing size, best gap) and of XLA's heap simulator; the portfolio
is the observation that no single order wins on all instances. What is left over its best plan is often one buffer that
came too late: the repairs take such buffers first. Everything is deterministic. `search` goes on from here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

from mlopt.memory.allocator import allocate_in_time
from mlopt.memory.buffers import Buffer, align_up, check_plan, conflicts, max_live
from mlopt.memory.coloring import color_all, color_equal_sizes

Strategy = Literal["none", "conservative", "aggressive", "coloring"]
"""How much reuse: every buffer its own space; only among buffers of exactly the same size; any; by blocks.

`coloring` is for comparison: interval-graph colouring, in which a block is as large as the largest buffer in it.
"""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

OPTIMAL = "optimal (max-live)"
"""Status of a plan that is as small as the most bytes live at one moment: proved to be the smallest."""
PROVED = "optimal (proved)"
"""Status of a plan larger than the most bytes live at one moment, when a search has shown that none is smaller."""
GAP = "gap"
"""Status of a plan that is larger than that bound: perhaps optimal, not proved."""


def status_of(height: int, max_live: int, bound: int = 0) -> str:
    """The status of a plan of `height` bytes for buffers of which `max_live` live at once and that need `bound`."""
    if height == max_live:
        return OPTIMAL
    return PROVED if height == bound else GAP


class Plan(NamedTuple):
    """Byte offsets by buffer id, the bytes the arena needs, and how that compares with the lower bound."""

    offsets: dict[str, int]
    height: int
    lower_bound: int

    @property
    def status(self) -> str:
        """As `status_of` says it."""
        return status_of(self.height, self.lower_bound)


def plan(buffers: Sequence[Buffer], strategy: Strategy = "aggressive", *, repairs: int = 32) -> Plan:
    """Place all buffers in one arena so that no two that are live at the same moment share bytes.

    `repairs` is how often at most the best greedy order is repaired.

    Costs O(n log n + c log c) for the c pairs of buffers that live at the same moment, per greedy order tried; how many
    orders are tried is limited by c, and with very many pairs a sweep over time of O(n log n) makes the plan.

    Raises:
        ValueError: for two buffers of one id, or an unknown strategy.
        PlanError: if fixed buffers overlap each other.
    """
    if len({buffer.id for buffer in buffers}) != len(buffers):
        raise ValueError("buffer ids are not unique")
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy '{strategy}', expected one of {', '.join(STRATEGIES)}")
    lower_bound = max_live(buffers)
    base = _check_fixed(buffers)
    match strategy:
        case "none":
            offsets = _separate(buffers, base)
        case "conservative":
            offsets = color_equal_sizes(buffers, base)
        case "coloring":
            offsets = color_all(buffers, base)
        case "aggressive":
            offsets = _best_greedy(buffers, lower_bound, base, repairs)
    named = {
        buffer.id: offset if buffer.size or buffer.fixed is not None else 0
        for buffer, offset in zip(buffers, offsets, strict=True)
    }
    return Plan(named, height_of(buffers, offsets), lower_bound)


def height_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """The bytes that buffers at these offsets reach up to; buffers of size zero reach nowhere."""
    return max(
        (offset + buffer.footprint for buffer, offset in zip(buffers, offsets, strict=True) if buffer.size),
        default=0,
    )


def _check_fixed(buffers: Sequence[Buffer]) -> int:
    """Check that the fixed buffers lie apart; returns where the highest of them ends."""
    fixed = {buffer.id: buffer.fixed for buffer in buffers if buffer.fixed is not None}
    if not fixed:
        return 0
    members = [buffer for buffer in buffers if buffer.fixed is not None]
    height = height_of(members, list(fixed.values()))
    check_plan(members, fixed, height)
    return height


def _separate(buffers: Sequence[Buffer], base: int) -> list[int]:
    """One buffer after the other, in the given order, from `base` on; the fixed ones where they are fixed."""
    offsets: list[int] = []
    end = base
    for buffer in buffers:
        if buffer.fixed is not None:
            offsets.append(buffer.fixed)
            continue
        offset = align_up(end, buffer.alignment)
        offsets.append(offset)
        end = offset + buffer.footprint
    return offsets


_Key = Callable[[Buffer, int], tuple[int, ...]]
"""From a buffer and the number of its conflicts to what it is sorted by."""

_ORDERS: tuple[tuple[_Key, bool], ...] = (
    # (key of the order, best fit instead of first fit)
    (lambda b, _: (-b.footprint, b.lower), True),
    (lambda b, _: (-b.footprint, b.lower), False),
    (lambda b, _: (-b.footprint, b.lower - b.upper), False),
    (lambda b, _: (-b.footprint * (b.upper - b.lower), b.lower), True),
    (lambda b, _: (-b.footprint * (b.upper - b.lower), b.lower), False),
    (lambda b, _: (b.lower, -b.footprint), True),
    (lambda b, _: (b.lower, -b.footprint), False),
    (lambda b, _: (-b.upper, -b.footprint), False),
    (lambda b, _: (b.lower - b.upper, -b.footprint), True),
    (lambda b, _: (b.lower - b.upper, -b.footprint), False),
    (lambda b, conflicts: (-conflicts, -b.footprint), False),
)
"""Size, area (size times lifetime), start, end and width of the lifetime, number of conflicts: best or first fit."""


_REPAIR_BUDGET = 500_000
"""Pairs of conflicting buffers to look at in all repairs together, so that large instances stay fast."""


_GREEDY_BUDGET = 2_000_000
"""Pairs of conflicting buffers to look at in all greedy orders together; with more than that, none is tried."""


def _best_greedy(buffers: Sequence[Buffer], lower_bound: int, base: int, repairs: int) -> list[int]:
    """The lowest of the greedy plans, then of repairs of its order; the first that meets the bound ends it.

    A repair places the buffers that reached the top first, and all others in the order they had. Buffers that all live
    at one moment need no search: one after the other, they meet the bound.
    """
    best = _separate(buffers, base)
    best_height = height_of(buffers, best)
    if best_height == lower_bound:
        return best
    pairs = _count_conflicts(buffers)
    orders = _ORDERS[: _GREEDY_BUDGET // (pairs + 1)]
    if any(buffer.fixed is not None for buffer in buffers):
        orders = orders or _ORDERS[:1]
    elif len(orders) < len(_ORDERS):
        swept = allocate_in_time(buffers)
        height = height_of(buffers, swept)
        if height < best_height:
            best, best_height = swept, height
        if best_height == lower_bound or not orders:
            return best
    neighbours: list[list[int]] = [[] for _ in buffers]
    for one, other in conflicts(buffers):
        neighbours[one].append(other)
        neighbours[other].append(one)

    best_order, best_fit = list(range(len(buffers))), False
    for key, fit in orders:
        order = sorted(
            range(len(buffers)), key=lambda index: (*key(buffers[index], len(neighbours[index])), index)
        )
        offsets = place_in_order(buffers, neighbours, order, fit)
        height = height_of(buffers, offsets)
        if height < best_height:
            best, best_height, best_order, best_fit = offsets, height, order, fit
        if best_height == lower_bound:
            return best

    offsets, height, order = best, best_height, best_order
    for _ in range(min(repairs, _REPAIR_BUDGET // (pairs + 1))):
        top = [index for index in order if offsets[index] + buffers[index].footprint == height]
        rest = [index for index in order if offsets[index] + buffers[index].footprint != height]
        order = top + rest
        offsets = place_in_order(buffers, neighbours, order, best_fit)
        height = height_of(buffers, offsets)
        if height < best_height:
            best, best_height = offsets, height
        if best_height == lower_bound:
            break
    return best


def _count_conflicts(buffers: Sequence[Buffer]) -> int:
    """How many pairs `conflicts` yields, gaps aside: for each buffer, those that began before and have not ended."""
    present = [buffer for buffer in buffers if buffer.size]
    uppers = sorted(buffer.upper for buffer in present)
    lowers = sorted(buffer.lower for buffer in present)
    return sum(begun - bisect_right(uppers, lower) for begun, lower in enumerate(lowers))


def place_in_order(
    buffers: Sequence[Buffer], neighbours: Sequence[Sequence[int]], order: Sequence[int], best_fit: bool
) -> list[int]:
    """Place each buffer in the lowest (or the smallest) gap between its placed neighbours, or on top of them."""
    offsets = [-1 if buffer.fixed is None else buffer.fixed for buffer in buffers]
    footprints = [buffer.footprint for buffer in buffers]
    ends = [offset + footprint for offset, footprint in zip(offsets, footprints, strict=True)]
    for index in order:
        if offsets[index] >= 0:  # it is fixed
            continue
        footprint, alignment = footprints[index], buffers[index].alignment
        busy = [(offsets[other], ends[other]) for other in neighbours[index] if offsets[other] >= 0]
        busy.sort()
        start = 0  # where the gap begins, aligned
        best = -1
        best_waste = 0
        for gap_end, next_end in busy:
            waste = gap_end - start - footprint
            if waste >= 0 and (best < 0 or waste < best_waste):
                best, best_waste = start, waste
                if not best_fit:
                    break
            if next_end > start:
                start = -(-next_end // alignment) * alignment
        offsets[index] = start if best < 0 else best
        ends[index] = offsets[index] + footprint
    return offsets
