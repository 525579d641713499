"""Patterns by name: all that are applied are listed, each can be switched off, and each rewrite has one remark."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlopt.diagnostics import PipelineError, Place
from mlopt.dialects import graph
from mlopt.engine import attach_engine
from mlopt.frontend.onnx import import_model
from mlopt.ir import CompilerContext, make_context, parse_module, print_module
from mlopt.ir.rewriting import DRIVER_REWRITES, ERASE_DEAD, may_match, root_kinds
from mlopt.passes.graph.canonicalization import DropIdentityMovement, MergeReshapes, MergeTransposes
from mlopt.passes.graph.reported import Reported
from mlopt.passes.patterns import all_patterns, check_pattern_names, patterns_of
from mlopt.passes.pipelines import PipelineOptions, named_pipeline, phase_passes
from mlopt.passes.registry import load_pass
from mlopt.passmanager import PassManager, PassResult, parse_pipeline

MAKES = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/pass_cost.py"))["MAKES"]

RESHAPES = """func.func @main(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  %a = graph.reshape %x : tensor<2x6xf32> to tensor<12xf32>
  %b = graph.reshape %a : tensor<12xf32> to tensor<4x3xf32>
  %c = graph.neg %b : tensor<4x3xf32>
  %d = graph.neg %b : tensor<4x3xf32>
  %e = graph.add %c, %d : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %e : tensor<4x3xf32>
}"""


def context(*disabled: str) -> CompilerContext:
    ctx = make_context()
    attach_engine(ctx)
    ctx.disabled_patterns = frozenset(disabled)
    return ctx


def run(passes: str, module: ModuleOp, ctx: CompilerContext) -> list[PassResult]:
    return PassManager(ctx, parse_pipeline(f"builtin.module({passes})")).run(module)


def reshapes_left(*disabled: str) -> int:
    ctx = context(*disabled)
    module = parse_module(RESHAPES, ctx)
    run("canonicalize,eliminate-reshapes", module, ctx)
    return print_module(module).count("graph.reshape")


def assert_said_once(ctx: CompilerContext, results: Sequence[PassResult]) -> None:
    """What was applied is listed, and each rewrite has one remark, with a place; what it leaves dead has none."""
    done = Counter[tuple[str, str | None]]()
    for result in results:
        assert result.patterns.keys() <= {*patterns_of(load_pass(result.name)), *DRIVER_REWRITES}
        for pattern, count in result.patterns.items():
            done[result.name, pattern] += count
    told = Counter((each.pass_name, each.pattern) for each in ctx.remarks if each.kind == "passed")
    for key in [key for key in done if key[1] == ERASE_DEAD]:
        assert told.pop(key, 0) <= done.pop(key)
    assert told == done
    assert all(remark.place != Place() for remark in ctx.remarks if remark.kind == "passed")


@pytest.mark.parametrize("make", list(MAKES))
def test_what_is_applied_is_listed_and_remarked_on_once(make: str, tmp_path: Path) -> None:
    """A whole compilation of a model of each make."""
    ctx = context()
    path = tmp_path / "model.onnx"
    onnx.save(MAKES[make](100), path)
    module = import_model(path, ctx)
    results = run(named_pipeline("O3"), module, ctx)
    assert_said_once(ctx, results)
    assert sum(result.patterns.total() for result in results) > 0


def test_every_pass_of_the_graph_level_has_patterns() -> None:
    passes = parse_pipeline(f"builtin.module({','.join(phase_passes('graph', PipelineOptions()))})")
    names = {name for name in all_patterns() if name in str(passes)}
    assert {"fold-constants", "canonicalize", "cse", "dce", "fold-batch-norm"} <= names


def test_patterns_of_mlopt_are_described() -> None:
    missing = [
        (name, pattern)
        for name, patterns in all_patterns().items()
        if name != "canonicalize"  # which has xDSL's too
        for pattern, summary in patterns.items()
        if not summary
    ]
    assert not missing


@pytest.mark.parametrize(
    ("disabled", "left"),
    [
        ((), 1),
        (("MergeReshapes",), 2),
        (("canonicalize:MergeReshapes",), 1),  # eliminate-reshapes does it then
        (("canonicalize:MergeReshapes", "eliminate-reshapes:MergeReshapes"), 2),
        (("cse:MergeReshapes",), 1),
    ],
)
def test_a_pattern_is_switched_off(disabled: tuple[str, ...], left: int) -> None:
    assert reshapes_left(*disabled) == left


@pytest.mark.parametrize(
    ("passes", "pattern", "op"),
    [("cse", "merge-equal", "graph.neg"), ("canonicalize", "erase-dead", "graph.sign")],
)
def test_a_rewrite_without_pattern_is_switched_off(passes: str, pattern: str, op: str) -> None:
    text = RESHAPES.replace("  %c =", "  %s = graph.sign %b : tensor<4x3xf32>\n  %c =")
    for disabled in ((), (pattern,)):
        ctx = context(*disabled)
        module = parse_module(text, ctx)
        before = print_module(module).count(op)
        (result,) = run(passes, module, ctx)
        assert print_module(module).count(op) == before - (not disabled)
        assert bool(result.patterns[pattern]) == (not disabled)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MergeReshape", "there is no pattern 'MergeReshape' to disable; did you mean 'MergeReshapes'?"),
        (
            "cse:merge-equals",
            "no pattern 'merge-equals' of pass 'cse' to disable; did you mean 'merge-equal'?",
        ),
        (
            "csee:merge-equal",
            "no pass 'csee' to disable pattern 'merge-equal' of; did you mean 'cse'?",
        ),
        ("cse:MergeReshapes", "there is no pattern 'MergeReshapes' of pass 'cse' to disable"),
        ("zzz", "there is no pattern 'zzz' to disable; mlopt-opt --list-patterns lists them"),
    ],
)
def test_unknown_patterns(name: str, message: str) -> None:
    with pytest.raises(PipelineError) as raised:
        check_pattern_names([name])
    assert message in raised.value.message


def test_known_patterns() -> None:
    check_pattern_names(["MergeReshapes", "eliminate-reshapes:MergeReshapes", "fold", "cse:erase-dead"])


# Which operations a pattern is tried on.


def test_roots_come_from_the_annotation() -> None:
    """Of xDSL's decorator; a pattern without one may match anything."""
    assert root_kinds(MergeTransposes) == (graph.TransposeOp,)
    assert root_kinds(DropIdentityMovement) == (Operation,)
    assert may_match(MergeReshapes(), graph.ReshapeOp)
    assert not may_match(MergeReshapes(), graph.TransposeOp)


def test_a_set_matches_what_one_of_its_patterns_does() -> None:
    patterns = [MergeReshapes(), MergeTransposes()]
    reported = Reported(context(), "p", "s", "m", [graph.ReshapeOp], patterns)
    assert reported.candidates(graph.ReshapeOp) == (patterns[0],)
    assert not may_match(reported, graph.TransposeOp)
