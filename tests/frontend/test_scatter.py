"""ScatterElements, ScatterND, Scatter, TensorScatter at all levels: reductions, repeated indices, updates in place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from xdsl.dialects import memref

import mlopt
from mlopt.diagnostics import InputError, RunError
from tests.frontend.all_levels import check_all_levels, model_from
from tests.frontend.onnx_models import assert_close, one_node, run_mlopt

REDUCTIONS = ["add", "mul", "max", "min"]
RNG = np.random.default_rng(0)
Made = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small whole numbers, whose sums and products are exact."""
    return RNG.integers(0, 9, shape).astype(dtype)


def scatter(op_type: str, *arrays: Any, opset: int = 18, **attributes: Any) -> Made:
    """A model of one node and its inputs."""
    names = ("data", "indices", "updates") if op_type != "TensorScatter" else ("cache", "update", "start")
    inputs = {name: np.asarray(array) for name, array in zip(names, arrays, strict=False)}
    return one_node(op_type, inputs, opset=opset, **attributes), inputs


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reduction", ["none", *REDUCTIONS])
def test_elements_along_each_axis(reduction: str, axis: int) -> None:
    """Against onnxruntime; indices repeat where updates are combined, and some count from the end."""
    shape = (2, 3, 4)
    if reduction == "none":
        places = np.arange(shape[axis]).reshape([-1 if d == axis % 3 else 1 for d in range(3)])
        indices = np.broadcast_to(np.where(places == 1, -1, places), shape)
    else:
        indices = RNG.integers(-5, 5, shape)
    data = numbers(*(5 if d == axis % 3 else size + 1 for d, size in enumerate(shape)))
    check_all_levels(
        *scatter("ScatterElements", data, indices, numbers(*shape), axis=axis, reduction=reduction),
        mlir=axis == 1,
    )


@pytest.mark.parametrize("reduction", ["none", *REDUCTIONS])
@pytest.mark.parametrize(
    ("shape", "depth"), [((6,), 1), ((4, 5), 1), ((4, 5), 2), ((3, 2, 20), 1), ((3, 2, 20), 2)]
)
def test_slices_at_tuples(shape: tuple[int, ...], depth: int, reduction: str) -> None:
    """Against onnxruntime: elements, short and long rows."""
    count = 2 if reduction == "none" else 7
    indices = np.stack([RNG.permutation(n * count)[:count] % n - n * (count == 7) for n in shape[:depth]], -1)
    indices[0, 0] = -1 if reduction != "none" else indices[0, 0]
    if reduction == "none":
        indices[:, 0] = [0, -1]
    updates = numbers(count, *shape[depth:])
    check_all_levels(
        *scatter("ScatterND", numbers(*shape), indices, updates, reduction=reduction), mlir=False
    )


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize(
    ("data", "indices", "axis"),
    [
        ((50,), (70000,), 0),
        ((300, 200), (300, 300), 1),
        ((200, 300), (250, 300), 0),
        ((1, 9, 200), (1, 300, 200), 1),
    ],
)
def test_many_elements(data: tuple[int, ...], indices: tuple[int, ...], axis: int, reduction: str) -> None:
    """More than are written at a time, one after the other: `numpy` assigns and adds in that order too."""
    x, u, i = numbers(*data), numbers(*indices), RNG.integers(-data[axis], data[axis], indices)
    position: list[np.ndarray] = list(np.ogrid[tuple(slice(size) for size in indices)])
    position[axis] = i
    want = x.copy()
    if reduction == "none":
        want[tuple(position)] = u
    else:
        np.add.at(want, tuple(position), u)
    made = scatter("ScatterElements", x, i, u, axis=axis, reduction=reduction)
    check_all_levels(*made, {"y0": want}, mlir=False)


@pytest.mark.parametrize("width", [1, 4, 20])
def test_many_slices(width: int) -> None:
    x, u, i = numbers(9, 5, width), numbers(40000, width), RNG.integers(-5, 5, (40000, 2))
    want = x.copy()
    np.add.at(want, (i[:, 0], i[:, 1]), u)
    check_all_levels(*scatter("ScatterND", x, i, u, reduction="add"), {"y0": want}, mlir=False)


