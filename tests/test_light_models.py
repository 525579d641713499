"""The smallest of the onnx package's architectures; the others are run by `python -m tests.light_models`."""

from __future__ import annotations

import numpy as np

import mlopt
from tests.light_models import TOLERANCE, example, largest_error, light_model


def test_squeezenet() -> None:
    """Its Dropout has a second output, which nothing reads; what comes out is not one number over and over."""
    model = light_model("squeezenet")
    assert any(node.op_type == "Dropout" and len(node.output) == 2 for node in model.graph.node)
    compiled, inputs = mlopt.compile(model), example(model)
    assert largest_error(model, compiled, inputs) <= TOLERANCE
    assert all(len(np.unique(array)) > 500 for array in compiled.run(inputs).values())
