"""A model that spills: its figures, the memory it takes and is lent, and plans of two memory spaces that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlopt
from mlopt.diagnostics import VerifyFailure
from mlopt.ir import make_context, parse_module
from mlopt.passes.memref.verify_plan import verify_plan
from mlopt.visual.planned import memory_plan, spill_plan
from tests.mlir_opt import check_with_mlir_opt
from tests.test_arena import aligned

PRODUCTS = """
  func.func @main(%x: tensor<1x256xf32>, %u: tensor<256x256xf32>) -> tensor<1x1xf32> {
    %c1 = graph.matmul %x, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %c2 = graph.matmul %c1, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %c3 = graph.matmul %c2, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %c4 = graph.matmul %c3, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %c5 = graph.matmul %c4, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %a = graph.matmul %c5, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %p = graph.matmul %a, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %q = graph.matmul %p, %u : (tensor<1x256xf32>, tensor<256x256xf32>) -> tensor<1x256xf32>
    %t = graph.reshape %a : tensor<1x256xf32> to tensor<256x1xf32>
    %y = graph.matmul %q, %t : (tensor<1x256xf32>, tensor<256x1xf32>) -> tensor<1x1xf32>
    func.return %y : tensor<1x1xf32>
  }
"""
"""Of 3072 bytes live at once 1024 are those of %a, which the last product reads, and which is far to be made again."""

U = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32) / 16
X = np.random.default_rng(1).standard_normal((1, 256)).astype(np.float32)
INPUTS = {"x": X, "u": U}
A = X @ U @ U @ U @ U @ U @ U
RIGHT = (A @ U @ U) @ A.T


def spilling(poison: bool = False) -> mlopt.Model:
    pipeline = mlopt.PipelineOptions(optimize=False, memory_budget=2048, spill_budget=1024)
    return mlopt.Model(PRODUCTS, mlopt.CompileOptions(pipeline=pipeline, poison=poison))


@pytest.mark.parametrize("poison", [False, True])
def test_figures_and_numbers(poison: bool) -> None:
    model = spilling(poison)
    (got,) = model.run(INPUTS).values()
    np.testing.assert_allclose(got, RIGHT, rtol=1e-4)
    memory = model.report()["memory"]
    assert (model.arena_bytes, model.spill_bytes) == (2048, 1024)
    assert (memory["arena_bytes"], memory["status"]) == (2048, "optimal (max-live)")
    assert (memory["spill_bytes"], memory["spill_max_live_bytes"]) == (1024, 1024)
    assert (memory["spill_moved_bytes"], memory["spill_status"]) == (2048, "optimal (max-live)")
    module = model.compilation.module
    there = spill_plan(module)
    assert there is not None and [planned.buffer.id for planned in there.buffers] == ["a_spilled"]
    assert memory_plan(module).arena_bytes == 2048
    check_with_mlir_opt(model.ir("memref"))


def test_every_bit_is_that_of_the_run_without_a_budget() -> None:
    free = mlopt.Model(PRODUCTS, mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=False)))
    (want,), (got,) = free.run(INPUTS).values(), spilling(poison=True).run(INPUTS).values()
    assert got.tobytes() == want.tobytes()
    assert (free.arena_bytes, free.spill_bytes) == (3072, 0)
    assert free.memory.spill.arena_bytes == free.report()["memory"]["spill_bytes"] == 0


def test_the_caller_lends_both_memories_or_one() -> None:
    model = spilling(poison=True)
    arena, spill = aligned(2048), aligned(1024 + 64)
    spill[1024:] = 7
    for lent in ({"arena": arena, "spill": spill}, {"spill": spill}, {"arena": arena}, {}):
        arena[:], spill[:1024] = 42, 42
        (got,) = model.run(INPUTS, **lent).values()
        np.testing.assert_allclose(got, RIGHT, rtol=1e-4)
        assert (arena == 42).all() == ("arena" not in lent)
        assert (spill[:1024] == 42).all() == ("spill" not in lent)
        assert (spill[1024:] == 7).all()


def test_lent_memory_that_does_not_do() -> None:
    model = spilling()
    both = aligned(4096)
    for spill, message in (
        (aligned(1000), "the arena of memory space 1 has 1000 bytes, expected at least 1024"),
        (aligned(1024, 8), "the arena of memory space 1 begins 8 bytes after a multiple of 64"),
        (bytes(1024), "expected a writable, contiguous buffer as the arena of memory space 1"),
        (both[1984:], "the arena of memory space 1 overlaps the arena"),
    ):
        with pytest.raises(mlopt.InputError, match=message):
            model.run(INPUTS, arena=both[:2048], spill=spill)
    inside = both[: X.nbytes].view(np.float32).reshape(X.shape)
    with pytest.raises(mlopt.InputError, match='input "x" overlaps the arena of memory space 1'):
        model.run({"x": inside, "u": U}, spill=both)
    (got,) = model.run(INPUTS, arena=both[:2048], spill=both[2048:]).values()
    np.testing.assert_allclose(got, RIGHT, rtol=1e-4)


TWO_SPACES = """
func.func @main(%arena: memref<128xi8> {mlopt.arena}, %spill: memref<128xi8, 1> {mlopt.arena},
                %x: memref<16xf32> {mlopt.input = "x"}, %y: memref<16xf32> {mlopt.output = "y"}) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %a = memref.view %spill[%c0][] : memref<128xi8, 1> to memref<16xf32, 1>
  %b = memref.view %spill[%c64][] : memref<128xi8, 1> to memref<16xf32, 1>
  %c = memref.view %arena[%c0][] : memref<128xi8> to memref<16xf32>
  memref.copy %x, %a : memref<16xf32> to memref<16xf32, 1>
  memref.copy %x, %b : memref<16xf32> to memref<16xf32, 1>
  memref.copy %a, %c : memref<16xf32, 1> to memref<16xf32>
  memref.copy %b, %y : memref<16xf32, 1> to memref<16xf32>
  memref.copy %c, %y : memref<16xf32> to memref<16xf32>
  func.return
}
"""


def verify(text: str) -> None:
    verify_plan(parse_module(text, make_context()))


def test_the_plan_of_each_space_is_verified() -> None:
    """%a and %b live at once, in one memory; %a and %c do, in two."""
    verify(TWO_SPACES)
    with pytest.raises(VerifyFailure, match="overlap"):
        verify(TWO_SPACES.replace("%spill[%c64]", "%spill[%c0]"))
    with pytest.raises(VerifyFailure, match="the memory plan is wrong"):
        verify(TWO_SPACES.replace("<128xi8, 1>", "<127xi8, 1>"))
    with pytest.raises(VerifyFailure, match="expected one arena in each memory space, found 2 in 1"):
        verify(TWO_SPACES.replace(", 1>", ">"))


def test_what_is_spilled_is_poisoned_when_it_is_dead() -> None:
    """What is read after its last use, as the plan has it, is NaN: here a view of the same bytes that nothing wrote."""
    stale = TWO_SPACES.replace("  memref.copy %x, %b : memref<16xf32> to memref<16xf32, 1>\n", "")
    x = np.arange(16, dtype=np.float32)
    options = mlopt.CompileOptions(poison=True)
    np.testing.assert_array_equal(mlopt.Model(TWO_SPACES, options).run({"x": x})["y"], x)
    early = stale.replace("memref.copy %c, %y : memref<16xf32> to memref<16xf32>", "")
    assert np.isnan(mlopt.Model(early, options).run({"x": x})["y"]).all()
    dead = stale.replace("%spill[%c64]", "%spill[%c0]").replace(
        "memref.copy %c, %y : memref<16xf32> to memref<16xf32>", ""
    )
    assert np.isnan(mlopt.Model(dead, options).run({"x": x})["y"]).all()


def test_a_file_that_spills_keeps_to_both_budgets(tmp_path: Path) -> None:
    path = tmp_path / "planned.mlir"
    path.write_text(spilling().ir("memref"))

    def compiled(**budgets: object) -> mlopt.Model:
        pipeline = mlopt.PipelineOptions(**budgets)  # pyright: ignore[reportArgumentType]: two of several options
        return mlopt.Model(path, mlopt.CompileOptions(pipeline=pipeline))

    for budgets in (
        {},
        {"memory_budget": 2048, "spill_budget": "any"},
        {"memory_budget": 2048, "spill_budget": 1024},
    ):
        (got,) = compiled(**budgets).run(INPUTS).values()
        np.testing.assert_allclose(got, RIGHT, rtol=1e-4)
    for spill in (1023, None):
        with pytest.raises(
            mlopt.InputError, match=f"it spills to 1024 bytes, the spill budget is {spill or 0}"
        ):
            compiled(memory_budget=2048, spill_budget=spill)
