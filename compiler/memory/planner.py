"""Assigning offsets to buffers: three strategies, from no reuse to the best of a portfolio of greedy orders.

The greedy rule is that of TFLite's arena planner (decreasing size, best gap) and of XLA's heap simulator; the portfolio
is the observation that no single order wins on all instances. What is left over its best plan is often one buffer that
came too late: the repairs take such buffers first. Everything is deterministic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from mlopt.memory.allocator import allocate_in_time
from mlopt.memory.buffers import Buffer, align_up, conflicts, max_live

Strategy = Literal["none", "conservative", "aggressive"]
"""How much reuse: every buffer its own space; only among buffers of exactly the same size; any."""

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

OPTIMAL = "optimal (max-live)"
"""Status of a plan that is as small as the most bytes live at one moment: proved to be the smallest."""
GAP = "gap"
"""Status of a plan that is larger than that bound: perhaps optimal, not proved."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Byte offsets by buffer id, the bytes the arena needs, and how that compares with the lower bound."""

    offsets: dict[str, int]
    height: int
    lower_bound: int

    @property
    def status(self) -> str:
        """`OPTIMAL` if the height equals the lower bound, else `GAP`."""
        return OPTIMAL if self.height == self.lower_bound else GAP


def plan(buffers: Sequence[Buffer], strategy: Strategy = "aggressive") -> Plan:
    """Place all buffers in one arena so that no two that are live at the same moment share bytes.

    Costs O(n log n + c log c) for the c pairs of buffers that live at the same moment, per greedy order tried; how many
    orders are tried is limited by c, and with very many pairs a sweep over time of O(n log n) makes the plan.

    Raises:
        ValueError: for two buffers of one id, or an unknown strategy.
    """
    if len({buffer.id for buffer in buffers}) != len(buffers):
        raise ValueError("buffer ids are not unique")
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy '{strategy}', expected one of {', '.join(STRATEGIES)}")
    lower_bound = max_live(buffers)
    match strategy:
        case "none":
            offsets = _separate(buffers)
        case "conservative":
            offsets = _share_equal_sizes(buffers)
        case "aggressive":
            offsets = _best_greedy(buffers, lower_bound)
    named = {buffer.id: offset for buffer, offset in zip(buffers, offsets, strict=True)}
    return Plan(named, height_of(buffers, offsets), lower_bound)


def height_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """The bytes that buffers at these offsets reach up to; buffers of size zero reach nowhere."""
    return max(
        (offset + buffer.footprint for buffer, offset in zip(buffers, offsets, strict=True) if buffer.size),
        default=0,
    )


def _separate(buffers: Sequence[Buffer]) -> list[int]:
    """One buffer after the other, in the given order."""
    offsets: list[int] = []
    end = 0
    for buffer in buffers:
        offset = align_up(end, buffer.alignment)
        offsets.append(offset)
        end = offset + buffer.footprint
    return offsets


