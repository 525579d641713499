"""Models as onnxruntime's own optimisers and quantisers write them: the same numbers as onnxruntime gives for them.

They are made here, from the models in `tests/models`; what operators they have depends on the version of onnxruntime,
so each test names those that it is about, and would fail if they were not there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static

import mlopt
from tests.frontend.onnx_models import assert_close
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parents[2] / "models"
LEVELS = onnxruntime.GraphOptimizationLevel


def inputs(name: str) -> dict[str, np.ndarray]:
    with np.load(MODELS / f"{name}.npz") as file:
        return {key.removeprefix("in:"): file[key] for key in file if key.startswith("in:")}


def optimised(source: Path, target: Path, level: LEVELS = LEVELS.ORT_ENABLE_EXTENDED) -> Path:
    """The model as onnxruntime would run it at that level."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return target


def dynamically_quantized(source: Path, target: Path) -> Path:
    quantize_dynamic(source, target)
    return target


class Once(CalibrationDataReader):
    """One example to calibrate with."""

    def __init__(self, example: dict[str, np.ndarray]):
        self.examples: Iterator[dict[str, np.ndarray]] = iter([example])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.examples, None)


def statically_quantized(source: Path, target: Path) -> Path:
    quantize_static(source, target, Once(inputs(source.stem)), quant_format=QuantFormat.QOperator)
    return target


def folded_and_quantized(source: Path, target: Path) -> Path:
    """The weights of recurrent operators are constants only after the first level."""
    folded = optimised(source, target.with_suffix(".folded.onnx"), LEVELS.ORT_ENABLE_BASIC)
    return dynamically_quantized(folded, target)


def quantized_and_optimised(source: Path, target: Path) -> Path:
    return optimised(dynamically_quantized(source, target.with_suffix(".quantized.onnx")), target)


@pytest.mark.parametrize(
    ("name", "produce", "operators"),
    [
        ("bert_tiny_dyn", optimised, {"FusedMatMul", "SkipLayerNormalization", "FusedGemm"}),
        ("clip_tiny_dyn", optimised, {"QuickGelu"}),
        ("gpt2_tiny_prefill_dyn", optimised, {"FastGelu"}),
        ("resnet18s_dyn", optimised, {"FusedConv"}),
        ("bert_tiny_dyn", quantized_and_optimised, {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"}),
        ("bilstm_tagger", folded_and_quantized, {"DynamicQuantizeLSTM"}),
        (
            "gpt2_tiny_prefill_dyn",
            statically_quantized,
            {"QLinearAdd", "QLinearMul", "QGemm", "QLinearSoftmax"},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_models_of_onnxruntime(
    tmp_path: Path, name: str, produce: Callable[[Path, Path], Path], operators: set[str]
):
    logging.disable(logging.WARNING)
    try:
        path = produce(MODELS / f"{name}.onnx", tmp_path / f"{name}.onnx")
    finally:
        logging.disable(logging.NOTSET)
    proto, given = onnx.load(path), inputs(name)
    assert operators <= {node.op_type for node in proto.graph.node if node.domain == "com.microsoft"}
    got = mlopt.compile(path, inputs=given).run(given)
    assert_close(got, dict(zip(got, run_model(proto, given), strict=True)), rtol=1e-4)
