"""Resize at all levels against onnxruntime, where it is right; by hand where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from mlopt.diagnostics import InputError, UnsupportedError
from mlopt.passes.convert_graph_to_kernel.resize import affine_pieces
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import one_node, run_mlopt

RNG = np.random.default_rng(5)
IMAGE = RNG.standard_normal((1, 2, 7, 5)).astype(np.float32)


def resize(
    x: np.ndarray,
    scales: tuple[float, ...] = (),
    sizes: tuple[int, ...] = (),
    roi: tuple[float, ...] = (),
    opset: int = 19,
    **attributes: Any,
) -> onnx.ModelProto:
    constants: dict[str, np.ndarray] = {"roi": np.array(roi, np.float32)}
    operands = ["x", "roi", "", "sizes"] if sizes else ["x", "roi", "scales"]
    constants |= {"sizes": np.array(sizes)} if sizes else {"scales": np.array(scales, np.float32)}
    return one_node("Resize", {"x": x}, constants, operands=operands, opset=opset, **attributes)


@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 0.5, 3), (1, 1, 1.7, 0.6), (1, 1, 1, 4.3)], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(mode: str, scales: tuple[float, ...]) -> None:
    check_all_levels(resize(IMAGE, scales, mode=mode), {"x": IMAGE}, mlir=scales[2] == 1.7)


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
def test_coordinates(coordinates: str, size: int) -> None:
    """From one element and from several, to one and to several."""
    for x in (IMAGE, IMAGE[:, :, :1]):
        model = resize(x, sizes=(1, 2, 3, size), mode="linear", coordinate_transformation_mode=coordinates)
        check_all_levels(model, {"x": x}, mlir=False)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_ties(nearest: str) -> None:
    """At 20 to 6 a coordinate is 14.499999 in f32, which is meant to be a tie."""
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 1, 20)
    check_all_levels(resize(x, sizes=(1, 1, 1, 6), nearest_mode=nearest), {"x": x}, mlir=False)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_crop_has_the_extrapolation_value_outside(mode: str) -> None:
    model = resize(
        IMAGE, (1, 1, 2, 3), mode=mode, roi=(0, 0, -0.2, 0.3, 1, 1, 0.6, 1.4), extrapolation_value=9.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    check_all_levels(model, {"x": IMAGE})


def test_a_crop_at_scale_1_by_hand() -> None:
    """onnxruntime does not crop where the scale is 1; the standard's formula does not depend on the scale."""
    x = np.arange(4, dtype=np.float32)
    model = resize(x, (1,), roi=(0, 0.5), mode="linear", coordinate_transformation_mode="tf_crop_and_resize")
    check_all_levels(model, {"x": x}, {"y0": np.array([0, 0.5, 1, 1.5], np.float32)}, mlir=False)


@pytest.mark.parametrize("opset", [18, 19])
def test_the_length_of_a_scaled_result_by_hand(opset: int) -> None:
    """5 * 0.7 is 3 positions; from operator set 19 on corners are aligned as if there were 3.5."""
    x = np.arange(5, dtype=np.float32)
    model = resize(x, (0.7,), opset=opset, mode="linear", coordinate_transformation_mode="align_corners")
    want = np.arange(3) * 4 / ((3 if opset < 19 else 3.5) - 1)
    check_all_levels(model, {"x": x}, {"y0": want.astype(np.float32)}, mlir=False)


@pytest.mark.parametrize("exclude_outside", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(mode: str, exclude_outside: int) -> None:
    for scales in ((1, 1, 0.5, 0.3), (1, 1, 1.5, 0.4)):
        model = resize(IMAGE, scales, mode=mode, antialias=1, exclude_outside=exclude_outside)
        check_all_levels(model, {"x": IMAGE}, mlir=False)


@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.float16])
def test_element_types(dtype: type, antialias: int) -> None:
    """Negative int8 without antialias only: there onnxruntime makes them 0."""
    x = (RNG.uniform(-100 if not antialias else 0, 100, (1, 2, 9, 8))).astype(dtype)
    model = resize(x, (1, 1, 0.5, 0.75), mode="linear", antialias=antialias)
    check_all_levels(model, {"x": x}, mlir=False, rtol=1e-3)