def test_the_last_of_several_updates_stays() -> None:
    """The standard leaves this open; mlopt writes in the order of the updates."""
    made = scatter("ScatterElements", np.zeros(3), np.array([1, 1, 1]), np.array([5.0, 6.0, 7.0]))
    check_all_levels(*made, {"y0": np.array([0.0, 7.0, 0.0])}, mlir=False)
    made = scatter("ScatterND", np.zeros((3, 2)), np.array([[1], [1]]), np.array([[5.0, 6.0], [7.0, 8.0]]))
    check_all_levels(*made, {"y0": np.array([[0.0, 0.0], [7.0, 8.0], [0.0, 0.0]])}, mlir=False)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint64, np.int64])
def test_integers_are_compared_as_they_are_meant(dtype: type) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    data, updates = np.array([low, high, 1], dtype), np.array([high, low, 2], dtype)
    for reduction, want in (("max", [high, high, 2]), ("min", [low, low, 1])):
        made = scatter("ScatterElements", data, np.array([0, 1, 2]), updates, reduction=reduction)
        check_all_levels(*made, {"y0": np.array(want, dtype)}, mlir=False)


def test_sums_of_integers_wrap() -> None:
    made = scatter(
        "ScatterND", np.array([255, 1], np.uint8), [[0], [0]], np.array([2, 3], np.uint8), reduction="add"
    )
    check_all_levels(*made, {"y0": np.array([4, 1], np.uint8)}, mlir=False)


def test_a_maximum_with_nan_is_nan() -> None:
    data, updates = np.float32([np.nan, 1, 1]), np.float32([1, np.nan, 2])
    made = scatter("ScatterElements", data, np.array([0, 1, 2]), updates, reduction="max")
    check_all_levels(*made, {"y0": np.float32([np.nan, np.nan, 2])}, mlir=False)


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, ml_dtypes.bfloat16, np.bool_, np.int16, np.complex64]
)
def test_other_types_are_written(dtype: Any) -> None:
    data, updates = np.array([0, 1, 1, 0]).astype(dtype), np.array([1, 0]).astype(dtype)
    model, inputs = scatter("ScatterElements", data, np.array([0, -2], np.int32), updates)
    want = np.array([1, 1, 0, 0]).astype(dtype)
    got = mlopt.compile(model).run(inputs)["y0"]
    assert got.dtype == dtype and got.tobytes() == want.tobytes()
    assert run_mlopt(model, inputs)["y0"].tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "arrays",
    [
        (np.zeros((0, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 3))),
        (np.ones((2, 3)), np.zeros((0, 3), np.int64), np.zeros((0, 3))),
        (np.ones((2, 3)), np.zeros((2, 0), np.int64), np.zeros((2, 0))),
    ],
)
def test_nothing_is_written(arrays: tuple[np.ndarray, ...]) -> None:
    check_all_levels(*scatter("ScatterElements", *arrays), {"y0": arrays[0]}, mlir=False)


