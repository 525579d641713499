"""Orders of steps by search over downsets: exact, with a proof, or by beam.

Which bytes are live depends only on which steps have run, not in what order they did: on the *downset*, a set of steps
that holds all that must run before its members. An order is a path over downsets, one step longer each, and its peak
the largest number of bytes live on the way: a minimax path. After Ahn et al., "Ordering Chaos: Memory-Aware Scheduling
of Irregularly Wired Neural Networks for Edge Devices" (MLSys 2020).

- Level by level: all downsets that can be reached within a peak are visited before a larger one is allowed. So every
  level that did not reach the end is a lower bound on all orders, and the first that does is the smallest peak.
- Steps that are never wrong: one that is ready, stays within the peak, and leaves no more bytes live than before. Every
  order that goes on from here is as good with that step first: what it frees is free earlier, and what it makes is
  live in place of that. Then no other step need be tried.

Effort is counted in nodes, steps tried in a downset, so results do not depend on the speed of the machine.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from mlopt.memory.steps import StepGraph, bits, mask_of


class OrderResult(NamedTuple):
    """The order found, if any; the bytes that no order can stay below; the nodes that took."""

    order: list[int] | None
    bound: int
    nodes: int


def exact_order(graph: StepGraph, *, below: int, floor: int, nodes: int) -> OrderResult:
    """The order of the smallest peak, if that is less than `below`; orders of at most `floor` bytes are equally good.

    `bound` is 0 if the first level, `floor`, reached the end: nothing smaller was looked for. Without an order, it is
    `below` if there is none, and less if the nodes are spent. Two orders of one peak: the one found first, which tries
    steps in source order.
    """
    moves = _Moves(graph)
    level, proved, tried, ties = floor, 0, 0, 0
    last: dict[int, int] = {}  # downset -> the step that ran last in it
    pending = [moves.start]
    waiting: list[
        tuple[int, int, _State, int, int]
    ] = []  # (bytes while the step runs, tie, before it, step, after)
    while floor < below:
        while pending:
            state = pending.pop()
            if state.done == moves.everything:
                return OrderResult(_path(last, state.done), proved, tried)
            allowed: list[tuple[int, int]] = []
            blocked: list[tuple[int, int, int]] = []
            for step in bits(state.ready):
                during, after = moves.cost(state, step)
                tried += 1
                if during > level:
                    blocked.append((during, step, after))
                elif after <= state.live:
                    allowed, blocked = [(step, after)], []
                    break
                else:
                    allowed.append((step, after))
            for step, after in reversed(allowed):
                if state.done | 1 << step not in last:
                    last[state.done | 1 << step] = step
                    pending.append(moves.advance(state, step, after))
            for during, step, after in blocked:
                if during < below:
                    ties += 1
                    heappush(waiting, (during, ties, state, step, after))
            if tried >= nodes:
                return OrderResult(None, proved, tried)
        if not waiting:
            break
        level = proved = waiting[0][0]
        while waiting and waiting[0][0] == level:
            _, _, state, step, after = heappop(waiting)
            if state.done | 1 << step not in last:
                last[state.done | 1 << step] = step
                pending.append(moves.advance(state, step, after))
    return OrderResult(None, below, tried)


def beam_order(graph: StepGraph, *, below: int, nodes: int) -> OrderResult:
    """An order whose peak is less than `below`, if the best downsets of each size lead to one.

    The best are those of the smallest peak so far, then of the fewest live bytes. As many of each size are gone on from
    as `nodes` allow, at least one. `bound` is 0: nothing is proved.
    """
    moves = _Moves(graph)
    beam: list[tuple[int, _State, _Path]] = [(0, moves.start, None)]
    tried = 0
    for size in range(len(graph.steps)):
        allowance = tried + (nodes - tried) // (len(graph.steps) - size)
        best: dict[int, tuple[int, _State, _Path]] = {}
        for peak, state, path in beam:
            for step, during, after in moves.choices(state, peak):
                tried += 1
                reached = max(peak, during)
                known = best.get(state.done | 1 << step)
                if reached < below and (known is None or reached < known[0]):
                    best[state.done | 1 << step] = (reached, moves.advance(state, step, after), (path, step))
            if tried >= allowance and best:
                break
        beam = sorted(best.values(), key=lambda entry: (entry[0], entry[1].live))
    if not beam:
        return OrderResult(None, 0, tried)
    order: list[int] = []
    path = beam[0][2]
    while path is not None:
        path, step = path
        order.append(step)
    return OrderResult(order[::-1], 0, tried)


_Path: TypeAlias = "tuple[_Path, int] | None"
"""The steps so far, the last one outermost."""


class _State(NamedTuple):
    """A downset and the steps that may run next, as bits, and the bytes that are live between the two."""

    done: int
    ready: int
    live: int


class _Moves:
    """What running a step does to a downset."""

    def __init__(self, graph: StepGraph):
        self._workspace = [step.workspace for step in graph.steps]
        self._before = [mask_of(step.after) for step in graph.steps]
        self._successors = graph.successors
        users = [mask_of(value.steps) for value in graph.values]
        self._values = [[(graph.values[v].size, users[v]) for v in used] for used in graph.used]
        self.everything = (1 << len(graph.steps)) - 1
        self.start = _State(0, mask_of(step for step, before in enumerate(self._before) if not before), 0)

    def cost(self, state: _State, step: int) -> tuple[int, int]:
        """The bytes that are live while a ready step runs, and after it."""
        done = state.done
        during = after = state.live
        left = ~(done | 1 << step)
        for size, users in self._values[step]:
            if not users & done:
                during += size
                after += size
            if not users & left:
                after -= size
        return during + self._workspace[step], after

    def choices(self, state: _State, peak: int) -> list[tuple[int, int, int]]:
        """The ready steps with their costs, or only one that is never wrong within `peak`."""
        found: list[tuple[int, int, int]] = []
        for step in bits(state.ready):
            during, after = self.cost(state, step)
            if during <= peak and after <= state.live:
                return [(step, during, after)]
            found.append((step, during, after))
        return found

    def advance(self, state: _State, step: int, after: int) -> _State:
        """The downset with the step in it."""
        done = state.done | 1 << step
        ready = state.ready ^ 1 << step
        for successor in self._successors[step]:
            if not self._before[successor] & ~done:
                ready |= 1 << successor
        return _State(done, ready, after)


def _path(last: dict[int, int], done: int) -> list[int]:
    """The steps in the order in which they made a downset."""
    order: list[int] = []
    while done:
        order.append(last[done])
        done ^= 1 << order[-1]
    return order[::-1]