def test_integers_are_cubic_by_hand() -> None:
    """Weights -3/32, 19/32, 19/32, -3/32 overshoot: 2 rounds from 1.78; -4.5 and 259.5 are out of range."""
    x = np.array([[0, 0, 3, 3, 0, 0, 255, 255]], np.uint8)
    model = resize(x, (1, 2), mode="cubic", cubic_coeff_a=-0.75)
    wide = run_mlopt(resize(x.astype(np.float32), (1, 2), mode="cubic", cubic_coeff_a=-0.75), {
        "x": x.astype(np.float32)
    })["y0"]  # fmt: skip
    assert wide.min() < 0 and wide.max() > 255
    check_all_levels(model, {"x": x}, {"y0": np.clip(np.rint(wide), 0, 255).astype(np.uint8)}, mlir=False)


def test_nan_and_infinity_reach_their_neighbours_only() -> None:
    x = IMAGE.copy()
    x[0, 0, 3, 2], x[0, 1, 1, 1] = np.nan, np.inf
    for scales in ((1, 1, 2, 2), (1, 1, 1.3, 0.7)):
        check_all_levels(resize(x, scales, mode="linear"), {"x": x}, mlir=False)


def test_f64_is_computed_in_f64() -> None:
    x = np.array([1.0, 1.0 + 1e-12])
    want = 1 + np.array([0, 0.25, 0.75, 1]) * 1e-12
    check_all_levels(resize(x, (2,), mode="linear"), {"x": x}, {"y0": want}, rtol=1e-15, mlir=False)


def test_nothing_is_resized() -> None:
    x = np.zeros((2, 0, 3), np.float32)
    check_all_levels(
        resize(x, (1, 1, 2), mode="linear"), {"x": x}, {"y0": np.zeros((2, 0, 6), np.float32)}, mlir=False
    )
    check_all_levels(resize(IMAGE, (1, 1, 1, 1), mode="cubic"), {"x": IMAGE}, {"y0": IMAGE}, mlir=False)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    ("shape", "scales"), [((1, 2, 1, 3), (1, 1, 0.5, 1.5)), ((1, 2, 0, 3), (1, 1, 2, 2))]
)
def test_nothing_is_left(mode: str, shape: tuple[int, ...], scales: tuple[float, ...]) -> None:
    x = np.ones(shape, np.float32)
    want = np.empty([int(size * scale) for size, scale in zip(shape, scales, strict=True)], np.float32)
    assert want.size == 0
    check_all_levels(resize(x, scales, mode=mode), {"x": x}, {"y0": want}, mlir=False)


def test_old_scales_below_1_take_the_next_element() -> None:
    """As onnxruntime reads operator set 10."""
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5, 1)
    model = one_node("Resize", {"x": x}, {"s": np.array([1, 1, 0.6, 2], np.float32)}, opset=10)
    check_all_levels(model, {"x": x}, mlir=False)


@pytest.mark.parametrize(
    ("scales", "sizes", "attributes", "message"),
    [
        ((1, 2), (), {}, r"expected 4 scales above 0, found \[1.0, 2.0\]"),
        ((), (1, 2, 3), {}, r"expected 4 sizes of 0 or more, found \[1, 2, 3\]"),
        (
            (1, 1, 2, 2),
            (),
            {"mode": "area"},
            'expected mode to be one of nearest, linear, cubic, found "area"',
        ),
        (
            (1, 1, 2, 2),
            (),
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            "expected 8 numbers as the roi",
        ),
    ],
    ids=str,
)
def test_errors(
    scales: tuple[float, ...], sizes: tuple[int, ...], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run_mlopt(resize(IMAGE, scales, sizes, **attributes), {"x": IMAGE})


def test_an_old_mode_is_for_the_nearest_neighbour_only() -> None:
    model = resize(
        IMAGE, (1, 1, 2, 2), opset=11, mode="linear", coordinate_transformation_mode="tf_half_pixel_for_nn"
    )
    with pytest.raises(
        UnsupportedError, match='with coordinate_transformation_mode = "tf_half_pixel_for_nn"'
    ):
        run_mlopt(model, {"x": IMAGE})


def test_tables_become_progressions() -> None:
    """Doubling: the first position, two interleaved progressions, the last one. A root has too many."""
    neighbours = np.array([[0, 1], [0, 1], [0, 1], [1, 2], [1, 2], [2, 3], [2, 3], [3, 3]])
    pieces = affine_pieces(neighbours)
    assert pieces is not None
    covered = sorted(piece.first + piece.step * i for piece in pieces for i in range(piece.count))
    assert covered == list(range(8))
    for piece in pieces:
        for i in range(piece.count):
            reads = [start + stride * i for start, stride in zip(piece.starts, piece.strides, strict=True)]
            assert reads == list(neighbours[piece.first + piece.step * i])
    assert affine_pieces((np.arange(400) / np.sqrt(3)).astype(np.int64)[:, None]) is None
