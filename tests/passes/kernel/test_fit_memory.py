"""`fit-memory`: random launches in tiles and run again give the same, in the bytes foreseen; models within budgets."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

import mlopt
from mlopt.arrays import read_npz
from mlopt.diagnostics import PassFailure
from mlopt.dialects.kernel import LaunchOp
from mlopt.engine import attach_engine
from mlopt.interpreter.graph import evaluate_module
from mlopt.interpreter.memref import Executable
from mlopt.ir import CompilerContext, ScratchNeed, make_context, verify_module
from mlopt.ir.functions import find_main, only_block
from mlopt.memory.step_rewrites import join_steps, rerun
from mlopt.memory.steps import StepGraph, profile
from mlopt.passes.kernel.block_steps import BlockSteps
from mlopt.passes.kernel.cut_launch import cuts_of
from mlopt.passes.kernel.fit_memory import FitMemoryPass
from mlopt.passes.kernel.join_launches import joined
from mlopt.passes.kernel.launches import blocks_with_launches
from mlopt.passes.kernel.run_again import run_again
from mlopt.passes.kernel.tile_chain import Tiling, Tilings, candidates
from mlopt.passes.kernel.workspace_needs import WorkspaceNeeds
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.registry import load_pass
from mlopt.weights import WeightStore
from tests.onnx_oracle import run_model
from tests.passes.kernel.support import Array, evaluate, evaluate_in_place, run_passes
from tests.passes.kernel.test_copies import compiled, random_net, shape
from tests.passes.memref.test_plan_workspaces import FakeTarget
from tests.strategies import GraphCase, graph_modules

MODELS = Path(__file__).parents[4] / "shared" / "models"
OWN_MODELS = Path(__file__).parents[2] / "models"


class Checked:
    """A random program at the kernel level, whose results must stay what they were."""

    def __init__(self, case: GraphCase, passes: tuple[str, ...]):
        self.context = make_context()
        self.context.weights = case.weights
        self.module = case.module
        for name in ("convert-graph-to-kernel", *passes):
            load_pass(name)().run(self.context, self.module)
        self.inputs = list(case.inputs.values())
        self.in_place = "reuse-in-place" in passes
        self.want = evaluate(self.module, self.inputs, self.context)

    def check(self) -> None:
        verify_module(self.module)
        for evaluation in (evaluate, evaluate_in_place) if self.in_place else (evaluate,):
            for got, want in zip(evaluation(self.module, self.inputs, self.context), self.want, strict=True):
                assert_same_up_to_order_of_sums(got, want)


def assert_same_up_to_order_of_sums(got: Array, want: Array) -> None:
    """numpy adds up the rows of a part of a matrix in another order than those of all of it."""
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    rtol = 16 * float(np.finfo(want.dtype).eps)
    largest = np.max(np.abs(want), where=np.isfinite(want), initial=0)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * largest)


def live(graph: StepGraph) -> list[int]:
    return profile(graph, range(len(graph.steps)))


def steps_of(block: Block, needs: WorkspaceNeeds) -> BlockSteps:
    return BlockSteps(block, needs.alignment, needs.least)


def main_of(module: ModuleOp) -> FuncOp:
    main = find_main(module)
    assert main is not None
    return main


PASSES = ((), ("fuse-kernels",), ("reuse-in-place",), ("fuse-kernels", "place-concats", "reuse-in-place"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=graph_modules(max_ops=12), passes=st.sampled_from(PASSES), seed=st.integers(0, 10**6))
def test_random_launches_in_tiles(case: GraphCase, passes: tuple[str, ...], seed: int) -> None:
    """Of the launches that pass on a tensor, and of each alone, one of the ways to cut them."""
    checked, generator, needs = Checked(case, passes), random.Random(seed), WorkspaceNeeds(None)
    for block in list(blocks_with_launches(checked.module)):
        steps = steps_of(block, needs)
        found = [entry for step in range(len(steps.ops)) for entry in candidates(steps, step)]
        if not found:
            continue
        positions = generator.choice(found)
        members = [op for position in positions if isinstance(op := steps.ops[position], LaunchOp)]
        launch = joined(members, "joined")
        cuts = cuts_of(launch)
        if not cuts:
            launch.erase()
            continue
        cut = generator.choice(cuts)
        tiling = Tiling(tuple(members), launch, cut.apply(min(cut.units, generator.randint(2, 5))))
        foreseen = join_steps(steps.graph, positions, needs.least(launch))
        tiling.apply()
        checked.check()
        assert live(steps_of(block, needs).graph) == live(foreseen)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=graph_modules(max_ops=12), passes=st.sampled_from(PASSES), seed=st.integers(0, 10**6))
def test_random_launches_run_again(case: GraphCase, passes: tuple[str, ...], seed: int) -> None:
    checked, generator, needs = Checked(case, passes), random.Random(seed), WorkspaceNeeds(None)
    for block in list(blocks_with_launches(checked.module)):
        steps = steps_of(block, needs)
        choices = [
            (step, user)
            for index, value in enumerate(steps.graph.values)
            for step in [min(value.steps)]
            for user in value.steps
            if user > step and steps.writers[index] == 1 and steps.reads_stay(step)
        ]
        choices = [(step, user) for step, user in choices if is_single_launch(steps, step)]
        if not choices:
            continue
        step, user = generator.choice(choices)
        foreseen = rerun(steps.graph, [step], user)
        launch = steps.ops[step]
        assert isinstance(launch, LaunchOp)
        run_again([launch], steps.ops[user])
        checked.check()
        assert live(steps_of(block, needs).graph) == live(foreseen)


def is_single_launch(steps: BlockSteps, step: int) -> bool:
    op = steps.ops[step]
    return isinstance(op, LaunchOp) and len(op.res) == 1


@pytest.mark.parametrize(
    ("op", "axes"),
    [
        ("%y = graph.softmax %x axis = 1 : tensor<4x6xf32>", 1),
        ("%y = graph.exp %x : tensor<4x6xf32>", 2),
        ("%y = graph.transpose %x perm = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>", 2),
        ("%y = graph.reduce_sum %x axes = [0] : (tensor<4x6xf32>) -> tensor<6xf32>", 1),
    ],
)
def test_axes_that_a_launch_can_be_cut_along(op: str, axes: int) -> None:
    """A softmax needs all of a row, so rows alone can be apart; a sum over rows has the other axis only."""
    result = op.rpartition("-> ")[2] if "->" in op else "tensor<4x6xf32>"
    text = f"func.func @main(%x: tensor<4x6xf32>) -> {result} {{\n{op}\nfunc.return %y : {result}\n}}"
    (launch,) = run_passes(text).launches
    assert len(cuts_of(launch)) == axes


AGAIN = """
  func.func @main(%x: tensor<1x4xf32>, %w: tensor<4x256xf32>, %v: tensor<256x4xf32>, %u: tensor<256x256xf32>)
      -> tensor<1x256xf32> {
    %a = graph.matmul %x, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
    %c = graph.matmul %a, %v : (tensor<1x256xf32>, tensor<256x4xf32>) -> tensor<1x4xf32>
    %p = graph.matmul %c, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
    %q = graph.matmul %p, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %r = graph.matmul %q, %v : (tensor<1x256xf32>, tensor<256x4xf32>) -> tensor<1x4xf32>
    %t = graph.matmul %r, %w : (tensor<1x4xf32>, tensor<4x256xf32>) -> tensor<1x256xf32>
    %y = graph.add %a, %t : (tensor<1x256xf32>, tensor<1x256xf32>) -> tensor<1x256xf32>
    func.return %y : tensor<1x256xf32>
  }"""
"""3072 bytes live at once, of which 1024 are kept for the end; 2048 if they are made again there."""


def test_reshapes_between_launches_go_into_them() -> None:
    """4096 bytes, under two other shapes on their way: of each tile, the reshapes are a part."""
    text = """
      func.func @main(%x: tensor<32x32xf32>) -> tensor<32xf32> {
        %a = graph.exp %x : tensor<32x32xf32>
        %b = graph.reshape %a : tensor<32x32xf32> to tensor<32x4x8xf32>
        %c = graph.reshape %b : tensor<32x4x8xf32> to tensor<32x8x4xf32>
        %y = graph.reduce_sum %c axes = [1, 2] : (tensor<32x8x4xf32>) -> tensor<32xf32>
        func.return %y : tensor<32xf32>
      }"""
    result = run_passes(text, "fit-memory", budget=2112)
    assert result.kernels == ["exp_reduce_sum"]
    assert "tensor<16x4x8xf32> to tensor<16x8x4xf32>" in result.text
    x = np.arange(1024, dtype=np.float32).reshape(32, 32) / 1024
    (got,) = evaluate(result.module, [x], result.context)
    np.testing.assert_allclose(got, np.exp(x).sum(axis=1), rtol=1e-6)


def test_tiles_of_tiles_are_few() -> None:
    """Launches in tiles are cut again, along other axes too, but not into ever more operations."""
    text = """
      func.func @main(%x: tensor<8x8x4xi8>, %w: tensor<4x8xf32>) -> tensor<8x8x8xf32> {
        %a = graph.cast %x : tensor<8x8x4xi8> to tensor<8x8x4xi32>
        %b = graph.cast %a : tensor<8x8x4xi32> to tensor<8x8x4xf32>
        %c = graph.matmul %b, %w : (tensor<8x8x4xf32>, tensor<4x8xf32>) -> tensor<8x8x8xf32>
        %y = graph.exp %c : tensor<8x8x8xf32>
        func.return %y : tensor<8x8x8xf32>
      }"""
    result, needs, moves = run_passes(text), WorkspaceNeeds(None), 0
    block, tilings = only_block(main_of(result.module)), Tilings(needs)
    x, w = np.arange(256, dtype=np.int8).reshape(8, 8, 4), np.eye(4, 8, dtype=np.float32) / 128
    while tiling := tilings.best(steps_of(block, needs), 0, only_fitting=False):
        tiling.apply()
        moves += 1
        assert all(len(launch.body.ops) <= 160 for launch in result.launches)
    assert moves >= 2
    (got,) = evaluate(result.module, [x, w], result.context)
    np.testing.assert_allclose(got, np.exp(x @ w), rtol=1e-6)


def test_all_that_joined_launches_alone_use_is_foreseen() -> None:
    """Two tensors between three launches, one handed on by the second: both are inside of the one that they become."""
    text = """
      func.func @main(%x: tensor<64xf32>, %z: tensor<64xf32>) -> tensor<64xf32> {
        %a = graph.exp %x : tensor<64xf32>
        %b = graph.neg %a : tensor<64xf32>
        %y = graph.add %a, %b : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
        func.return %y : tensor<64xf32>
      }"""
    needs = WorkspaceNeeds(None)
    steps = steps_of(only_block(main_of(run_passes(text).module)), needs)
    assert [0, 1, 2] in candidates(steps, 1)
    assert live(steps.graph) == [256, 512, 512, 0]
    assert live(join_steps(steps.graph, [0, 1, 2], 128)) == [128, 0]


def test_what_is_kept_runs_again() -> None:
    result = run_passes(AGAIN, "fit-memory", budget=2100)
    assert result.changed == [True]
    assert result.count("launches-run-again") == 1
    assert (
        "'matmul' run again before 'add': 3072 bytes live at once become 2048, for 2048 flops"
        in result.remarks[0]
    )
    assert not FitMemoryPass(budget=2100).run(CompilerContext(), result.module)


def test_a_budget_that_is_kept_changes_nothing() -> None:
    result = run_passes(AGAIN, "fit-memory", budget=3072)
    assert result.changed == [False]
    assert result.remarks == ["3072 bytes live at once fit into 3072"]


def test_the_refusal_names_what_is_live() -> None:
    """The product in the middle reads 1024 bytes and makes 1024."""
    with pytest.raises(
        PassFailure, match="fits into 2047 bytes: while 'matmul' runs, at least 2048 are live"
    ) as error:
        run_passes(AGAIN, "fit-memory", budget=2047)
    assert [note.message for note in error.value.notes] == ["1024 bytes made by 'matmul', used there"] * 2


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(PassFailure, match="the budget can't be negative, found -1"):
        run_passes(AGAIN, "fit-memory", budget=-1)
    with pytest.raises(PassFailure, match="nodes of a search can't be negative, found -1"):
        run_passes(AGAIN, "fit-memory", budget=1, nodes=-1)


@pytest.mark.parametrize("budget", [2560, 2048])
@pytest.mark.parametrize("poison", [False, True])
def test_it_runs_within_the_budget(budget: int, poison: bool) -> None:
    """On the engine; numpy gives the right values."""
    rng = np.random.default_rng(0)
    shapes = {"x": (1, 4), "w": (4, 256), "v": (256, 4), "u": (256, 256)}
    x = {name: rng.standard_normal(shape).astype(np.float32) / 16 for name, shape in shapes.items()}
    options = mlopt.CompileOptions(
        pipeline=mlopt.PipelineOptions(optimize=False, memory_budget=budget), poison=poison
    )
    model = mlopt.Model(f"{AGAIN}\n", options)
    a = x["x"] @ x["w"]
    want = a + a @ x["v"] @ x["w"] @ x["u"] @ x["v"] @ x["w"]
    (got,) = model.run(x).values()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())
    assert model.memory.arena_bytes <= budget


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("optimize", [False, True])
def test_random_graphs_run_within_budgets_or_are_refused(seed: int, optimize: bool) -> None:
    """With all that is dead poisoned; of the budgets the first is mostly met, and the last mostly refused."""
    rng = np.random.default_rng(seed)
    net, outputs = random_net(rng)
    module = net.module(outputs)
    inputs = {f"arg{i}": rng.normal(size=shape(a)).astype(np.float32) for i, a in enumerate(net.block.args)}
    want = evaluate_module(module, inputs)
    free = compiled(module.clone(), mlopt.PipelineOptions(optimize=optimize))
    arena = memory_summary(free).arena_bytes
    for part in (0.85, 0.7, 0.5):
        options = mlopt.PipelineOptions(optimize=optimize, memory_budget=int(part * arena))
        try:
            planned = compiled(module.clone(), options)
        except PassFailure as error:
            assert "no order of the launches" in error.message
            continue
        assert memory_summary(planned).arena_bytes <= int(part * arena)
        results = Executable(planned, WeightStore(), poison=True).run(inputs)
        for name, value in want.items():
            np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("unet2d_tiny", 0.8),
        ("resnet18s_dyn", 0.8),
        ("light_shufflenet_rand", 0.8),
        ("convnext_atto", 0.8),  # two tiles take as much as one, four less
        ("bert_tiny_dyn", 0.6),
    ],
)
def test_models_in_a_part_of_their_arena(name: str, part: float) -> None:
    """The numbers of the model's reference file stay right, with all that is dead poisoned."""
    here = OWN_MODELS if (OWN_MODELS / f"{name}.onnx").exists() else MODELS
    if not here.exists():
        pytest.skip("the models are not here")
    inputs, want = (read_npz(here / f"{name}.npz", kind) for kind in ("in", "out"))
    free = mlopt.Model(here / f"{name}.onnx", mlopt.CompileOptions(), inputs=inputs)
    budget = int(free.memory.arena_bytes * part)
    options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(memory_budget=budget), poison=True)
    model = mlopt.Model(here / f"{name}.onnx", options, inputs=inputs)
    for output, value in model.run(inputs).items():
        np.testing.assert_allclose(value, want[output], rtol=0, atol=1e-4 * np.abs(want[output]).max())
    assert model.memory.arena_bytes <= budget
    assert model.report()["ops"]["scalar_loops"] == 0


