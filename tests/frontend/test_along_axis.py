"""CumSum, CumProd, TopK and ReverseSequence at all levels: every axis, order, ties, special values, errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import mlopt
from mlopt.diagnostics import InputError, RunError
from tests.frontend.all_levels import check_all_levels
from tests.frontend.onnx_models import assert_close, one_node, run_mlopt

RNG = np.random.default_rng(1)
X = RNG.integers(-3, 4, (2, 5, 3)).astype(np.float32)
Made = tuple[onnx.ModelProto, dict[str, np.ndarray]]
SPECIAL = np.array([1, np.nan, -0.0, np.inf, 0.0, -np.nan, -np.inf, 1, -2.5, 2.5])


def cumulative(op_type: str, x: Any, axis: int = 0, opset: int = 26, **attributes: int) -> Made:
    inputs = {"x": np.asarray(x)}
    return one_node(op_type, inputs, {"axis": np.array(axis)}, opset=opset, **attributes), inputs


def top_k(x: np.ndarray, k: int, axis: int = -1, opset: int = 18, **attributes: int) -> Made:
    inputs = {"x": x}
    return one_node(
        "TopK", inputs, {"k": np.array([k])}, opset=opset, outputs=2, axis=axis, **attributes
    ), inputs


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op_type", ["CumSum", "CumProd"])
def test_sums_and_products(op_type: str, axis: int, reverse: int, exclusive: int) -> None:
    """Against onnxruntime."""
    check_all_levels(*cumulative(op_type, X, axis, reverse=reverse, exclusive=exclusive), mlir=axis == 1)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, np.float64])
def test_sums_and_products_of_other_types(dtype: type) -> None:
    """Integers wrap, as numpy's do."""
    x = np.array([3, 5, 7, 2**31 - 1, 2, 9, 11, 2**31 - 3]).astype(dtype)
    with np.errstate(over="ignore"):
        sums, products = np.cumsum(x, dtype=dtype), np.cumprod(x, dtype=dtype)
    check_all_levels(*cumulative("CumSum", x), {"y0": sums}, mlir=False)
    check_all_levels(*cumulative("CumProd", x), {"y0": products}, mlir=False)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_accumulated_in_f32(dtype: Any) -> None:
    """4096 ones: in f16 itself the sum would stay at 2048, in bf16 at 256. Each sum is rounded once."""
    model, inputs = cumulative("CumSum", np.ones(4096).astype(dtype))
    want = np.arange(1, 4097).astype(dtype)
    for got in (run_mlopt(model, inputs), mlopt.compile(model).run(inputs)):
        assert got["y0"].dtype == dtype
        np.testing.assert_array_equal(got["y0"].astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_sums_of_whole_slices(reverse: int, exclusive: int) -> None:
    """Slices that are long enough to be added as such. Against onnxruntime."""
    x = RNG.integers(-9, 9, (2, 5, 300)).astype(np.float32)
    check_all_levels(*cumulative("CumSum", x, 1, reverse=reverse, exclusive=exclusive), mlir=False)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (1, 1)])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_sums_of_nothing(shape: tuple[int, ...], exclusive: int) -> None:
    for axis in range(len(shape)):
        want = {"y0": np.full(shape, 1 - exclusive, np.float32)}
        made = cumulative("CumSum", np.ones(shape, np.float32), axis, exclusive=exclusive)
        check_all_levels(*made, want, mlir=False)


def test_the_axis_must_be_one_of_the_operand_s() -> None:
    with pytest.raises(InputError, match=r"expected an axis in \[-3, 3\), found 3"):
        run_mlopt(*cumulative("CumSum", X, 3))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [1, 2])
def test_top_k_along_each_axis(axis: int, k: int, largest: int) -> None:
    """Against onnxruntime; many elements are equal, of which those of lower index are first."""
    check_all_levels(*top_k(X, k, axis, largest=largest), mlir=axis == 1)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4, 10])
def test_top_k_of_special_values(dtype: type, k: int, largest: int) -> None:
    """NaN, of either sign, is above infinity; -0 and 0 are equal. By hand; onnxruntime says so too for f32 and f64."""
    order = [1, 5, 3, 9, 0, 7, 2, 4, 8, 6] if largest else [6, 8, 2, 4, 0, 7, 9, 3, 1, 5]
    x = SPECIAL.astype(dtype)
    want = {"y0": x[order[:k]], "y1": np.array(order[:k])}
    check_all_levels(*top_k(x, k, largest=largest), want, mlir=False)
    if dtype != np.float16:
        check_all_levels(*top_k(x, k, largest=largest), mlir=False)


