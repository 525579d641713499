"""Running a case every way there is: in the reference evaluation, compiled with and without optimisation, from file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

import mlopt
from mlopt.options import CompileOptions
from mlopt.passes.pipelines import PipelineOptions
from tests.frontend.onnx_models import Arrays, assert_close, run_mlopt

__all__ = ["check", "outputs"]


def outputs(model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
    """The outputs of the compiled model."""
    return mlopt.compile(model, inputs=inputs).run(inputs)


def check(model: onnx.ModelProto, inputs: Arrays, want: Mapping[str, np.ndarray], rtol: float = 1e-5) -> None:
    """Every way gives `want`: same names, dtypes, shapes and values."""
    assert_close(run_mlopt(model, inputs), want, rtol)
    plain = CompileOptions(pipeline=PipelineOptions(optimize=False))
    assert_close(mlopt.compile(model, inputs=inputs, options=plain).run(inputs), want, rtol)
    assert_close(outputs(model, inputs), want, rtol)
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(model, path)
        assert_close(mlopt.compile(path, inputs=inputs).run(inputs), want, rtol)