# Without a budget: no more than the model takes as imported


def half_precision_network() -> onnx.ModelProto:
    """Two products of f16, of which the first is 512 wide: its sums, in f32, are twice as large as its result."""
    rng = np.random.default_rng(5)
    weights = {
        "w": (rng.standard_normal((128, 512)) / 16).astype(np.float16),
        "v": (rng.standard_normal((512, 128)) / 16).astype(np.float16),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "wide"),
        helper.make_node("Tanh", ["a"], ["b"], "tanh"),
        helper.make_node("MatMul", ["b", "v"], ["y"], "narrow"),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [16, 128])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [16, 128])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_takes_no_more_than_as_imported(tmp_path: Path) -> None:
    """As imported, the two results of 16 KB live at once; sums of f32 for one of them would take 32 KB alone."""
    path = tmp_path / "half.onnx"
    onnx.save(half_precision_network(), path)
    x = np.random.default_rng(6).standard_normal((16, 128)).astype(np.float16)
    arenas: list[int] = []
    for disabled in ((), ("fit-memory",)):
        options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(disabled=disabled), poison=True)
        model = mlopt.compile(path, options=options)
        memory = model.report()["memory"]
        assert memory["imported_max_live_bytes"] == 2 * 16 * 512 * 2
        assert model.executable.engine_scratch_bytes == 0
        arenas.append(memory["arena_bytes"])
        (expected,) = run_model(half_precision_network(), {"x": x})
        np.testing.assert_allclose(model.run({"x": x})["y"], expected, rtol=2e-3, atol=2e-3)
    assert arenas[0] <= 2 * 16 * 512 * 2 < arenas[1]


