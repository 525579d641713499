"""Attention at the kernel level against the reference evaluation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import BlockArgument

from mlopt.dialects import graph, kernel
from tests.kernel_level import assert_same

TOLERANCE = {np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2, np.float32: 1e-5, np.float64: 1e-12}
SHAPES = {
    "heads of their own": ((2, 4, 3, 5), (2, 4, 7, 5), (2, 4, 7, 6), (2, 1, 1, 7)),
    "grouped": ((2, 4, 3, 5), (2, 2, 7, 5), (2, 2, 7, 6), (3, 7)),
    "grouped, with batches that broadcast": ((1, 4, 3, 5), (2, 2, 7, 5), (1, 2, 7, 2), ()),
    "one head of keys": ((2, 4, 3, 5), (2, 1, 7, 5), (1, 1, 7, 6), (4, 1, 1)),
    "rank 2": ((3, 5), (7, 5), (7, 2), (3, 1)),
    "rank 3, grouped": ((4, 3, 5), (2, 7, 5), (2, 7, 2), (4, 3, 7)),
    "rank 5": ((2, 3, 4, 3, 5), (2, 1, 2, 7, 5), (1, 3, 2, 7, 6), (3, 1, 1, 7)),
    "one of each": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1), (1,)),
    "no queries": ((2, 4, 0, 5), (2, 4, 7, 5), (2, 4, 7, 6), (7,)),
    "no keys": ((2, 4, 3, 5), (2, 2, 0, 5), (2, 2, 0, 6), (1,)),
    "no depth": ((2, 4, 3, 0), (2, 2, 7, 0), (2, 2, 7, 6), (7,)),
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"scale": 0.3, "causal": True},
    {"scale": 0.5, "score_scale": 0.3},
    {"scale": -2.0, "nan_to_zero": True},
)


def operands(name: str, dtype: type) -> tuple[list[np.ndarray], tuple[int, ...]]:
    rng = np.random.default_rng(1)
    *shapes, mask = SHAPES[name]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes], mask


def check(arrays: list[np.ndarray], **options: Any) -> None:
    tolerance = TOLERANCE[arrays[0].dtype.type]
    assert_same(
        lambda *values: graph.AttentionOp(*values, **options), *arrays, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("options", OPTIONS)
def test_without_masks(name: str, options: dict[str, Any]) -> None:
    check(operands(name, np.float32)[0], **options)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("options", OPTIONS)
def test_masks(name: str, options: dict[str, Any]) -> None:
    """Both kinds, in both orders; in some rows they hide all."""
    arrays, shape = operands(name, np.float32)
    rng = np.random.default_rng(3)
    added = np.where(rng.random(shape) < 0.3, -np.inf, rng.standard_normal(shape)).astype(np.float32)
    shown = np.asarray(rng.random(shape) < 0.5)
    check([*arrays, added], **options)
    check([*arrays, shown], **options)
    check([*arrays, added, shown], fill=-10.0, **options)
    check([*arrays, shown, added], fill=-10.0, **options)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("options", OPTIONS)
def test_types(dtype: type, options: dict[str, Any]) -> None:
    arrays, shape = operands("grouped", dtype)
    check([*arrays, np.random.default_rng(3).standard_normal(shape).astype(dtype)], **options)


def test_keys_and_values_are_read_where_they_are() -> None:
    """Each of the two contractions reads its operand by an index map; nothing is moved before, and repeated nowhere."""
    arrays, _ = operands("grouped", np.float32)
    module = assert_same(graph.AttentionOp, *arrays, rtol=1e-5, atol=1e-5)
    launches = [op for op in module.walk() if isinstance(op, kernel.LaunchOp)]
    assert [launch.kernel_name.data for launch in launches] == ["scores", "softmax", "attention"]
    for launch, operand in ((launches[0], "tensor<2x2x7x5xf32>"), (launches[2], "tensor<2x2x7x6xf32>")):
        assert str(launch.ins[1].type) == operand
        assert isinstance(launch.ins[1], BlockArgument)
