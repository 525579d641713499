"""One descent of the search: an instance, a capacity and a ranking, run by the kernel, compiled or as Python."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import accumulate, chain
from math import inf
from typing import Literal, NamedTuple

from mlopt.diagnostics import UnsupportedError
from mlopt.memory import kernel, native
from mlopt.memory.instance import Instance
from mlopt.memory.native import NativeKernel

KernelChoice = Literal["auto", "native", "python"]
"""How descents run: compiled where that is possible and worth it, compiled or not at all, or as Python."""

NATIVE_FROM = 5000
"""With fewer nodes to spend, loading the compiled kernel would take longer than they do as Python."""


def compiled_kernel(choice: KernelChoice, nodes: int | None) -> NativeKernel | None:
    """The compiled kernel, or None to run it as Python, for so many nodes (None: without end).

    Raises `UnsupportedError` if the choice is `native` and there is none.
    """
    if choice == "python" or (choice == "auto" and nodes is not None and nodes < NATIVE_FROM):
        return None
    compiled = native.load(kernel)
    if compiled is None and choice == "native":
        raise UnsupportedError(
            "no compiled kernel: llvmlite is not installed, or does not work on this machine"
        )
    return compiled


@dataclass
class Budget:
    """Nodes that may be spent in all (None: without end), and that were."""

    total: int | None
    watch: Callable[[int], object]
    """Told what was used, now and then."""
    used: int = 0

    def spend(self, nodes: int) -> None:
        """Count nodes, and tell."""
        self.used += nodes
        self.watch(self.used)

    @property
    def left(self) -> float:
        """Nodes that may still be spent."""
        return inf if self.total is None else self.total - self.used


_ROOM = 4_000_000
"""Numbers on the stack at most: a descent that would need more counts as out of nodes."""


class Ranking(NamedTuple):
    """An order in which buffers are tried, from criteria that are each in decreasing order.

    `w` is the width (the lifetime), `a` the area (width times size), `z` the size, and `t` the bytes unplaced in the
    buffer's fullest clique: the only one that changes as the search goes on.
    """

    criteria: str

    def static(self, instance: Instance, criteria: str) -> list[int]:
        """The place of each buffer by criteria without `t`; equal ones have equal places."""
        columns = {
            "w": instance.widths,
            "z": instance.sizes,
            "a": [width * size for width, size in zip(instance.widths, instance.sizes, strict=True)],
        }
        keys = [tuple(-columns[name][i] for name in criteria) for i in range(len(instance.sizes))]
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        return [places[key] for key in keys]

    def parts(self, instance: Instance) -> tuple[list[int], list[int], list[int]]:
        """The places before `t`, after `t`, and in an order of all buffers without `t`."""
        before, _, after = self.criteria.partition("t")
        order = _distinct(self.static(instance, before + after))
        return self.static(instance, before), _distinct(self.static(instance, after)), order


def _distinct(places: Sequence[int]) -> list[int]:
    """Places in which ties are broken by position."""
    result = [0] * len(places)
    for place, i in enumerate(sorted(range(len(places)), key=lambda i: (places[i], i))):
        result[i] = place
    return result


RANKINGS = (Ranking("twa"), Ranking("taw"), Ranking("wat"))
"""MiniMalloc's three: none of them is fast on all instances."""