def test_smaller_workspaces_where_they_cost_less_than_tiles() -> None:
    """8192 bytes made in 8192: fewer of these, or tiles of what is summed up, which take 2000 ns."""
    text = """
      builtin.module attributes {mlopt.imported = {max_live_bytes = 12288 : i64}} {
        func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x128xf32>) -> tensor<16xf32> {
          %a = graph.matmul %x, %w : (tensor<16x64xf32>, tensor<64x128xf32>) -> tensor<16x128xf32>
          %y = graph.reduce_sum %a axes = [1] : (tensor<16x128xf32>) -> tensor<16xf32>
          func.return %y : tensor<16xf32>
        }
      }"""

    def tiles(slope: float) -> int:
        """What is tiled if every byte below 8192 costs `slope` nanoseconds."""
        result = run_passes(text)
        needs = {
            "matmul": ScratchNeed(8192, 8192, lambda size: 1000 + slope * (8192 - size), lambda: 64),
            "matmul_reduce_sum": ScratchNeed(0, 0, lambda size: 3000.0),
        }
        result.context.target = FakeTarget(needs)
        assert FitMemoryPass().run(result.context, result.module) == (slope > 1)
        assert not result.missed()
        return result.count("launches-tiled")

    assert tiles(0.1) == 0
    assert tiles(100.0) == 2


