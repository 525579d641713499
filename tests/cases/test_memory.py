"""Public faults of memory reuse, updates in place and aliasing (part M), and their kin, with the right values by hand.

Every model runs with each way of reusing memory, optimised and as imported, dead bytes poisoned: three times on the
same input, on another one, and on the first again. All of that must give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlopt
from mlopt.compilation import compile_model, load_model
from mlopt.diagnostics import InputError
from mlopt.memory import Buffer, check_plan, max_live, plan
from mlopt.options import CompileOptions
from mlopt.passes.memref.summary import memory_summary
from mlopt.passes.pipelines import MEMORY_STRATEGIES, PipelineOptions
from tests.cases.models import check
from tests.frontend.onnx_models import model_of, value_info
from tests.fuzz.search import random_program

Arrays = Mapping[str, np.ndarray]


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto], x: np.ndarray, outputs: str = "y", constants: Arrays | None = None
) -> onnx.ModelProto:
    return model_of(nodes, [value_info("x", x)], outputs.split(), constants)


def ways() -> Iterator[CompileOptions]:
    """Every way of reusing memory, dead bytes poisoned."""
    for strategy, optimize, inplace in product(MEMORY_STRATEGIES, (True, False), (True, False)):
        pipeline = PipelineOptions(optimize=optimize, inplace=inplace, memory_reuse=strategy)
        yield CompileOptions(pipeline=pipeline, poison=True)


def bits(outputs: Arrays) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in outputs.items()}


def moved(array: np.ndarray) -> np.ndarray:
    """Another input: the elements in reverse order."""
    return np.ascontiguousarray(array.reshape(-1)[::-1]).reshape(array.shape)


def check_reuse(onnx_model: onnx.ModelProto, inputs: Arrays, want: Arrays) -> None:
    """M15 for a model: all ways give `want`, every time; nothing returned or given is written by a later run."""
    check(onnx_model, inputs, want)
    for options in ways():
        compiled = mlopt.compile(onnx_model, inputs=inputs, options=options)
        given = {name: array.copy() for name, array in inputs.items()}
        first = compiled.run(given)
        kept = bits(first)
        for name, array in first.items():
            np.testing.assert_allclose(array, want[name], rtol=1e-5)
            assert not any(np.shares_memory(array, other) for other in given.values())
        again = [compiled.run(given), compiled.run(given)]
        compiled.run({name: moved(array) for name, array in inputs.items()})
        again.append(compiled.run(given))
        assert [bits(outputs) for outputs in again] == [kept] * 3
        assert bits(first) == kept and bits(given) == bits(inputs)


# M01: a view keeps its storage alive.

VIEWS: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "Reshape": (
        [node("Reshape", "src flat", "v"), node("Reshape", "v shape", "left")],
        {"flat": i64(40), "shape": i64(5, 8)},
    ),
    "Flatten": (
        [node("Flatten", "src", "v", axis=0), node("Reshape", "v shape", "left")],
        {"shape": i64(5, 8)},
    ),
    "Squeeze": (
        [node("Unsqueeze", "src axis", "v"), node("Squeeze", "v axis", "left")],
        {"axis": i64(1)},
    ),
    "Identity": ([node("Identity", "src", "left")], {}),
    "Cast": ([node("Cast", "src", "left", to=TensorProto.FLOAT)], {}),
    "CastLike": ([node("CastLike", "src x", "left")], {}),
    "Slice": (
        [node("Slice", "src start end", "left")],
        {"start": i64(0, 0), "end": i64(5, 2**31)},
    ),
    "Pad": ([node("Pad", "src pads", "left")], {"pads": i64(0, 0, 0, 0)}),
    "Transpose": ([node("Transpose", "src", "left", perm=[0, 1])], {}),
    "Transpose twice": (
        [node("Transpose", "src", "v", perm=[1, 0]), node("Transpose", "v", "left", perm=[1, 0])],
        {},
    ),
    "Dropout": ([node("Dropout", "src", "left")], {}),
    "Expand": ([node("Expand", "src shape", "left")], {"shape": i64(5, 8)}),
    "Tile": ([node("Tile", "src ones", "left")], {"ones": i64(1, 1)}),
    "Concat of one": ([node("Concat", "src", "left", axis=0)], {}),
    "Split into one": ([node("Split", "src", "left", axis=0, num_outputs=1)], {}),
    "Split and Concat": (
        [node("Split", "src", "p q", axis=1, num_outputs=2), node("Concat", "p q", "left", axis=1)],
        {},
    ),
    "Sum of one": ([node("Sum", "src", "left")], {}),
    "DepthToSpace": (
        [node("Reshape", "src shape", "v"), node("DepthToSpace", "v", "w", blocksize=1),
         node("Reshape", "w back", "left")],
        {"shape": i64(1, 5, 2, 4), "back": i64(5, 8)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_m01_a_view_keeps_its_storage(view: str) -> None:
    """src = x + 0.25 is read through the view after right = x + 0.125 was written.

    The sum is 0.375; it is 0.25 if `right` is in the place of `src`.
    """
    nodes, constants = VIEWS[view]
    x = np.zeros((5, 8), np.float32)
    everything = [
        node("Add", "x quarter", "src"),
        *nodes,
        node("Add", "x eighth", "right"),
        node("Add", "left right"),
    ]
    constants = {**constants, "quarter": f32(0.25), "eighth": f32(0.125)}
    check_reuse(model(everything, x, constants=constants), {"x": x}, {"y": np.full((5, 8), f32(0.375))})


@pytest.mark.parametrize("view", VIEWS)
def test_m01_a_view_that_is_an_output(view: str) -> None:
    """The storage and its view are both outputs, and what is computed from them in place must change neither."""
    nodes, constants = VIEWS[view]
    x = np.zeros((5, 8), np.float32)
    everything = [
        node("Add", "x quarter", "src"),
        *nodes,
        node("Sqrt", "src", "root"),
        node("Exp", "left", "e"),
    ]
    want = {name: np.full((5, 8), f32(value)) for name, value in
            {"src": 0.25, "left": 0.25, "root": 0.5, "e": np.exp(f32(0.25))}.items()}  # fmt: skip
    onnx_model = model(everything, x, "src left root e", {**constants, "quarter": f32(0.25)})
    check_reuse(onnx_model, {"x": x}, want)


# M03: an output that nobody reads.


def test_m03_a_dead_output_has_space_of_its_own() -> None:
    x = f32([1, -2, 3, 4])
    nodes = [node("Split", "x", "first second", axis=0, num_outputs=2), node("Relu", "first")]
    check_reuse(model(nodes, x), {"x": x}, {"y": f32([1, 0])})


def test_m03_a_dead_second_result_of_one_kernel() -> None:
    """TopK writes values and indices; the indices are read by nobody while they are written."""
    x = f32([[3, 1, 2], [4, 6, 5]])
    nodes = [node("Neg", "x", "n"), node("TopK", "n k", "values indices"), node("Neg", "values", "y")]
    check_reuse(model(nodes, x, constants={"k": i64(2)}), {"x": x}, {"y": f32([[1, 2], [4, 5]])})


# M04: a graph input that is an output.


def test_m04_an_input_that_is_an_output_is_a_copy() -> None:
    x = f32([1, 2, 3])
    onnx_model = model([node("Add", "x ten", "y")], x, "x y", {"ten": f32(10)})
    for options in ways():
        compiled = mlopt.compile(onnx_model, inputs={"x": x}, options=options)
        given = [f32([k, k + 1, k + 2]) for k in range(5)]
        results = [compiled.run({"x": array}) for array in given]
        for k, result in enumerate(results):
            np.testing.assert_array_equal(result["x"], given[k])
            np.testing.assert_array_equal(result["y"], given[k] + 10)
            assert not np.shares_memory(result["x"], given[k])
        results[0]["x"][:] = -1
        np.testing.assert_array_equal(given[0], [0, 1, 2])
        np.testing.assert_array_equal(compiled.run({"x": given[0]})["x"], [0, 1, 2])


def test_m04_an_input_through_views_to_an_output() -> None:
    x = f32([[1, 2], [3, 4]])
    nodes = [node("Reshape", "x flat", "y"), node("Identity", "x", "z"), node("Neg", "x", "n")]
    want = {"y": f32([1, 2, 3, 4]), "z": x, "n": -x}
    check_reuse(model(nodes, x, "y z n", {"flat": i64(4)}), {"x": x}, want)


# M05: outputs that are constants.


@pytest.mark.parametrize("through", ["", "Identity", "Reshape"])
def test_m05_a_constant_output_survives_being_overwritten(through: str) -> None:
    nodes = {
        "": [node("Constant", "", "y", value_floats=[3.0, 2.0])],
        "Identity": [node("Identity", "c")],
        "Reshape": [node("Reshape", "c two")],
    }[through]
    constants = {} if not through else {"c": f32([3, 2]), "two": i64(2)}
    onnx_model = model_of(nodes, [], ["y"], constants)
    for options in ways():
        compiled = mlopt.compile(onnx_model, options=options)
        for _ in range(3):
            y = compiled.run({})["y"]
            np.testing.assert_array_equal(y, [3, 2])
            y[:] = -1


def test_m05_one_constant_as_two_outputs() -> None:
    onnx_model = model_of(
        [node("Identity", "c", "y"), node("Identity", "c", "z")], [], ["y", "z"], {"c": f32([3, 2])}
    )
    compiled = mlopt.compile(onnx_model)
    outputs = compiled.run({})
    outputs["y"][:] = -1
    np.testing.assert_array_equal(outputs["z"], [3, 2])
    np.testing.assert_array_equal(compiled.run({})["y"], [3, 2])


# M06: outputs that alias one another.


def test_m06_outputs_that_are_views_of_one_another() -> None:
    x = f32([[1, -2], [-3, 4]])
    nodes = [node("Relu", "x", "y1"), node("Reshape", "y1 four", "y2"), node("Identity", "y1", "y3")]
    onnx_model = model(nodes, x, "y1 y2 y3", {"four": i64(4)})
    right = f32([[1, 0], [0, 4]])
    check_reuse(onnx_model, {"x": x}, {"y1": right, "y2": right.reshape(4), "y3": right})
    outputs = mlopt.compile(onnx_model).run({"x": x})
    outputs["y1"][:] = 9
    np.testing.assert_array_equal(outputs["y2"], [1, 0, 0, 4])
    np.testing.assert_array_equal(outputs["y3"], right)


# M07: in place, with operands that are the same buffer, or smaller than the result.


def test_m07_a_buffer_with_itself_and_with_its_transpose() -> None:
    """t = [[1, 2], [3, 4]], q = [[1, 4], [9, 16]]."""
    x = f32([[0, 1], [2, 3]])
    nodes = [
        node("Add", "x one", "t"),
        node("Mul", "t t", "q"),
        node("Transpose", "q", "r", perm=[1, 0]),
        node("Add", "q r"),
    ]
    check_reuse(model(nodes, x, constants={"one": f32(1)}), {"x": x}, {"y": f32([[2, 13], [13, 32]])})


@pytest.mark.parametrize("axis", [0, 1])
def test_m07_a_broadcast_operand_is_not_overwritten(axis: int) -> None:
    """The sum along an axis is smaller than what it is added to, and as large where the other extent is one."""
    x = f32([[0, 1], [2, 3]])
    nodes = [node("Mul", "x two", "t"), node("ReduceSum", "t axis", "s", keepdims=1), node("Add", "s t")]
    t = 2 * x
    constants = {"two": f32(2), "axis": i64(axis)}
    check_reuse(model(nodes, x, constants=constants), {"x": x}, {"y": t + t.sum(axis, keepdims=True)})


@pytest.mark.parametrize(
    "op_type", ["Softmax", "LayerNormalization", "CumSum", "Transpose", "MatMul", "ReduceMax"]
)
def test_m07_what_reads_elements_again_after_it_wrote(op_type: str) -> None:
    """Kernels that read an element for more than one of their results may not write over their operand."""
    x = f32([[0.5, -1, 2], [1, 3, -2], [0.25, 0.5, 1]])
    t = -x
    after, want, constants = {
        "Softmax": ([node("Softmax", "t", "s", axis=0)], np.exp(t) / np.exp(t).sum(0), {}),
        "LayerNormalization": (
            [node("LayerNormalization", "t g", "s", axis=-1, epsilon=0.0)],
            (t - t.mean(1, keepdims=True)) / t.std(1, keepdims=True),
            {"g": f32([1, 1, 1])},
        ),
        "CumSum": ([node("CumSum", "t a", "s", reverse=1)], t[:, ::-1].cumsum(1)[:, ::-1], {"a": np.array(1)}),
        "Transpose": ([node("Transpose", "t", "s", perm=[1, 0])], t.T, {}),
        "MatMul": ([node("MatMul", "t t", "s")], t @ t, {}),
        "ReduceMax": (
            [node("ReduceMax", "t a", "m", keepdims=1), node("Sub", "t m", "s")],
            t - t.max(1, keepdims=True),
            {"a": i64(1)},
        ),
    }[op_type]  # fmt: skip
    nodes = [node("Neg", "x", "t"), *after, node("Abs", "s", "y")]
    check_reuse(model(nodes, x, constants=constants), {"x": x}, {"y": np.abs(want)})


# M08: an update from a shifted part of what is overwritten.


@pytest.mark.parametrize("shift", [1, -1])
def test_m08_a_shifted_copy(shift: int) -> None:
    """b = [1, 2, 3, 4]."""
    x = f32([0, 1, 2, 3])
    parts = ("zero one", "zero three") if shift == 1 else ("one four", "three four")
    nodes = [
        node("Add", "x c", "b"),
        node("Slice", f"b {parts[0]}", "p"),
        node("Slice", f"b {parts[1]}", "q"),
        node("Concat", "p q", axis=0),
    ]
    constants = {"c": f32(1), "zero": i64(0), "one": i64(1), "three": i64(3), "four": i64(4)}
    want = f32([1, 1, 2, 3]) if shift == 1 else f32([2, 3, 4, 4])
    check_reuse(model(nodes, x, constants=constants), {"x": x}, {"y": want})


def test_m08_scattered_updates_read_the_old_elements() -> None:
    """Each element is moved on by one place: the updates are elements of the data itself."""
    x = f32([0, 1, 2, 3])
    nodes = [
        node("Add", "x one", "b"),
        node("Slice", "b first last", "updates"),
        node("ScatterElements", "b places updates", "y", axis=0),
    ]
    constants = {"one": f32(1), "first": i64(0), "last": i64(3), "places": i64(1, 2, 3)}
    check_reuse(model(nodes, x, constants=constants), {"x": x}, {"y": f32([1, 1, 2, 3])})


# M09: parts of a concatenation.


def test_m09_an_operand_that_is_concatenated_twice() -> None:
    x = f32([[1, 2], [3, 4]])
    nodes = [node("Add", "x one", "a"), node("Mul", "x two", "b"), node("Concat", "a b a", axis=1)]
    want = f32([[2, 3, 2, 4, 2, 3], [4, 5, 6, 8, 4, 5]])
    check_reuse(model(nodes, x, constants={"one": f32(1), "two": f32(2)}), {"x": x}, {"y": want})


@pytest.mark.parametrize("axis", [0, 1])
def test_m09_parts_of_two_concatenations_inputs_and_constants(axis: int) -> None:
    """`a` is a part of both, at different places; an input and a constant can't be made in place at all."""
    x = f32([[1, 2], [3, 4]])
    nodes = [
        node("Add", "x one", "a"),
        node("Concat", "x a c", "y", axis=axis),
        node("Concat", "a x", "z", axis=axis),
        node("Mul", "a a", "w"),
    ]
    c, a = f32([[7, 7], [7, 7]]), x + 1
    want = {"y": np.concatenate([x, a, c], axis), "z": np.concatenate([a, x], axis), "w": a * a}
    check_reuse(model(nodes, x, "y z w", {"one": f32(1), "c": c}), {"x": x}, want)


