"""Draws programs and routes, checks them, reduces what fails and writes it down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from tests.fuzz.builder import Builder
from tests.fuzz.levels import GRAPH_PASSES, KERNEL_PASSES, MEMORY, Failure, Refused, Route, check, standard_routes
from tests.fuzz.operators import OPERATORS
from tests.fuzz.program import Program
from tests.fuzz.reduce import reduce

OPSETS = (13, 17, 18, 19, 20, 21, 22, 23, 24)
MOST_NODES = 7


@st.composite
def programs(draw: st.DrawFn, names: Sequence[str] | None = None, *, most: int = MOST_NODES) -> Program:
    """A program of up to `most` operators. With `names`, at least half of them are of these."""
    builder = Builder(draw, draw(st.sampled_from(OPSETS)))
    focus = [OPERATORS[name] for name in names or OPERATORS]
    everything = list(OPERATORS.values())
    for position in range(draw(st.integers(1, most))):
        table = focus if position % 2 == 0 or names is None or draw(st.booleans()) else everything
        operator = draw(st.sampled_from(table))
        if operator.since <= builder.opset <= operator.until:
            builder.attempt(operator)
    program = builder.program
    made = [value for step in program.steps for value in step.results]
    used = {operand for step in program.steps for operand in step.operands}
    also = [value for value in made if value in used and draw(st.integers(0, 3)) == 0]
    program.outputs = [value for value in made if value not in used or value in also]
    if program.outputs and draw(st.integers(0, 7)) == 0:
        leaves = [value for value in program.leaves() if not value.structural]
        if leaves:
            program.outputs.append(draw(st.sampled_from(leaves)))
    return program


@st.composite
def routes(draw: st.DrawFn) -> Route:
    """A pipeline, a pass alone, or passes in a random order."""
    known = standard_routes()
    if draw(st.integers(0, 2)):
        return draw(st.sampled_from([*known.values(), known["O2"], known["O2"], known["O1"]]))
    return Route(
        tuple(draw(st.lists(st.sampled_from(GRAPH_PASSES), max_size=5))),
        tuple(draw(st.lists(st.sampled_from(KERNEL_PASSES), max_size=4))),
        draw(st.sampled_from(MEMORY)),
        draw(st.booleans()),
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
    """What a search has seen."""

    examples: int = 0
    empty: int = 0
    operators: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    found: dict[tuple[str, str], Found] = field(default_factory=dict[tuple[str, str], Found])


def check_supported(program: Program, route: Route, session: Session | None = None) -> tuple[Program, Failure | None]:
    """Check a program without the nodes that mlopt refuses."""
    while program.outputs and program.steps:
        try:
            return program, check(program, route)
        except Refused as refusal:
            refused = [step for step in program.steps if step.node.name == refusal.node]
            if session is not None:
                session.refusals[f"{', '.join(s.node.op_type for s in refused)}: {refusal}"] += 1
            program = program.without(refused or program.steps[-1:])
    return program, None


def search(
    session: Session,
    *,
    seed: int,
    examples: int,
    names: Sequence[str] | None = None,
    most: int = MOST_NODES,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[Found], None] = lambda found: None,
    route: st.SearchStrategy[Route] | None = None,
) -> Session:
    """Check `examples` programs, the same ones for the same seed. Failures that look alike are reduced once."""

    @with_seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(names, most=most), route or routes())
    def run(program: Program, chosen: Route) -> None:
        if stop():
            return
        session.examples += 1
        session.empty += not program.steps
        session.operators.update(program.operators)
        program, failure = check_supported(program, chosen, session)
        if failure is None:
            return
        key = (failure.stage, failure.kind)
        if key in session.found:
            return
        program, chosen, failure = reduce(program, chosen, failure)
        key = (failure.stage, failure.kind)
        if key not in session.found:
            session.found[key] = Found(program, chosen, failure, seed)
            report(session.found[key])

    run()
    return session
