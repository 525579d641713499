"""Random graphs: reference evaluation against onnxruntime without optimisation."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, reject, settings
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotInOnnxruntime
from xdsl.ir import Operation

from mlopt.dialects import graph
from mlopt.dialects.graph.base import shape_of
from mlopt.export import to_onnx
from mlopt.interpreter.graph import evaluate_module
from tests.onnx_oracle import run_model
from tests.strategies import GraphCase, graph_modules


@given(graph_modules(max_ops=6, special=False))
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_same_as_onnxruntime(case: GraphCase) -> None:
    assume(not any(is_open_in_onnx(op) for op in case.module.walk()))
    got = evaluate_module(case.module, case.inputs, case.weights)
    for (name, ours), theirs in zip(got.items(), by_onnxruntime(case), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
            continue
        # A pooling window that only covers padding: -inf here, the lowest finite number in onnxruntime.
        theirs = np.where(theirs == np.finfo(np.float32).min, -np.inf, theirs)
        largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=1)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * largest, equal_nan=True, err_msg=name)


def is_open_in_onnx(op: Operation) -> bool:
    """The mean of nothing: undefined in ONNX, 0 in onnxruntime, NaN here."""
    return isinstance(op, graph.ReduceMeanOp) and 0 in shape_of(op.input)


def by_onnxruntime(case: GraphCase) -> list[np.ndarray]:
    """Its outputs. It has no kernel for some types (Where of bools), and some refuse empty tensors: no such cases."""
    model = to_onnx(case.module, case.weights)
    try:
        return run_model(model, case.inputs)
    except NotInOnnxruntime:
        reject()
    except (Fail, InvalidArgument, RuntimeException) as error:
        if "status code returned while running" not in str(error):
            raise
        reject()