def test_m09_a_concatenation_of_a_concatenation() -> None:
    x = f32([1, 2])
    nodes = [
        node("Add", "x one", "a"),
        node("Neg", "x", "b"),
        node("Concat", "a b", "ab", axis=0),
        node("Exp", "b", "e"),
        node("Concat", "ab e ab", "y", axis=0),
    ]
    want = f32([2, 3, -1, -2, np.exp(-1), np.exp(-2), 2, 3, -1, -2])
    check_reuse(model(nodes, x, constants={"one": f32(1)}), {"x": x}, {"y": want})


# M10: loops and branches.


def loop(body_nodes: Sequence[onnx.NodeProto], names: Sequence[str]) -> onnx.GraphProto:
    """A body of a Loop that carries tensors of one element, `acc` to `out`, and so on."""
    carried = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names]
    results = [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [1]) for name in names]
    scalars = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
    ]
    go_on = helper.make_tensor_value_info("c_out", TensorProto.BOOL, [])
    return helper.make_graph(
        [node("Identity", "c", "c_out"), *body_nodes], "body", [*scalars, *carried], [go_on, *results]
    )


@pytest.mark.parametrize(("trips", "right"), [(3, 7.0), (0, 1.0), (1, 3.0)])
def test_m10_a_buffer_from_outside_is_read_in_every_iteration(trips: int, right: float) -> None:
    x = f32([1])
    body = loop([node("Add", "acc outer", "acc_out")], ["acc"])
    nodes = [node("Add", "x x", "outer"), node("Loop", "trips yes start", "y", body=body)]
    constants = {"trips": np.array(trips), "yes": np.array(True), "start": f32([1])}
    check_reuse(model(nodes, x, constants=constants), {"x": x}, {"y": f32([right])})


