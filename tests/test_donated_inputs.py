"""Inputs whose memory is given up: what a run writes, where outputs come to lie, and what a caller may not pass."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

import mlopt
from mlopt.benchmark.engines import load_engine
from mlopt.cli.main import main
from mlopt.compilation import compile_model, load_model, main_function
from mlopt.interpreter.memref import Executable
from mlopt.ir.donations import Donation, donate
from mlopt.options import load_config
from mlopt.running import load_executable, prepare, traced_peak
from tests.strategies import GraphCase, graph_modules

Array = np.ndarray
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
POISONED = mlopt.CompileOptions(poison=True)


def value(name: str, shape: Sequence[int | str], type_: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, type_, shape)


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: Sequence[TensorProto] = (),
    opset: int = 18,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def scatter_nd() -> onnx.ModelProto:
    """A row of a cache is replaced; the whole is read."""
    nodes = [
        helper.make_node("ScatterND", ["cache", "at", "row"], ["new"]),
        helper.make_node("MatMul", ["query", "new"], ["y"]),
    ]
    inputs = [
        value("cache", [8, 4]),
        value("at", [1, 1], INT64),
        value("row", [1, 4]),
        value("query", [2, 8]),
    ]
    return model_of(nodes, inputs, [value("y", [2, 4]), value("new", [8, 4])])


def scatter_elements() -> onnx.ModelProto:
    nodes = [
        helper.make_node("ScatterElements", ["cache", "at", "row"], ["new"], axis=0),
        helper.make_node("ReduceSum", ["new"], ["y"]),
    ]
    inputs = [value("cache", [8, 4]), value("at", [1, 4], INT64), value("row", [1, 4])]
    return model_of(nodes, inputs, [value("y", [1, 1]), value("new", [8, 4])])


def tensor_scatter() -> onnx.ModelProto:
    nodes = [
        helper.make_node("TensorScatter", ["cache", "row", "at"], ["new"], axis=1),
        helper.make_node("ReduceSum", ["new"], ["y"]),
    ]
    inputs = [value("cache", [2, 8, 4]), value("row", [2, 1, 4]), value("at", [2], INT64)]
    return model_of(nodes, inputs, [value("y", [1, 1, 1]), value("new", [2, 8, 4])], opset=24)


def elementwise() -> onnx.ModelProto:
    """Two steps, which are one kernel or two."""
    nodes = [
        helper.make_node("Mul", ["cache", "row"], ["scaled"]),
        helper.make_node("Tanh", ["scaled"], ["new"]),
        helper.make_node("ReduceSum", ["new"], ["y"]),
    ]
    return model_of(
        nodes, [value("cache", [8, 4]), value("row", [1, 4])], [value("y", [1, 1]), value("new", [8, 4])]
    )


def state_of_a_cell() -> onnx.ModelProto:
    """The state is read by a product, and what replaces it comes out of another: not element by element."""
    weight = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    nodes = [
        helper.make_node("MatMul", ["cache", "w"], ["a"]),
        helper.make_node("Add", ["a", "row"], ["b"]),
        helper.make_node("Tanh", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "w"], ["new"]),
        helper.make_node("ReduceSum", ["c"], ["y"]),
    ]
    return model_of(
        nodes,
        [value("cache", [8, 4]), value("row", [1, 4])],
        [value("y", [1, 1]), value("new", [8, 4])],
        [numpy_helper.from_array(weight, "w")],
    )


def in_a_loop() -> onnx.ModelProto:
    """A loop carries the cache and updates a row of it in each trip."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Unsqueeze", ["i", "axes"], ["i1"]),
            helper.make_node("ScatterND", ["before", "i1", "row"], ["after"]),
        ],
        "body",
        [value("i", [], INT64), value("go", [], TensorProto.BOOL), value("before", [8, 4])],
        [value("go_on", [], TensorProto.BOOL), value("after", [8, 4])],
    )
    nodes = [helper.make_node("Loop", ["trips", "", "cache"], ["new"], body=body)]
    weights = [
        numpy_helper.from_array(np.array(3), "trips"),
        numpy_helper.from_array(np.array([0, 1]), "axes"),
    ]
    return model_of(nodes, [value("cache", [8, 4]), value("row", [1, 4])], [value("new", [8, 4])], weights)


UPDATES = [scatter_nd, scatter_elements, tensor_scatter, elementwise, state_of_a_cell, in_a_loop]


