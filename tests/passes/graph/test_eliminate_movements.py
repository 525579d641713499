"""The passes that eliminate casts, slices and reshapes change no bit: random programs, and every pair of casts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import ModuleOp

from mlopt.interpreter.graph import evaluate_module
from mlopt.ir.parser import parse_module
from mlopt.ir.registration import make_context
from mlopt.ir.verifier import verify_module
from mlopt.passes.graph.eliminate_casts import EliminateCastsPass
from mlopt.passes.graph.eliminate_reshapes import EliminateReshapesPass
from mlopt.passes.graph.eliminate_slices import EliminateSlicesPass
from tests.counting import count_calls
from tests.passes.graph.movement_programs import check_pass, movement_modules
from tests.strategies import GraphCase

RANDOM = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(movement_modules(("cast", "cast", "reshape", "slice", "transpose")))
@RANDOM
def test_casts(case: GraphCase) -> None:
    check_pass(case, EliminateCastsPass())


@given(movement_modules(("slice", "slice", "split", "concat", "pad", "concat")))
@RANDOM
def test_slices(case: GraphCase) -> None:
    check_pass(case, EliminateSlicesPass())


@given(movement_modules(("reshape", "reshape", "unary", "binary", "along_axis", "matmul", "transpose")))
@RANDOM
def test_reshapes(case: GraphCase) -> None:
    """Sums may be rounded otherwise where a product has other dimensions."""
    check_pass(case, EliminateReshapesPass(), rtol=1e-5)


FLOATS = (0.0, -0.0, 1.7, -1.7, 0.1, 2049.0, 65505.0, 1e-8, 1e30, np.inf, -np.inf, np.nan)
INTEGERS = {
    **{f"i{8 * size}": np.dtype(f"i{size}") for size in (1, 2, 4, 8)},
    **{f"ui{8 * size}": np.dtype(f"u{size}") for size in (1, 2, 4, 8)},
}


def values_of(element: str) -> np.ndarray:
    """What goes wrong first in a type: its limits, numbers that other types round, and those that are no numbers."""
    if element == "i1":
        return np.array([False, True])
    if element in INTEGERS:
        limits = np.iinfo(INTEGERS[element])
        some = [0, 1, 127, 128, 2049, 2**24 + 1, 2**53 + 1, limits.max // 3, limits.max - 1]
        return np.array([limits.min, limits.max, *(n for n in some if n <= limits.max)], INTEGERS[element])
    with np.errstate(over="ignore"):
        return np.array(FLOATS).astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[element])


ELEMENTS = ("i1", *INTEGERS, "f16", "f32", "f64")


@pytest.mark.parametrize("source", ELEMENTS)
def test_every_two_casts_give_the_same_as_before(source: str) -> None:
    x = values_of(source)
    merged = 0
    for middle, target in product(ELEMENTS, ELEMENTS):
        a, b, c = (f"tensor<{x.size}x{element}>" for element in (source, middle, target))
        text = f"""func.func @main(%x: {a}) -> {c} {{
          %m = graph.cast %x : {a} to {b}
          %y = graph.cast %m : {b} to {c}
          func.return %y : {c}
        }}"""
        ctx = make_context()
        module = parse_module(text, ctx)
        with np.errstate(all="ignore"):
            (want,) = evaluate_module(module, {"arg0": x}).values()
            merged += EliminateCastsPass().run(ctx, module)
            (got,) = evaluate_module(module, {"arg0": x}).values()
        np.testing.assert_array_equal(got, want, err_msg=f"{source} {middle} {target}")
        if want.dtype.kind == "f":
            numbers = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
    assert merged >= len(ELEMENTS)  # at least what is cast to its own type first


def rolled(pieces: int) -> str:
    """All pieces of a value cut out one by one, concatenated, and cut again."""
    n = f"tensor<{pieces}xf32>"
    cuts = [
        f"%s{i} = graph.slice %x starts = [{i}] stops = [{i + 1}] : ({n}) -> tensor<1xf32>"
        for i in range(pieces)
    ]
    operands = ", ".join(f"%s{i}" for i in range(pieces))
    types = ", ".join(["tensor<1xf32>"] * pieces)
    again = f"%y = graph.slice %c starts = [0] stops = [{pieces - 1}] : ({n}) -> tensor<{pieces - 1}xf32>"
    return f"""func.func @main(%x: {n}) -> tensor<{pieces - 1}xf32> {{
      {chr(10).join(cuts)}
      %c = graph.concat {operands} axis = 0 : ({types}) -> {n}
      {again}
      func.return %y : tensor<{pieces - 1}xf32>
    }}"""


def test_the_work_grows_with_the_number_of_pieces() -> None:
    def work(pieces: int) -> int:
        ctx = make_context()
        module: ModuleOp = parse_module(rolled(pieces), ctx)
        calls = count_calls(lambda: EliminateSlicesPass().run(ctx, module))
        verify_module(module)
        assert sum(op.name.startswith("graph.") for op in module.walk()) == 1
        return calls

    assert work(400) < 2.5 * work(200)