@pytest.mark.parametrize("trips", [0, 1, 2, 3])
def test_m10_carried_buffers_that_change_places(trips: int) -> None:
    """a, b = b, a + b: each iteration reads both after one of them has moved. From 1, 1: Fibonacci."""
    x = f32([1])
    body = loop([node("Identity", "b", "a_out"), node("Add", "a b", "b_out")], ["a", "b"])
    nodes = [node("Abs", "x", "p"), node("Abs", "x", "q"), node("Loop", "trips yes p q", "y z", body=body)]
    constants = {"trips": np.array(trips), "yes": np.array(True)}
    fibonacci = [1, 1, 2, 3, 5]
    want = {"y": f32([fibonacci[trips]]), "z": f32([fibonacci[trips + 1]])}
    check_reuse(model(nodes, x, "y z", constants), {"x": x}, want)


@pytest.mark.parametrize("condition", [True, False])
def test_m10_storage_made_in_both_branches(condition: bool) -> None:
    x = f32([[1, 2, 3], [4, 5, 6]])
    result = [helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 3])]
    branch = helper.make_graph(
        [node("Reshape", "n flat", "v"), node("Reshape", "v shape", "r")], "branch", [], result
    )
    nodes = [
        node("Neg", "x", "n"),
        node("If", "cond", "m", then_branch=branch, else_branch=branch),
        node("Neg", "m"),
    ]
    inputs = {"x": x, "cond": np.array(condition)}
    onnx_model = model_of(
        nodes,
        [value_info(name, array) for name, array in inputs.items()],
        ["y"],
        {"flat": i64(6), "shape": i64(2, 3)},
    )
    for options in ways():
        compiled = mlopt.compile(onnx_model, options=options)
        for value in (condition, not condition, condition):
            np.testing.assert_array_equal(compiled.run({"x": x, "cond": np.array(value)})["y"], x)


