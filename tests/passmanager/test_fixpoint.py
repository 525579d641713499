"""Fixpoints in pipelines: their text, which passes run how often, their limit, and what is reported."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlopt.diagnostics import PipelineError, Severity
from mlopt.ir import CompilerContext, make_context, parse_module
from mlopt.passmanager import (
    Element,
    Fixpoint,
    Instrumentation,
    IRPrinting,
    Pass,
    PassManager,
    PassResult,
    Pipeline,
    parse_pipeline,
)
from mlopt.passmanager.pipeline import DEFAULT_LIMIT, dump_text
from mlopt.passmanager.reports import PASSES_PHASE, statistics_report, timing_report

TWO_FUNCTIONS = "func.func @f() { func.return } func.func @g() { func.return }"


def number(op: Operation, name: str) -> int:
    attribute = op.attributes.get(name)
    return attribute.data if isinstance(attribute, IntAttr) else 0


@dataclass(frozen=True)
class CountDown(Pass):
    """Lower one number by one, until it is 0."""

    name = "count-down"
    anchor = None

    of: str = "n"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        left = number(op, self.of)
        op.attributes[self.of] = IntAttr(max(0, left - 1))
        ctx.count(self.name, "steps", int(left > 0))
        if left > 1:
            ctx.remark(self.name, "missed", f"{left - 1} left", op)
        return left > 0


@dataclass(frozen=True)
class Move(Pass):
    """All of one number becomes another's."""

    name = "move"
    anchor = None
    idempotent: ClassVar[bool] = True

    source: str = "m"
    target: str = "n"

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        moved = number(op, self.source)
        op.attributes[self.target] = IntAttr(number(op, self.target) + moved)
        op.attributes[self.source] = IntAttr(0)
        return moved > 0


@dataclass(frozen=True)
class Look(Pass):
    """Change nothing."""

    name = "look"
    anchor = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return False


PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in (CountDown, Move, Look)}


def module(text: str = TWO_FUNCTIONS, **numbers: int) -> ModuleOp:
    parsed = parse_module(text, make_context())
    for name, value in numbers.items():
        parsed.attributes[name] = IntAttr(value)
    return parsed


def run(
    *elements: Element,
    on: ModuleOp,
    ctx: CompilerContext | None = None,
    watchers: Sequence[Instrumentation] = (),
) -> list[PassResult]:
    pipeline = Pipeline("builtin.module", elements)
    return PassManager(ctx or make_context(), pipeline, instrumentations=watchers).run(on)


def runs(results: Sequence[PassResult]) -> list[int]:
    return [result.runs for result in results]


# As text.


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("fixpoint(look)", f"fixpoint{{limit={DEFAULT_LIMIT}}}(look)"),
        (" fixpoint { limit=3 } ( look , look ) ", "fixpoint{limit=3}(look,look)"),
        ("fixpoint{}()", f"fixpoint{{limit={DEFAULT_LIMIT}}}()"),
        (
            "look,fixpoint{limit=2}(fixpoint{limit=4}(look),func.func(look,fixpoint{limit=5}(look))),look",
            "look,fixpoint{limit=2}(fixpoint{limit=4}(look),func.func(look,fixpoint{limit=5}(look))),look",
        ),
    ],
)
def test_fixpoints_are_read_and_written(text: str, canonical: str) -> None:
    pipeline = parse_pipeline(f"builtin.module({text})", load=PASSES.__getitem__)
    assert str(pipeline) == f"builtin.module({canonical})"
    assert parse_pipeline(str(pipeline), load=PASSES.__getitem__) == pipeline


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("fixpoint", "expected '(' and the passes that 'fixpoint' repeats", 24),
        ("fixpoint{limit=3}", "expected '(' and the passes that 'fixpoint' repeats", 33),
        (
            "fixpoint{limit=0}(look)",
            "fixpoint: option 'limit' expects a whole number from 1 to 999999999, found '0'",
            25,
        ),
        (
            "fixpoint{limit}(look)",
            "fixpoint: option 'limit' expects a whole number from 1 to 999999999, found none",
            25,
        ),
        ("fixpoint{rounds=2}(look)", "fixpoint: no such option rounds (its options: limit)", 25),
        ("fixpoint(nope)", "'nope' does not refer to a registered pass or pass pipeline", 25),
        ("fixpoint(look", "encountered unbalanced parentheses while parsing pipeline", 24),
    ],
)
def test_faults_have_a_place(text: str, message: str, column: int) -> None:
    with pytest.raises(PipelineError) as raised:
        parse_pipeline(f"builtin.module({text}" + ")" * (text != "fixpoint(look"), load=PASSES.__getitem__)
    assert raised.value.message == message
    assert raised.value.place is not None and raised.value.place.column == column


def test_a_fixpoint_is_no_pipeline_of_its_own() -> None:
    with pytest.raises(PipelineError, match="expected the name of an operation"):
        parse_pipeline("fixpoint(look)", load=PASSES.__getitem__)


def test_named_pipelines_inside() -> None:
    pipeline = parse_pipeline(
        "builtin.module(fixpoint(both))", load=PASSES.__getitem__, expand={"both": "look,move"}.__getitem__
    )
    assert pipeline.elements == (Fixpoint((Look(), Move())),)


