"""Movements, gathers, ranges and shapes: the kernel-level form moves the very elements that the reference does."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    bf16,
    f16,
    f32,
    i8,
    i32,
    i64,
)

from mlopt.diagnostics import RunError
from mlopt.dialects import graph, kernel
from mlopt.interpreter.kernel import evaluate_module
from mlopt.weights import WeightStore
from tests.kernel_level import assert_same, converted, module_of


def numbered(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Every element another number."""
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(dtype)


def is_movement(module: ModuleOp) -> bool:
    """Whether everything in the module's launches is a movement."""
    maps = [op for op in module.walk() if isinstance(op, kernel.MapOp)]
    return bool(maps) and all(op.is_movement for op in maps)


@pytest.mark.parametrize("perm", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.bool_])
def test_transpose(perm: tuple[int, ...], dtype: type) -> None:
    assert is_movement(assert_same(lambda x: graph.TransposeOp(x, perm), numbered(2, 3, 5, dtype=dtype)))


def test_transpose_of_nothing_and_of_a_number() -> None:
    assert_same(graph.TransposeOp, numbered(0, 3))
    assert_same(graph.TransposeOp, numbered())


@pytest.mark.parametrize("shape, to", [((4, 6), (2, 12)), ((1, 1), ()), ((0, 3), (3, 0, 2)), ((5,), (5,))])
def test_reshape_moves_nothing(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    module = assert_same(lambda x: graph.ReshapeOp(x, to), numbered(*shape, dtype=np.uint8))
    assert not any(isinstance(op, kernel.LaunchOp) for op in module.walk())


@pytest.mark.parametrize(
    "starts, stops, steps",
    [
        ((1, 0), (3, 9), (1, 1)),
        ((0, 8), (2, -1), (1, -1)),
        ((3, 1), (0, 8), (-2, 3)),
        ((2, 0), (2, 9), (1, 1)),
    ],
)
def test_slice(starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> None:
    assert is_movement(assert_same(lambda x: graph.SliceOp(x, starts, stops, steps), numbered(4, 9)))


@pytest.mark.parametrize("shape, to", [((3, 1), (2, 3, 4)), ((), (2, 2)), ((1,), (0,)), ((2, 1), (2, 1))])
def test_expand(shape: tuple[int, ...], to: tuple[int, ...]) -> None:
    assert is_movement(assert_same(lambda x: graph.ExpandOp(x, to), numbered(*shape)))


@pytest.mark.parametrize(
    "low, high", [((0, 1), (2, 0)), ((-1, 2), (1, -2)), ((-1, -1), (0, -1)), ((4, 0), (0, -3))]
)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_pad(low: tuple[int, ...], high: tuple[int, ...], dtype: type) -> None:
    unsigned = IntegerType(8, Signedness.UNSIGNED)
    value = FloatAttr(-1.5, f32) if dtype is np.float32 else IntegerAttr(200, unsigned)
    assert is_movement(assert_same(lambda x: graph.PadOp(x, low, high, value), numbered(2, 3, dtype=dtype)))


def test_a_pad_that_only_crops_is_no_padded_read() -> None:
    zero = FloatAttr(0.0, f32)
    module = assert_same(lambda x: graph.PadOp(x, [-1, 0], [0, -1], zero), numbered(3, 4))
    (map_op,) = (op for op in module.walk() if isinstance(op, kernel.MapOp))
    assert map_op.pad_of(0) is None


def test_pad_of_an_empty_tensor_is_all_padding() -> None:
    assert_same(lambda x: graph.PadOp(x, [2, 0], [1, 0], FloatAttr(7.0, f32)), numbered(0, 3))


@pytest.mark.parametrize("axis, sizes", [(0, (2, 1, 4)), (1, (1, 3)), (0, (5,)), (1, (0, 2))])
def test_concat(axis: int, sizes: tuple[int, ...]) -> None:
    shapes = [(size, 3) if axis == 0 else (3, size) for size in sizes]
    parts = [numbered(*shape, dtype=np.int8) + np.int8(10 * i) for i, shape in enumerate(shapes)]
    assert is_movement(assert_same(lambda *values: graph.ConcatOp(values, axis), *parts))


def test_concat_of_one_value_twice_reads_it_twice() -> None:
    assert_same(lambda x: graph.ConcatOp([x, x], 0), numbered(2, 3))


@pytest.mark.parametrize("axis, sizes", [(0, (1, 3)), (1, (2, 0, 4))])
def test_split_makes_a_launch_per_part(axis: int, sizes: tuple[int, ...]) -> None:
    module = assert_same(lambda x: graph.SplitOp(x, axis, sizes), numbered(4, 6, dtype=np.uint8))
    assert sum(isinstance(op, kernel.LaunchOp) for op in module.walk()) == len(sizes)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("indices", [np.array([[0, -1], [1, 1]]), np.array(-1), np.array([], np.int32)])
def test_gather(axis: int, indices: np.ndarray) -> None:
    module = assert_same(lambda x, i: graph.GatherOp(x, i, axis), numbered(2, 3, 4), indices)
    assert any(isinstance(op, tensor.ExtractOp) for op in module.walk())


@pytest.mark.parametrize("indices", [np.array(-2), np.array([2, 2], np.int32)])
def test_gather_at_one_constant_index_is_a_movement(indices: np.ndarray) -> None:
    module = assert_same(
        lambda x, i: graph.GatherOp(x, i, 1), numbered(2, 3, 4, dtype=np.uint8), indices, constants=[1]
    )
    assert is_movement(module)


def test_gather_out_of_bounds_is_an_error() -> None:
    module = converted(module_of(graph.GatherOp, [numbered(3), np.array([1, 3])]))
    inputs = {"arg0": numbered(3), "arg1": np.array([1, 3])}
    with pytest.raises(RunError, match="index 3 is out of bounds for axis 0 of size 3"):
        evaluate_module(module, inputs, WeightStore())


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis: int) -> None:
    indices = np.array([[0, -1, 1], [1, 0, -2]], np.int32)
    assert_same(lambda x, i: graph.GatherElementsOp(x, i, axis), numbered(2, 3), indices)


@pytest.mark.parametrize(
    "indices, batch",
    [
        (np.array([[0, -1], [1, 2], [1, 0]]), 0),
        (np.array([[[1]], [[-1]]]), 1),
        (np.array([[[0, 1, 2, 0]]])[:, :, :1], 0),
        (np.zeros((2, 0), np.int64), 0),
    ],
)
def test_gather_nd(indices: np.ndarray, batch: int) -> None:
    assert_same(lambda x, i: graph.GatherNdOp(x, i, batch), numbered(2, 3, 4), indices)


@pytest.mark.parametrize(
    "start, delta",
    [
        (FloatAttr(0.5, f32), FloatAttr(0.1, f32)),
        (FloatAttr(1.0, f16), FloatAttr(-0.1, f16)),
        (FloatAttr(1.0, bf16), FloatAttr(0.25, bf16)),
        (IntegerAttr(5, i64), IntegerAttr(-2, i64)),
        (IntegerAttr(120, i8), IntegerAttr(1, i8)),
        (IntegerAttr(0, i32), IntegerAttr(3, i32)),
    ],
)
def test_range(start: FloatAttr | IntegerAttr, delta: FloatAttr | IntegerAttr) -> None:
    assert_same(lambda: graph.RangeOp(start, delta, 13), rtol=0, atol=0)


def test_shape_is_a_constant() -> None:
    module = assert_same(lambda x: graph.ShapeOp(x, 1, 3), numbered(2, 3, 4))
    assert not any(isinstance(op, kernel.LaunchOp) for op in module.walk())


@pytest.mark.parametrize("axis", [0, 1])
def test_all_gather(axis: int) -> None:
    x, y = numbered(2, 3), numbered(2, 3) + 100
    assert is_movement(assert_same(lambda a, b: graph.AllGatherOp([a, b, a], axis), x, y))
