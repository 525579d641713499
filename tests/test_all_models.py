"""All real models at hand: right numbers, vector code, memory within limits; exported, onnxruntime agrees.

`shared/models` beside this repository has more models than `tests/models`, each with inputs and the outputs that
onnxruntime gave for it. Without that folder these tests are skipped.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import mlopt
from mlopt.arrays import read_npz
from mlopt.compare import compare_all
from mlopt.export import to_onnx
from mlopt.running import traced_peak
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parents[2] / "shared" / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.onnx"))
FP16 = frozenset({"bert_tiny_fp16"})

OF_NO_REUSE, OF_MAX_LIVE = 0.22, 0.85
"""The most that an arena may be, of what the imported model takes without reuse, and has live at a time."""

LARGER_ARENAS = {
    # Two layers of two directions, one of which reads as much as it writes.
    "bilstm_tagger": (0.36, 1.00),
    # A convolution of 258 filters over 4 positions, which are larger than what is read, works in the rest.
    "silero_vad-silero_vad_16k_op15": (0.22, 1.00),
    # Products of f16 are summed in f32, in a workspace, which fills what the model as imported leaves.
    "bert_tiny_fp16": (0.13, 1.00),
    # Between its nodes the model has bytes; here they are f32, as in the model that was quantized.
    "mobilenetv2_035_int8_qdq": (0.10, 0.88),
    # What is live at the peak is the operands and the result of one operation, which has nothing to be fused with.
    "whisper_nano_encoder": (0.08, 0.87),
}
"""Models with other limits, and why."""

every_model = pytest.mark.parametrize(
    "name", NAMES or [pytest.param("", marks=pytest.mark.skip(reason="there is no folder ../shared/models"))]
)


@lru_cache(maxsize=1)
def compiled(name: str) -> mlopt.Model:
    """The model, kept while its tests follow one another."""
    return mlopt.compile(MODELS / f"{name}.onnx", inputs=inputs_of(name))


def inputs_of(name: str) -> dict[str, np.ndarray]:
    return dict(read_npz(MODELS / f"{name}.npz", "in"))


def assert_stored(name: str, got: dict[str, np.ndarray]) -> None:
    """Equal to the stored outputs."""
    rtol = 2e-3 if name in FP16 else 1e-4
    comparisons = compare_all(got, read_npz(MODELS / f"{name}.npz", "out"), rtol=rtol)
    assert comparisons and all(comparison.passed for comparison in comparisons), comparisons


@every_model
def test_a_model_from_the_file_to_onnx_again(name: str) -> None:
    model, inputs = compiled(name), inputs_of(name)
    assert_stored(name, model.run(inputs))
    exported = to_onnx(model.compilation.levels["graph"], model.compilation.ctx.weights)
    onnx.checker.check_model(exported, full_check=True)
    outputs = [output.name for output in exported.graph.output]
    assert_stored(name, dict(zip(outputs, run_model(exported, inputs), strict=True)))


@every_model
def test_memory_and_code_are_within_their_limits(name: str) -> None:
    model = compiled(name)
    assert model.executable.scalar_loops == 0
    assert traced_peak(model.executable, inputs_of(name)) <= 16 << 10
    memory = model.report()["memory"]
    arena, workspace = memory["arena_bytes"], memory["workspace_bytes"]
    of_no_reuse, of_max_live = LARGER_ARENAS.get(name, (OF_NO_REUSE, OF_MAX_LIVE))
    assert arena <= of_no_reuse * memory["imported_no_reuse_bytes"]
    assert arena <= of_max_live * memory["imported_max_live_bytes"]
    assert arena - workspace <= 1.05 * memory["max_live_bytes"]