class Descents:
    """Descents for one instance, at any capacity; as Python where numbers are too large for the compiled kernel."""

    def __init__(self, instance: Instance, compiled: NativeKernel | None):
        self._instance = instance
        self._parts = [ranking.parts(instance) for ranking in RANKINGS]
        self._infinite = 4 * sum(instance.sizes) + 4 * max(instance.fixed, default=0) + 4
        self._native = compiled if native.holds(2 * self._infinite) else None
        self._state = self._blank()
        if self._native is not None:
            for field in fields(self._state):
                value = getattr(self._state, field.name)
                if not isinstance(value, int):
                    setattr(self._state, field.name, array("q", value))

    @property
    def offsets(self) -> list[int]:
        """Of the last descent that found a plan, in bytes."""
        return [offset * self._instance.unit for offset in self._state.offsets]

    def attempt(self, capacity: int, limit: int, budget: Budget) -> int:
        """FOUND if there is a plan within `capacity` bytes, NONE if there is none, else SPENT.

        A descent for each ranking, of at most `limit` nodes each, until one of them can tell.
        """
        for ranking in range(len(RANKINGS)):
            outcome, nodes = self.run(
                capacity // self._instance.unit, ranking, int(min(limit, budget.left)), budget
            )
            budget.spend(nodes)
            if outcome != kernel.SPENT:
                return outcome
        return kernel.SPENT

    def run(self, capacity: int, ranking: int, limit: int, budget: Budget) -> tuple[int, int]:
        """The outcome of one descent, within so many units and nodes, and the nodes it took."""
        state = self._state
        state.major[:], state.minor[:], state.order[:] = (
            values if self._native is None else array("q", values) for values in self._parts[ranking]
        )
        state.capacity = min(capacity, self._infinite)
        state.limit = limit
        state.nodes = state.stack_end = state.lifted_end = state.pieces = 0
        counts = len(self._instance.sizes), len(self._instance.cliques)
        if self._native is None:
            with _deep_recursion(counts[0]):
                outcome = kernel.descend(state, *counts)
        else:
            outcome = self._native.call(
                "descend",
                state,
                *counts,
                watch=lambda: budget.watch(budget.used + state.nodes),
                stop="limit" if max(limit, counts[0]) > _IN_PLACE else None,
            )
        return outcome, state.nodes

    def _blank(self) -> kernel.State:
        instance = self._instance
        n, m = len(instance.sizes), len(instance.cliques)
        first, end = instance.first, instance.end
        runs = [run for runs in instance.runs for run in runs]
        totals = [sum(instance.sizes[i] for i in clique) for clique in instance.cliques]
        bridges, starts, ends = [0] * m, [0] * m, [0] * m
        for begin, stop in zip(first, end, strict=True):
            for clique in range(begin, stop - 1):
                bridges[clique] += 1
        for begin, stop in runs:
            starts[begin] += 1
            ends[stop - 1] += 1
        room = min(n * (n + 3), _ROOM)
        lifts = 2 * sum(map(len, instance.neighbours)) + n
        return kernel.State(
            sizes=instance.sizes,
            alignments=instance.alignments,
            fixed=instance.fixed,
            any_fixed=int(max(instance.fixed) >= 0),
            neighbour_begin=_begins(instance.neighbours),
            neighbours=list(chain.from_iterable(instance.neighbours)),
            run_begin=_begins(instance.runs),
            run_lower=[begin for begin, _ in runs],
            run_upper=[stop for _, stop in runs],
            first=first,
            end=end,
            clique_begin=_begins(instance.cliques),
            cliques=list(chain.from_iterable(instance.cliques)),
            group_of=_groups(instance),
            major=[0] * n,
            minor=[0] * n,
            order=[0] * n,
            floors=[max(offset, 0) for offset in instance.fixed],
            offsets=[0] * n,
            totals=totals,
            bridges=bridges,
            starts=starts,
            ends=ends,
            group_top=[-1] * n,
            group_last=[0] * n,
            following=[0] * (2 * n + 1),
            preceding=[0] * (2 * n + 1),
            ranks=[0] * n,
            keys=[0] * n,
            stack=[0] * room,
            stack_end=0,
            room=room,
            lifted=[0] * lifts,
            lifted_from=[0] * lifts,
            lifted_end=0,
            infinite=self._infinite,
            capacity=0,
            limit=0,
            nodes=0,
            pieces=0,
        )


_IN_PLACE = 2000
"""Descents with more buffers or nodes than that run in a thread: it has a deep stack, and can be interrupted."""


def _begins(lists: Sequence[Sequence[object]]) -> list[int]:
    """Where each list begins when all are put together, and where the last ends."""
    return list(accumulate(map(len, lists), initial=0))


def _groups(instance: Instance) -> list[int]:
    """A number for each set of runs and alignment; fixed buffers are groups of their own."""
    numbers: dict[object, int] = {}
    return [
        numbers.setdefault((tuple(runs), alignment) if fixed < 0 else i, len(numbers))
        for i, (runs, alignment, fixed) in enumerate(
            zip(instance.runs, instance.alignments, instance.fixed, strict=True)
        )
    ]


@contextmanager
def _deep_recursion(buffers: int) -> Generator[None]:
    """Room for a descent as Python: a few frames per buffer."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 6 * buffers + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
