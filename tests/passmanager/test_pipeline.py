"""The pipeline grammar: what is read, how it is written back, and the place of each fault. Wording is MLIR's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import pytest
from xdsl.ir import Operation

from mlopt.diagnostics import PipelineError, Place, UsageError
from mlopt.ir import CompilerContext
from mlopt.passes import registry
from mlopt.passmanager import Pass, Pipeline, make_pass, parse_options, parse_pipeline, pass_options
from mlopt.passmanager.pipeline import dump_text


@dataclass(frozen=True)
class Plain(Pass):
    """A pass without options."""

    name = "plain"
    anchor = None

    def run(self, ctx: CompilerContext, op: Operation) -> bool:
        return False


@dataclass(frozen=True)
class OnModule(Plain):
    name = "on-module"
    anchor: ClassVar[str | None] = "builtin.module"


@dataclass(frozen=True)
class OnFunc(Plain):
    name = "on-func"
    anchor: ClassVar[str | None] = "func.func"


@dataclass(frozen=True)
class Full(Plain):
    """A pass with every kind of option."""

    name = "full"

    max_rewrites: int = 10
    fast: bool = False
    tolerance: float = 0.5
    label: str = ""
    strategy: Literal["none", "best"] = "best"
    sizes: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.max_rewrites < 0:
            raise UsageError("max-rewrites must not be negative")


@dataclass(frozen=True)
class Needs(Plain):
    name = "needs"

    target: str


PASSES: dict[str, type[Pass]] = {cls.name: cls for cls in (Plain, OnModule, OnFunc, Full, Needs)}


def parse(text: str) -> Pipeline:
    return parse_pipeline(text, load=PASSES.__getitem__)


def full(text: str) -> Full:
    (element,) = parse(f"builtin.module(full{{{text}}})").elements
    assert isinstance(element, Full)
    return element


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("builtin.module()", "builtin.module()"),
        (" builtin.module ( ) ", "builtin.module()"),
        ("any(plain)", "any(plain)"),
        ("builtin.module(plain,plain)", "builtin.module(plain,plain)"),
        ("builtin.module( plain , func.func( plain ) )", "builtin.module(plain,func.func(plain))"),
        ("builtin.module(func.func(any(plain),on-func),on-module)",) * 2,
        ("builtin.module(\n  plain,\n  plain\n)", "builtin.module(plain,plain)"),
        ("builtin.module(plain{})", "builtin.module(plain)"),
        (
            "builtin.module(full)",
            'builtin.module(full{max-rewrites=10 fast=false tolerance=0.5 label="" strategy=best sizes={} names={}})',
        ),
    ],
)
def test_pipelines_are_read_and_written(text: str, canonical: str) -> None:
    pipeline = parse(text)
    assert str(pipeline) == canonical
    assert parse(str(pipeline)) == pipeline


def test_named_pipelines_are_replaced_by_their_passes() -> None:
    named = {
        "both": "plain,full{fast}",
        "more": "both, plain",
        "inside": "func.func(on-func)",
        "bad": "on-module",
    }

    def expanded(text: str) -> str:
        return str(parse_pipeline(text, load=PASSES.__getitem__, expand=named.__getitem__))

    full_text = str(parse("any(full{fast})"))[4:-1]
    assert expanded("builtin.module(both)") == f"builtin.module(plain,{full_text})"
    assert expanded("any(more{},plain)") == f"any(plain,{full_text},plain,plain)"
    assert expanded("builtin.module(inside)") == "builtin.module(func.func(on-func))"
    for text, message, column in (
        ("any(plain,bothh)", "'bothh' does not refer to a registered pass or pass pipeline", 11),
        ("any(both{fast})", "pipeline 'both': no such option fast", 10),
        ("func.func(plain, bad)", "can't add pass 'on-module'", 18),
    ):
        with pytest.raises(PipelineError, match=re.escape(message)) as failure:
            expanded(text)
        assert failure.value.place is not None and failure.value.place.column == column


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("max-rewrites=3", Full(max_rewrites=3)),
        ("max_rewrites=3", Full(max_rewrites=3)),
        ("limit=4", Full(limit=4)),
        ("fast", Full(fast=True)),
        ("fast=true  tolerance=1e-3", Full(fast=True, tolerance=1e-3)),
        ("fast=0", Full()),
        ('label="a b, {c}"', Full(label="a b, {c}")),
        ("label='it}s'", Full(label="it}s")),
        ("label={a b}", Full(label="a b")),
        ("label=a=b", Full(label="a=b")),
        ("strategy=none", Full(strategy="none")),
        ("sizes=1,2,3", Full(sizes=(1, 2, 3))),
        ("sizes={1, 2}", Full(sizes=(1, 2))),
        ("sizes={}", Full()),
        ("names={func.func(cse,dce),b} fast", Full(names=("func.func(cse,dce)", "b"), fast=True)),
        ("names='a,b',c", Full(names=("a,b", "c"))),
    ],
)
def test_options(text: str, want: Full) -> None:
    assert full(text) == want
    assert parse(str(Pipeline("builtin.module", (want,)))).elements == (want,)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "expected pass pipeline to be wrapped with the anchor operation type", 1),
        ("plain", "expected pass pipeline to be wrapped with the anchor operation type", 1),
        ("builtin.module(nope)", "'nope' does not refer to a registered pass or pass pipeline", 16),
        ("builtin.module(plain,,plain)", "expected the name of a pass", 22),
        ("builtin.module(,)", "expected the name of a pass", 16),
        ("builtin.module(plain", "encountered unbalanced parentheses while parsing pipeline", 15),
        ("builtin.module(plain))", "encountered extra closing ')'", 22),
        ("builtin.module(func.func(plain)plain)", "expected ',' after parsing pipeline", 32),
        ("builtin.module(plain) x", "expected the pipeline to end here", 23),
        ("builtin.module(full{fast)", "missing closing '}' while processing pass options", 20),
        ("builtin.module(plain})", "encountered extra closing '}'", 21),
        ("builtin.module(full{nope=1})", "no such option nope", 21),
        ("builtin.module(full{fast nope=1})", "no such option nope", 26),
        ("builtin.module(full{max-rewrites=x})", "option 'max-rewrites' expects an integer, found 'x'", 21),
        ("builtin.module(full{fast=maybe})", "option 'fast' expects true or false, found 'maybe'", 21),
        ("builtin.module(full{strategy=x})", "option 'strategy' expects one of none, best, found 'x'", 21),
        ("builtin.module(full{sizes=1,a})", "option 'sizes' expects an integer, found 'a'", 21),
        ("builtin.module(full{max-rewrites=-1})", "max-rewrites must not be negative", 16),
        ("builtin.module(full{fast fast})", "option 'fast' is given twice", 26),
        ("builtin.module(full{=1})", "expected the name of an option", 21),
        ("builtin.module(needs)", "needs a value for option 'target'", 16),
        ("builtin.module(plain(plain))", "expected the name of an operation", 16),
        ("builtin.module(func.func(on-module))", "did you intend to nest?", 26),
        ("builtin.module(on-func)", "did you intend to nest?", 16),
        ("builtin.module(plain,\n  nope)", "'nope' does not refer", 3),
    ],
)
def test_faults(text: str, message: str, column: int) -> None:
    with pytest.raises(PipelineError) as failure:
        parse(text)
    assert message in failure.value.message
    place = failure.value.place
    assert place is not None and (place.file, place.column) == ("<pass-pipeline>", column)
    assert failure.value.source_line == text.split("\n")[(place.line or 1) - 1]


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("nope", "'nope' does not refer", 1),
        ("plain, nope", "'nope' does not refer", 8),
        ("plain)", "extra closing ')'", 6),
        ("plain,", "expected the name of a pass", 7),
        ("func.func(plain", "unbalanced parentheses", 10),
        ("full{max-rewrites=x}", "expects an integer", 6),
        ("named, nope", "'nope' does not refer", 8),
    ],
)
def test_elements_without_an_anchor_have_their_own_columns(text: str, message: str, column: int) -> None:
    with pytest.raises(PipelineError) as failure:
        parse_pipeline(
            text,
            load=PASSES.__getitem__,
            expand={"named": "plain"}.__getitem__,
            anchor="builtin.module",
            source="typed",
        )
    assert message in failure.value.message
    assert failure.value.place == Place("typed", 1, column)
    assert failure.value.source_line == text


@pytest.mark.parametrize("text", ["", " ", "plain", "plain, func.func(plain),fixpoint(plain)"])
def test_elements_without_an_anchor_are_those_of_a_pipeline(text: str) -> None:
    elements = parse_pipeline(text, load=PASSES.__getitem__, anchor="builtin.module")
    assert elements == parse(f"builtin.module({text.strip()})")


def test_a_misspelt_pass_is_told_from_the_registry() -> None:
    with pytest.raises(PipelineError, match="did you mean 'fuse-linear'"):
        parse_pipeline("builtin.module(fuse-liner)")


def test_options_describe_themselves() -> None:
    described = {option.name: (option.type_text, option.default) for option in pass_options(Full)}
    assert described["max-rewrites"] == ("int", 10)
    assert described["strategy"] == ("none|best", "best")
    assert described["sizes"] == ("int,...", ())
    assert described["limit"] == ("int", None)
    assert [option.required for option in pass_options(Needs)] == [True]


def test_options_without_braces() -> None:
    assert parse_options("a=1 b={x y} c") == {"a": "1", "b": "{x y}", "c": None}
    assert parse_options("") == {}


def test_dump() -> None:
    want = "Pass Manager with 2 passes:\nbuiltin.module(\n  plain,\n  func.func(\n    plain\n  )\n)\n"
    assert dump_text(parse("builtin.module(plain,func.func(plain))")) == want


def test_passes_left_out() -> None:
    """At every depth; a nested pipeline stays, even when it is empty."""
    pipeline = parse_pipeline("builtin.module(cse,func.func(dce,cse),any(cse),dce)")
    assert str(pipeline.without(["cse"])) == "builtin.module(func.func(dce),any(),dce)"
    assert pipeline.without([]) == pipeline


def test_no_count_of_any_pass_is_negative_and_no_number_infinite() -> None:
    """Whatever the pass itself says about it, or the reader of options for all."""
    for name in registry.PASSES:
        for option in pass_options(registry.load_pass(name)):
            if not {int, float} & {option.type, *get_args(option.type)}:
                continue
            is_count = int in {option.type, *get_args(option.type)}
            for text in ("-1", "-0.5", "nan", "1e400") if is_count else ("nan", "inf", "-inf", "1e400"):
                needed = {
                    other.name: "x.npz"
                    for other in pass_options(registry.load_pass(name))
                    if other.required and other.name != option.name
                }
                with pytest.raises(PipelineError) as caught:
                    make_pass(registry.load_pass(name), {**needed, option.name: text})
                assert name in caught.value.message, caught.value.message