@pytest.mark.parametrize(
    ("data", "indices", "updates"),
    [
        (np.ones((2, 3)), np.zeros((0, 1), np.int64), np.zeros((0, 3))),
        (np.ones((2, 0)), np.zeros((2, 1), np.int64), np.zeros((2, 0))),
    ],
)
def test_no_slice_is_written(data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> None:
    check_all_levels(*scatter("ScatterND", data, indices, updates), {"y0": data}, mlir=False)


def test_an_empty_tuple_is_the_whole_tensor() -> None:
    """`updates` holds two whole tensors, of which the second stays, or both are added. By hand."""
    data, indices, updates = np.ones((2, 2)), np.zeros((2, 0), np.int64), np.arange(8.0).reshape(2, 2, 2)
    check_all_levels(*scatter("ScatterND", data, indices, updates), {"y0": updates[1]}, mlir=False)
    made = scatter("ScatterND", data, indices, updates, reduction="add")
    check_all_levels(*made, {"y0": 1 + updates[0] + updates[1]}, mlir=False)


@pytest.mark.parametrize(
    ("op_type", "indices", "updates", "message"),
    [
        ("ScatterElements", [[0], [2]], [[1.0], [1.0]], "index 2 is out of bounds for axis 0 of size 2"),
        ("ScatterElements", [[0], [-3]], [[1.0], [1.0]], "index -3 is out of bounds for axis 0 of size 2"),
        ("ScatterND", [[0, 1], [0, 3]], [1.0, 1.0], "index 3 is out of bounds for axis 1 of size 3"),
        ("ScatterND", [[-3]], [[1.0] * 3], "index -3 is out of bounds for axis 0 of size 2"),
    ],
)
def test_an_index_out_of_bounds_is_an_error_at_its_node(
    op_type: str, indices: list[Any], updates: list[Any], message: str
) -> None:
    """Nothing is written then: the caller's array is as it was but for the data copied to it."""
    model, inputs = scatter(op_type, np.zeros((2, 3)), np.array(indices), np.array(updates))
    out = np.full((2, 3), 5.0)
    with pytest.raises(RunError, match=message) as error:
        mlopt.compile(model).executable.run(inputs, {"y0": out})
    assert error.value.place is not None and error.value.place.node == "n"
    np.testing.assert_array_equal(out, np.zeros((2, 3)))
    with pytest.raises(RunError, match="expected indices in"):
        run_mlopt(model, inputs)


def test_data_that_die_are_overwritten() -> None:
    """The sum is made in the output, and both scatters write there: no buffer, and no copy."""
    model = model_from(
        """g (float[4, 3] x, int64[2, 3] i, float[2, 3] u) => (float[4, 3] y) {
            a = Add(x, x)
            b = ScatterElements <axis = 0> (a, i, u)
            c = Unsqueeze <axes = [2]> (i)
            y = ScatterElements <axis = 1> (b, i, u)
        }""",
        opset=12,
    )
    inputs = {"x": numbers(4, 3), "i": np.array([[0, 1, 2], [2, 0, 1]]), "u": numbers(2, 3)}
    compiled = check_all_levels(model, inputs)
    assert not any(isinstance(op, memref.CopyOp) for op in compiled.compilation.module.walk())


def test_data_that_live_on_are_copied() -> None:
    """`a` is read after it was scattered into."""
    model = model_from(
        """g (float[4, 3] x, int64[2, 3] i, float[2, 3] u) => (float[4, 3] y) {
            a = Add(x, x)
            b = ScatterElements <axis = 0> (a, i, u)
            y = Sub(b, a)
        }"""
    )
    inputs = {"x": numbers(4, 3), "i": np.array([[0, 1, 2], [2, 0, 1]]), "u": numbers(2, 3)}
    check_all_levels(model, inputs)


def test_constant_data_are_copied() -> None:
    model, inputs = scatter("ScatterElements", np.zeros((2, 3)), np.array([[1, 0, 1]]), np.ones((1, 3)))
    constant = one_node("ScatterElements", {"i": inputs["indices"], "u": inputs["updates"]}, {"d": inputs["data"]},
                        operands=["d", "i", "u"])  # fmt: skip
    want = {"y0": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]])}
    compiled = check_all_levels(constant, {"i": inputs["indices"], "u": inputs["updates"]}, want, mlir=False)
    assert_close(compiled.run({"i": inputs["indices"], "u": inputs["updates"]}), want)
    check_all_levels(model, inputs, want, mlir=False)


@pytest.mark.parametrize(
    ("opset", "reduction", "known"), [(16, "max", "none, add, mul"), (18, "or", "none, add, mul, max, min")]
)
def test_a_reduction_that_the_version_lacks(opset: int, reduction: str, known: str) -> None:
    model, inputs = scatter("ScatterND", np.zeros(2), [[0]], [1.0], opset=opset, reduction=reduction)
    with pytest.raises(InputError, match=rf"expected a reduction \(one of {known}\), found '{reduction}'"):
        run_mlopt(model, inputs)


# TensorScatter


def written(cache: np.ndarray, update: np.ndarray, start: Any, axis: int) -> np.ndarray:
    """What the standard says, position by position, wrapping around."""
    result = np.moveaxis(cache.copy(), axis, 1)
    moved = np.moveaxis(update, axis, 1)
    for batch in range(len(cache)):
        for step in range(moved.shape[1]):
            result[batch, (start[batch] + step) % result.shape[1]] = moved[batch, step]
    return np.moveaxis(result, 1, axis)


