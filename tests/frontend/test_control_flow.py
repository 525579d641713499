"""If, Loop and Scan: at all levels against onnxruntime, or against values worked out by hand where these are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlopt
from mlopt import InputError, UnsupportedError
from tests.frontend.all_levels import check_all_levels, model_from
from tests.frontend.onnx_models import assert_close

X = np.arange(3, dtype=np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def run(text: str, inputs: dict[str, np.ndarray], opset: int = 18) -> dict[str, np.ndarray]:
    return mlopt.compile(model_from(text, opset), inputs=inputs).run(inputs)


def dialect_ops(model: mlopt.Model, level: Any) -> set[str]:
    return {op.name for op in model.compilation.levels[level].walk()}


# If.

IF = """
g (float[2] x, bool c) => (float[2] y) {
  y = If(c) <
    then_branch = t () => (float[2] k) <float[2] k = {1.0, 2.0}> {},
    else_branch = e () => (float[2] z) { z = Add(x, x) }
  >
}"""


@pytest.mark.parametrize(("condition", "right"), [(True, f32(1, 2)), (False, f32(18, 18))])
def test_a_branch_that_is_an_initializer(condition: bool, right: np.ndarray) -> None:
    inputs = {"x": f32(9, 9), "c": np.array(condition)}
    compiled = check_all_levels(model_from(IF), inputs, {"y": right})
    assert "scf.if" in dialect_ops(compiled, "memref")


@pytest.mark.parametrize(("condition", "right"), [(1, f32(1, 2)), (0, f32(18, 18))])
def test_a_constant_condition_picks_the_branch(condition: int, right: np.ndarray) -> None:
    text = IF.replace(", bool c", "").replace(
        "  y =", f"  c = Constant<value = bool {{{condition}}}>()\n  y ="
    )
    compiled = check_all_levels(model_from(text), {"x": f32(9, 9)}, {"y": right}, mlir=False)
    assert "scf.if" not in dialect_ops(compiled, "graph")


def test_one_compilation_holds_for_both_conditions() -> None:
    """The condition decides no shape, so that the module is not bound to the example's."""
    model = mlopt.compile(model_from(IF), inputs={"x": f32(9, 9), "c": np.array(True)})
    assert "mlopt.value" not in model.ir("graph")
    np.testing.assert_array_equal(model.run({"x": f32(9, 9), "c": np.array(False)})["y"], f32(18, 18))


