"""BatchNormalization and Dropout in training and in old operator sets, by hand: onnxruntime has neither."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from mlopt.diagnostics import InputError, UnsupportedError
from mlopt.frontend.onnx import find_unsupported
from tests.frontend.onnx_models import Arrays, assert_close, model_of, run_mlopt, value_info

RANDOM = np.random.default_rng(11)
X = (RANDOM.standard_normal((2, 3, 4, 5)) * 3 + 2).astype(np.float32)
SCALE, BIAS, MEAN = (RANDOM.standard_normal(3).astype(np.float32) for _ in range(3))
VARIANCE = RANDOM.uniform(0.5, 2, 3).astype(np.float32)


def model(
    op_type: str, *arrays: np.ndarray, outputs: int, opset: int, **attributes: Any
) -> tuple[onnx.ModelProto, Arrays]:
    inputs = {f"x{index}": np.asarray(array) for index, array in enumerate(arrays)}
    names = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, list(inputs), names, "n", **attributes)
    infos = [value_info(*item) for item in inputs.items()]
    return model_of([node], infos, names, opset=opset), inputs


def of_batch(x: np.ndarray, momentum: float, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three outputs as the standard defines them, in f64."""
    wide = x.astype(np.float64)
    axes = (0, *range(2, x.ndim))
    mean, variance = wide.mean(axes), wide.var(axes)
    shape = (3, *[1] * (x.ndim - 2))
    normal = (wide - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + epsilon)
    y = normal * SCALE.reshape(shape) + BIAS.reshape(shape)
    return y, MEAN * momentum + mean * (1 - momentum), VARIANCE * momentum + variance * (1 - momentum)


@pytest.mark.parametrize("opset", [14, 15])
@pytest.mark.parametrize("x", [X, X[..., 0], X[..., 0, 0], X[..., None]], ids=lambda x: f"rank {x.ndim}")
def test_batch_norm_in_training(opset: int, x: np.ndarray) -> None:
    proto, inputs = model(
        *("BatchNormalization", x, SCALE, BIAS, MEAN, VARIANCE),
        outputs=3,
        opset=opset,
        training_mode=1,
        momentum=0.75,
        epsilon=1e-3,
    )
    want = (array.astype(np.float32) for array in of_batch(x, 0.75, 1e-3))
    assert_close(run_mlopt(proto, inputs), dict(zip(("y0", "y1", "y2"), want, strict=True)), rtol=1e-5)


def test_statistics_of_half_precision_are_taken_in_f32() -> None:
    """Squares of 300 are beyond f16; the stored statistics have a type of their own."""
    x = (X * 100).astype(np.float16)
    parameters = [SCALE.astype(np.float16), BIAS.astype(np.float16), MEAN, VARIANCE]
    proto, inputs = model("BatchNormalization", x, *parameters, outputs=3, opset=15, training_mode=1)
    found = run_mlopt(proto, inputs)
    assert [array.dtype for array in found.values()] == [np.float16, np.float32, np.float32]
    y, mean, variance = of_batch(x, 0.9, 1e-5)
    np.testing.assert_allclose(found["y0"].astype(np.float32), y, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(found["y1"], mean, rtol=1e-5)
    np.testing.assert_allclose(found["y2"], variance, rtol=1e-5)


def test_batch_norm_in_training_of_bfloat16() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    parameters = (array.astype(ml_dtypes.bfloat16) for array in (SCALE, BIAS, MEAN, VARIANCE))
    proto, inputs = model("BatchNormalization", x, *parameters, outputs=3, opset=15, training_mode=1)
    found = run_mlopt(proto, inputs)
    y, mean, _ = of_batch(x, 0.9, 1e-5)
    np.testing.assert_allclose(found["y0"].astype(np.float32), y, rtol=3e-2, atol=3e-2)
    np.testing.assert_allclose(found["y1"].astype(np.float32), mean, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("opset", "attributes"),
    [(1, {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}), (6, {"is_test": 1}), (7, {}), (9, {})],
)
def test_batch_norm_at_inference_in_old_operator_sets(opset: int, attributes: dict[str, Any]) -> None:
    operands = (X, SCALE, BIAS, MEAN, VARIANCE)
    proto, inputs = model("BatchNormalization", *operands, outputs=1, opset=opset, **attributes)
    shape = (3, 1, 1)
    normal = (X - MEAN.reshape(shape)) / np.sqrt(VARIANCE.reshape(shape) + 1e-5)
    want = normal * SCALE.reshape(shape) + BIAS.reshape(shape)
    assert_close(run_mlopt(proto, inputs), {"y0": want}, rtol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "count", "outputs", "opset", "reason"),
    [
        # Up to version 13 more outputs than one mean training, whether anything reads them or not.
        ("BatchNormalization", 5, 5, 9, "with the outputs of training"),
        ("BatchNormalization", 5, 5, 13, "with the outputs of training"),
        ("BatchNormalization", 5, 1, 6, "with is_test = 0"),
        ("Dropout", 1, 1, 6, "with is_test = 0"),
    ],
)
def test_what_is_refused(op_type: str, count: int, outputs: int, opset: int, reason: str) -> None:
    operands = (X, SCALE, BIAS, MEAN, VARIANCE)[:count]
    proto, _ = model(op_type, *operands, outputs=outputs, opset=opset)
    del proto.graph.output[1:]
    assert [found.reason for found in find_unsupported(proto)] == [reason]


def test_more_outputs_than_inference_has() -> None:
    proto, inputs = model("BatchNormalization", X, SCALE, BIAS, MEAN, VARIANCE, outputs=3, opset=15)
    with pytest.raises(InputError, match="expected one output without training_mode, found more"):
        run_mlopt(proto, inputs)


@pytest.mark.parametrize(
    ("opset", "attributes"), [(1, {"is_test": 1}), (6, {"is_test": 1}), (7, {}), (10, {})]
)
def test_dropout_in_old_operator_sets(opset: int, attributes: dict[str, Any]) -> None:
    proto, inputs = model("Dropout", X, outputs=1, opset=opset, ratio=0.5, **attributes)
    assert_close(run_mlopt(proto, inputs), {"y0": X})


@pytest.mark.parametrize(("ratio", "training"), [(0.5, False), (0.0, True), (0.0, False)])
def test_dropout_that_drops_nothing(ratio: float, training: bool) -> None:
    operands = (X, np.array(ratio, np.float32), np.array(training))
    proto, inputs = model("Dropout", *operands, outputs=2, opset=13, seed=3)
    assert_close(run_mlopt(proto, inputs), {"y0": X, "y1": np.ones(X.shape, np.bool_)})


@pytest.mark.parametrize("ratio", [None, np.array(0.25, np.float32)])
def test_dropout_that_draws_is_refused(ratio: np.ndarray | None) -> None:
    given = {"x": X, "training": np.array(True)} | ({} if ratio is None else {"ratio": ratio})
    node = helper.make_node(
        "Dropout", ["x", "" if ratio is None else "ratio", "training"], ["y"], "drop", seed=3
    )
    proto = model_of([node], [value_info(*item) for item in given.items()], ["y"], opset=13)
    drawn = "0.5" if ratio is None else "0.25"
    with pytest.raises(UnsupportedError, match=f"training_mode with a ratio of {drawn} draws random numbers"):
        run_mlopt(proto, given)
