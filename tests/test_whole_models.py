"""Whole models, from the file to the outputs: right numbers; memory, kernels and allocations within their limits."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mlopt
from examples.multimodal import make_model
from mlopt.arrays import read_npz
from mlopt.cli.main import main
from mlopt.compare import compare_all
from mlopt.interpreter.memref import Executable
from mlopt.running import seeded_inputs, traced_peak
from tests.frontend.onnx_models import model_of
from tests.mlir_opt import check_with_mlir_opt
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parent / "models"
STORED = (
    "bert_tiny_dyn",
    "clip_tiny_dyn",
    "convnext_atto",
    "gpt2_tiny_prefill_dyn",
    "llava_concat_tiny_prefill",
    "mobilenetv2_035",
    "resnet18s_dyn",
    "resnet18s_legacy17",
    "vit_tiny_dyn",
)
NAMES = (*STORED, "multimodal")

CONFIG = make_model.read_config(Path(make_model.__file__).with_name("config.json"))


@cache
def compiled(name: str) -> mlopt.Model:
    """The model, optimised, loaded once for all tests of this file."""
    if name in STORED:
        return mlopt.compile(MODELS / f"{name}.onnx", inputs=read_npz(MODELS / f"{name}.npz", "in"))
    return mlopt.compile(make_model.build(CONFIG))


def inputs_of(name: str) -> Mapping[str, np.ndarray]:
    if name in STORED:
        return read_npz(MODELS / f"{name}.npz", "in")
    return seeded_inputs(compiled(name).executable)


@pytest.mark.parametrize("name", STORED)
def test_outputs_are_those_of_onnxruntime(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stored beside the model; compared at the default tolerance, by the command itself."""
    model, arrays, report = MODELS / f"{name}.onnx", MODELS / f"{name}.npz", tmp_path / "r.json"
    arguments = ["--inputs", str(arrays), "--check", str(arrays), "--report", str(report)]
    assert main(["run", str(model), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(read_npz(arrays, "out")) and all(line.endswith(": ok") for line in lines)
    check = json.loads(report.read_text())["check"]
    assert check["max_rel_error"] <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_optimised_and_as_imported_agree(name: str) -> None:
    plain = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=False, memory_reuse="none"))
    source = MODELS / f"{name}.onnx" if name in STORED else make_model.build(CONFIG)
    inputs = inputs_of(name)
    want = mlopt.compile(source, options=plain, inputs=inputs).run(inputs)
    comparisons = compare_all(compiled(name).run(inputs), want)
    assert len(comparisons) == len(want)
    assert all(comparison.passed for comparison in comparisons), comparisons


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_within_its_limits(name: str) -> None:
    memory: dict[str, Any] = compiled(name).report()["memory"]
    arena = memory["arena_bytes"]
    assert arena <= 0.25 * memory["imported_no_reuse_bytes"]
    assert arena <= 0.85 * memory["imported_max_live_bytes"]
    assert arena - memory["workspace_bytes"] <= 1.05 * memory["max_live_bytes"]
    # What the engine holds beside the arena are tables of indices.
    assert memory["engine_scratch_bytes"] <= 4096


@pytest.mark.parametrize("name", NAMES)
def test_a_run_allocates_nothing_but_the_outputs(name: str) -> None:
    assert traced_peak(compiled(name).executable, inputs_of(name)) <= 16 << 10


