"""Orders of steps by list rules: of the steps that may run next, take the one that a rule likes best.

- `largest-decrease-first`: after which the fewest bytes are live, so the one that frees most. The rule of most
  compilers, and what exact schedules are compared with.
- `least-peak-first`: the one that raises the peak least, then the one that frees most (as in PyTorch Inductor).
- `depth-first`: a step right before the first that needs it, from the last step back (reverse post-order).
- `breadth-first`: in layers, each of the steps that need only earlier ones (Kahn).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from mlopt.memory.steps import StepGraph

ListRule: TypeAlias = Literal["largest-decrease-first", "least-peak-first", "depth-first", "breadth-first"]
LIST_RULES: tuple[ListRule, ...] = get_args(ListRule)


def list_order(graph: StepGraph, rule: ListRule) -> list[int]:
    """The order of all steps by one rule; ties go to the step that comes first in the source order."""
    match rule:
        case "largest-decrease-first":
            return _greedy(graph, lambda peak, during, after: (after, during))
        case "least-peak-first":
            return _greedy(graph, lambda peak, during, after: (max(peak, during), after))
        case "depth-first":
            return _depth_first(graph)
        case "breadth-first":
            return _breadth_first(graph)


_Preference: TypeAlias = Callable[[int, int, int], tuple[int, int]]
"""From the peak so far, the bytes live while a step runs and those live after it, to what is to be smallest."""


def _greedy(graph: StepGraph, preference: _Preference) -> list[int]:
    """Take the ready step that is preferred. Costs O(steps x ready steps x values of a step)."""
    waits = [len(set(step.after)) for step in graph.steps]
    left = [len(set(value.steps)) for value in graph.values]
    born = [False] * len(graph.values)
    ready = [step for step, count in enumerate(waits) if not count]
    live = peak = 0
    order: list[int] = []

    def effect(step: int) -> tuple[int, int]:
        during = after = live
        for value in graph.used[step]:
            size = graph.values[value].size
            if not born[value]:
                during += size
                after += size
            if left[value] == 1:
                after -= size
        return during + graph.steps[step].workspace, after

    while ready:
        step = min(ready, key=lambda step: (*preference(peak, *effect(step)), step))
        during, live = effect(step)
        peak = max(peak, during)
        for value in graph.used[step]:
            born[value] = True
            left[value] -= 1
        ready.remove(step)
        order.append(step)
        for successor in graph.successors[step]:
            waits[successor] -= 1
            if not waits[successor]:
                ready.append(successor)
    return order


def _depth_first(graph: StepGraph) -> list[int]:
    """Post-order over what each step needs, from the steps that nothing needs, in source order."""
    order: list[int] = []
    done = [False] * len(graph.steps)
    for last in (step for step, successors in enumerate(graph.successors) if not successors):
        pending = [(last, False)]
        while pending:
            step, is_complete = pending.pop()
            if is_complete:
                order.append(step)
            elif not done[step]:
                done[step] = True
                pending.append((step, True))
                pending += [(before, False) for before in reversed(graph.steps[step].after)]
    return order


def _breadth_first(graph: StepGraph) -> list[int]:
    """Step by step in layers: all that need nothing, all that need only those, and so on."""
    layers: list[int] = []
    for step in graph.steps:
        layers.append(max((layers[before] + 1 for before in step.after), default=0))
    return sorted(range(len(layers)), key=lambda step: layers[step])
