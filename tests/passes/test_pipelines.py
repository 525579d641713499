"""The standard pipelines: what they are made of, that fixpoints are ones, that passes keep what they claim."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import ClassVar, get_origin, get_type_hints

import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.diagnostics import MloptError
from mlopt.engine import attach_engine
from mlopt.frontend.onnx import import_model
from mlopt.ir import CompilerContext, make_context, parse_module
from mlopt.passes.pipelines import (
    CLEANING,
    COSTLY,
    FINAL,
    FIRST,
    FUSIONS,
    LAST,
    OPTIMISATION_LEVELS,
    PipelineOptions,
    Step,
    at_optimisation_level,
    named_pipeline,
    phase_passes,
)
from mlopt.passes.registry import PASSES, load_pass
from mlopt.passmanager import Fixpoint, Pass, PassManager, Pipeline, make_pass, parse_pipeline, pass_options
from mlopt.passmanager.conditions import (
    ABOVE_MEMREF,
    BELOW_GRAPH,
    GRAPH_LEVEL,
    KERNEL_LEVEL,
    MEMREF_LEVEL,
)
from mlopt.passmanager.pipeline import passes_on_anchor

MAKES = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/pass_cost.py"))["MAKES"]
SIZE = 60

GRAPH_PASSES = [
    name
    for name, place in PASSES.items()
    if place.startswith(("mlopt.passes.graph.", "mlopt.passes.common."))
    and not any(option.required for option in pass_options(load_pass(name)))
]


def imported(make: str) -> tuple[ModuleOp, CompilerContext]:
    ctx = make_context()
    attach_engine(ctx)
    return import_model(MAKES[make](SIZE), ctx), ctx


def graph_level(name: str) -> Pipeline:
    passes = phase_passes("graph", at_optimisation_level(name, PipelineOptions()))
    return parse_pipeline(f"builtin.module({','.join(passes)})")


def run(passes: tuple[Pass, ...], module: ModuleOp, ctx: CompilerContext) -> list[str]:
    """The names of the passes that changed something."""
    results = PassManager(ctx, Pipeline("builtin.module", passes)).run(module)
    return [result.name for result in results if result.changed]


@pytest.mark.parametrize("make", list(MAKES))
@pytest.mark.parametrize("name", ["O1", "O2", "O3"])
def test_a_fixpoint_is_one(name: str, make: str) -> None:
    """No pass of it changes anything afterwards, and no limit was reached."""
    module, ctx = imported(make)
    elements = graph_level(name).elements
    position = next(i for i, element in enumerate(elements) if isinstance(element, Fixpoint))
    PassManager(ctx, Pipeline("builtin.module", elements[: position + 1])).run(module)
    assert run(tuple(passes_on_anchor([elements[position]])), module, ctx) == []
    assert not ctx.warnings


@pytest.mark.parametrize("make", list(MAKES))
@pytest.mark.parametrize("name", [name for name in GRAPH_PASSES if load_pass(name).idempotent])
def test_a_second_run_of_an_idempotent_pass_changes_nothing(name: str, make: str) -> None:
    module, ctx = imported(make)
    pass_ = make_pass(load_pass(name), {})
    run((pass_,), module, ctx)
    assert run((pass_,), module, ctx) == []


def test_levels_build_on_each_other() -> None:
    """What each level runs at the graph level, in order."""
    names = {
        name: [pass_.name for pass_ in passes_on_anchor(graph_level(name).elements)]
        for name in OPTIMISATION_LEVELS
    }

    def names_of(*lists: tuple[Step, ...]) -> list[str]:
        return [step.pass_name for steps in lists for step in steps]

    assert names["O0"] == ["dce"]
    assert names["O1"] == names_of(CLEANING)
    assert names["O2"] == names_of(CLEANING, FUSIONS, LAST, FINAL)
    assert names["O3"] == names_of(FIRST, CLEANING, FUSIONS, COSTLY, LAST, FINAL)


def test_every_step_has_a_reason_and_no_approximation_is_implied() -> None:
    steps = [*FIRST, *CLEANING, *FUSIONS, *COSTLY, *LAST, *FINAL]
    assert all(step.reason for step in steps)
    text = "".join(map(named_pipeline, OPTIMISATION_LEVELS))
    assert "fast" not in text and "approximate" not in text


@pytest.mark.parametrize("name", sorted({step.pass_name for step in (*CLEANING, *FUSIONS, *LAST, *FINAL)}))
def test_any_pass_can_be_left_out(name: str) -> None:
    options = PipelineOptions(thorough=True, disabled=(name,))
    pipeline = parse_pipeline(f"builtin.module({','.join(phase_passes('graph', options))})")
    assert name not in [pass_.name for pass_ in passes_on_anchor(pipeline.elements)]


LEVELS_OF_PASSES = {
    "mlopt.passes.graph.": GRAPH_LEVEL,
    "mlopt.passes.kernel.": KERNEL_LEVEL,
    "mlopt.passes.memref.": MEMREF_LEVEL,
    "mlopt.passes.convert_graph_to_kernel:": ABOVE_MEMREF,
    "mlopt.passes.convert_kernel_to_memref:": BELOW_GRAPH,
    "mlopt.passes.common.": (),
}
"""What a pass requires, by the folder that it is in."""


@pytest.mark.parametrize("name", PASSES)
def test_passes_require_the_level_of_their_folder(name: str) -> None:
    (level,) = (level for folder, level in LEVELS_OF_PASSES.items() if PASSES[name].startswith(folder))
    pass_class = load_pass(name)
    assert pass_class.requires[: len(level)] == level
    if PASSES[name].startswith(("mlopt.passes.kernel.", "mlopt.passes.memref.")):
        assert pass_class.ensures[: len(level)] == level
    assert pass_class.ensures or level in (GRAPH_LEVEL, ())


@pytest.mark.parametrize("name", PASSES)
def test_what_a_pass_declares_is_an_option(name: str) -> None:
    """A field of a class that is no dataclass of its own would be none."""
    pass_class = load_pass(name)
    hints = get_type_hints(pass_class)
    declared = [
        field
        for field in vars(pass_class).get("__annotations__", {})
        if get_origin(hints[field]) is not ClassVar
    ]
    fields = {option.field for option in pass_options(pass_class)}
    assert not [field for field in declared if field not in fields and hints[field] is not ClassVar]


@pytest.mark.parametrize("name", [name for name in GRAPH_PASSES if "graph" in PASSES[name]])
def test_passes_of_the_graph_level_require_it(name: str) -> None:
    ctx = make_context()
    attach_engine(ctx)
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = graph.relu %x : tensor<4xf32>\n"
    module = parse_module(text + "  func.return %y : tensor<4xf32>\n}", ctx)
    run((make_pass(load_pass("convert-graph-to-kernel"), {}),), module, ctx)
    with pytest.raises(MloptError, match=r"expected a module at the graph level, found 'kernel\."):
        run((make_pass(load_pass(name), {}),), module, ctx)
