"""Whole models, optimised and exported: onnxruntime gives the stored outputs, and so does mlopt on the export."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import mlopt
from mlopt.arrays import read_npz
from mlopt.compare import compare_all
from mlopt.compilation import compile_model, load_model
from mlopt.export import to_onnx
from mlopt.options import CompileOptions
from tests.onnx_oracle import run_model

MODELS = Path(__file__).parents[1] / "models"
STORED = sorted(path.stem for path in MODELS.glob("*.onnx"))


@cache
def exported(name: str) -> onnx.ModelProto:
    """The model after all passes of the graph level."""
    compilation = load_model(MODELS / f"{name}.onnx", CompileOptions(), inputs=inputs_of(name))
    compile_model(compilation, "graph")
    return to_onnx(compilation.module, compilation.ctx.weights)


def inputs_of(name: str) -> dict[str, np.ndarray]:
    return dict(read_npz(MODELS / f"{name}.npz", "in"))


def assert_stored(name: str, got: dict[str, np.ndarray]) -> None:
    """Equal to what onnxruntime gave for the original, within R = 1e-4."""
    comparisons = compare_all(got, read_npz(MODELS / f"{name}.npz", "out"))
    assert comparisons and all(comparison.passed for comparison in comparisons), comparisons


def test_there_are_models() -> None:
    assert len(STORED) >= 9


@pytest.mark.parametrize("name", STORED)
def test_onnxruntime_gives_the_stored_outputs(name: str) -> None:
    model = exported(name)
    onnx.checker.check_model(model, full_check=True)
    names = [output.name for output in model.graph.output]
    assert_stored(name, dict(zip(names, run_model(model, inputs_of(name)), strict=True)))


@pytest.mark.parametrize("name", STORED)
def test_the_interface_is_the_original_s(name: str) -> None:
    original = onnx.load(MODELS / f"{name}.onnx")
    initializers = {tensor.name for tensor in original.graph.initializer}
    model = exported(name)
    assert [value.name for value in model.graph.input] == [
        value.name for value in original.graph.input if value.name not in initializers
    ]
    for found, wanted in zip(model.graph.output, original.graph.output, strict=True):
        assert found.name == wanted.name
        assert found.type.tensor_type.elem_type == wanted.type.tensor_type.elem_type


@pytest.mark.parametrize("name", STORED)
def test_the_export_compiles_to_the_same_outputs(name: str) -> None:
    model = mlopt.compile(exported(name))
    assert_stored(name, model.run(inputs_of(name)))