# M11: batches that become known at run time.


def test_m11_batches_of_every_size_in_one_session() -> None:
    generator = np.random.default_rng(0)
    w = generator.standard_normal((2, 3, 3, 3), np.float32)
    x = generator.standard_normal((7, 3, 5, 5), np.float32)
    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c")]
    onnx_model = model_of(nodes, [value_info("x", x, ["n", 3, 5, 5])], ["y"], {"w": w})
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    right = np.maximum(np.einsum("ncijkl,ockl->noij", windows, w.astype(np.float64)), 0)
    compiled = mlopt.compile(onnx_model, dims={"n": 2}, options=CompileOptions(poison=True))
    for batch in (1, 2, 7, 0, 2):
        y = compiled.run({"x": x[:batch]})["y"]
        assert y.shape == (batch, 2, 5, 5)
        np.testing.assert_allclose(y, right[:batch], rtol=1e-5, atol=1e-5)


# M12: tensors without elements.


@pytest.mark.parametrize(
    ("nodes", "shapes", "right"),
    [
        ([node("MatMul", "x w")], {"x": (0, 3), "w": (3, 2)}, np.zeros((0, 2))),
        ([node("MatMul", "x w")], {"x": (2, 0), "w": (0, 3)}, np.zeros((2, 3))),
        ([node("Concat", "x w", axis=0)], {"x": (2,), "w": (0,)}, np.ones(2)),
        ([node("ReduceSum", "x", "y", keepdims=0)], {"x": (0, 4), "w": (1,)}, np.zeros(())),
        (
            [node("Neg", "w", "e"), node("Neg", "x", "n"), node("Exp", "e", "f"), node("Concat", "n f n", axis=0)],
            {"x": (2,), "w": (0,)},
            np.array([-1, -1, -1, -1]),
        ),
    ],
)  # fmt: skip
def test_m12_tensors_without_elements(
    nodes: list[onnx.NodeProto], shapes: Mapping[str, tuple[int, ...]], right: np.ndarray
) -> None:
    inputs = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    onnx_model = model_of(nodes, [value_info(name, array) for name, array in inputs.items()], ["y"])
    check_reuse(onnx_model, inputs, {"y": right.astype(np.float32)})