def inputs_for(proto: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Random inputs; positions are 3 and less."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for each in proto.graph.input:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        is_float = each.type.tensor_type.elem_type == FLOAT
        arrays[each.name] = (
            rng.standard_normal(shape).astype(np.float32)
            if is_float
            else np.minimum(3, np.arange(np.prod(shape))).reshape(shape)
        )
    return arrays


def copies(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in arrays.items()}


def assert_equal(got: dict[str, Array], want: dict[str, Array]) -> None:
    assert list(got) == list(want)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("build", UPDATES)
def test_without_donation_inputs_stay_as_they_are(build: Callable[[], onnx.ModelProto]) -> None:
    proto = build()
    inputs = inputs_for(proto)
    given = copies(inputs)
    for array in given.values():
        array.flags.writeable = False
    results = mlopt.compile(proto).run(given)
    assert_equal(given, inputs)
    assert not any(np.may_share_memory(results["new"], array) for array in given.values())


@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("build", UPDATES)
def test_an_update_is_computed_in_the_input(
    build: Callable[[], onnx.ModelProto], named: bool, level: str
) -> None:
    """The result is the caller's own array; without optimisation it may be another, with the same numbers."""
    proto = build()
    inputs = inputs_for(proto)
    pipeline = mlopt.PipelineOptions(optimize=level != "O0", fusion=level == "O2")
    options = mlopt.CompileOptions(poison=True, pipeline=pipeline)
    want = mlopt.compile(proto, options=options).run(copies(inputs))
    donate = ["cache=new"] if named else ["cache"]
    model = mlopt.compile(proto, donate=donate, options=options)
    given = copies(inputs)
    results = model.run(given)
    assert_equal(results, want)
    if level != "O0":
        assert results["new"] is given["cache"]
        assert model.executable.copied_bytes == 0
        assert "memref.copy" not in model.ir("memref")
    assert [spec.name for spec in model.outputs] == list(want)

    given = copies(inputs)
    buffer = np.empty_like(given["cache"])
    results = model.run(given, {"new": buffer})
    assert results["new"] is buffer
    assert_equal(results, want)
    if level != "O0":  # it was copied there, and stays as it is
        assert model.executable.copied_bytes == buffer.nbytes
        np.testing.assert_array_equal(given["cache"], inputs["cache"])

    given = copies(inputs)
    assert_equal(
        model.run(given, {"new": given["cache"]}), want
    )  # the same array for both is what it is about


def concat(past: Sequence[int], new: Sequence[int], axis: int) -> onnx.ModelProto:
    """`present` is `past` and what is new; a reduction reads it."""
    whole = [*past[:axis], past[axis] + new[axis], *past[axis + 1 :]]
    nodes = [
        helper.make_node("Exp", ["token"], ["new"]),
        helper.make_node("Concat", ["past", "new"], ["present"], axis=axis),
        helper.make_node("ReduceMax", ["present"], ["y"]),
    ]
    return model_of(
        nodes,
        [value("past", past), value("token", new), value("other", past)],
        [value("y", [1] * len(whole)), value("present", whole)],
    )


CAPACITY = 9


def cache(capacity: int = CAPACITY, size: int = 5) -> tuple[Array, Array, Array]:
    """Memory of (2, capacity, 4), what lies in it, and what will."""
    memory = np.full((2, capacity, 4), 7, np.float32)
    memory[:, : size - 1] = np.arange(2 * (size - 1) * 4).reshape(2, size - 1, 4)
    return memory, memory[:, : size - 1], memory[:, :size]


def appending(donation: str, options: mlopt.CompileOptions = POISONED) -> mlopt.Model:
    return mlopt.compile(concat([2, 4, 4], [2, 1, 4], 1), donate=[donation], options=options)


TOKEN = {"token": np.full((2, 1, 4), 0.5, np.float32), "other": np.zeros((2, 4, 4), np.float32)}


def appended(past: Array) -> dict[str, Array]:
    present = np.concatenate([past, np.exp(TOKEN["token"])], axis=1)
    return {"y": present.max().reshape(1, 1, 1), "present": present}


@pytest.mark.parametrize(
    "options",
    [
        POISONED,
        mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=False)),
        mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(inplace=False)),
        mlopt.CompileOptions(validate=True),
    ],
    ids=["poison", "O0", "not in place", "validated"],
)
@pytest.mark.parametrize("capacity", [CAPACITY, 5])
def test_a_cache_grows_in_its_own_memory(capacity: int, options: mlopt.CompileOptions) -> None:
    """What may be passed is the same however it was compiled; what is copied is not."""
    model = appending(f"past=present@{capacity}", options)
    memory, past, present = cache(capacity)
    want = appended(past.copy())
    results = model.run({"past": past, **TOKEN}, {"present": present})
    assert results["present"] is present
    assert_equal(results, want)
    assert (memory[:, 5:] == 7).all()
    is_optimised = options.pipeline.optimize and options.pipeline.inplace
    assert (model.executable.copied_bytes == 0) == is_optimised
    assert model.compilation.validator is None or not model.compilation.validator.rejections


