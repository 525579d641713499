"""Why a capacity can't be met: buffers that do not fit into it together, none of which can be left out.

Such a set is an irreducible infeasible subset. Where more is live at one moment than there is, the largest buffers of
that moment are one; of all moments, one with the fewest is chosen. Else a search has to prove that the set does not
fit, and that it fits without each one of its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

from mlopt.memory.buffers import Buffer
from mlopt.memory.descent import Budget, Descents, KernelChoice, compiled_kernel
from mlopt.memory.instance import Instance, find_cliques
from mlopt.memory.kernel import FOUND, NONE
from mlopt.memory.search import split


@dataclass(frozen=True, slots=True)
class Explanation:
    """Buffers that no plan within the capacity holds, in the given order.

    `crowded` tells that they are all live at one moment, and together too large; else their places clash.
    `irreducible` tells whether it is shown that without any one of them there is a plan.
    """

    buffers: tuple[Buffer, ...]
    crowded: bool
    irreducible: bool


def explain(
    buffers: Sequence[Buffer], capacity: int, *, nodes: int, choice: KernelChoice = "auto"
) -> Explanation | None:
    """Why the buffers do not fit into `capacity` bytes; None if it was not proved, with `nodes` nodes, that they don't.

    Raises:
        UnsupportedError: if `choice` is `native` and there is no compiled kernel.
    """
    present = [buffer for buffer in buffers if buffer.size]
    clash = _fixed_clash(present, capacity)
    if clash is not None:
        return clash
    order = {buffer.id: place for place, buffer in enumerate(present)}
    crowd = _crowded_clique(present, capacity)
    if crowd and len({buffer.alignment for buffer in crowd}) == 1 and all(b.fixed is None for b in crowd):
        # Without any one of them the others fit, one on top of the other.
        return Explanation(tuple(sorted(crowd, key=lambda b: order[b.id])), True, True)
    prover = _Prover(capacity, nodes, choice)
    for component in [crowd] if crowd else split(present):
        if crowd or prover.outcome(component) == NONE:
            members, irreducible = prover.reduce(component)
            live = sum(buffer.footprint for buffer in members) > capacity and bool(crowd)
            return Explanation(tuple(sorted(members, key=lambda b: order[b.id])), live, irreducible)
    return None


def _fixed_clash(buffers: Sequence[Buffer], capacity: int) -> Explanation | None:
    """One fixed buffer that ends above the capacity, or two that overlap."""
    fixed = [(buffer, buffer.fixed) for buffer in buffers if buffer.fixed is not None]
    for buffer, offset in fixed:
        if offset + buffer.footprint > capacity:
            return Explanation((buffer,), False, True)
    for (one, a), (other, b) in combinations(fixed, 2):
        if a < b + other.footprint and b < a + one.footprint and one.overlaps_in_time(other):
            return Explanation((one, other), False, True)
    return None


def _crowded_clique(buffers: Sequence[Buffer], capacity: int) -> list[Buffer]:
    """The fewest buffers that are live at one moment and together larger than the capacity, the largest first."""
    best: list[Buffer] = []
    for clique in find_cliques(buffers)[1]:
        if sum(buffers[i].footprint for i in clique) <= capacity:
            continue
        members = sorted((buffers[i] for i in clique), key=lambda b: -b.footprint)
        needed = next(
            n for n, total in enumerate(accumulate(b.footprint for b in members), 1) if total > capacity
        )
        if not best or needed < len(best):
            best = members[:needed]
    return best


class _Prover:
    """Whether sets of buffers fit into a capacity, with a budget of nodes for all questions together."""

    def __init__(self, capacity: int, nodes: int, choice: KernelChoice):
        self._capacity = capacity
        self._budget = Budget(nodes, lambda _: None)
        self._compiled = compiled_kernel(choice, nodes)

    def outcome(self, buffers: Sequence[Buffer]) -> int:
        """FOUND, NONE or SPENT: in rounds of rankings with more and more nodes."""
        outcomes: list[int] = []
        for component in split(buffers):
            descents = Descents(Instance.of(component), self._compiled)
            limit = 2 * len(component)
            outcome = descents.attempt(self._capacity, limit, self._budget)
            while outcome not in (FOUND, NONE) and self._budget.left > 0:
                limit *= 2
                outcome = descents.attempt(self._capacity, limit, self._budget)
            if outcome == NONE:
                return NONE
            outcomes.append(outcome)
        return FOUND if all(outcome == FOUND for outcome in outcomes) else min(outcomes)

    def reduce(self, buffers: Sequence[Buffer]) -> tuple[list[Buffer], bool]:
        """Leave out what can be left out: halves of what is untried, then smaller parts, down to single buffers."""
        kept: list[Buffer] = []
        irreducible = True
        untried = [list(buffers)]
        while untried:
            part = untried.pop()
            rest = [buffer for other in untried for buffer in other]
            outcome = self.outcome([*kept, *rest])
            if outcome == NONE:
                continue
            if len(part) == 1:
                kept += part
                irreducible = irreducible and outcome == FOUND
                continue
            middle = len(part) // 2
            untried += [part[:middle], part[middle:]]
        return kept, irreducible
