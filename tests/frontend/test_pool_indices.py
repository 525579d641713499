"""MaxPool with the positions of the largest elements, and MaxUnpool, at all levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlopt.diagnostics import InputError
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import one_node, run_mlopt

RNG = np.random.default_rng(13)

POOLS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "1 dimension": ((2, 2, 7), {"kernel_shape": [3], "strides": [2]}),
    "padded": ((2, 3, 5, 4), {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]}),
    "dilated": ((1, 2, 7, 6), {"kernel_shape": [2, 3], "dilations": [3, 2]}),
    "beyond the end": ((1, 2, 6, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "3 dimensions": ((1, 2, 3, 4, 5), {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2]}),
}


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_indices(name: str, storage_order: int) -> None:
    """Small whole numbers, so that many are equal: the first one counts."""
    shape, attributes = POOLS[name]
    inputs = {"x": RNG.integers(-3, 3, shape).astype(np.float32)}
    model = one_node("MaxPool", inputs, outputs=2, opset=12, storage_order=storage_order, **attributes)
    check_all_levels(model, inputs, mlir=name == "padded")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64])
def test_element_types(dtype: type) -> None:
    inputs = {"x": RNG.integers(0, 5, (1, 2, 4, 4)).astype(dtype)}
    check_all_levels(
        one_node("MaxPool", inputs, outputs=2, opset=12, kernel_shape=[2, 2]), inputs, mlir=False
    )


def test_the_lowest_number_and_nan_by_hand() -> None:
    """Padding has no position, even where all elements are as low as it is; of NaNs the first counts."""
    x = np.array([[[-np.inf, -np.inf, 1, np.nan, 2, np.nan]]], np.float32)
    model = one_node("MaxPool", {"x": x}, outputs=2, opset=12, kernel_shape=[3], strides=[3], pads=[1, 0])
    want = {"y0": np.array([[[-np.inf, np.nan]]], np.float32), "y1": np.array([[[0, 3]]])}
    check_all_levels(model, {"x": x}, want, mlir=False)


def test_unpooling_is_the_inverse() -> None:
    x = RNG.standard_normal((1, 2, 4, 6)).astype(np.float32)
    options: dict[str, Any] = {"kernel_shape": [2, 3], "strides": [2, 3]}
    pooled = run_mlopt(one_node("MaxPool", {"x": x}, outputs=2, opset=12, **options), {"x": x})
    inputs = {"x": pooled["y0"], "i": pooled["y1"]}
    want = np.where(np.isin(np.arange(x.size).reshape(x.shape), pooled["y1"]), x, 0)
    check_all_levels(one_node("MaxUnpool", inputs, opset=11, **options), inputs, {"y0": want})


@pytest.mark.parametrize(("size", "want"), [(5, [0, 1, 0, 2, 0]), (3, [0, 1, 0])])
def test_an_output_shape_fills_up_or_cuts_by_hand(size: int, want: list[float]) -> None:
    inputs = {"x": np.array([[[1, 2]]], np.float32), "i": np.array([[[1, 3]]])}
    model = one_node(
        "MaxUnpool", inputs, {"s": np.array([1, 1, size])}, opset=11, kernel_shape=[2], strides=[2]
    )
    check_all_levels(model, inputs, {"y0": np.array([[want]], np.float32)}, mlir=False)


def test_errors() -> None:
    inputs = {"x": np.zeros((1, 1, 2), np.float32), "i": np.zeros((1, 1, 3), np.int64)}
    with pytest.raises(InputError, match="expected an input of rank 3 and indices of its shape"):
        run_mlopt(one_node("MaxUnpool", inputs, opset=11, kernel_shape=[2]), inputs)
