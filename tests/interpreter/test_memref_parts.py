"""Maps of the memref level whose result is a part of a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.memref_text import generic, module, run


@pytest.mark.parametrize(("element", "dtype"), [("i64", np.int64), ("f64", np.float64), ("f32", np.float32)])
def test_gather_into_a_part_of_a_buffer(element: str, dtype: type) -> None:
    """y[m, 3 + n] = x[m, ids[n]]. Positions are as wide as elements of 8 bytes, but need memory without gaps."""
    a, b, ids = f"memref<5x7x{element}>", f"memref<5x8x{element}>", "memref<4xi64>"
    part = f"memref<5x4x{element}, strided<[8, 1], offset: 3>>"
    body = f"%p = memref.subview %y[0, 3] [5, 4] [1, 1] : {b} to {part}\n" + generic(
        "m:p n:p",
        [("%ids", "n", ids)],
        [("%p", "m, n", part)],
        "%m = linalg.index 0 : index\n%zero = arith.constant 0 : i64\n%size = arith.constant 7 : i64\n"
        "%neg = arith.cmpi slt, %i0, %zero : i64\n%up = arith.addi %i0, %size : i64\n"
        "%j = arith.select %neg, %up, %i0 : i64\n%k = arith.index_cast %j : i64 to index\n"
        f"%v = memref.load %x[%m, %k] : {a}\nlinalg.yield %v : {element}",
    )
    x = np.arange(35).reshape(5, 7).astype(dtype)
    at = np.array([-1, 2, 0, 6])
    got = run(module(body, inputs={"x": a, "ids": ids}, outputs={"y": b}), {"x": x, "ids": at})["y"]
    np.testing.assert_array_equal(got[:, 3:7], x[:, at])
