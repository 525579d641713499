"""NonZero, Unique and NonMaxSuppression at the kernel level against the graph level, and both against numpy.

Sizes go beyond what the functions look at together, so that parts have to fit to each other.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlopt
from mlopt.dialects import graph
from mlopt.interpreter.graph import evaluate_module
from mlopt.interpreter.runtime import Buffer
from mlopt.interpreter.runtime.table import RUNTIME_FUNCTIONS
from mlopt.ir.extents import Extent
from tests.kernel_level import assert_same, module_of

LONG = 3 * 4096 + 5


def results(build: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    named = {f"arg{index}": array for index, array in enumerate(inputs)}
    return list(evaluate_module(module_of(build, inputs), named).values())


@pytest.mark.parametrize("shape", [(LONG,), (5, 3, 900), (), (0,), (3, 0), (1, 1)])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64, ml_dtypes.bfloat16])
def test_nonzero(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    assert_same(graph.NonZeroOp, x)
    indices, count = results(graph.NonZeroOp, x)
    want = np.argwhere(x).T
    assert count == want.shape[1]
    np.testing.assert_array_equal(indices[:, :count], want)
    assert not indices[:, count:].any()


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int16, np.bool_, np.float32, np.float16])
@pytest.mark.parametrize(("shape", "axis"), [((LONG,), None), ((9, 7), None), ((60, 3), 0), ((2, 50, 2), 1)])
def test_unique(dtype: Any, shape: tuple[int, ...], axis: int | None, in_order: bool) -> None:
    """Large unsigned numbers are no negative ones; what is distinct is put together again by `inverse`."""
    x = np.random.default_rng(1).integers(-2, 3, shape).astype(dtype)
    assert_same(lambda x: graph.UniqueOp(x, axis, in_order=in_order), x)
    values, indices, inverse, counts, count = results(lambda x: graph.UniqueOp(x, axis, in_order=in_order), x)
    flat, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    want, first, places, numbers = np.unique(x, True, True, True, axis)
    order = np.argsort(first) if in_order else np.arange(len(first))
    assert count == len(first)
    np.testing.assert_array_equal(np.take(values, np.arange(count), along), np.take(want, order, along))
    np.testing.assert_array_equal(indices[:count], first[order])
    np.testing.assert_array_equal(counts[:count], numbers[order])
    np.testing.assert_array_equal(np.take(values, inverse, along), flat)
    np.testing.assert_array_equal(order[inverse], places.reshape(-1))
    assert not counts[count:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_unique_with_special_values(dtype: Any) -> None:
    """NaN of either sign is one value, the last, also in slices; 0 and -0 are one, as they first occur."""
    x = np.array([np.nan, -0.0, 0.0, np.inf, -np.nan, -np.inf, 0.0], dtype)
    assert_same(graph.UniqueOp, x)
    values, indices, inverse, counts, count = results(graph.UniqueOp, x)
    assert (count, indices[:4].tolist(), counts[:4].tolist()) == (4, [5, 1, 3, 0], [1, 3, 1, 2])
    assert inverse.tolist() == [3, 1, 1, 2, 3, 0, 1]
    assert np.signbit(values[1])
    rows = np.stack([x, x, x[::-1]])
    assert_same(lambda x: graph.UniqueOp(x, 0), rows)
    assert results(lambda x: graph.UniqueOp(x, 0), rows)[-1] == 2


@pytest.mark.parametrize(
    ("shape", "axis", "count"), [((0,), None, 0), ((3, 0), 0, 1), ((3, 0), 1, 0), ((), None, 1)]
)
def test_unique_of_nothing_and_of_one(shape: tuple[int, ...], axis: int | None, count: int) -> None:
    """Slices without elements are all equal, as `numpy.unique` has it."""
    x = np.zeros(shape, np.float32)
    assert_same(lambda x: graph.UniqueOp(x, axis), x)
    assert results(lambda x: graph.UniqueOp(x, axis), x)[-1] == count


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("limit", [3, 100, 0, -1])
def test_suppression_of_many(center: bool, limit: int) -> None:
    """Scores repeat, some are -inf or NaN; boxes are flipped and some have no area."""
    generator = np.random.default_rng(2)
    boxes = generator.uniform(0, 2, (2, 60, 4)).astype(np.float32)
    boxes[:, ::7, 2:] = 0 if center else boxes[:, ::7, :2]
    scores = generator.integers(0, 9, (2, 3, 60)).astype(np.float32)
    scores[0, 0, ::5], scores[1, 1, ::9] = -np.inf, np.nan
    numbers = np.array(limit), np.float32(0.3)
    for least in ((), (np.float32(2.5),), (np.float32(np.inf),)):
        inputs = (boxes, scores, *numbers, *least)
        assert_same(
            lambda *values: graph.NonMaxSuppressionOp(*values, most=40, center=center),
            *map(np.asarray, inputs),
        )


@pytest.mark.parametrize(
    ("name", "source", "outs", "parameters"),
    [
        ("nonzero", np.ones((512, 512), np.bool_), [((2, 1 << 18), np.int64), ((), np.int64)], {}),
        *(
            (
                "unique",
                np.arange(1 << 18).astype(dtype).reshape(shape),
                [(shape, dtype), *[((shape[0],), np.int64)] * 3, ((), np.int64)],
                {"axis": 0, "in_order": True},
            )
            for dtype in (np.int64, np.float32)
            for shape in ((1 << 18,), (1 << 14, 16))
        ),
    ],
)
def test_nothing_large_is_allocated(
    name: str, source: np.ndarray, outs: Any, parameters: dict[str, Any]
) -> None:
    """All that grows with the operands is scratch; what is looked at together is of fixed size."""
    writes = [np.empty(shape, dtype) for shape, dtype in outs]
    operands = [Buffer(array.shape, array.dtype) for array in (source, *writes)]
    function = RUNTIME_FUNCTIONS[f"mlopt_rt_{name}"](operands, parameters)
    scratch = [np.empty(buffer.shape, buffer.dtype) for buffer in function.scratch()]
    tracemalloc.start()
    function.run([source], writes, scratch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (12_000 if name == "nonzero" else 200_000) < source.nbytes


EQUAL = """
func.func @main(%a: tensor<i64> {mlopt.name = "a"}, %b: tensor<i64> {mlopt.name = "b"})
    -> (tensor<i64> {mlopt.name = "n"}) {
  %n = graph.require_equal %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i64>
  func.return %n : tensor<i64>
}
"""


def test_sizes_that_differ_end_the_run() -> None:
    model = mlopt.compile(EQUAL)
    assert model.run({"a": np.array(3), "b": np.array(3)})["n"] == 3
    with pytest.raises(mlopt.RunError, match="expected equal sizes, found 3 and 4"):
        model.run({"a": np.array(3), "b": np.array(4)})


def test_an_extent_that_is_none_is_an_error() -> None:
    """A module by hand may say so."""
    with pytest.raises(mlopt.RunError, match='output "y" has the extent 4 along axis 0, of 3 elements'):
        Extent("y", 0).cut(np.zeros(3), 4)
