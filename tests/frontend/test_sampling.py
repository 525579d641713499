"""GridSample, RoiAlign and DeformConv at all levels, against onnxruntime and by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlopt
from mlopt.diagnostics import InputError, RunError
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import one_node, run_mlopt

RNG = np.random.default_rng(11)
IMAGE = RNG.standard_normal((2, 3, 5, 4)).astype(np.float32)
GRID = RNG.uniform(-1.7, 1.7, (2, 3, 6, 2)).astype(np.float32)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grids(mode: str, padding: str, align_corners: int) -> None:
    inputs = {"x": IMAGE, "g": GRID}
    model = one_node(
        "GridSample", inputs, opset=20, mode=mode, padding_mode=padding, align_corners=align_corners
    )
    check_all_levels(model, inputs, mlir=mode == "linear" and padding == "zeros")


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_volumes(mode: str, padding: str) -> None:
    inputs = {
        "x": RNG.standard_normal((1, 2, 3, 4, 5)).astype(np.float32),
        "g": RNG.uniform(-2, 2, (1, 2, 3, 2, 3)).astype(np.float32),
    }
    check_all_levels(
        one_node("GridSample", inputs, opset=20, mode=mode, padding_mode=padding), inputs, mlir=False
    )


@pytest.mark.parametrize("channels", [1, 8])
def test_one_element_and_one_position(channels: int) -> None:
    inputs = {"x": RNG.standard_normal((1, channels, 1, 1)).astype(np.float32), "g": GRID[:1, :1, :1]}
    check_all_levels(one_node("GridSample", inputs, opset=16), inputs, mlir=False)


def test_coordinates_far_outside_by_hand() -> None:
    """There is 0, or the nearest element of the border."""
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    g = np.array([[[[1e30, -0.5], [np.inf, 0.5], [-1e9, -1e9], [0.5, -np.inf]]]], np.float32)
    for padding, want in (("zeros", [0, 0, 0, 0]), ("border", [2, 4, 1, 2])):
        model = one_node("GridSample", {"x": x, "g": g}, opset=20, mode="nearest", padding_mode=padding)
        check_all_levels(model, {"x": x, "g": g}, {"y0": np.array([[[want]]], np.float32)}, mlir=False)


def test_what_is_outside_is_not_read() -> None:
    """Infinity at the corner stays out of positions beyond it."""
    x = np.array([[[[np.inf, 1], [1, 1]]]], np.float32)
    inputs = {"x": x, "g": np.array([[[[0.5, 0.5], [3, 3], [-3, -3], [0, 0]]]], np.float32)}
    check_all_levels(one_node("GridSample", inputs, opset=16, mode="bilinear"), inputs, mlir=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_element_types(dtype: type) -> None:
    """Half precision is computed in f32 and rounded once."""
    x, g = IMAGE.astype(dtype), GRID.astype(dtype)
    model = one_node("GridSample", {"x": x, "g": g}, opset=22, mode="linear")
    if dtype is np.float64:
        check_all_levels(model, {"x": x, "g": g}, rtol=1e-12, mlir=False)
        return
    wide = {"x": x.astype(np.float32), "g": g.astype(np.float32)}
    want = run_mlopt(one_node("GridSample", wide, opset=20, mode="linear"), wide)["y0"].astype(dtype)
    check_all_levels(model, {"x": x, "g": g}, {"y0": want}, mlir=False)


def test_integers_by_hand() -> None:
    x = np.array([[[[10, 20], [30, 41]]]], np.uint8)
    g = np.array([[[[0, 0], [-0.5, 0.5]]]], np.float32)
    for mode, want in (("nearest", [10, 30]), ("linear", [25, 30])):
        model = one_node("GridSample", {"x": x, "g": g}, opset=20, mode=mode)
        check_all_levels(model, {"x": x, "g": g}, {"y0": np.array([[[want]]], np.uint8)}, mlir=False)


REGIONS = np.array([[0, 0, 3, 4], [-2, -1, 1.5, 2], [1, 1, 1, 1], [2, 3, 9, 12]], np.float32)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [1, 3])
def test_regions(mode: str, ratio: int, coordinates: str) -> None:
    inputs = {"x": IMAGE, "r": REGIONS, "b": np.array([1, 0, 1, 0])}
    model = one_node(
        "RoiAlign", inputs, opset=16, mode=mode, sampling_ratio=ratio, output_height=2, output_width=3,
        spatial_scale=0.75, coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    check_all_levels(model, inputs, mlir=ratio == 1 and mode == "avg")


def test_regions_of_half_precision() -> None:
    inputs = {"x": IMAGE.astype(np.float16), "r": REGIONS.astype(np.float16), "b": np.array([1, 0, 1, 0])}
    wide = {**inputs, "x": inputs["x"].astype(np.float32), "r": inputs["r"].astype(np.float32)}
    options: dict[str, Any] = {"sampling_ratio": 2, "output_height": 2, "output_width": 2, "opset": 16}
    want = run_mlopt(one_node("RoiAlign", wide, **options), wide)["y0"].astype(np.float16)
    check_all_levels(one_node("RoiAlign", inputs, **options), inputs, {"y0": want}, mlir=False)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_as_many_points_as_bins_are_long(mode: str, coordinates: str) -> None:
    """The default; the last region is far larger than the image."""
    regions = np.concatenate([REGIONS, np.array([[-700, -9, 900, 30]], np.float32)])
    inputs = {"x": IMAGE, "r": regions, "b": np.array([1, 0, 1, 0, 1])}
    model = one_node(
        "RoiAlign", inputs, opset=16, mode=mode, output_height=2, output_width=3,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    check_all_levels(model, inputs, mlir=mode == "avg")


def test_regions_turned_around_are_empty_by_hand() -> None:
    inputs = {"x": IMAGE, "r": np.array([[3, 3, 1, 1]], np.float32), "b": np.array([0])}
    want = {"y0": np.zeros((1, 3, 1, 1), np.float32)}
    check_all_levels(one_node("RoiAlign", inputs, opset=16), inputs, want, mlir=False)


def test_a_region_of_an_image_that_is_not_there_is_an_error() -> None:
    inputs = {"x": IMAGE, "r": REGIONS[:1], "b": np.array([2])}
    model = mlopt.compile(one_node("RoiAlign", inputs, opset=16))
    with pytest.raises(RunError, match="batch index 2 is out of bounds for 2 images"):
        model.run(inputs)


@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2), (2, 4)], ids=str)
@pytest.mark.parametrize("has_mask", [False, True])
def test_deformed_convolutions(groups: tuple[int, int], has_mask: bool) -> None:
    group, offset_group = groups
    x, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((1, 4, 6, 5), (4, 4 // group, 2, 3)))
    offset, mask = (RNG.standard_normal((1, offset_group * n, 3, 5)).astype(np.float32) for n in (12, 6))
    inputs = {"x": x, "w": w, "o": offset, "b": RNG.standard_normal(4).astype(np.float32)}
    if has_mask:
        inputs["m"] = mask
    model = one_node(
        "DeformConv",
        inputs,
        opset=19,
        group=group,
        offset_group=offset_group,
        strides=[2, 1],
        pads=[0, 1, 1, 1],
    )
    check_all_levels(model, inputs, mlir=groups == (2, 4) and has_mask)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_deformed_convolutions_of_other_types(dtype: type) -> None:
    """Without offsets it is a convolution: onnxruntime's Conv."""
    x, w = (RNG.standard_normal(shape).astype(dtype) for shape in ((2, 2, 5, 4), (3, 2, 2, 2)))
    inputs = {"x": x, "w": w, "o": np.zeros((2, 8, 4, 3), dtype)}
    wide = {"x": x.astype(np.float32), "w": w.astype(np.float32)}
    want = run_mlopt(one_node("Conv", wide, opset=19), wide)["y0"].astype(dtype)
    model = one_node("DeformConv", inputs, opset=19)
    check_all_levels(model, inputs, {"y0": want}, rtol=2e-3 if dtype is np.float16 else 1e-6, mlir=False)


def test_errors() -> None:
    inputs = {"x": IMAGE, "g": GRID}
    with pytest.raises(InputError, match=r'expected mode to be one of .*, found "area"'):
        run_mlopt(one_node("GridSample", inputs, opset=20, mode="area"), inputs)
    volume = {"x": np.zeros((1, 1, 3, 3, 3), np.float32), "w": np.zeros((1, 1, 1, 1, 1), np.float32)}
    volume["o"] = np.zeros((1, 3, 3, 3, 3), np.float32)
    with pytest.raises(InputError, match="expected an input of rank 4"):
        run_mlopt(one_node("DeformConv", volume, opset=19), volume)