def test_m12_empty_buffers_take_no_space_and_overlap_nothing() -> None:
    buffers = [Buffer("a", 0, 2, 0), Buffer("b", 0, 2, 0), Buffer("c", 0, 2, 8)]
    for strategy in MEMORY_STRATEGIES:
        assert plan(buffers, strategy).height == 64
    check_plan(buffers, {"a": 0, "b": 0, "c": 0}, 64)


# M13: sizes and offsets beyond 32 bits.


def test_m13_sizes_beyond_32_bits() -> None:
    """Five tensors of 3 GiB that live at once: 15 GiB, exactly; likewise 2^31 + 8 elements of 4 bytes."""
    buffers = [Buffer(f"{k}", 0, 1, 3 << 30) for k in range(5)]
    for strategy in MEMORY_STRATEGIES:
        best = plan(buffers, strategy)
        assert (best.height, best.lower_bound) == (15 << 30, 15 << 30)
        assert sorted(best.offsets.values()) == [k * (3 << 30) for k in range(5)]
    large = Buffer("large", 0, 1, 4 * (2**31 + 8))
    assert max_live([large]) == plan([large]).height == 2**33 + 64


def test_m13_a_model_of_15_gib_is_planned() -> None:
    """Five tensors of 3 GiB are live while the first two are added up to a sixth; nothing is run, nothing allocated."""
    elements = (3 << 30) // 4
    nodes = [node("Sin", "x", "t0"), *(node("Sin", f"t{k}", f"t{k + 1}") for k in range(4)),
             node("Sum", "t0 t1 t2 t3 t4", "s"), node("ReduceMax", "s", "y", keepdims=0)]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [elements])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    options = CompileOptions(pipeline=PipelineOptions(optimize=False))
    summary = memory_summary(compile_model(load_model(onnx_model, options), "memref").module)
    assert summary.max_live_bytes == 6 * (3 << 30)
    assert summary.arena_bytes == summary.max_live_bytes + summary.workspace_bytes


