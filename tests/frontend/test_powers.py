"""Powers of a half, which numpy takes for square roots where one half is the exponent of all numbers."""

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