def test_the_dump_and_what_is_left_without_passes() -> None:
    pipeline = parse_pipeline("builtin.module(fixpoint{limit=7}(look,move))", load=PASSES.__getitem__)
    assert dump_text(pipeline.without(["move"])).splitlines() == [
        "Pass Manager with 1 passes:",
        "builtin.module(",
        "  fixpoint{limit=7}(",
        "    look",
        "  )",
        ")",
    ]


# What runs.


def test_rounds_go_on_until_nothing_changes() -> None:
    """Three steps, and a round in which there is none; what looks on has work after each of the steps."""
    counted = module(n=3)
    results = run(Fixpoint((CountDown(), Look())), on=counted)
    assert number(counted, "n") == 0
    assert runs(results) == [4, 3]
    assert results[0].statistics == {"steps": 3} and results[0].changed and not results[1].changed


def test_a_pass_without_work_is_not_run_again() -> None:
    """`move` changes something once; it says that a second run would not, so nothing is left for it to do."""
    assert runs(run(Fixpoint((Look(), Move())), on=module(m=1))) == [2, 1]
    assert runs(run(Fixpoint((Move(), Look())), on=module(m=1))) == [1, 1]
    assert runs(run(Fixpoint((Look(), Look())), on=module())) == [1, 0]  # the same pass, and nothing between


def test_passes_outside_always_run_but_count_as_seen() -> None:
    assert runs(run(Look(), Look(), Fixpoint((Look(), Move())), on=module())) == [1, 1, 0, 1]


def test_an_outer_fixpoint_skips_an_inner_one_that_nothing_has_changed_for() -> None:
    cleaning = Fixpoint((CountDown(), CountDown("k")))
    results = run(Fixpoint((cleaning, Move())), on=module(m=2, n=1))
    # n: step, none; moved 2: step, step, none. k: looked at after each change.
    assert results[0].statistics == {"steps": 3} and results[2].runs == 2
    assert runs(run(Fixpoint((cleaning, Move())), on=module())) == [1, 1, 1]


def test_nested_pipelines_run_on_each_operation() -> None:
    both = module()
    for func, count in zip(both.body.ops, (1, 3), strict=True):
        func.attributes["n"] = IntAttr(count)
    run(Fixpoint((Pipeline("func.func", (CountDown(),)),)), on=both)
    assert [number(func, "n") for func in both.walk() if isinstance(func, FuncOp)] == [0, 0]


def test_the_limit_is_reported_once() -> None:
    """Two passes that undo each other: the user is told, and the pipeline goes on."""
    ctx = make_context()
    swapping = Fixpoint((Move("m", "n"), Look(), Move("n", "m")), limit=3)
    results = run(Fixpoint((swapping,), limit=2), Look(), on=module(m=1), ctx=ctx)
    assert runs(results) == [6, 6, 6, 1]
    inner, outer = ctx.warnings
    assert inner.severity is Severity.WARNING
    assert inner.message == "fixpoint stopped after 3 rounds, in the last of which 'move' changed something"
    assert outer.message == "fixpoint stopped after 2 rounds, in the last of which 'move' changed something"


def test_a_limit_that_is_just_enough_is_no_warning() -> None:
    for limit, warnings in ((3, 1), (4, 0)):
        ctx = make_context()
        run(Fixpoint((CountDown(),), limit), on=module(n=3), ctx=ctx)
        assert len(ctx.warnings) == warnings


# Who watches.


class Undo(Instrumentation):
    """Undoes every change of a pass."""

    def review(self, pass_: Pass, op: Operation, changed: bool) -> bool:
        if changed and isinstance(pass_, CountDown):
            op.attributes[pass_.of] = IntAttr(number(op, pass_.of) + 1)
            return False
        return changed


def test_a_pass_whose_change_was_undone_is_not_tried_again() -> None:
    counted = module(n=5, m=1)
    results = run(Fixpoint((CountDown(), Move("m", "k"))), on=counted, watchers=[Undo()])
    assert runs(results) == [1, 1] and number(counted, "n") == 5 and not results[0].changed


def test_each_run_is_dumped() -> None:
    stream = io.StringIO()
    run(Fixpoint((CountDown(),)), on=module(n=2), watchers=[IRPrinting(after=True, stream=stream)])
    assert stream.getvalue().count("IR Dump After CountDown") == 3


def test_near_misses_are_those_of_the_last_run() -> None:
    ctx = make_context()
    run(Fixpoint((CountDown(),), limit=3), on=module(n=6), ctx=ctx)
    assert [remark.message for remark in ctx.remarks] == ["3 left"]


def test_reports_have_a_line_for_each_pass() -> None:
    results = run(Fixpoint((CountDown(), Look())), on=module(n=2))
    assert statistics_report(results).splitlines()[3:] == [
        "'fixpoint' Pipeline",
        "  CountDown",
        "    (S) 2 steps",
        "  Look",
    ]
    rows = timing_report(results, {PASSES_PHASE: 0.0}, 1.0).splitlines()
    assert [row.partition(")  ")[2] for row in rows[6:9]] == ["'fixpoint' Pipeline", "  CountDown", "  Look"]
