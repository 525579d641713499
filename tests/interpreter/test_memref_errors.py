"""Memref-level text that the numpy engine refuses: what the errors say, and where they point."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.diagnostics import RunError, UnsupportedError, VerifyFailure
from tests.interpreter.memref_text import load, module, run

T = "memref<4x8xf32>"


def test_recursion_is_an_error_at_the_call() -> None:
    """Directly, and through another function."""
    for first, second in (("f", "f"), ("g", "f")):
        functions = "".join(
            f"func.func private @{name}(%x: {T}, %y: {T}) {{\n"
            f"func.call @{callee}(%x, %y) : ({T}, {T}) -> ()\nreturn\n}}\n"
            for name, callee in {"f": first, "g": second}.items()
        )
        text = module(
            f"func.call @f(%x, %y) : ({T}, {T}) -> ()",
            inputs={"x": T},
            outputs={"y": T},
            functions=functions,
        )
        with pytest.raises(UnsupportedError, match="@f is called while it runs: recursion") as error:
            load(text)
        assert error.value.place is not None and error.value.place.line is not None


@pytest.mark.parametrize(
    ("offset", "size", "stride", "fits"),
    [(6, 2, 1, True), (6, 4, 1, False), (0, 4, 3, False), (1, 3, 3, True)],
)
def test_a_subview_out_of_bounds_is_said_in_its_own_terms(
    offset: int, size: int, stride: int, fits: bool
) -> None:
    view = f"memref<{size}xf32, strided<[{stride}], offset: {offset}>>"
    text = module(
        f"%s = memref.subview %x[{offset}] [{size}] [{stride}] : memref<8xf32> to {view}\n"
        f"memref.copy %s, %y : {view} to memref<{size}xf32>",
        inputs={"x": "memref<8xf32>"},
        outputs={"y": f"memref<{size}xf32>"},
    )
    if fits:
        x = np.arange(8, dtype=np.float32)
        np.testing.assert_array_equal(run(text, {"x": x})["y"], x[offset::stride][:size])
        return
    message = f"takes {size} elements from {offset} on with stride {stride} along axis 0, which has 8"
    with pytest.raises(VerifyFailure, match=message):
        load(text)


def test_an_arena_that_is_too_large_is_an_error_that_names_its_size() -> None:
    size = 2**61
    with pytest.raises(RunError, match=f"out of memory: the arena takes {size} bytes") as error:
        load(module("", arena=size))
    assert error.value.place is not None and error.value.place.line == 1