def _share_equal_sizes(buffers: Sequence[Buffer]) -> list[int]:
    """Colour the interval graph of each group of equal size and alignment: a colour is a block of that size.

    Taking buffers by start and the first free block is optimal for intervals: a group needs as many blocks as its
    buffers live at one moment.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for index, buffer in enumerate(buffers):
        groups.setdefault((buffer.alignment, buffer.size), []).append(index)
    offsets = [0] * len(buffers)
    end = 0
    for (alignment, size), members in groups.items():
        base = align_up(end, alignment)
        busy_until: list[int] = []
        for index in sorted(members, key=lambda index: (buffers[index].lower, index)):
            buffer = buffers[index]
            block = next((b for b, until in enumerate(busy_until) if until <= buffer.lower), len(busy_until))
            if block == len(busy_until):
                busy_until.append(0)
            busy_until[block] = buffer.upper
            offsets[index] = base + block * align_up(size, alignment)
        end = base + len(busy_until) * align_up(size, alignment)
    return offsets


_Key = Callable[[Buffer], tuple[int, ...]]

_ORDERS: tuple[tuple[_Key, bool], ...] = (
    # (key of the order, best fit instead of first fit)
    (lambda b: (-b.footprint, b.lower), True),
    (lambda b: (-b.footprint, b.lower), False),
    (lambda b: (-b.footprint, b.lower - b.upper), False),
    (lambda b: (-b.footprint * (b.upper - b.lower), b.lower), True),
    (lambda b: (-b.footprint * (b.upper - b.lower), b.lower), False),
    (lambda b: (b.lower, -b.footprint), True),
    (lambda b: (b.lower, -b.footprint), False),
    (lambda b: (-b.upper, -b.footprint), False),
    (lambda b: (b.lower - b.upper, -b.footprint), True),
    (lambda b: (b.lower - b.upper, -b.footprint), False),
)
"""Size, area (size times lifetime), start, end and width of the lifetime, each with best or first fit."""


_REPAIRS = 32
"""How often at most the best order is repaired."""
_REPAIR_BUDGET = 500_000
"""Pairs of conflicting buffers to look at in all repairs together, so that large instances stay fast."""


_GREEDY_BUDGET = 2_000_000
"""Pairs of conflicting buffers to look at in all greedy orders together; with more than that, none is tried."""


def _best_greedy(buffers: Sequence[Buffer], lower_bound: int) -> list[int]:
    """The lowest of the greedy plans, then of repairs of its order; the first that meets the bound ends it.

    A repair places the buffers that reached the top first, and all others in the order they had. Buffers that all live
    at one moment need no search: one after the other, they meet the bound.
    """
    best = _separate(buffers)
    best_height = height_of(buffers, best)
    if best_height == lower_bound:
        return best
    pairs = _count_conflicts(buffers)
    orders = _ORDERS[: _GREEDY_BUDGET // (pairs + 1)]
    if len(orders) < len(_ORDERS):
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
        order = sorted(range(len(buffers)), key=lambda index: (*key(buffers[index]), index))
        offsets = _place_in_order(buffers, neighbours, order, fit)
        height = height_of(buffers, offsets)
        if height < best_height:
            best, best_height, best_order, best_fit = offsets, height, order, fit
        if best_height == lower_bound:
            return best

    offsets, height, order = best, best_height, best_order
    for _ in range(min(_REPAIRS, _REPAIR_BUDGET // (pairs + 1))):
        top = [index for index in order if offsets[index] + buffers[index].footprint == height]
        rest = [index for index in order if offsets[index] + buffers[index].footprint != height]
        order = top + rest
        offsets = _place_in_order(buffers, neighbours, order, best_fit)
        height = height_of(buffers, offsets)
        if height < best_height:
            best, best_height = offsets, height
        if best_height == lower_bound:
            break
    return best


def _count_conflicts(buffers: Sequence[Buffer]) -> int:
    """How many pairs `conflicts` yields: for each buffer, those that began before it and have not ended."""
    present = [buffer for buffer in buffers if buffer.size]
    uppers = sorted(buffer.upper for buffer in present)
    lowers = sorted(buffer.lower for buffer in present)
    return sum(begun - bisect_right(uppers, lower) for begun, lower in enumerate(lowers))


def _place_in_order(
    buffers: Sequence[Buffer], neighbours: Sequence[Sequence[int]], order: Sequence[int], best_fit: bool
) -> list[int]:
    """Place each buffer in the lowest (or the smallest) gap between its placed neighbours, or on top of them."""
    offsets = [-1] * len(buffers)
    for index in order:
        buffer = buffers[index]
        busy = sorted(
            (offsets[other], offsets[other] + buffers[other].footprint)
            for other in neighbours[index]
            if offsets[other] >= 0
        )
        end = 0
        best: int | None = None
        best_waste = 0
        for gap_end, next_end in busy:
            start = align_up(end, buffer.alignment)
            waste = gap_end - start - buffer.footprint
            if waste >= 0 and (best is None or waste < best_waste):
                best, best_waste = start, waste
                if not best_fit:
                    break
            end = max(end, next_end)
        offsets[index] = align_up(end, buffer.alignment) if best is None else best
    return offsets
