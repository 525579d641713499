"""The passes of the graph level do the same work per operation, however large the model is: calls are counted.

A model of 8 times as many nodes may take 8 times as many calls, and a tenth more for what grows with the logarithm, or
is done once. Also bounded: the calls of `O2` beside those of parsing the same module from text.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from mlopt.engine import attach_engine
from mlopt.frontend.onnx import import_model
from mlopt.ir import make_context, parse_module, print_module
from mlopt.ir.context import CompilerContext
from mlopt.passes.pipelines import PipelineOptions, at_optimisation_level, phase_passes
from mlopt.passes.registry import PASSES, load_pass
from mlopt.passmanager import PassManager, parse_pipeline, pass_options
from tests.counting import count_calls

MAKES = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/pass_cost.py"))["MAKES"]
SMALL, LARGE = 60, 480
GROWTH = 1.1
PARSING = 5.0
"""How many times the work of parsing O2 may take."""

GRAPH_PASSES = [
    name
    for name, place in PASSES.items()
    if place.startswith(("mlopt.passes.graph.", "mlopt.passes.common."))
    and not any(option.required for option in pass_options(load_pass(name)))
]


def imported(make: str, count: int) -> tuple[ModuleOp, CompilerContext]:
    ctx = make_context()
    attach_engine(ctx)
    return import_model(MAKES[make](count), ctx), ctx


def calls_of(passes: str, make: str, count: int) -> float:
    """Calls for each node that the model really has."""
    module, ctx = imported(make, count)
    manager = PassManager(ctx, parse_pipeline(f"builtin.module({passes})"), verify_each=False)
    return count_calls(lambda: manager.run(module)) / len(MAKES[make](count).graph.node)


def level(name: str) -> str:
    return ",".join(phase_passes("graph", at_optimisation_level(name, PipelineOptions())))


@pytest.mark.parametrize("make", list(MAKES))
@pytest.mark.parametrize("name", ["O2", "O3"])
def test_the_work_per_operation_does_not_grow(name: str, make: str) -> None:
    calls_of(level(name), make, 10)  # what is loaded and remembered once does not count
    small, large = (calls_of(level(name), make, count) for count in (SMALL, LARGE))
    assert large <= GROWTH * small


@pytest.mark.parametrize("name", GRAPH_PASSES)
def test_the_work_of_a_pass_does_not_grow(name: str) -> None:
    """Of each pass alone, as imported: what others would take away first is there."""
    calls_of(name, "transformer", 10)
    small, large = (calls_of(name, "transformer", count) for count in (SMALL, LARGE))
    assert large <= GROWTH * small


def test_reshapes_along_a_chain_do_not_look_back_to_its_start() -> None:
    """Where reshapes go one after the other, what is between the next two is all that was between them."""
    calls_of("eliminate-reshapes", "shapes", 10)
    small, large = (calls_of("fold-constants,eliminate-reshapes", "shapes", count) for count in (480, 1920))
    assert large <= GROWTH * small


@pytest.mark.parametrize("make", list(MAKES))
def test_o2_takes_no_more_than_five_times_parsing(make: str) -> None:
    module, _ = imported(make, LARGE)
    text = print_module(module)
    parse_module(text, make_context())
    parsing = count_calls(lambda: parse_module(text, make_context())) / len(MAKES[make](LARGE).graph.node)
    assert calls_of(level("O2"), make, LARGE) <= PARSING * parsing


@pytest.mark.parametrize("name", [name for name in GRAPH_PASSES if name.startswith("fuse-")])
def test_a_fusion_costs_little_where_there_is_nothing_like_it(name: str) -> None:
    """It walks over the operations a few times, and tries its patterns on none of them."""
    text = "".join(
        f"  %v{i + 1} = graph.abs %v{i} : tensor<4xf32>\n  %w{i} = graph.sign %v{i} : tensor<4xf32>\n"
        for i in range(LARGE // 2)
    )
    ctx = make_context()
    module = parse_module(f"func.func @main(%v0: tensor<4xf32>) {{\n{text}  func.return\n}}", ctx)
    manager = PassManager(ctx, parse_pipeline(f"builtin.module({name})"), verify_each=False)
    manager.run(module)
    assert count_calls(lambda: manager.run(module)) <= 80 * LARGE


def test_concats_in_concats_are_taken_at_once() -> None:
    """A value that grows by one operand at a time: each operand is copied into the last concat only."""

    def calls(count: int) -> float:
        lines: list[str] = []
        shape = 1
        for index in range(count):
            before, shape = (f"%v{index - 1}" if index else "%x"), shape + 1
            types = f"(tensor<{shape - 1}xf32>, tensor<1xf32>) -> tensor<{shape}xf32>"
            lines.append(f"%v{index} = graph.concat {before}, %x axis = 0 : {types}")
        body = "\n".join(lines)
        text = (
            f"func.func @main(%x: tensor<1xf32>) -> tensor<{shape}xf32> {{ {body}\n"
            f"func.return %v{count - 1} : tensor<{shape}xf32> }}"
        )
        ctx = make_context()
        module = parse_module(text, ctx)
        manager = PassManager(ctx, parse_pipeline("builtin.module(eliminate-slices)"), verify_each=False)
        return count_calls(lambda: manager.run(module)) / count

    calls(10)
    assert calls(LARGE) <= GROWTH * calls(SMALL)