# M14: arrays that are not as kernels like them.


def awkward(x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The same numbers in other layouts."""
    for shift in (1, 2, 4, 8):
        raw = np.zeros(x.nbytes + 64, np.uint8)
        array = raw[shift : shift + x.nbytes].view(x.dtype).reshape(x.shape)
        array[...] = x
        yield f"{shift} bytes off", array
    yield "Fortran order", np.asfortranarray(x)
    yield "negative strides", np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    yield "every other", np.repeat(x, 2, axis=1)[:, ::2]
    yield "big endian", x.astype(x.dtype.newbyteorder(">"))
    readonly = x.copy()
    readonly.flags.writeable = False
    yield "read-only", readonly


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, ml_dtypes.bfloat16])
def test_m14_inputs_of_every_layout(dtype: Any) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)
    onnx_model = model([node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t")], x)
    compiled = mlopt.compile(onnx_model)
    right = compiled.run({"x": x})["y"]
    np.testing.assert_array_equal(right.astype(np.float64), (x.astype(int) @ x.astype(int).T).astype(dtype))
    for name, array in awkward(x) if dtype is not ml_dtypes.bfloat16 else ():
        assert compiled.run({"x": array})["y"].tobytes() == right.tobytes(), name


@pytest.mark.parametrize(
    ("layout", "found"),
    [
        ("1 bytes off", "that is not aligned"),
        ("Fortran order", "that is not C-contiguous"),
        ("negative strides", "that is not C-contiguous"),
        ("big endian", "of the other byte order"),
        ("read-only", "that is read-only"),
    ],
)
def test_m14_outputs_of_other_layouts_are_refused(layout: str, found: str) -> None:
    x = f32(np.arange(12).reshape(3, 4))
    compiled = mlopt.compile(model([node("Neg", "x")], x))
    out = dict(awkward(x))[layout]
    expected = 'output "y" must be an aligned, C-contiguous, writable array of the native byte order'
    with pytest.raises(InputError, match=f"{expected}, found one {found}"):
        compiled.run({"x": x}, out={"y": out})


# M15: reuse changes no bit, on models drawn at random.


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 7, 8])  # 6 draws an empty model
def test_m15_random_models_give_the_same_bits_with_and_without_reuse(seed: int) -> None:
    """As compiled for each strategy from the same passes, so that only the places of buffers differ."""
    program = random_program(Random(seed), most=6)
    inputs, other = program.feeds(0), program.feeds(1)
    for optimize, inplace in ((True, True), (False, False)):
        seen: list[list[dict[str, bytes]]] = []
        for strategy in MEMORY_STRATEGIES:
            pipeline = PipelineOptions(optimize=optimize, inplace=inplace, memory_reuse=strategy)
            options = CompileOptions(pipeline=pipeline, poison=True)
            compiled = mlopt.compile(program.model(), inputs=inputs, options=options)
            seen.append([bits(compiled.run(given)) for given in (inputs, inputs, inputs, other, inputs)])
        for runs in seen:
            assert runs[0] == runs[1] == runs[2] == runs[4] == seen[0][0]
            assert runs[3] == seen[0][3]
