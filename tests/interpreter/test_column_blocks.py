"""Operands that are one number in each row, written out: the same bits, in place and not, in any amount of scratch."""

from __future__ import annotations

import numpy as np
import pytest

from mlopt.interpreter.column_blocks import elements_at_a_time, pays
from tests.interpreter.memref_text import generic, load, module
from tests.interpreter.test_memref_contractions import with_workspace

OPERATIONS = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide}


def text(rows: int, width: int, operation: str, *, column_first: bool, in_place: bool) -> str:
    """y = x op c, or c op x, with a number of c for each row; in place: y = y op c after y = x + x."""
    x, c = f"memref<{rows}x{width}xf32>", f"memref<{rows}xf32>"

    def mapped(ins: list[tuple[str, str, str]], body: str) -> str:
        return generic("m:p n:p", ins, [("%y", "m, n", x)], f"{body}\nlinalg.yield %r : f32")

    value = "%o0" if in_place else "%i1"
    first, second = ("%i0", value) if column_first else (value, "%i0")
    operands = [("%c", "m", c), *([] if in_place else [("%x", "m, n", x)])]
    body = mapped([("%x", "m, n", x)], "%r = arith.addf %i0, %i0 : f32") + "\n" if in_place else ""
    body += mapped(operands, f"%r = arith.{operation} {first}, {second} : f32")
    return module(body, inputs={"x": x, "c": c}, outputs={"y": x})


@pytest.mark.parametrize("size", [0, 4 << 10, 256 << 10])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("column_first", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("rows", "width"), [(2, 8), (1, 64), (390, 65), (131, 96), (40, 193), (64, 1), (3000, 7)]
)
def test_every_bit_is_that_of_the_rows_one_by_one(
    rows: int, width: int, operation: str, column_first: bool, in_place: bool, size: int
) -> None:
    source = text(rows, width, operation, column_first=column_first, in_place=in_place)
    executable = load(with_workspace(source, size) if size else source, poison=True)
    rng = np.random.default_rng(rows)
    x, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, width), (rows,)))
    value = x + x if in_place else x
    column = c[:, np.newaxis]
    want = OPERATIONS[operation](column, value) if column_first else OPERATIONS[operation](value, column)
    np.testing.assert_array_equal(executable.run({"x": x, "c": c})["y"], want)


@pytest.mark.parametrize(
    ("rows", "width", "in_place", "size", "steps"),
    [
        (32, 128, False, 0, 2),  # written to where the result goes
        (390, 65, False, 0, 2),
        (32, 128, True, 16 << 10, 3),
        (32, 128, True, 8 << 10, 5),  # 16 rows at a time
        (32, 128, True, 2 << 10, 2),  # too few
        (32, 193, False, 0, 1),  # long rows
    ],
)
def test_how_many_steps_it_takes(rows: int, width: int, in_place: bool, size: int, steps: int) -> None:
    source = text(rows, width, "subf", column_first=False, in_place=in_place)
    assert load(with_workspace(source, size) if size else source).steps == steps


def test_scratch_is_asked_for_in_slices() -> None:
    asked: list[int] = []

    def fits(nbytes: int) -> bool:
        asked.append(nbytes)
        return nbytes <= 10_000

    assert elements_at_a_time((390, 65), 4, fits) == 28 * 65
    assert asked == [56 * 65 * 4, 28 * 65 * 4]
    assert elements_at_a_time((390, 65), 4, lambda nbytes: nbytes <= 3000) == 0
    assert not pays((390,)) and not pays((390, 1)) and pays((2, 2))