@pytest.mark.parametrize("name", NAMES)
def test_no_operand_of_a_matrix_product_is_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy copies operands without a unit inner stride with malloc, which tracemalloc does not see.

    So the arrays of every `np.matmul` call of a run are looked at.
    """
    seen: list[tuple[np.ndarray, ...]] = []
    matmul = np.matmul

    def spy(*arrays: np.ndarray) -> np.ndarray:
        seen.append(arrays)
        return matmul(*arrays)

    # A plan binds the function, so the model is loaded while the spy stands in for it.
    monkeypatch.setattr(np, "matmul", spy)
    compilation = compiled(name).compilation
    Executable(compilation.module, compilation.ctx.weights).run(inputs_of(name))
    assert seen
    for arrays in seen:
        assert len(arrays) == 3  # an output to write into, so that none is made
        assert not any(np.may_share_memory(arrays[2], operand) for operand in arrays[:2])
        assert all(map(has_unit_stride, arrays)), [(array.shape, array.strides) for array in arrays]


def has_unit_stride(array: np.ndarray) -> bool:
    """Whether BLAS takes the array, or each matrix of it, as it lies: rows or columns are contiguous and disjoint."""
    item = array.itemsize
    if array.ndim < 2:
        return array.strides in ((), (item,))
    (row, column), (rows, columns) = array.strides[-2:], array.shape[-2:]
    return (column == item and row >= columns * item) or (row == item and column >= rows * item)


@pytest.mark.parametrize("name", NAMES)
def test_no_loop_runs_as_scalar_code(name: str) -> None:
    assert compiled(name).report()["ops"]["scalar_loops"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_mlir_opt_accepts_the_memref_level(name: str) -> None:
    check_with_mlir_opt(compiled(name).ir("memref"))


@pytest.mark.parametrize("name", NAMES)
def test_dead_memory_is_not_read(name: str) -> None:
    inputs = inputs_of(name)
    want = compiled(name).run(inputs)
    compilation = compiled(name).compilation
    poisoned = Executable(compilation.module, compilation.ctx.weights, poison=True)
    for output, array in poisoned.run(inputs).items():
        np.testing.assert_array_equal(array, want[output])


def test_equal_layers_share_their_kernels() -> None:
    """A text encoder of 12 layers has as many kernel functions as one of 2, and six times the launches per layer."""
    figures: dict[int, dict[str, Any]] = {}
    for layers in (2, 12):
        config = copy.deepcopy(CONFIG)
        config["model"]["num_text_layers"] = layers
        figures[layers] = mlopt.compile(make_model.build(config)).report()["ops"]
    assert figures[2]["kernel_functions"] == figures[12]["kernel_functions"]
    assert figures[12]["kernel_launches"] == figures[2]["kernel_launches"] + 10


RUN_IN_A_PROCESS = """
import re, sys
from pathlib import Path
import numpy as np
import mlopt

def resident(field):
    return 1024 * int(re.search(field + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

rows = int(sys.argv[2])
model = mlopt.compile(sys.argv[1], dims={"rows": rows})
x = np.ones((rows, 1024), np.float32)
out = {spec.name: np.ones(spec.shape, spec.dtype) for spec in model.outputs}
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
before = resident("VmRSS")
model.run({"x": x}, out)
print(resident("VmHWM") - before, model.memory.arena_bytes, x.nbytes)
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="asks Linux for the peak of resident memory"
)
def test_a_run_takes_the_memory_that_was_planned(tmp_path: Path) -> None:
    """What a run adds to the resident memory of its process is about the arena; a tensor takes 48 MiB here."""
    operations = [("Softmax", "x", "a"), ("Softmax", "a", "b"), ("Softmax", "b", "c"), ("Mul", "a c", "y")]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", 1024])
    nodes = [onnx.helper.make_node(op, source.split(), [target]) for op, source, target in operations]
    onnx.save(model_of(nodes, [x], ["y"]), tmp_path / "m.onnx")
    arguments = [sys.executable, "-c", RUN_IN_A_PROCESS, str(tmp_path / "m.onnx"), str(12 << 10)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=True)
    added, arena, tensor = map(int, done.stdout.split())
    assert arena >= tensor == 48 << 20
    assert added <= arena + (4 << 20)


def test_the_example_gives_what_onnxruntime_gives() -> None:
    """Optimisation off there, and tokens from the whole vocabulary here: seeded inputs take only the first two."""
    proto = make_model.build(CONFIG)
    generator = np.random.default_rng(3)
    inputs = {
        "image": generator.standard_normal((3, 224, 224)).astype(np.float32),
        "tokens": generator.integers(0, make_model.VOCABULARY, 77),
    }
    (want,) = run_model(proto, inputs)
    (comparison,) = compare_all(compiled("multimodal").run(inputs), {"logits": want})
    assert comparison.passed, comparison