def test_what_fits_in_another_order_with_smaller_workspaces_is_not_cut() -> None:
    """Tiles that are tried first, with large workspaces, lead to 576 bytes and no further; an order takes 512."""
    text = """
      func.func @main(%x: tensor<1x2x3x5xui8>, %w: tensor<3x2x2x3xui8>, %z: tensor<ui8>) -> tensor<1x3x2x4xi32> {
        %0 = graph.cast %x : tensor<1x2x3x5xui8> to tensor<1x2x3x5xf32>
        %1 = graph.cast %w : tensor<3x2x2x3xui8> to tensor<3x2x2x3xf32>
        %2 = graph.cast %z : tensor<ui8> to tensor<f32>
        %3 = graph.sub %1, %2 : (tensor<3x2x2x3xf32>, tensor<f32>) -> tensor<3x2x2x3xf32>
        %4 = graph.conv %0, %3 pads = [0, 1, 0, 0]
            : (tensor<1x2x3x5xf32>, tensor<3x2x2x3xf32>) -> tensor<1x3x2x4xf32>
        %y = graph.cast %4 : tensor<1x3x2x4xf32> to tensor<1x3x2x4xi32>
        func.return %y : tensor<1x3x2x4xi32>
      }"""
    result = run_passes(text)
    attach_engine(result.context)
    assert FitMemoryPass(budget=512).run(result.context, result.module)
    verify_module(result.module)
    assert result.count("orders-changed") == 1 and result.count("launches-tiled") == 0
    assert [str(remark.message).split(",")[0] for remark in result.context.remarks] == [
        "in another order 576 bytes live at once become 512",
        "512 bytes live at once fit into 512",
    ]


def test_the_time_said_is_that_in_all_that_the_budget_leaves() -> None:
    """A product that runs in 64 bytes, and well in 8192, has 4096: not the time in 64."""
    text = """
      func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x128xf32>) -> tensor<16x128xf32> {
        %y = graph.matmul %x, %w : (tensor<16x64xf32>, tensor<64x128xf32>) -> tensor<16x128xf32>
        func.return %y : tensor<16x128xf32>
      }"""
    result = run_passes(text)
    needs = {"matmul": ScratchNeed(8192, 8192, lambda size: 1000 + (8192 - size) / 4.096, lambda: 64)}
    result.context.target = FakeTarget(needs)
    assert not FitMemoryPass(budget=4096).run(result.context, result.module)
    assert result.context.remarks[-1].message == (
        "64 bytes live at once fit into 4096, 8192 did not: +0.0% flops, +100.0% modelled time; "
        "smaller workspaces -8128 bytes for 0 flops and 1 us as modelled"
    )
