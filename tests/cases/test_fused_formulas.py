"""Public faults of fused norms and activations (F07, F08, F09) and their kin, with the right values by hand."""

from __future__ import annotations

from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from tests.cases.models import check
from tests.passes.graph.chains import Chain

F32 = np.float32


def normal(c: Chain, epsilon: float) -> str:
    """`(x - mean) / sqrt(variance + epsilon)` along the last axis."""
    centered = c("Sub", "x", c("ReduceMean", "x", c.ints(-1)))
    variance = c("ReduceMean", c("Mul", centered, centered), c.ints(-1))
    return c("Div", centered, c("Sqrt", c("Add", variance, epsilon)))


def all_are(c: Chain, **wants: Any) -> None:
    arrays = {name: np.asarray(want, F32) for name, want in wants.items()}
    check(c.model(*arrays), c.inputs, arrays)


# F07: scale and bias that broadcast otherwise than along a row.


def test_f07_scale_per_row() -> None:
    c = Chain(x=F32([[-1, 1], [-1, 1]]))
    y = c("Add", c("Mul", normal(c, 0.0), F32([[2], [3]])), F32([1]))
    all_are(c, **{y: [[-1, 3], [-2, 4]]})


def test_f07_scale_that_enlarges() -> None:
    """A row of one number is its own mean: what is left is the bias."""
    c = Chain(x=F32([[7]]))
    y = c("Add", c("Mul", normal(c, 1e-5), F32([2, 3])), F32([1, 4]))
    all_are(c, **{y: [[1, 4]]})


def test_f07_bias_that_enlarges() -> None:
    c = Chain(x=F32([[-1, 1]]))
    y = c("Add", normal(c, 0.0), F32([[1], [10]]))
    all_are(c, **{y: [[0, 2], [9, 11]]})


def test_f07_scale_of_higher_rank() -> None:
    c = Chain(x=F32([[-1, 1]]))
    y = c("Mul", normal(c, 0.0), F32([[[2, 3]]]))
    all_are(c, **{y: [[[-2, 3]]]})


def test_f07_square_input_with_scale_of_columns() -> None:
    """A scale `[2, 1]` and one `[2]` fit a square input; they are not the same."""
    c = Chain(x=F32([[-1, 1], [1, -1]]))
    norm = normal(c, 0.0)
    columns, rows = c("Mul", norm, F32([2, 3])), c("Mul", norm, F32([[2], [3]]))
    all_are(c, **{columns: [[-2, 3], [2, -3]], rows: [[-2, 2], [3, -3]]})


@pytest.mark.parametrize("scale", [[2, 3], [[2], [3]], [[[2, 3]]]])
def test_f07_rms_norm(scale: Any) -> None:
    """Rows whose numbers are -1 and 1 have a mean square of 1."""
    c = Chain(x=F32([[-1, 1], [1, 1]]))
    root = c("Sqrt", c("ReduceMean", c("Mul", "x", "x"), c.ints(-1)))
    y = c("Mul", c("Div", "x", root), F32(scale))
    all_are(c, **{y: F32([[-1, 1], [1, 1]]) * F32(scale)})


# F08: what is inside a fused formula is an output too.


def test_f08_the_inner_erf() -> None:
    c = Chain(x=F32([1, -1, 0]))
    inner = c("Erf", c("Div", "x", sqrt(2)))
    y = c("Mul", c("Mul", "x", 0.5), c("Add", inner, 1.0))
    right = [erf(x / sqrt(2)) for x in (1, -1, 0)]
    all_are(c, **{y: [x * 0.5 * (1 + e) for x, e in zip((1, -1, 0), right, strict=True)], inner: right})


def test_f08_the_inner_sigmoid() -> None:
    c = Chain(x=F32([0, 2]))
    gate = c("Sigmoid", "x")
    half = 1 / (1 + np.exp(-2.0))
    all_are(c, **{c("Mul", "x", gate): [0, 2 * half], gate: [0.5, half]})


def test_f08_the_mean_the_variance_and_the_norm() -> None:
    c = Chain(x=F32([[1, 3]]))
    y = c("Mul", normal(c, 0.0), F32([2, 3]))
    all_are(c, **{y: [[-2, 3]], "v0": [[2]], "v1": [[-1, 1]], "v3": [[1]], "v6": [[-1, 1]]})


# F09: a gelu of rank 0, and what is none.


def test_f09_rank_0() -> None:
    c = Chain(x=F32(1))
    y = c("Mul", c("Mul", c("Add", c("Erf", c("Div", "x", sqrt(2))), 1.0), "x"), 0.5)
    all_are(c, **{y: 0.8413447})


def test_f09_another_factor() -> None:
    c = Chain(x=F32(1))
    y = c("Mul", c("Mul", c("Add", c("Erf", c("Div", "x", sqrt(2))), 1.0), "x"), 0.6)
    all_are(c, **{y: 1.0096136})


def test_f09_rank_0_of_the_others() -> None:
    c = Chain(x=F32(1))
    swish = c("Mul", "x", c("Sigmoid", c("Mul", "x", 1.702)))
    hard = c("Div", c("Mul", "x", c("Clip", c("Add", "x", 3.0), 0.0, 6.0)), 6.0)
    all_are(c, **{swish: 1 / (1 + np.exp(-1.702)), hard: 4 / 6})
