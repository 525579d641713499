"""Whole models at the kernel level, against the outputs that onnxruntime gave for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlopt.arrays import read_npz
from mlopt.compare import compare
from mlopt.frontend.onnx import import_model
from mlopt.interpreter import graph as graph_interpreter
from mlopt.interpreter.kernel import evaluate_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passmanager import PassManager, parse_pipeline

MODELS = Path(__file__).parents[2] / "models"
PIPELINE = "builtin.module(fold-constants,canonicalize,cse,dce,convert-graph-to-kernel)"


@pytest.mark.parametrize("passes", [PIPELINE, "builtin.module(convert-graph-to-kernel)"])
@pytest.mark.parametrize("name", ["bert_tiny_dyn", "resnet18s_legacy17"])
def test_model(name: str, passes: str) -> None:
    inputs, outputs = read_npz(MODELS / f"{name}.npz", "in"), read_npz(MODELS / f"{name}.npz", "out")
    context = make_context()
    context.evaluator = graph_interpreter.evaluate
    module = import_model(MODELS / f"{name}.onnx", context, inputs=inputs)
    PassManager(context, parse_pipeline(passes)).run(module)
    verify_module(module)
    found = evaluate_module(module, inputs, context.weights)
    assert found.keys() == outputs.keys()
    for output, want in outputs.items():
        assert compare(output, found[output], want, rtol=1e-4).passed
