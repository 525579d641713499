"""`schedule-for-memory`: what may be moved and what not, and that the model's bytes are those of the arena."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf

import mlopt
from mlopt.arrays import read_npz
from mlopt.compilation import main_function
from mlopt.diagnostics import PassFailure
from mlopt.ir import make_context, verify_module
from mlopt.memory.scheduling import schedule
from mlopt.memory.steps import StepGraph
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.launches import blocks_with_launches
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.registry import load_pass
from tests.passes.kernel.support import (
    BOTH,
    check_module,
    check_numbers,
    evaluate,
    evaluate_in_place,
    run_passes,
)
from tests.strategies import GraphCase, graph_modules

SCHEDULE = ("reuse-in-place", "schedule-for-memory")
LOWER = ("convert-kernel-to-memref", "plan-workspaces", "assign-buffers")

BRANCHES = """
  func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>) -> tensor<4x4xf32> {
    %a = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
    %c = graph.matmul %a, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
    %d = graph.matmul %b, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
    %y = graph.sub %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    func.return %y : tensor<4x4xf32>
  }"""

IN_PLACE = """
  func.func @main(%x: tensor<4x64xf32>, %v: tensor<64x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
    %e = graph.exp %x : tensor<4x64xf32>
    %p = graph.matmul %e, %v : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %n = graph.neg %e : tensor<4x64xf32>
    %q = graph.matmul %n, %v : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    func.return %p, %q : tensor<4x64xf32>, tensor<4x64xf32>
  }"""

LOOP = """
  func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x64xf32>, %v: tensor<64x4xf32>) -> tensor<4x4xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %x) -> (tensor<4x4xf32>) {
      %a = graph.matmul %s, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
      %b = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
      %c = graph.matmul %a, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
      %d = graph.matmul %b, %v : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
      %y = graph.sub %c, %d : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      scf.yield %y : tensor<4x4xf32>
    }
    func.return %r : tensor<4x4xf32>
  }"""


def inputs_for(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def graph_of(text: str, *passes: str) -> StepGraph:
    """The steps of `@main` after these passes."""
    return BlockSteps(main_function(run_passes(text, *passes).module).body.block, 64).graph


@pytest.mark.parametrize("text", [BRANCHES, LOOP])
def test_numbers_stay(text: str) -> None:
    x, w, v = inputs_for((4, 4), (4, 64), (64, 4))
    check_numbers(text, {"x": x, "w": w, "v": v}, passes=SCHEDULE)


def test_a_second_run_changes_nothing() -> None:
    result = run_passes(BRANCHES, *SCHEDULE, "schedule-for-memory")
    assert result.changed[-2:] == [True, False]
    assert result.count("bytes-saved") == 2112 - 1152


def test_body_of_a_loop() -> None:
    """Its block is ordered by itself: 2112 bytes, as in `BRANCHES`, become 1152; its peak is the loop's workspace."""
    result = run_passes(LOOP, "schedule-for-memory")
    assert result.remarks[0].startswith("ordered for memory: 2112 bytes live at once become 1152")
    loop = next(op for op in result.module.walk() if isinstance(op, scf.ForOp))
    assert [op.results[0].name_hint for op in loop.body.block.ops if op.name == "kernel.launch"] == list(
        "acbdy"
    )
    assert max(step.workspace for step in graph_of(LOOP, "schedule-for-memory").steps) == 1152


def test_an_update_in_place_stays_behind_what_reads_the_old_contents() -> None:
    """`neg` overwrites the exponentials, which the first product reads before: it can't run after that."""
    before, after = graph_of(IN_PLACE), graph_of(IN_PLACE, "reuse-in-place")
    assert [step.after for step in before.steps] == [(), (0,), (0,), (2,), (0, 1, 2, 3)]
    assert [step.after for step in after.steps] == [(), (0,), (0, 1), (2,), (0, 1, 2, 3)]
    assert [value.steps for value in after.values] == [(0, 1, 2, 3)]


def test_a_search_of_negative_nodes_is_refused() -> None:
    with pytest.raises(PassFailure, match="can't be negative, found -1"):
        run_passes(BRANCHES, "schedule-for-memory", nodes=-1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=graph_modules(max_ops=12), seed=st.integers(0, 10**6))
def test_every_order_that_the_steps_allow_is_right(case: GraphCase, seed: int) -> None:
    """Random programs in a random order of their steps, with every destination really overwritten."""
    context = make_context()
    context.weights = case.weights
    module = case.module
    load_pass("convert-graph-to-kernel")().run(context, module)
    load_pass("reuse-in-place")().run(context, module)
    inputs = list(case.inputs.values())
    want = evaluate(module, inputs, context)
    generator = random.Random(seed)
    for block in list(blocks_with_launches(module)):
        steps = BlockSteps(block, 64)
        steps.reorder(_random_order(steps.graph, generator))
    verify_module(module)
    for evaluation in (evaluate, evaluate_in_place):
        for got, value in zip(evaluation(module, inputs, context), want, strict=True):
            np.testing.assert_array_equal(got, value)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=graph_modules())
def test_random_programs(case: GraphCase) -> None:
    context = make_context()
    context.weights = case.weights
    load_pass("convert-graph-to-kernel")().run(context, case.module)
    passes = (*BOTH, "schedule-for-memory")
    check_module(case.module, list(case.inputs.values()), context, passes=passes)


def _random_order(graph: StepGraph, generator: random.Random) -> list[int]:
    order: list[int] = []
    while len(order) < len(graph.steps):
        ready: list[int] = [
            step
            for step, facts in enumerate(graph.steps)
            if step not in order and set(facts.after) <= set(order)
        ]
        order.append(generator.choice(ready))
    return order


@pytest.mark.parametrize("text", [BRANCHES, IN_PLACE, LOOP])
def test_the_model_counts_what_the_arena_holds(text: str) -> None:
    """Its peak is the most that tensors take at once in the finished plan, in both orders."""
    for passes in (("reuse-in-place",), SCHEDULE):
        counted = schedule(graph_of(text, *passes)).source_peak
        module = run_passes(text, *passes, *LOWER).module
        assert memory_summary(module).max_live_bytes == counted


def test_a_model_of_two_towers_needs_less() -> None:
    """CLIP, a text and an image: its peak is lower with one tower after the other in the better order."""
    path = Path(__file__).parents[2] / "models" / "clip_tiny_dyn.onnx"
    inputs = read_npz(path.with_suffix(".npz"), "in")
    arenas: list[int] = []
    for disabled in ((), ("schedule-for-memory",)):
        options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(disabled=disabled))
        arenas.append(mlopt.compile(path, inputs=inputs, options=options).report()["memory"]["arena_bytes"])
    assert arenas[0] < arenas[1]