def test_top_k_of_bfloat16() -> None:
    x = SPECIAL.astype(ml_dtypes.bfloat16)
    model, inputs = top_k(x, 3, opset=24)
    for got in (run_mlopt(model, inputs), mlopt.compile(model).run(inputs)):
        assert got["y0"].dtype == x.dtype and got["y1"].tolist() == [1, 5, 3]


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
)
def test_top_k_of_integers(dtype: type) -> None:
    """Also those that differ only in their low or high half."""
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = [low, high, 0, 1, high - 1, low + 1, high // 2, high // 2 + 1, high, low]
    x = np.array(values, dtype)
    for largest in (0, 1):
        order = sorted(range(10), key=lambda i: -values[i] if largest else values[i])
        for k in (1, 3, 10):
            want = {"y0": x[order[:k]], "y1": np.array(order[:k])}
            check_all_levels(*top_k(x, k, largest=largest), want, mlir=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("k", [3, 17])
@pytest.mark.parametrize(
    ("shape", "axis"), [((400, 200), 1), ((200, 3, 150), 0), ((2, 70, 500), 1), ((1, 40000), 1)]
)
def test_top_k_of_many_elements(shape: tuple[int, ...], axis: int, k: int, dtype: type) -> None:
    """More than are sorted at a time, along any axis. Against numpy's stable sort."""
    x = RNG.integers(0, 50, shape).astype(dtype)
    order = np.argsort(-x, axis=axis, kind="stable").take(range(k), axis)
    want = {"y0": np.take_along_axis(x, order, axis), "y1": order}
    model, inputs = top_k(x, k, axis)
    assert_close(run_mlopt(model, inputs), want)
    assert_close(mlopt.compile(model).run(inputs), want)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3)])
def test_top_k_of_nothing(shape: tuple[int, ...]) -> None:
    want = {"y0": np.zeros((shape[0], 0), np.float32), "y1": np.zeros((shape[0], 0), np.int64)}
    check_all_levels(*top_k(np.ones(shape, np.float32), 0), want, mlir=False)
    model = one_node("TopK", {"x": np.ones((0, 3), np.float32)}, {"k": np.array([2])}, outputs=2)
    got = mlopt.compile(model).run({"x": np.ones((0, 3), np.float32)})
    assert_close(got, {"y0": np.zeros((0, 2), np.float32), "y1": np.zeros((0, 2), np.int64)})


def test_more_elements_than_there_are() -> None:
    with pytest.raises(InputError, match=r"expected k in \[0, 3\], found 4"):
        run_mlopt(*top_k(X, 4))


@pytest.mark.parametrize(("batch_axis", "time_axis"), [(1, 0), (0, 1)])
@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2), (4, 3, 2, 2)])
def test_sequences_are_reversed(shape: tuple[int, ...], batch_axis: int, time_axis: int) -> None:
    """Against onnxruntime, with lengths from 0 to all."""
    x = RNG.standard_normal(shape).astype(np.float32)
    lengths = np.arange(shape[batch_axis]) % (shape[time_axis] + 1)
    lengths[-1] = shape[time_axis]
    inputs = {"x": x, "lengths": lengths}
    model = one_node("ReverseSequence", inputs, opset=10, batch_axis=batch_axis, time_axis=time_axis)
    check_all_levels(model, inputs, mlir=len(shape) == 3)


@pytest.mark.parametrize("lengths", [[1, 4], [-1, 1]])
def test_a_length_that_no_sequence_has(lengths: list[int]) -> None:
    inputs = {"x": np.ones((3, 2), np.float32), "lengths": np.array(lengths)}
    model = one_node("ReverseSequence", inputs, opset=10)
    with pytest.raises(RunError, match="index 6 is out of bounds for axis 0 of size 6"):
        mlopt.compile(model).run(inputs)


@pytest.mark.parametrize(
    ("shape", "count", "axes", "message"),
    [
        ((3, 2), 3, (1, 0), "expected 2 sequence lengths"),
        ((3, 2), 2, (0, 0), "expected rank 2 or more with 0 and 1 as batch and time axis"),
        ((3,), 3, (1, 0), "expected rank 2 or more"),
    ],
)
def test_what_reverse_sequence_refuses(
    shape: tuple[int, ...], count: int, axes: tuple[int, int], message: str
) -> None:
    inputs = {"x": np.ones(shape, np.float32), "lengths": np.ones(count, np.int64)}
    model = one_node("ReverseSequence", inputs, opset=10, batch_axis=axes[0], time_axis=axes[1])
    with pytest.raises(InputError, match=message):
        run_mlopt(model, inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (2, 3, 1, 1), (0, 0), (2, 0, 0), (0, 2, 2)])
def test_determinants(shape: tuple[int, ...], dtype: type) -> None:
    """Of whole numbers, which numpy gives in f64; that of an empty matrix is 1."""
    x = RNG.integers(-4, 5, shape).astype(dtype)
    model = one_node("Det", {"x": x}, opset=22)
    want = np.round(np.linalg.det(x.astype(np.float64))).astype(dtype)
    check_all_levels(model, {"x": x}, {"y0": np.asarray(want)}, mlir=len(shape) == 3)


def test_the_determinant_of_a_singular_matrix() -> None:
    x = np.float32([[1, 2], [2, 4]])
    check_all_levels(one_node("Det", {"x": x}), {"x": x}, {"y0": np.float32(0)}, mlir=False)