def test_memory_ends_with_the_output() -> None:
    """The last row of the last head may be the last bytes that there are."""
    model = appending(f"past=present@{CAPACITY}")
    memory = np.full(CAPACITY * 4 + 5 * 4, 7, np.float32)  # two heads of 9 rows but for the last 4 rows
    present = np.lib.stride_tricks.as_strided(memory, (2, 5, 4), (4 * 4 * CAPACITY, 16, 4))
    present[:, :4] = np.arange(32).reshape(2, 4, 4)
    want = appended(present[:, :4].copy())
    assert_equal(model.run({"past": present[:, :4], **TOKEN}, {"present": present}), want)
    assert model.executable.copied_bytes == 0
    assert (memory[5 * 4 : CAPACITY * 4] == 7).all()


@pytest.mark.parametrize("donation", ["past=present", "past", f"past=present@{CAPACITY}"])
def test_what_lies_elsewhere_is_copied(donation: str) -> None:
    model = appending(donation)
    _, past, _ = cache()
    apart = past.copy()
    want = appended(apart)

    results = model.run({"past": apart, **TOKEN})  # into new memory
    assert_equal(results, want)
    assert model.executable.copied_bytes == past.nbytes
    np.testing.assert_array_equal(apart, past)

    out = np.empty((2, 5, 4), np.float32)  # which has not the strides of the capacity
    assert_equal(model.run({"past": apart, **TOKEN}, {"present": out}), want)
    has_strides = "@" not in donation
    assert model.executable.copied_bytes == past.nbytes + (0 if has_strides else out.nbytes)

    assert_equal(model.run({"past": apart[:, ::-1][:, ::-1], **TOKEN}), want)
    assert_equal(model.run({"past": apart.astype(">f4"), **TOKEN}), want)
    shifted = np.empty((2, 6, 4), np.float32)  # it overlaps its output, but is another part of it
    shifted[:, 1:5] = apart
    if has_strides:
        whole = np.empty((2, 5, 4), np.float32)
        whole[:, 1:] = apart
        assert_equal(model.run({"past": whole[:, 1:], **TOKEN}, {"present": whole}), want)
    assert_equal(model.run({"past": shifted[:, 1:5], **TOKEN}), want)


def test_a_result_has_room_for_more() -> None:
    """The output of one step lies in new memory of the capacity, so that it can be the input of the next."""
    model = appending(f"past=present@{CAPACITY}")
    _, past, _ = cache()
    present = model.run({"past": past.copy(), **TOKEN})["present"]
    assert present.shape == (2, 5, 4)
    assert present.strides == (4 * 4 * CAPACITY, 16, 4)


HOSTILE: dict[str, Callable[[Array, Array], tuple[dict[str, Array], dict[str, Array]]]] = {
    'input "past", which is donated, overlaps input "other"': lambda memory, present: (
        {"past": memory, "other": memory},
        {},
    ),
    'the array for output "present" overlaps input "other"': lambda memory, present: (
        {"past": memory, "other": present.reshape(-1)[:32].reshape(2, 4, 4)},
        {"present": present},
    ),
    'input "past", which is donated, overlaps the array for output "y"': lambda memory, present: (
        {"past": memory},
        {"y": memory[:1, :1, :1]},
    ),
    'the array for output "y" overlaps the array for output "present"': lambda memory, present: (
        {"past": memory},
        {"present": present, "y": present[1:, 1:2, 1:2]},
    ),
    'input "past" is donated, expected a writable array, found a read-only one': lambda memory, present: (
        {"past": np.broadcast_to(memory[:1], (2, 4, 4))},
        {},
    ),
    'input "past" has the type float64, expected float32': lambda memory, present: (
        {"past": memory.astype(np.float64)},
        {},
    ),
    'input "past": expected shape [2, 4, 4], found [2, 5, 4]': lambda memory, present: (
        {"past": present},
        {},
    ),
    'output "present" must be an aligned': lambda memory, present: (
        {"past": memory},
        {"present": np.broadcast_to(present[:1], (2, 5, 4))},
    ),
    'output "present" must be an aligned, C-contiguous, writable array of the native byte order, found one with '
    "several elements in one place": lambda memory, present: (
        {"past": memory},
        {"present": np.lib.stride_tricks.as_strided(present, (2, 5, 4), (8, 16, 4))},
    ),
    'output "y" must be an aligned, C-contiguous': lambda memory, present: (
        {"past": memory},
        {"y": np.broadcast_to(np.float32(1), (1, 1, 1))},
    ),
}