@pytest.mark.parametrize("condition", [True, False])
def test_branches_of_views(condition: bool) -> None:
    """Storage that one branch makes is not used in the other: both are the identity."""
    text = """
    g (float[2, 3] x, bool c) => (float[2, 3] y) {
      s = Constant<value = int64[1] {6}>()
      t = Constant<value = int64[2] {2, 3}>()
      y = If(c) <
        then_branch = t () => (float[2, 3] a) { p = Reshape(x, s) a = Reshape(p, t) },
        else_branch = e () => (float[2, 3] b) { q = Reshape(x, s) b = Reshape(q, t) }
      >
    }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check_all_levels(model_from(text), {"x": x, "c": np.array(condition)}, {"y": x})


BRANCHES_OF_TWO_SHAPES = """
g (float[3] x, bool c) => (float[N] y) {
  y = If(c) <
    then_branch = t () => (float[3] a) { a = Neg(x) },
    else_branch = e () => (float[6] b) { b = Concat<axis = 0>(x, x) }
  >
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_that_decides_the_shape_is_guarded(condition: bool) -> None:
    inputs = {"x": X, "c": np.array(condition)}
    compiled = check_all_levels(model_from(BRANCHES_OF_TWO_SHAPES), inputs, mlir=False)
    assert "mlopt.value" in compiled.ir("graph")


def test_a_branch_that_does_not_fit_leaves_nothing_behind() -> None:
    """Both branches use what is computed in front of them; the one not taken can't be imported at all."""
    text = """
    g (float[3] x, bool c) => (float[3] y) {
      d = Neg(x)
      s = Constant<value = int64[1] {5}>()
      y = If(c) <
        then_branch = t () => (float[3] a) { a = Add(d, d) },
        else_branch = e () => (float[3] b) { p = Mul(d, d) b = Reshape(p, s) }
      >
    }"""
    check_all_levels(model_from(text), {"x": X, "c": np.array(True)}, {"y": -2 * X}, mlir=False)


def test_branches_of_two_shapes_without_an_example() -> None:
    message = r'If: "y" is tensor<3xf32> in one branch and tensor<6xf32> in the other'
    with pytest.raises(UnsupportedError, match=message):
        mlopt.compile(model_from(BRANCHES_OF_TWO_SHAPES))


# Loop.

CAPTURE = """
g (float[2] x, int64 trips, bool go) => (float[2] y) {
  outer = Add(x, x)
  one = Constant<value = float[2] {1.0, 1.0}>()
  y = Loop(trips, go, one) <body = b (int64 i, bool c, float[2] acc) => (bool co, float[2] an) {
    co = Identity(c)
    an = Add(acc, outer)
  }>
}"""


@pytest.mark.parametrize(("trips", "go", "right"), [(3, True, 7), (0, True, 1), (3, False, 1), (-2, True, 1)])
def test_a_captured_buffer_is_not_overwritten(trips: int, go: bool, right: float) -> None:
    """1 + trips * (1 + 1)."""
    inputs = {"x": f32(1, 1), "trips": np.array(trips), "go": np.array(go)}
    compiled = check_all_levels(model_from(CAPTURE), inputs, {"y": f32(right, right)}, mlir=trips == 3)
    assert "scf.for" in dialect_ops(compiled, "kernel")
    assert "mlopt.value" not in compiled.ir("graph")


WHILE = """
g (float[3] x, float limit, int64 most) => (float[3] y) {
  yes = Constant<value = bool {1}>()
  y = Loop(most, yes, x) <body = b (int64 i, bool c, float[3] a) => (bool co, float[3] an) {
    an = Add(a, x)
    s = ReduceMax<keepdims = 0>(an)
    co = Less(s, limit)
  }>
}"""


@pytest.mark.parametrize(("limit", "most"), [(9, 100), (9, 2), (-1, 5), (9, 0)])
def test_a_body_that_ends_the_loop(limit: float, most: int) -> None:
    inputs = {"x": X, "limit": np.array(limit, np.float32), "most": np.array(most)}
    compiled = check_all_levels(model_from(WHILE), inputs, mlir=most == 100)
    assert "scf.while" in dialect_ops(compiled, "kernel")


def test_a_loop_without_a_trip_count() -> None:
    text = WHILE.replace(", int64 most", "").replace("most", '""')
    check_all_levels(model_from(text), {"x": X, "limit": np.array(20, np.float32)}, {"y": X * 10})


def test_a_body_that_says_no_ends_the_loop_even_without_a_condition() -> None:
    """As in onnxruntime: one trip."""
    text = """
    g (float[3] x, int64 n) => (float[3] y) {
      y = Loop(n, "", x) <body = b (int64 i, bool c, float[3] a) => (bool co, float[3] an) {
        co = Constant<value = bool {0}>()
        an = Add(a, x)
      }>
    }"""
    check_all_levels(model_from(text), {"x": X, "n": np.array(4)}, {"y": 2 * X}, mlir=False)


SCAN_OUTPUTS = """
g (float[3] x) => (float[3] y, float[N, 3] ys, int64[M] numbers) {
  n = Constant<value = int64 {TRIPS}>()
  y, ys, numbers = Loop(n, "", x) <
    body = b (int64 i, bool c, float[3] a) => (bool co, float[3] an, float[3] out, int64 io) {
      co = Identity(c)
      f = Cast<to = 1>(i)
      an = Add(a, f)
      out = Mul(an, a)
      io = Identity(i)
    }
  >
}"""


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_scan_outputs_are_slices_of_one_tensor(trips: int) -> None:
    model = model_from(SCAN_OUTPUTS.replace("TRIPS", str(trips)))
    compiled = check_all_levels(model, {"x": X}, mlir=trips == 4)
    assert ("tensor.insert_slice" in dialect_ops(compiled, "kernel")) == (trips > 0)


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_carried_tensors_that_change_places(trips: int) -> None:
    text = """
    g (float[3] x, float[3] z, int64 n) => (float[3] y, float[3] w, float[3] u) {
      y, w = Loop(n, "", x, z) <
        body = b (int64 i, bool c, float[3] p, float[3] q) => (bool c, float[3] q, float[3] p) {}
      >
      u = Neg(x)
    }"""
    x, z = X, f32(5, 6, 7)
    swapped = (z, x) if trips % 2 else (x, z)
    want = {"y": swapped[0], "w": swapped[1], "u": -x}
    inputs = {"x": x, "z": z, "n": np.array(trips)}
    check_all_levels(model_from(text), inputs, want, mlir=trips == 3)


def test_a_branch_in_a_loop() -> None:
    text = """
    g (float[3] x, int64 n) => (float[3] y) {
      two = Constant<value = int64 {2}>()
      y = Loop(n, "", x) <body = b (int64 i, bool c, float[3] a) => (bool c, float[3] an) {
        odd = Mod(i, two)
        is_odd = Cast<to = 9>(odd)
        an = If(is_odd) <
          then_branch = t () => (float[3] r) { r = Add(a, x) },
          else_branch = e () => (float[3] s) { q = Mul(a, x) s = Neg(q) }
        >
      }>
    }"""
    check_all_levels(model_from(text), {"x": X, "n": np.array(5)})


@pytest.mark.parametrize("picked", [True, False])
def test_outputs_of_bodies_outlive_folding(picked: bool) -> None:
    """The body's condition is the Identity of a constant, and one branch returns a constant."""
    text = """
    g (float[3] x, bool p) => (float[3] y, float[3] z) {
      n = Constant<value = int64 {3}>()
      y = Loop(n, "", x) <body = b (int64 i, bool c, float[3] a) => (bool co, float[3] an) {
        t = Constant<value = bool {1}>()
        co = Identity(t)
        an = Add(a, x)
      }>
      z = If(p) <
        then_branch = t () => (float[3] r) { r = Constant<value = float[3] {1.0, 2.0, 3.0}>() },
        else_branch = e () => (float[3] s) { s = Identity(x) }
      >
    }"""
    want = {"y": 4 * X, "z": f32(1, 2, 3) if picked else X}
    check_all_levels(model_from(text), {"x": X, "p": np.array(picked)}, want)


GROWING = """
g (float[3] x, int64 n) => (float[N] y) {
  y = Loop(n, "", x) <body = b (int64 i, bool c, float[K] a) => (bool c, float[J] an) {
    an = Concat<axis = 0>(a, x)
  }>
}"""


def test_a_shape_that_changes_is_imported_trip_by_trip() -> None:
    want = {"y": np.tile(X, 4)}
    check_all_levels(model_from(GROWING), {"x": X, "n": np.array(3)}, want, mlir=False)


def test_a_shape_that_changes_over_unknown_trips() -> None:
    message = r'Loop: carries "x", which is tensor<3xf32> at first and tensor<6xf32> after a trip'
    with pytest.raises(UnsupportedError, match=message):
        mlopt.compile(model_from(GROWING))


COLLECTING = """
g (float[3] x, int64 n) => (float[N] y, float[M, K] ys) {
  y, ys = Loop(n, "", x) <body = b (int64 i, bool c, float[K] a) => (bool c, float[J] an, float[L] o) {
    an = Concat<axis = 0>(a, x)
    o = Neg(OUT)
  }>
}"""


@pytest.mark.parametrize("trips", [0, -1, 1, 3])
def test_a_shape_that_changes_beside_scan_outputs(trips: int) -> None:
    """No trip changes nothing: what is carried is what it was, and nothing is collected."""
    inputs = {"x": X, "n": np.array(trips)}
    collected = np.tile(-X, (max(trips, 0), 1))
    want = {"y": np.tile(X, max(trips, 0) + 1), "ys": collected}
    check_all_levels(model_from(COLLECTING.replace("OUT", "x")), inputs, want, mlir=False)


def test_a_loop_that_does_not_begin_changes_no_shape() -> None:
    text = COLLECTING.replace('Loop(n, "", x)', "Loop(n, go, x)").replace("int64 n)", "int64 n, bool go)")
    inputs = {"x": X, "n": np.array(3), "go": np.array(False)}
    want = {"y": X, "ys": np.zeros((0, 3), np.float32)}
    check_all_levels(model_from(text.replace("OUT", "x")), inputs, want, mlir=False)


def test_scan_outputs_of_two_shapes() -> None:
    """What the trips give is put one after the other: onnxruntime refuses it in the second trip."""
    inputs = {"x": X, "n": np.array(2)}
    message = r'Loop: collects "o", which is tensor<3xf32> in one trip and tensor<6xf32> in the next'
    with pytest.raises(InputError, match=message):
        run(COLLECTING.replace("OUT", "a"), inputs)
    check_all_levels(model_from(COLLECTING.replace("OUT", "a")), {"x": X, "n": np.array(1)}, mlir=False)


def test_scan_outputs_of_unknown_trips() -> None:
    text = SCAN_OUTPUTS.replace("(float[3] x)", "(float[3] x, int64 n)").replace(
        "n = Constant<value = int64 {TRIPS}>()", ""
    )
    with pytest.raises(
        UnsupportedError,
        match=r"has scan outputs, but how many trips it makes is not known .* without an example",
    ):
        mlopt.compile(model_from(text))
    inputs = {"x": X, "n": np.array(2)}
    assert run(text, inputs)["ys"].shape == (2, 3)


def test_a_body_of_another_signature() -> None:
    text = CAPTURE.replace(", float[2] acc)", ")").replace("acc", "one")
    with pytest.raises(InputError, match=r'Loop: expected 3 inputs of "b", found 2'):
        mlopt.compile(model_from(text))


def test_an_initializer_that_is_first_used_in_a_body_serves_outside_too() -> None:
    text = """
    g (float[2] x, int64 n) => (float[2] y, float[2] z) <float[2] k = {3.0, 4.0}> {
      y = Loop(n, "", x) <body = b (int64 i, bool c, float[2] a) => (bool c, float[2] an) { an = Mul(a, k) }>
      z = Add(x, k)
    }"""
    want = {"y": f32(9, 16), "z": f32(4, 5)}
    check_all_levels(model_from(text), {"x": f32(1, 1), "n": np.array(2)}, want, mlir=False)


def nested(depth: int, innermost: str) -> str:
    """Loops of two trips in each other, around one node."""
    text = innermost
    for level in range(depth):
        text = f"""
        r{level} = Loop(n, "", x) <
          body = b{level} (int64 i{level}, bool c{level}, float[3] a{level}) => (bool c{level}, float[3] s{level}) {{
            {text}
            s{level} = Identity(a{level})
          }}
        >"""
    return f"g (float[3] x) => (float[3] y) {{ n = Constant<value = int64 {{2}}>() {text} y = Identity(x) }}"


def test_nested_loops_that_can_not_be_imported_take_no_exponential_time() -> None:
    """Each level is tried as a loop and trip by trip: 2 ** 20 imports of the node that fails."""
    with pytest.raises(InputError, match="expected a result of 3 elements"):
        mlopt.compile(model_from(nested(20, "k = Constant<value = int64[1] {5}>() q = Reshape(x, k)")))


def test_unsigned_integers_and_booleans_are_carried() -> None:
    """x + x + x in 8 bits, and an odd number of negations."""
    text = """
    g (uint8[3] x, int64 n, bool go) => (uint8[3] y, uint8[2, 3] ys, bool[3] z) {
      two = Constant<value = int64 {2}>()
      y, ys = Loop(two, go, x) <body = b (int64 i, bool c, uint8[3] a) => (bool c, uint8[3] an, uint8[3] o) {
        an = Add(a, x)
        o = Identity(an)
      }>
      f = Cast<to = 9>(x)
      z = Loop(n, "", f) <body = n (int64 j, bool d, bool[3] p) => (bool d, bool[3] q) { q = Not(p) }>
    }"""
    x = np.array([200, 1, 0], np.uint8)
    want = {"y": x + x + x, "ys": np.stack([x + x, x + x + x]), "z": x == 0}
    check_all_levels(model_from(text), {"x": x, "n": np.array(3), "go": np.array(True)}, want)


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_carried_tensors_that_begin_as_the_same(trips: int) -> None:
    """One input begins two of them, an initializer another, and a body's output is captured."""
    text = """
    g (float16[3] x, int64 n) => (float16[3] y, float16[3] z, float16[3] w) <float16[3] k = {1, 2, 3}> {
      y, z, w = Loop(n, "", x, x, k) <
        body = b (int64 i, bool c, float16[3] p, float16[3] q, float16[3] r)
            => (bool c, float16[3] r2, float16[3] x2, float16[3] s) {
          r2 = Identity(r)
          x2 = Identity(x)
          s = Add(p, q)
        }
      >
    }"""
    inputs = {"x": np.array([0.5, 1, 2], np.float16), "n": np.array(trips)}
    check_all_levels(model_from(text), inputs, mlir=trips == 5)


@pytest.mark.parametrize("going", [True, False])
def test_counts_and_conditions_of_rank_one(going: bool) -> None:
    text = """
    g (float[3] x, int64[1] n, bool[1] c) => (float[3] y, float[3] z) {
      y = Loop(n, c, x) <body = b (int64[1] i, bool[1] d, float[3] a) => (bool[1] d, float[3] an) {
        an = Add(a, x)
      }>
      z = If(c) <
        then_branch = t () => (float[3] r) { r = Neg(x) },
        else_branch = e () => (float[3] s) { s = Identity(y) }
      >
    }"""
    want = {"y": X * (4 if going else 1), "z": X * (-1 if going else 1)}
    inputs = {"x": X, "n": np.array([3]), "c": np.array([going])}
    check_all_levels(model_from(text), inputs, want, mlir=False)


def test_text_of_a_loop_without_operations_of_the_graph_dialect() -> None:
    text = """
    g (int64 x, int64 n) => (int64 y) {
      y = Loop(n, "", x) <body = b (int64 i, bool c, int64 a) => (bool c, int64 j) { j = Identity(i) }>
    }"""
    inputs = {"x": np.array(7), "n": np.array(3)}
    graph_level = check_all_levels(model_from(text), inputs, {"y": np.array(2)}, mlir=False).ir("graph")
    assert "graph." not in graph_level
    assert mlopt.compile(graph_level).run(inputs)["y"] == 2


# Scan.

RUNNING_SUM = """
g (float[3] h, float[3, 4] x, float[4, 2] z) => (float[3] last, float[3, 4] sums, float[4, 2] zs) {
  last, sums, zs = Scan<
    num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [D, 0],
    scan_output_axes = [-1, 0], scan_output_directions = [0, D],
    body = b (float[3] a, float[3] xs, float[2] zi) => (float[3] an, float[3] out, float[2] zo) {
      an = Add(a, xs)
      out = Identity(an)
      zo = Neg(zi)
    }
  >(h, x, z)
}"""


@pytest.mark.parametrize("backwards", [0, 1])
def test_axes_and_directions_of_a_scan(backwards: int) -> None:
    x, z = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(8, dtype=np.float32).reshape(4, 2)
    model = model_from(RUNNING_SUM.replace("D", str(backwards)))
    sums = X[:, None] + np.cumsum(x[:, ::-1] if backwards else x, axis=1)
    want = {"last": sums[:, -1], "sums": sums, "zs": -(z[::-1] if backwards else z)}
    check_all_levels(model, {"h": X, "x": x, "z": z}, want)


def test_a_scan_over_nothing() -> None:
    inputs = {"h": X, "x": np.zeros((3, 0), np.float32), "z": np.zeros((0, 2), np.float32)}
    text = RUNNING_SUM.replace("D", "0").replace("3, 4", "3, N").replace("4, 2", "N, 2")
    got = run(text, inputs)
    assert_close(got, {"last": X, "sums": inputs["x"], "zs": inputs["z"]})


def test_a_scan_of_two_lengths() -> None:
    text = RUNNING_SUM.replace("D", "0").replace("float[4, 2] z)", "float[5, 2] z)")
    with pytest.raises(InputError, match=r"Scan: expected one length of all that is scanned, found \[4, 5\]"):
        mlopt.compile(model_from(text))


def test_a_scan_over_batches() -> None:
    """Before version 9 the first axis of everything is a batch, the second is scanned."""
    text = """
    g (float[2, 3] h, float[2, 4, 3] x) => (float[2, 3] last, float[2, 4, 3] sums) {
      last, sums = Scan<num_scan_inputs = 1, directions = [1],
        body = b (float[3] a, float[3] xs) => (float[3] an, float[3] out) { an = Add(a, xs) out = Identity(an) }
      >("", h, x)
    }"""
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    sums = 1 + np.cumsum(x[:, ::-1], axis=1)
    want = {"last": sums[:, -1], "sums": sums}
    check_all_levels(model_from(text, 8), {"h": np.ones((2, 3), np.float32), "x": x}, want, mlir=False)
