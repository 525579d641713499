"""What a graph of steps becomes when steps are joined into one, or run a second time."""

from __future__ import annotations

from collections.abc import Sequence

from mlopt.memory.steps import Step, StepGraph, Value, profile


def excess(graph: StepGraph, capacity: int) -> int:
    """The bytes above a capacity in the source order, summed over all steps."""
    return sum(max(0, live - capacity) for live in profile(graph, range(len(graph.steps))))


def maker(value: Value) -> int:
    """The step that makes a value: the first one in the source order."""
    return min(value.steps)


def rerun(graph: StepGraph, steps: Sequence[int], before: int) -> StepGraph:
    """The graph in which `steps` are run again right before the step `before`; all positions from there on move up.

    The new steps must come before `before` in the source order, and what they make is used by it or by later ones.
    """
    count = len(steps)
    copy = {step: before + i for i, step in enumerate(steps)}

    def moved(step: int) -> int:
        return step if step < before else step + count

    values: list[Value] = []
    made_again: dict[int, list[int]] = {}  # step that makes it -> the copies that later steps must come after
    for value in graph.values:
        users = [moved(step) for step in value.steps]
        again = [copy[step] for step in value.steps if step in copy]
        if value.steps and maker(value) in copy:
            earlier = [step for step in value.steps if step < before]
            late = [moved(step) for step in value.steps if step >= before]
            values.append(value._replace(steps=tuple(earlier)))
            if again or late:
                values.append(value._replace(steps=(*again, *late)))
            for step in late:
                made_again.setdefault(step, []).append(copy[maker(value)])
        else:
            values.append(value._replace(steps=(*users, *again)))
    result: list[tuple[int, ...]] = []
    for position, step in enumerate(graph.steps):
        if position == before:
            for again in steps:
                after = graph.steps[again].after
                result.append(tuple(dict.fromkeys([*after, *(copy[p] for p in after if p in copy)])))
        after = [moved(p) for p in step.after]
        result.append(tuple(dict.fromkeys([*after, *made_again.get(moved(position), ())])))
    sources = [*range(before), *steps, *range(before, len(graph.steps))]
    return StepGraph(
        tuple(
            graph.steps[source]._replace(after=after) for source, after in zip(sources, result, strict=True)
        ),
        tuple(values),
    )


def can_be_joined(graph: StepGraph, members: Sequence[int]) -> bool:
    """Whether steps, in ascending order, can be one at the place of the last: nothing between needs one of them."""
    inside = set(members)
    return all(
        step in inside or inside.isdisjoint(graph.steps[step].after)
        for step in range(members[0], members[-1])
    )


def join_steps(graph: StepGraph, members: Sequence[int], workspace: int) -> StepGraph:
    """The graph with `members`, in ascending order, as one step of that workspace at the place of the last of them.

    What one of them makes and only others of them use is part of the workspace from now on.
    """
    together = set(members)
    place: dict[int, int] = {}
    kept = [step for step in range(len(graph.steps)) if step not in members or step == members[-1]]
    for position, step in enumerate(kept):
        place[step] = position
    for member in members:
        place[member] = place[members[-1]]
    steps: list[Step] = []
    for step in kept:
        sources = members if step == members[-1] else (step,)
        after = {place[before] for source in sources for before in graph.steps[source].after} - {place[step]}
        own = workspace if step == members[-1] else graph.steps[step].workspace
        steps.append(Step(tuple(sorted(after)), own))
    values = tuple(
        Value(
            0 if together.issuperset(value.steps) and len(set(value.steps)) > 1 else value.size,
            tuple(dict.fromkeys(place[step] for step in value.steps)),
        )
        for value in graph.values
    )
    return StepGraph(tuple(steps), values)