@pytest.mark.parametrize("message", HOSTILE)
@pytest.mark.parametrize("optimize", [True, False])
def test_what_a_caller_may_not_pass(message: str, optimize: bool) -> None:
    """Before anything is written, and however it was compiled."""
    options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=optimize))
    model = appending("past=present", options)
    memory, present = np.ones((2, 4, 4), np.float32), np.full((2, 5, 4), 2, np.float32)
    inputs, out = HOSTILE[message](memory, present)
    with pytest.raises(mlopt.InputError) as error:
        model.run({**TOKEN, **inputs}, out)
    assert error.value.message.startswith(message)
    assert (memory == 1).all() and (present == 2).all()


def test_inputs_that_are_only_read_may_overlap() -> None:
    model = appending("past=present")
    _, past, _ = cache()
    shared = np.zeros((2, 4, 4), np.float32)
    inputs = {"past": past.copy(), "other": shared, "token": shared[:, :1]}
    assert list(model.run(inputs)) == ["y", "present"]


def test_a_donated_input_is_returned_as_it_is() -> None:
    """One output is the caller's array; another of the same value has memory of its own."""
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in ("a", "b")]
    nodes.append(helper.make_node("Exp", ["x"], ["c"]))
    outputs = [value(name, [3]) for name in ("c", "a", "b")]
    proto = model_of(nodes, [value("x", [3])], outputs)
    for donation, first in (("x", "a"), ("x=a", "a"), ("x=b", "b")):
        model = mlopt.compile(proto, donate=[donation], options=POISONED)
        x = np.arange(3, dtype=np.float32)
        results = model.run({"x": x})
        assert list(results) == ["c", "a", "b"]
        assert results[first] is x
        np.testing.assert_array_equal(results["a"], np.arange(3))
        np.testing.assert_array_equal(results["b"], np.arange(3))
        np.testing.assert_array_equal(results["c"], np.exp(np.arange(3, dtype=np.float32)))


def test_an_input_is_kept_for_the_output_that_is_named() -> None:
    """`a` could lie in `x`, but it is for `b`, which is computed from it and in it."""
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Tanh", ["x"], ["b"])]
    proto = model_of(nodes, [value("x", [3])], [value("b", [3]), value("a", [3])])
    x = np.arange(3, dtype=np.float32)
    for name in ("a", "b"):
        model = mlopt.compile(proto, donate=[f"x={name}"], options=POISONED)
        given = x.copy()
        results = model.run({"x": given})
        np.testing.assert_array_equal(results["a"], np.exp(x))
        np.testing.assert_array_equal(results["b"], np.tanh(x))
        for other in {"a", "b"} - {name}:
            assert results[other] is not given


def test_two_donated_inputs_may_not_be_one_array() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Tanh", ["y"], ["b"])]
    proto = model_of(nodes, [value("x", [3]), value("y", [3])], [value("a", [3]), value("b", [3])])
    model = mlopt.compile(proto, donate=["x", "y"])
    array = np.zeros(4, np.float32)
    for other in (array[:3], array[1:]):
        with pytest.raises(mlopt.InputError, match="which is donated, overlaps input"):
            model.run({"x": array[:3], "y": other})
    assert list(model.run({"x": np.zeros(3, np.float32), "y": np.zeros(3, np.float32)})) == ["a", "b"]


