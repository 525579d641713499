"""Steps that run one after the other and the values that live between them: what a schedule may order.

A *step* is one thing that runs (a kernel). A *value* is memory of one alias class: a tensor with its views and what
updates it in place, which cost nothing more. It is live from the first of its steps that runs to the last one, both
included, whatever the order is; so what must be in memory from the start is a value of the first step, and what must
stay to the end one of the last.

Bytes live while a step runs: those of all values that are live then, and the workspace of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Step(NamedTuple):
    """One step: the steps that must run before it, as positions in the source order, and its own scratch in bytes."""

    after: tuple[int, ...] = ()
    workspace: int = 0


class Value(NamedTuple):
    """`size` bytes that are live from the first to the last of `steps` that run."""

    size: int
    steps: tuple[int, ...]


@dataclass(frozen=True)
class StepGraph:
    """Steps in source order, which is an order that they may run in, and the values that they use.

    Raises `ValueError` for a step that must run after a later one, a step that is not there, and negative sizes.
    """

    steps: tuple[Step, ...]
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        for position, step in enumerate(self.steps):
            if step.workspace < 0:
                raise ValueError(f"step {position}: workspace {step.workspace} is negative")
            for before in step.after:
                if not 0 <= before < position:
                    raise ValueError(f"step {position} can't run after step {before}: that is not before it")
        for position, value in enumerate(self.values):
            if value.size < 0:
                raise ValueError(f"value {position}: size {value.size} is negative")
            for step in value.steps:
                if not 0 <= step < len(self.steps):
                    raise ValueError(f"value {position}: there is no step {step}")

    @cached_property
    def used(self) -> tuple[tuple[int, ...], ...]:
        """The values of each step, those of no bytes left out."""
        used: list[list[int]] = [[] for _ in self.steps]
        for position, value in enumerate(self.values):
            if value.size:
                for step in set(value.steps):
                    used[step].append(position)
        return tuple(map(tuple, used))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The steps that name each step in their `after`."""
        successors: list[list[int]] = [[] for _ in self.steps]
        for position, step in enumerate(self.steps):
            for before in set(step.after):
                successors[before].append(position)
        return tuple(map(tuple, successors))


def graph_of_nodes(sizes: Sequence[int], inputs: Sequence[Sequence[int]]) -> StepGraph:
    """The graph in which step `i` makes one value of `sizes[i]` bytes from those of the steps `inputs[i]`."""
    users: list[list[int]] = [[i] for i in range(len(sizes))]
    for node, operands in enumerate(inputs):
        for operand in dict.fromkeys(operands):
            users[operand].append(node)
    return StepGraph(
        tuple(Step(tuple(dict.fromkeys(operands))) for operands in inputs),
        tuple(Value(size, tuple(steps)) for size, steps in zip(sizes, users, strict=True)),
    )


def profile(graph: StepGraph, order: Sequence[int]) -> list[int]:
    """The bytes live while each step of `order` runs, in that order.

    Raises `ValueError` if `order` is no order of all steps in which each comes after those it must come after.
    """
    place = {step: position for position, step in enumerate(order)}
    if len(order) != len(graph.steps) or len(place) != len(order):
        raise ValueError(f"an order of {len(graph.steps)} steps must hold each once")
    for position, step in enumerate(graph.steps):
        for before in step.after:
            if place[before] > place[position]:
                raise ValueError(f"step {position} must run after step {before}")
    changes = [0] * (len(order) + 1)
    for value in graph.values:
        if value.steps:
            places = [place[step] for step in value.steps]
            changes[min(places)] += value.size
            changes[max(places) + 1] -= value.size
    live = 0
    result: list[int] = []
    for step, change in zip(order, changes, strict=False):
        live += change
        result.append(live + graph.steps[step].workspace)
    return result


def peak_of(graph: StepGraph, order: Sequence[int]) -> int:
    """The most bytes that are live while a step runs, in this order; 0 without steps. Raises as `profile` does."""
    return max(profile(graph, order), default=0)


def least_peak(graph: StepGraph) -> int:
    """A lower bound on the peaks of all orders: the most bytes that one step must find in memory, in any order.

    These are its own values, and those that a step that must run before it and one that must run after it share.
    Costs O(steps x values) in the worst case.
    """
    before, after = ancestors(graph), descendants(graph)
    needs = [step.workspace for step in graph.steps]
    for value in graph.values:
        if not value.size:
            continue
        own = begun = awaited = 0
        for step in value.steps:
            own |= 1 << step
            begun |= after[step]
            awaited |= before[step]
        for step in bits(own | (begun & awaited)):
            needs[step] += value.size
    return max(needs, default=0)


def largest_step(graph: StepGraph) -> int:
    """The same, of the values of each step alone: weaker, in linear time."""
    own = (
        step.workspace + sum(graph.values[value].size for value in used)
        for step, used in zip(graph.steps, graph.used, strict=True)
    )
    return max(own, default=0)


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(positions: Iterable[int]) -> int:
    """The integer in which these bits are set."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def ancestors(graph: StepGraph) -> list[int]:
    """Of each step the set of those that must run before it, as bits."""
    result: list[int] = []
    for step in graph.steps:
        mask = 0
        for before in step.after:
            mask |= result[before] | 1 << before
        result.append(mask)
    return result


def descendants(graph: StepGraph) -> list[int]:
    """Of each step the set of those that must run after it, as bits."""
    result = [0] * len(graph.steps)
    for position in reversed(range(len(graph.steps))):
        for before in graph.steps[position].after:
            result[before] |= result[position] | 1 << position
    return result
