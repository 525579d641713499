"""ConvTranspose and Col2Im at all levels, against onnxruntime and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlopt.diagnostics import InputError
from mlopt.dialects.graph import Window
from mlopt.passes.convert_graph_to_kernel.transposed import phases
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import one_node, run_mlopt

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "1 dimension": ((2, 3, 5), (3, 2, 3), {}),
    "3 dimensions": ((1, 2, 3, 2, 4), (2, 3, 2, 1, 3), {"strides": [2, 1, 3]}),
    "kernel of the stride": ((1, 4, 3, 4), (4, 2, 2, 2), {"strides": [2, 2]}),
    "kernel below the stride": ((1, 2, 3, 4), (2, 2, 1, 2), {"strides": [3, 3]}),
    "strides and dilations": ((1, 2, 4, 3), (2, 2, 3, 3), {"strides": [2, 4], "dilations": [3, 2]}),
    "pads": ((1, 2, 5, 4), (2, 2, 4, 3), {"strides": [2, 3], "pads": [1, 2, 3, 0]}),
    "groups": ((1, 4, 3, 3), (4, 3, 2, 2), {"strides": [2, 1], "group": 2}),
    "depthwise": ((1, 4, 3, 3), (4, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 4}),
    "one element": ((1, 2, 1, 1), (2, 3, 3, 2), {"strides": [2, 2]}),
    "output padding": ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 3], "output_padding": [1, 2]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    shape, weight, attributes = CONVOLUTIONS[name]
    features = weight[1] * attributes.get("group", 1)
    inputs = {"x": normal(*shape), "w": normal(*weight), "b": normal(features)}
    model = one_node("ConvTranspose", inputs, opset=11, **attributes)
    check_all_levels(model, inputs, mlir=name in ("strides and dilations", "groups"))


def test_half_precision_is_summed_in_f32_by_hand() -> None:
    """2048 + 1 is no number in f16; the sum of four products is 2052."""
    x = np.array([[[2048], [1], [1], [2]]], np.float16)
    inputs = {"x": x, "w": np.ones((4, 1, 1), np.float16)}
    model = one_node("ConvTranspose", inputs, opset=11)
    check_all_levels(model, inputs, {"y0": np.array([[[2052]]], np.float16)}, mlir=False)


def test_infinity_stays_where_its_window_is() -> None:
    """Positions that an element does not reach read no 0 times infinity."""
    inputs = {"x": np.array([[[1, np.inf, 2]]], np.float32), "w": np.ones((1, 1, 2), np.float32)}
    model = one_node("ConvTranspose", inputs, opset=11, strides=[2])
    want = np.array([[[1, 1, np.inf, np.inf, 2, 2]]], np.float32)
    check_all_levels(model, inputs, {"y0": want}, mlir=False)


def test_an_output_that_is_larger_is_filled_up_by_hand() -> None:
    inputs = {"x": np.array([[[1, 2]]], np.float32), "w": np.array([[[1, 3]]], np.float32)}
    model = one_node("ConvTranspose", inputs, opset=11, output_shape=[5])
    check_all_levels(model, inputs, {"y0": np.array([[[1, 5, 6, 0, 0]]], np.float32)}, mlir=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.float64])
def test_columns_by_hand(dtype: type) -> None:
    """Windows of 2 at positions 0, 2, 4 less one of padding: the first tap of the first window is cut off."""
    x = np.array([[[1, 2, 3], [10, 20, 30]]], dtype)
    constants = {"i": np.array([4]), "k": np.array([2])}
    model = one_node("Col2Im", {"x": x}, constants, strides=[2], pads=[1, 1])
    check_all_levels(model, {"x": x}, {"y0": np.array([[[10, 2, 20, 3]]], dtype)})


def test_columns_overlap_in_four_dimensions() -> None:
    x = np.ones((1, 16, 1), np.float32)
    constants = {"i": np.array([2, 2, 2, 2]), "k": np.array([2, 2, 2, 2])}
    want = {"y0": np.ones((1, 1, 2, 2, 2, 2), np.float32)}
    check_all_levels(one_node("Col2Im", {"x": x}, constants), {"x": x}, want, mlir=False)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"auto_pad": "SAME"}, 'expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, found "SAME"'),
        ({"kernel_shape": [3]}, r"expected kernel_shape \[2\] as the weight has it, found \[3\]"),
        ({"output_shape": [3, 3]}, r"expected 1 numbers of 0 or more as the output_shape, found \[3, 3\]"),
    ],
)
def test_errors(attributes: dict[str, Any], message: str) -> None:
    inputs = {"x": normal(1, 1, 3), "w": normal(1, 1, 2)}
    with pytest.raises(InputError, match=message):
        run_mlopt(one_node("ConvTranspose", inputs, opset=11, **attributes), inputs)


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("low", [0, 1, 5])
def test_phases_pair_each_tap_with_the_positions_it_reaches(stride: int, dilation: int, low: int) -> None:
    """By the definition: element `i` meets tap `k` at position `stride * i + dilation * k - low`."""
    window = Window((5,), (stride,), (low,), (0,), (dilation,))
    found = {
        (phase.first + phase.stride * j, phase.tap + phase.tap_step * t, j + phase.start - phase.step * t)
        for phase in phases(window, 0, 23)
        for j in range(phase.count)
        for t in range(phase.taps)
    }
    positions = range(-50, 50)
    want = {
        (o, k, i) for i in positions for k in range(5) if 0 <= (o := stride * i + dilation * k - low) < 23
    }
    assert found == want