def test_other_shapes_are_donated_too() -> None:
    """A version for another shape is compiled with the same donations; a cache that is full is an error."""
    nodes = [helper.make_node("Concat", ["past", "new"], ["present"], axis=1)]
    proto = model_of(
        nodes, [value("past", [2, "n", 4]), value("new", [2, 1, 4])], [value("present", [2, "m", 4])]
    )
    model = mlopt.compile(proto, dims={"n": 1}, donate=["past=present@4"], options=POISONED)
    memory = np.zeros((2, 4, 4), np.float32)
    want = memory[:, :1].copy()
    for step in range(1, 4):
        new = np.full((2, 1, 4), step, np.float32)
        want = np.concatenate([want, new], axis=1)
        present = memory[:, : step + 1]
        got = model.run({"past": memory[:, :step], "new": new}, {"present": present})["present"]
        assert got is present
        assert model.executable.copied_bytes == 0
        np.testing.assert_array_equal(got, want)
    with pytest.raises(
        mlopt.InputError, match='the capacity 4 for output "present" is less than its size, 5'
    ):
        model.run({"past": np.zeros((2, 4, 4), np.float32), "new": new})


def test_a_run_at_a_time() -> None:
    """The second of two runs at once is refused, and writes nothing into what it was given."""
    proto = model_of(
        [helper.make_node("Exp", ["x"], ["y"])], [value("x", [400, 400])], [value("y", [400, 400])]
    )
    model = mlopt.compile(proto, donate=["x=y"])
    refused: list[bool] = []

    def run() -> None:
        for _ in range(20):
            x = np.zeros((400, 400), np.float32)
            try:
                y = model.run({"x": x})["y"]
            except mlopt.RunError:
                refused.append(bool((x == 0).all()))
            else:
                assert y is x and (y == 1).all()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(refused)


def test_a_compiled_file_knows_its_donations(tmp_path: Path) -> None:
    """Saved at any level and loaded again; a file that is planned takes no more of them."""
    proto = concat([2, 4, 4], [2, 1, 4], 1)
    onnx.save(proto, tmp_path / "m.onnx")
    _, past, _ = cache()
    want = appended(past.copy())
    for level in ("graph", "kernel", "memref"):
        file = tmp_path / f"{level}.mlir"
        command = ["compile", str(tmp_path / "m.onnx"), "-o", str(file), "--to", level, "-q"]
        assert main([*command, "--donate", f"past=present@{CAPACITY}"]) == 0
        model = mlopt.compile(file, options=POISONED)
        _, past, present = cache()
        assert_equal(model.run({"past": past, **TOKEN}, {"present": present}), want)
        assert model.executable.copied_bytes == 0
    with pytest.raises(mlopt.InputError, match="the model is compiled already"):
        mlopt.compile(tmp_path / "memref.mlir", donate=["past"])


def test_runs_that_measure_get_fresh_inputs() -> None:
    """What a run overwrites is there again for the next, in memory in which nothing has to be copied."""
    proto = concat([2, 4, 4], [2, 1, 4], 1)
    options = mlopt.CompileOptions(donate=["past=present@9"])
    executable = load_executable(compile_model(load_model(proto, options))).executable
    _, past, _ = cache()
    inputs = {"past": past.copy(), **TOKEN}
    prepared = prepare(executable, inputs)
    for _ in range(3):
        prepared.refill()
        assert_equal(executable.run(prepared.inputs, prepared.out), appended(past))
        assert executable.copied_bytes == 0
        prepared.inputs["past"][...] = np.nan
    before = inputs["past"].copy()
    assert traced_peak(executable, inputs) > 0
    np.testing.assert_array_equal(inputs["past"], before)


ERRORS = {
    "cach": 'there is no input "cach" to donate; expected "cache", "at", "row", "query"; did you mean \'cache\'?',
    "cache=z": 'there is no output "z" to donate input "cache" to; expected "y", "new"',
    "cache=y": 'input "cache" of type tensor<8x4xf32> can\'t be donated to output "y" of type tensor<2x4xf32>',
    "cache=new@9": "a capacity goes with an output that is longer than its input",
    "=new": "expected a donation as INPUT, INPUT=OUTPUT or INPUT=OUTPUT@CAPACITY, found '=new'",
    "cache=": "expected a donation as",
    "cache=new@": "expected a donation as",
    "cache=new@-1": "expected a donation as",
    "cache=@4": "expected a donation as",
}


@pytest.mark.parametrize("donation", ERRORS)
def test_donations_that_can_not_be(donation: str) -> None:
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(scatter_nd(), donate=[donation])
    assert error.value.message.startswith(ERRORS[donation])


