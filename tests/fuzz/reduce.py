"""Makes a failing program small: fewer nodes, fewer outputs, fewer passes, the same failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.levels import Failure, Refused, Route, check
from tests.fuzz.program import Program, Step, Value

MOST_TRIES = 60


def reduce(program: Program, route: Route, failure: Failure) -> tuple[Program, Route, Failure]:
    """The smallest found in a bounded number of tries. Any failure at the same stage counts as the same."""
    tries = 0
    shrinking = True
    while shrinking:
        shrinking = False
        for smaller, shorter in _candidates(program, route):
            tries += 1
            if tries > MOST_TRIES:
                return program, route, failure
            found = _check(smaller, shorter)
            if found is not None and _alike(found, failure):
                program, route, failure = smaller, shorter, found
                shrinking = True
                break
    return program, route, failure


def _alike(found: Failure, failure: Failure) -> bool:
    wrong, was_wrong = (f.kind.startswith("difference") for f in (found, failure))
    return wrong == was_wrong and (wrong or found.kind == failure.kind)


def _check(program: Program, route: Route) -> Failure | None:
    try:
        return check(program, route)
    except Refused:
        return None


def _candidates(program: Program, route: Route) -> Iterator[tuple[Program, Route]]:
    for output in program.outputs if len(program.outputs) > 1 else ():
        yield _live(replace(program, outputs=[output])), route
    for step in reversed(program.steps):
        if len(program.steps) > 1:
            yield from ((smaller, route) for smaller in _cut(program, step))
    for level in ("graph", "kernel", "memref"):
        passes = getattr(route, level)
        for index in range(len(passes)):
            yield program, replace(route, **{level: (*passes[:index], *passes[index + 1 :])})
    if route.export:
        yield program, replace(route, export=False)


def _live(program: Program) -> Program:
    """Without steps that no output needs."""
    needed = set(program.outputs)
    kept: list[Step] = []
    for step in reversed(program.steps):
        if needed.intersection(step.results):
            kept.append(step)
            needed.update(step.operands)
    return replace(program, steps=kept[::-1])


def _cut(program: Program, step: Step) -> Iterator[Program]:
    """Give the results of a step as inputs instead, or make them outputs and drop what comes after."""
    steps = [other for other in program.steps if other is not step]
    if not any(result.dynamic for result in step.results):
        given = {result: Value(result.name, result.arrays, "input") for result in step.results}
        moved = [replace(s, operands=tuple(given.get(o, o) for o in s.operands)) for s in steps]
        outputs = [output for output in program.outputs if output not in given]
        if outputs:
            yield _live(replace(program, steps=moved, outputs=outputs))
