"""Programs that failed once, made small: on every standard route they give what is worked out by hand here.

Those about one operator alone stand with the tests of that operator.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.all_levels import model_from
from tests.fuzz.corpus import program_of
from tests.fuzz.levels import Refused, check, standard_routes

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ROW = np.array([1, 10, 100], np.float32)

CASES = {
    "a row added between two transposes": (
        """g (float[2,3,4] x, float[3] b) => (float[2,3,4] y) {
          t = Transpose<perm=[0,2,1]>(x)
          s = Add(t, b)
          y = Transpose<perm=[0,2,1]>(s)
        }""",
        {"x": X, "b": ROW},
        {"y": X + ROW[:, None]},
    ),
    "a row under two transposes that turn": (
        """g (float[2,3,4] x, float[2] b) => (float[3,4,2] y) {
          t = Transpose<perm=[1,2,0]>(x)
          s = Sub(b, t)
          u = Transpose<perm=[2,0,1]>(s)
          r = Relu(u)
          y = Transpose<perm=[1,2,0]>(r)
        }""",
        {"x": X, "b": ROW[:2]},
        {"y": np.maximum(ROW[:2] - X.transpose(1, 2, 0), 0)},
    ),
    "a row that is computed, and taken out of the only one": (
        """g (float[1,4] x) => (float[4] y) <int64 last = {-1}> {
          s = Neg(x)
          y = Gather<axis=-2>(s, last)
        }""",
        {"x": X[:1, 0]},
        {"y": -X[0, 0]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_route(name: str) -> None:
    text, inputs, want = CASES[name]
    program = program_of(model_from(text), [inputs], [want])
    for route in standard_routes().values():
        assert check(program, route) is None, route


def test_broadcast_that_data_decide() -> None:
    """Rows where a mask is true, and two more: a run in which one row meets three ends, which is no failure."""
    text = """g (bool[1] m, float[1] x) => (float[n] y) <int64[1] first = {0}, int64[2] pads = {2, 0}> {
      found = NonZero(m)
      places = Squeeze(found, first)
      rows = Gather<axis=0>(x, places)
      more = Pad(rows, pads)
      y = Mean(x, more, rows)
    }"""
    inputs = {"m": np.array([True]), "x": np.array([3], np.float32)}
    program = program_of(model_from(text), [inputs], [{"y": np.array([2, 2, 3], np.float32)}])
    for step in program.steps:
        step.node.name = step.node.op_type
    with pytest.raises(Refused, match="expected equal sizes, found 3 and 1"):
        check(program, standard_routes()["O0"])
