"""A model with recurrent layers, from the file to the outputs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import mlopt
from mlopt.arrays import read_npz
from mlopt.running import traced_peak
from tests.mlir_opt import check_with_mlir_opt

MODEL = Path(__file__).parent / "models" / "bilstm_tagger.onnx"
ARRAYS = MODEL.with_suffix(".npz")


@cache
def compiled() -> mlopt.Model:
    return mlopt.compile(MODEL, inputs=read_npz(ARRAYS, "in"))


@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
def test_outputs_are_those_of_onnxruntime(level: str) -> None:
    """Stored beside the model."""
    inputs, want = read_npz(ARRAYS, "in"), read_npz(ARRAYS, "out")
    options = mlopt.CompileOptions(pipeline_text=level, poison=True)
    got = mlopt.compile(MODEL, options=options, inputs=inputs).run(inputs)
    assert got.keys() == want.keys()
    for name, right in want.items():
        np.testing.assert_allclose(got[name], right, rtol=1e-4, atol=1e-6)


def test_every_layer_and_direction_is_one_loop() -> None:
    """Over steps, in one over chunks of steps."""
    module = compiled().compilation.levels["kernel"]
    assert sum(op.name == "scf.for" for op in module.walk()) == 2 * 4


def test_the_arena_is_no_larger_than_what_the_model_takes_as_imported() -> None:
    """The second layer reads 128 numbers of each step, and its second direction writes its results over them."""
    memory = compiled().report()["memory"]
    assert memory["imported_max_live_bytes"] == 2 * 20 * 2 * 128 * 4
    assert memory["arena_bytes"] <= memory["imported_max_live_bytes"]


def test_no_loop_is_one_of_scalars() -> None:
    assert compiled().executable.scalar_loops == 0
    check_with_mlir_opt(compiled().ir("memref"))


def test_weights_are_read_as_they_are() -> None:
    """No recurrent weight (256 x 64) is transposed or copied into the arena at run time."""
    calls = [line for line in compiled().ir("memref").splitlines() if "func.call" in line]
    assert calls and not any("memref<64x256xf32>" in line for line in calls)


def test_a_run_allocates_nothing_but_the_outputs() -> None:
    assert traced_peak(compiled().executable, read_npz(ARRAYS, "in")) <= 16 << 10
