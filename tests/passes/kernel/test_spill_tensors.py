"""Spilled tensors: the same bits in the bytes foreseen, wherever random programs allow it, and on the engine."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

import mlopt
from mlopt.diagnostics import PassFailure, PipelineError
from mlopt.dialects.kernel import CopyOp
from mlopt.interpreter.memref import Executable
from mlopt.ir import make_context, verify_module
from mlopt.ir.memory_spaces import SPILL_SPACE
from mlopt.memory.spilling import Gap
from mlopt.memory.steps import profile
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.launches import blocks_with_launches
from mlopt.passes.kernel.spill_tensors import gaps_of, spill
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.pipelines import phase_passes
from mlopt.passes.registry import load_pass
from mlopt.weights import WeightStore
from tests.memory.test_spilling import live_with
from tests.mlir_opt import check_with_mlir_opt
from tests.passes.kernel.support import evaluate, evaluate_in_place, run_passes
from tests.passes.kernel.test_copies import compiled, lowered, random_net, shape
from tests.passes.kernel.test_fit_memory import PASSES
from tests.strategies import GraphCase, graph_modules


def live(steps: BlockSteps) -> list[int]:
    return profile(steps.graph, range(len(steps.ops)))


def assert_same_bits(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(
        np.ascontiguousarray(got).view(np.uint8), np.ascontiguousarray(want).view(np.uint8)
    )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=graph_modules(max_ops=12), passes=st.sampled_from(PASSES), seed=st.integers(0, 10**6))
def test_random_tensors_are_spilled(case: GraphCase, passes: tuple[str, ...], seed: int) -> None:
    """A random part of all that may be, in two rounds, the second of which spills what came back from the first."""
    generator = random.Random(seed)
    context = make_context()
    context.weights = case.weights
    module = case.module
    for name in ("convert-graph-to-kernel", *passes):
        load_pass(name)().run(context, module)
    inputs = list(case.inputs.values())
    want = evaluate(module, inputs, context)
    for _ in range(2):
        for block in list(blocks_with_launches(module)):
            steps = BlockSteps(block, 64)
            gaps, tensors = gaps_of(steps)
            chosen = [gap for gap in gaps if generator.random() < 0.6]
            foreseen, ops = live_with(steps.graph, chosen), steps.ops
            spill(steps, chosen, tensors)
            verify_module(module)
            after = BlockSteps(block, 64)
            found = live(after)
            assert [found[step] for op in ops if (step := after.step_at(op)) is not None] == [
                bytes for op, bytes in zip(ops, foreseen, strict=True) if after.step_at(op) is not None
            ]
            assert max(found) == max(foreseen)
    evaluations = (evaluate, evaluate_in_place) if "reuse-in-place" in passes else (evaluate,)
    for evaluation in evaluations:
        for got, value in zip(evaluation(module, inputs, context), want, strict=True):
            assert_same_bits(got, value)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("optimize", [False, True])
def test_all_that_is_idle_is_spilled_on_the_engine(seed: int, optimize: bool) -> None:
    """Every bit stays, with both arenas poisoned; MLIR takes the memory spaces."""
    rng = np.random.default_rng(seed)
    net, outputs = random_net(rng)
    module = net.module(outputs)
    inputs = {f"arg{i}": rng.normal(size=shape(a)).astype(np.float32) for i, a in enumerate(net.block.args)}
    options = mlopt.PipelineOptions(optimize=optimize)
    lowered(
        module, [*phase_passes("graph", options), "convert-graph-to-kernel", *phase_passes("kernel", options)]
    )
    planning = ["convert-kernel-to-memref", *phase_passes("memref", options)]
    want = Executable(lowered(module.clone(), planning), WeightStore()).run(inputs)
    spilled = spill_everything(module)
    planned = lowered(module, planning)
    executable = Executable(planned, WeightStore(), poison=True)
    for name, value in executable.run(inputs).items():
        assert_same_bits(value, want[name])
    assert (executable.spill_bytes > 0) == (spilled > 0)
    assert memory_summary(planned).spill.arena_bytes == executable.spill_bytes
    if seed < 2:
        check_with_mlir_opt(str(planned))


def spill_everything(module: ModuleOp) -> int:
    """Spill in all gaps; returns how many there were."""
    main = next(op for op in module.ops if isinstance(op, func.FuncOp))
    steps = BlockSteps(main.body.block, 64)
    gaps, tensors = gaps_of(steps)
    spill(steps, gaps, tensors)
    return len(gaps)


TWICE = """
  func.func @main(%x: tensor<1x4xf32>, %w: tensor<4x256xf32>, %v: tensor<256x4xf32>) -> tensor<1x4xf32> {
    %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
    %b = graph.matmul %a, %v : (tensor<1x256xf32>, tensor<256x4xf32>) -> tensor<1x4xf32>
    %c = graph.exp %b : tensor<1x4xf32>
    %d = graph.matmul %a, %v : (tensor<1x256xf32>, tensor<256x4xf32>) -> tensor<1x4xf32>
    %e = graph.add %c, %d : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %r = graph.reshape %a : tensor<1x256xf32> to tensor<256x1xf32>
    %f = graph.matmul %e, %v2 : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
    %g = graph.reduce_sum %r axes = [0] : (tensor<256x1xf32>) -> tensor<1xf32>
    %y = graph.add %f, %g : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
    func.return %y : tensor<1x4xf32>
  }""".replace("%v: tensor<256x4xf32>)", "%v: tensor<256x4xf32>, %v2: tensor<4x4xf32>)")


def test_what_is_there_is_not_copied_out_again() -> None:
    """%a is idle twice: in one round and in two it is copied out once, and the reshape is of what is back."""
    for rounds in ([2], [1, 1], [-1, 1]):
        result = run_passes(TWICE)
        block = result.launches[0].parent
        assert block is not None
        for count in rounds:
            steps = BlockSteps(block, 64)
            gaps, tensors = gaps_of(steps)
            own = [gap for gap in gaps if steps.graph.values[gap.value].size == 1024]
            spill(steps, own[count:] if count < 0 else own[:count], tensors)
            verify_module(result.module)
        copies = [op for op in result.module.walk() if isinstance(op, CopyOp)]
        assert [copy.memory_space for copy in copies] == [SPILL_SPACE, 0, 0]
        assert copies[1].source is copies[2].source is copies[0].result
        assert "kernel.reshape %a_back" in result.text.replace("a_back_1", "a_back")


def test_a_spill_budget_wants_a_memory_budget() -> None:
    with pytest.raises(PipelineError, match="a spill budget goes with a memory budget"):
        phase_passes("kernel", mlopt.PipelineOptions(spill_budget=64))


def test_a_gap_is_two_uses_with_others_between() -> None:
    block = run_passes(TWICE).launches[0].parent
    assert block is not None
    steps = BlockSteps(block, 64)
    gaps, tensors = gaps_of(steps)
    large = [gap for gap in gaps if steps.graph.values[gap.value].size == 1024]
    assert [gap._replace(contents=0) for gap in large] == [
        Gap(large[0].value, 0, 1, 3),
        Gap(large[0].value, 0, 3, 6),
    ]
    assert {tensors[gap.contents].name_hint for gap in large} == {"a"}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("optimize", [False, True])
def test_random_graphs_in_any_budget_that_is_not_refused(seed: int, optimize: bool) -> None:
    """Down to what a single launch needs, with both arenas poisoned; refused is what is proved not to fit."""
    rng = np.random.default_rng(seed)
    net, outputs = random_net(rng)
    module = net.module(outputs)
    inputs = {f"arg{i}": rng.normal(size=shape(a)).astype(np.float32) for i, a in enumerate(net.block.args)}
    free = compiled(module.clone(), mlopt.PipelineOptions(optimize=optimize))
    want = Executable(free, WeightStore()).run(inputs)
    arena = memory_summary(free).arena_bytes
    for part in (0.8, 0.6, 0.4):
        options = mlopt.PipelineOptions(
            optimize=optimize, memory_budget=int(part * arena), spill_budget="any"
        )
        try:
            planned = compiled(module.clone(), options)
        except PassFailure as error:
            assert "and no spilling fits" in error.message
            continue
        memory = memory_summary(planned)
        assert memory.arena_bytes <= int(part * arena)
        results = Executable(planned, WeightStore(), poison=True).run(inputs)
        for name, value in want.items():
            np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-5)
        if memory.spill.arena_bytes:
            spill_budget = memory.spill.arena_bytes
            exact = mlopt.PipelineOptions(
                optimize=optimize, memory_budget=int(part * arena), spill_budget=spill_budget
            )
            assert memory_summary(compiled(module.clone(), exact)).spill.arena_bytes <= spill_budget