@pytest.mark.parametrize(
    ("donations", "message"),
    [
        (["cache", "cache=new"], 'input "cache" is donated twice'),
        (["cache=new", "query=new"], 'inputs "cache" and "query" are both donated to output "new"'),
        ("cache", "expected donations as a list, found 'cache'"),
    ],
)
def test_donations_that_can_not_be_together(donations: Sequence[str], message: str) -> None:
    with pytest.raises(mlopt.InputError) as error:
        mlopt.compile(scatter_nd(), donate=donations)
    assert error.value.message == message


def test_a_configuration_file_donates(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"donate": ["cache=new"]}')
    options = load_config(file, mlopt.CompileOptions(donate=["row"]))
    assert options.donate == (Donation("cache", "new"), "row")
    file.write_text('{"donate": ["cache", "=new"]}')
    with pytest.raises(mlopt.InputError, match="expected a donation as") as error:
        load_config(file, mlopt.CompileOptions())
    assert error.value.place is not None and (error.value.place.line, error.value.place.column) == (1, 23)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run whose outputs are those of the inputs as they were, what it copied, and a wrong donation."""
    onnx.save(concat([2, 4, 4], [2, 1, 4], 1), tmp_path / "m.onnx")
    _, past, _ = cache()
    inputs = {"past": past, **TOKEN}
    np.savez(
        tmp_path / "io.npz",
        **{f"in:{name}": array for name, array in inputs.items()},
        **{f"out:{name}": array for name, array in appended(past).items()},
    )
    command = ["run", str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "io.npz"), "-q"]
    command += ["--check", str(tmp_path / "io.npz"), "--report", str(tmp_path / "r.json")]
    for donation, output in (("past=present@9", "present"), ("past,other", "present")):
        assert main([*command, "--donate", donation]) == 0
        memory = json.loads((tmp_path / "r.json").read_text())["memory"]
        assert memory["donated"][0]["output"] == output
        assert memory["run_copied_bytes"] == past.nbytes  # from where the file was read to
    assert main([*command, "--donate", "past="]) == 2
    assert "--donate: expected a donation as" in capsys.readouterr().err
    assert main([*command, "--donate", "past=y"]) == 1
    assert 'can\'t be donated to output "y"' in capsys.readouterr().err


def test_a_benchmark_runs_on_the_same_inputs_each_time(tmp_path: Path) -> None:
    onnx.save(elementwise(), tmp_path / "m.onnx")
    inputs = inputs_for(elementwise())
    want = mlopt.compile(elementwise()).run(copies(inputs))
    options = mlopt.CompileOptions(donate=["cache=new"])
    engine = load_engine("mlopt", tmp_path / "m.onnx", options, inputs, 1)
    for _ in range(3):
        engine.refill()
        assert_equal(engine.run(), want)
    assert_equal(dict(engine.loaded.inputs), inputs_for(elementwise()))


@settings(max_examples=40, deadline=None)
@given(case=graph_modules(max_ops=10), data=st.data())
def test_random_graphs_have_the_same_bits_with_and_without_donation(
    case: GraphCase, data: st.DataObject
) -> None:
    """All inputs of random graphs donated, or some; poisoned, at every level of optimisation."""
    names = list(case.inputs)
    donated = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    level = data.draw(st.sampled_from(["O0", "O1", "O2", "O3"]))
    pipeline = mlopt.PipelineOptions(
        optimize=level != "O0", fusion=level in ("O2", "O3"), thorough=level == "O3"
    )
    results: list[dict[str, Array]] = []
    for donations in ([], donated):
        options = mlopt.CompileOptions(pipeline=pipeline, donate=donations)
        compilation = load_model("func.func @main() {\n  func.return\n}\n", mlopt.CompileOptions())
        compilation.module, compilation.options, compilation.ctx.weights = (
            case.module.clone(),
            options,
            case.weights,
        )
        donate(main_function(compilation.module), donations)
        executable = Executable(compile_model(compilation).module, case.weights, poison=True)
        inputs = {name: array.copy() for name, array in case.inputs.items()}
        results.append(executable.run(inputs))
        for name, array in inputs.items():
            if name not in donations:
                np.testing.assert_array_equal(array, case.inputs[name])
    want, got = results
    assert list(got) == list(want)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=f"{name} at {level}, donated {donated}")
