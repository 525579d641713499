"""Operands that are one row, the same for every row: written out in scratch, the bits of the result as they were."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.row_blocks import copies
from tests.interpreter.memref_text import generic, load, module
from tests.interpreter.test_memref_contractions import with_workspace

STEPS = "%p = arith.mulf %i0, %i1 : f32\n%q = arith.addf %p, %i2 : f32\n%r = arith.subf %i2, %q : f32\n"
"""A product with a row, and another row on either side."""


def text(rows: int, width: int) -> str:
    x, row = f"memref<{rows}x{width}xf32>", f"memref<{width}xf32>"
    ins = [("%x", "m, n", x), ("%g", "n", row), ("%b", "n", row)]
    body = generic("m:p n:p", ins, [("%y", "m, n", x)], STEPS + "linalg.yield %r : f32")
    return module(body, inputs={"x": x, "g": row, "b": row}, outputs={"y": x})


@pytest.mark.parametrize("size", [0, 4 << 10, 256 << 10])
@pytest.mark.parametrize(
    ("rows", "width"),
    [
        (1, 8),
        (23, 16),
        (24, 1),
        (32, 128),
        (37, 64),
        (144, 96),
        (301, 48),
        (30, 257),
        (12, 513),
        (2, 400),
        (5000, 7),
    ],
)
def test_every_bit_is_that_of_the_rows_one_by_one(rows: int, width: int, size: int) -> None:
    """Also without room to write a row out, and over several tiles."""
    executable = load(with_workspace(text(rows, width), size) if size else text(rows, width), poison=True)
    rng = np.random.default_rng(rows)
    x, g, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, width), width, width))
    y = executable.run({"x": x, "g": g, "b": b})["y"]
    np.testing.assert_array_equal(y, b - (x * g + b))


def test_short_rows_become_long_ones() -> None:
    """Two rows are written out for 144 rows of 96 elements, and each of the three steps is one call."""
    assert load(with_workspace(text(144, 96), 256 << 10)).steps == 5
    assert load(with_workspace(text(16, 520), 256 << 10)).steps == 3


@pytest.mark.parametrize(
    ("rows", "width", "expected"),
    [
        (2, 64, 2),
        (64, 513, 1),  # long ones
        (32, 128, 32),  # 4096 elements: for every row
        (144, 96, 18),  # of the 21 that make 2048 elements the most that divide 144
        (149, 96, 21),  # a prime number of rows
    ],
)
def test_how_often_a_row_is_written_out(rows: int, width: int, expected: int) -> None:
    assert copies(rows, width) == expected