@pytest.mark.parametrize(
    ("shape", "axis", "length"),
    [((2, 6, 3), 1, 2), ((2, 3, 6, 4), -2, 3), ((2, 2, 6), -1, 6), ((3, 4), 1, 0)],
)
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_is_updated(shape: tuple[int, ...], axis: int, length: int, mode: str) -> None:
    cache = numbers(*shape)
    update = numbers(*(length if d == axis % len(shape) else n for d, n in enumerate(shape)))
    room = shape[axis] - length if mode == "linear" else shape[axis] - 1
    start = np.array([room, 0, 0][: shape[0]])
    want = {"y0": written(cache, update, start, axis)}
    check_all_levels(*scatter("TensorScatter", cache, update, start, opset=24, axis=axis, mode=mode), want)
    want = {"y0": written(cache, update, 0 * start, axis)}
    check_all_levels(
        *scatter("TensorScatter", cache, update, opset=24, axis=axis, mode=mode), want, mlir=False
    )


@pytest.mark.parametrize(
    ("start", "message"), [(5, "index 6 is out of bounds"), (-1, "index 6 is out of bounds")]
)
def test_an_update_outside_of_the_cache(start: int, message: str) -> None:
    model, inputs = scatter("TensorScatter", numbers(1, 6, 2), numbers(1, 2, 2), np.array([start]), opset=24)
    with pytest.raises(RunError, match=message):
        mlopt.compile(model).run(inputs)


@pytest.mark.parametrize(
    ("update", "options", "message"),
    [
        ((1, 7, 2), {}, "expected an update like"),
        ((1, 2, 3), {}, "expected an update like"),
        ((1, 2, 2), {"axis": 0}, "an axis that is not 0"),
        ((1, 2, 2), {"mode": "mirror"}, "expected linear or circular as the mode, found 'mirror'"),
    ],
)
def test_what_tensor_scatter_refuses(update: tuple[int, ...], options: dict[str, Any], message: str) -> None:
    model, inputs = scatter("TensorScatter", numbers(1, 6, 2), numbers(*update), opset=24, **options)
    with pytest.raises(InputError, match=message):
        run_mlopt(model, inputs)


# Memory that is shared, and control flow

PLACES = np.array([[1, 0, 2], [3, 2, 0], [0, 1, 1], [2, 3, 3]])
WHERE = {
    "updates_that_are_the_data": """g (float[4, 3] x, int64[4, 3] i) => (float[4, 3] y) {
        a = Add(x, x)
        y = ScatterElements <axis = 0> (a, i, a)
    }""",
    "updates_that_are_a_view_of_the_data": """g (float[4, 3] x, int64[4, 3] i) => (float[4, 3] y) {
        a = Add(x, x)
        s = Constant <value_ints = [3, 4]> ()
        r = Reshape(a, s)
        t = Constant <value_ints = [4, 3]> ()
        u = Reshape(r, t)
        y = ScatterElements <axis = 0> (a, i, u)
    }""",
    "an_input_twice": """g (float[4, 3] x, int64[4, 3] i) => (float[4, 3] y) {
        y = ScatterElements <axis = 0> (x, i, x)
    }""",
    "a_loop_that_carries_the_data": """g (float[4, 3] x, int64[4, 3] i) => (float[4, 3] y) {
        n = Constant <value_int = 3> ()
        c = Constant <value = bool {1}> ()
        y = Loop(n, c, x) <body = b (int64 t, bool ci, float[4, 3] s) => (bool co, float[4, 3] so) {
            co = Identity(ci)
            one = Constant <value_int = 1> ()
            total = CumSum(s, one)
            r = ScatterElements <axis = 0, reduction = "add"> (s, i, s)
            so = Sub(total, r)
        }>
    }""",
    "a_scan_over_columns": """g (float[4, 3] x, int64[4, 3] i) => (float[4, 3] y) {
        z = Constant <value_floats = [0.0, 0.0, 0.0, 0.0]> ()
        s, y = Scan <num_scan_inputs = 2, scan_input_axes = [1, 1], scan_output_axes = [1],
            body = b (float[4] a, float[4] e, int64[4] p) => (float[4] ao, float[4] o) {
                zero = Constant <value_int = 0> ()
                q = CumSum(e, zero)
                ao = Add(a, q)
                o = ScatterElements <axis = 0, reduction = "max"> (ao, p, e)
            }> (z, x, i)
    }""",
}


@pytest.mark.parametrize("name", WHERE)
def test_memory_that_is_shared_or_carried(name: str) -> None:
    """Updates that alias the data, loops, and columns, which are no contiguous operands. Against onnxruntime."""
    places = np.argsort(numbers(4, 3), axis=0, kind="stable") if "add" not in WHERE[name] else PLACES
    check_all_levels(model_from(WHERE[name]), {"x": numbers(4, 3), "i": places})
