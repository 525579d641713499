"""Draws programs and routes, checks them, reduces what fails and writes it down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.fuzz.builder import Builder
from tests.fuzz.levels import (
    GRAPH_PASSES,
    KERNEL_PASSES,
    MEMORY,
    MEMREF_PASSES,
    Failure,
    Refused,
    Route,
    check,
    standard_routes,
)
from tests.fuzz.operators import OPERATORS
from tests.fuzz.program import Program
from tests.fuzz.reduce import reduce

OPSETS = (13, 17, 18, 18, 19, 20, 20, 21, 22, 23, 24, 26, 26)
MOST_NODES = 7
MOST_TRIES = 4
"""Operators that are drawn for one place in a program, until one fits."""


def random_program(rng: Random, names: Sequence[str] | None = None, *, most: int = MOST_NODES) -> Program:
    """A program of up to `most` operators. With `names`, at least half of them are of these."""
    wanted = [OPERATORS[name] for name in names or OPERATORS]
    opset = rng.choice([opset for opset in OPSETS if any(operator.is_in(opset) for operator in wanted)])
    builder = Builder(rng, opset)
    focus = [operator for operator in wanted if operator.is_in(opset)]
    everything = [operator for operator in OPERATORS.values() if operator.is_in(opset)]
    for position in range(rng.randint(1, most)):
        options = focus if position % 2 == 0 or rng.random() < 0.5 else everything
        for _ in range(MOST_TRIES):
            if builder.attempt(rng.choice(options)):
                break
    program = builder.program
    made = [value for step in program.steps for value in step.results]
    used = {operand for step in program.steps for operand in step.operands}
    exposed = rng.choice((0.0, 0.2))  # long formulas are fused only if nothing inside is an output
    also = [value for value in made if value in used and rng.random() < exposed]
    program.outputs = [value for value in made if value not in used or value in also]
    leaves = [value for value in program.leaves() if not value.structural]
    if program.outputs and leaves and rng.random() < 0.1:
        program.outputs.append(rng.choice(leaves))
    return program


def random_route(rng: Random) -> Route:
    """A pipeline, a pass alone, or passes in a random order."""
    known = standard_routes()
    poison = rng.random() < 0.5
    if rng.random() < 0.7:
        chosen = rng.choice([*known.values(), known["O2"], known["O2"], known["O1"]])
        return replace(chosen, poison=poison, export=chosen.export and rng.random() < 0.5)
    return Route(
        tuple(rng.choices(GRAPH_PASSES, k=rng.randint(0, 5))),
        tuple(rng.choices(KERNEL_PASSES, k=rng.randint(0, 4))),
        rng.choice(MEMORY),
        rng.random() < 0.3,
        poison,
        tuple(name for name in MEMREF_PASSES if rng.random() < 0.5),
    )


@dataclass
class Found:
    """A failing program, reduced."""

    program: Program
    route: Route
    failure: Failure
    seed: int


@dataclass
class Session:
    """What a search has seen.

    `examples` are the programs that were checked, `empty` those of which nothing was left to check: no operands fitted,
    or rounding decided every result, or mlopt refuses all of it. `budgets` are those that `fit-memory` refused.
    """

    examples: int = 0
    empty: int = 0
    operators: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    budgets: Counter[str] = field(default_factory=Counter[str])
    found: dict[tuple[str, str], Found] = field(default_factory=dict[tuple[str, str], Found])


def check_supported(
    program: Program, route: Route, session: Session | None = None
) -> tuple[Program, Failure | None]:
    """Check a program without the nodes that mlopt refuses."""
    while program.outputs and program.steps:
        try:
            return program, check(program, route, session.budgets if session is not None else None)
        except Refused as refusal:
            refused = [step for step in program.steps if step.node.name == refusal.node]
            if session is not None:
                session.refusals[f"{', '.join(s.node.op_type for s in refused)}: {refusal}"] += 1
            program = program.without(refused or program.steps[-1:])
    return program, None


def search(
    session: Session,
    seeds: Iterable[int],
    *,
    names: Sequence[str] | None = None,
    most: int = MOST_NODES,
    route: Route | None = None,
) -> Iterator[Found]:
    """Check one program per seed. Failures that look alike are reduced, and given, once."""
    for seed in seeds:
        rng = Random(seed)
        program = random_program(rng, names, most=most)
        chosen = route or random_route(rng)
        program, failure = check_supported(program, chosen, session)
        session.examples += bool(program.steps)
        session.empty += not program.steps
        session.operators.update(program.operators)
        if failure is None or (failure.stage, failure.kind) in session.found:
            continue
        session.found[failure.stage, failure.kind] = Found(program, chosen, failure, seed)
        program, chosen, failure = reduce(program, chosen, failure)
        found = Found(program, chosen, failure, seed)
        session.found[failure.stage, failure.kind] = found
        yield found
