"""Powers of a half, which numpy takes for square roots where one half is the exponent of all numbers; and exponents of
another type than the base."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.all_levels import check_all_levels, model_from

INF = np.inf
BASES = [0.0, -0.0, 1.0, -1.5, 6.25, -3e-4, 1e20, INF, -INF]
INVERSE_ROOTS = [INF, INF, 1.0, np.nan, 0.4, np.nan, 1e-10, 0.0, 0.0]
"""As IEEE 754 has them: -0 ** 0.5 is 0, and -inf ** 0.5 is inf; of no other number below 0 is there a power."""


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize(
    ("exponent", "shape"),
    [("constant", ()), ("input", ()), ("input", (1,)), ("input", (9,)), ("input", (2, 1))],
)
def test_a_half_is_no_square_root(type_: str, exponent: str, shape: tuple[int, ...]) -> None:
    """The inverse tells zeros apart; a result of a single number has the loop of one exponent for all."""
    dtype = np.dtype(np.float32 if type_ == "float" else np.float64)
    dims = f"[{','.join(map(str, shape))}]" if shape else ""
    for bases, wanted in [
        (BASES, INVERSE_ROOTS),
        (BASES[1:2], INVERSE_ROOTS[1:2]),
        (BASES[-1:], INVERSE_ROOTS[-1:]),
    ]:
        x, want = np.array(bases, dtype), np.array(wanted, dtype)
        if shape == (9,) and len(bases) == 1:
            continue
        given = f"{type_}[{len(bases)}] x" + (f", {type_}{dims} e" if exponent == "input" else "")
        held = f" <{type_} e = {{0.5}}>" if exponent == "constant" else ""
        model = model_from(f"g ({given}) => ({type_}[] y){held} {{ p = Pow(x, e) y = Reciprocal(p) }}")
        inputs = {"x": x} | ({"e": np.full(shape, 0.5, dtype)} if exponent == "input" else {})
        result = np.broadcast_to(want, np.broadcast_shapes(want.shape, shape))
        check_all_levels(model, inputs, {"y": result}, mlir=False)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize(
    ("types", "bases", "exponents", "want"),
    [
        (("int32", "float"), [26, 7, 4, 1], [0.5, 1.5, 2.0, -0.5], [5, 18, 16, 1]),
        (("int64", "double"), [26, 7, -4, 0], [0.5, 1.5, 3.0, 0.5], [5, 18, -64, 0]),
        (
            ("float", "double"),
            [-1.0, 1.0000001, 2.0, 0.0],
            [2**24 + 1, 1e7, 0.5, -1],
            [-1, 3.29, 2**0.5, INF],
        ),
        (("float", "int64"), [2.0, -2.0, 0.0, 3.0], [3, -1, -1, 0], [8, -0.5, INF, 1]),
    ],
)
def test_exponents_of_another_type(
    types: tuple[str, str], bases: list[float], exponents: list[float], want: list[float], held: bool
) -> None:
    """By hand: the power of real numbers, truncated where the base is an integer."""
    names = {"float": np.float32, "double": np.float64, "int32": np.int32, "int64": np.int64}
    x, e = (np.array(numbers, names[type_]) for numbers, type_ in zip((bases, exponents), types, strict=True))
    if types == ("float", "double"):
        want = [-1, float(x[1]) ** 1e7, 2**0.5, INF]
    given = f"{types[0]}[4] x" + ("" if held else f", {types[1]}[4] e")
    numbers = f" <{types[1]}[4] e = {{{', '.join(map(str, e.tolist()))}}}>" if held else ""
    model = model_from(f"g ({given}) => ({types[0]}[4] y){numbers} {{ y = Pow(x, e) }}")
    inputs = {"x": x} | ({} if held else {"e": e})
    check_all_levels(model, inputs, {"y": np.array(want, x.dtype)}, mlir=False)
