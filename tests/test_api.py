"""`import mlopt`: compile from a path, a `ModelProto` or text; run; look at the IR and the memory."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import helper

import mlopt
import mlopt.model
from mlopt.cli.main import main
from mlopt.compilation import load_model
from mlopt.ir.printer import print_module
from mlopt.passes.pipelines import Level
from mlopt.save import save_model
from tests.small_models import batch_of, classifier, classify


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(classifier(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def assert_classifies(model: mlopt.Model, batch: int = 5) -> None:
    x = batch_of(batch)
    outputs = model.run({"x": x})
    assert outputs.keys() == {"y"}
    np.testing.assert_allclose(outputs["y"], classify(x), rtol=1e-5)


# Compiling


def test_from_a_path(path: Path) -> None:
    assert_classifies(mlopt.compile(path, dims={"batch": 5}))
    assert_classifies(mlopt.compile(str(path), inputs={"x": batch_of(5)}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.onnx", "no.onnx: expected an ONNX model, found no such file"),
        ("no.mlir", "no.mlir: no such model file"),
    ],
)
def test_an_error_names_the_file(name: str, message: str) -> None:
    """In the text of the exception, which is all that a traceback shows."""
    with pytest.raises(mlopt.InputError) as caught:
        mlopt.compile(name)
    assert str(caught.value) == message


def test_from_a_model_proto() -> None:
    assert_classifies(mlopt.compile(classifier(), dims={"batch": 5}))


@pytest.mark.parametrize("level", ["graph", "kernel", "memref"])
def test_from_text(path: Path, level: str) -> None:
    main(["compile", str(path), "--dim", "batch=5", "--to", level, "-o", str(path.with_name("c.mlir")), "-q"])
    text = path.with_name("c.mlir").read_text()
    weights = mlopt.CompileOptions(weights=path.with_name("c.safetensors"))
    assert_classifies(mlopt.compile(text, options=weights))
    assert_classifies(mlopt.compile(path.with_name("c.mlir")))


def test_text_whose_weights_are_not_given() -> None:
    text = load_model(classifier(), mlopt.CompileOptions(dims={"batch": 5}))
    with pytest.raises(
        mlopt.InputError, match=r'no weight "A" .*: give the file with .*CompileOptions\(weights=FILE\)'
    ):
        mlopt.compile(print_module(text.module))


def test_text_without_weights() -> None:
    text = """func.func @main(%x: tensor<3xf32> {mlopt.name = "x"}) -> (tensor<3xf32> {mlopt.name = "y"}) {
      %y = graph.relu %x : tensor<3xf32>
      return %y : tensor<3xf32>
    }"""
    outputs = mlopt.compile(text).run({"x": np.array([-1, 0, 2], np.float32)})
    assert outputs["y"].tolist() == [0, 0, 2]


def test_options(path: Path) -> None:
    plain = mlopt.PipelineOptions(optimize=False)
    options = mlopt.CompileOptions(pipeline=plain, poison=True, dims={"batch": 5})
    model = mlopt.compile(path, options=options)
    assert_classifies(model)
    assert model.report()["ops"]["kernel_launches"] == 9
    # An argument adds to the options.
    assert mlopt.compile(path, options=options, dims={"batch": 2}).inputs[0].shape == (2, 8)


# Running


def test_the_interface(path: Path) -> None:
    model = mlopt.compile(path, dims={"batch": 5})
    (x,), (y,) = model.inputs, model.outputs
    assert (x.name, x.shape, x.dtype) == ("x", (5, 8), np.dtype(np.float32))
    assert (y.name, y.shape, y.dtype) == ("y", (5, 3), np.dtype(np.float32))


def test_dimensions_are_whole_numbers() -> None:
    for number in (5, np.int64(5), np.uint8(5)):
        model = mlopt.compile(classifier(), dims={"batch": number})
        assert [spec.shape for spec in model.inputs] == [(5, 8)]
    for number in (2.5, 5.0, "5", None):
        with pytest.raises(
            mlopt.InputError, match=f'dimension "batch": expected a whole number, found {number!r}'
        ):
            mlopt.compile(classifier(), dims={"batch": number})  # pyright: ignore[reportArgumentType] (the fault)


def test_outputs_into_the_caller_s_arrays(path: Path) -> None:
    model = mlopt.compile(path, dims={"batch": 5})
    y = np.zeros((5, 3), np.float32)
    outputs = model.run({"x": batch_of(5)}, out={"y": y})
    assert outputs["y"] is y
    np.testing.assert_allclose(y, classify(batch_of(5)), rtol=1e-5)


def test_outputs_of_earlier_runs_stay(path: Path) -> None:
    model = mlopt.compile(path, dims={"batch": 5})
    first = model.run({"x": batch_of(5, seed=1)})["y"]
    kept = first.copy()
    model.run({"x": batch_of(5, seed=2)})
    np.testing.assert_array_equal(first, kept)


def test_other_shapes_are_compiled_when_first_met_and_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[object] = []

    def counted(*arguments: object, **keywords: object) -> object:
        loads.append(arguments)
        return load_model(*arguments, **keywords)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(mlopt.model, "load_model", counted)
    model = mlopt.compile(path, dims={"batch": 5})
    for batch in (5, 2, 5, 2, 7, 5):
        assert_classifies(model, batch)
        assert model.inputs[0].shape == (batch, 8)
    assert len(loads) == 3


def test_versions_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one used longest ago goes first."""
    monkeypatch.setattr(mlopt.model, "MAX_SPECIALISATIONS", 2)
    loads: list[int] = []

    def counted(*arguments: object, **keywords: object) -> object:
        loads.append(1)
        return load_model(*arguments, **keywords)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(mlopt.model, "load_model", counted)
    model = mlopt.compile(path, dims={"batch": 1})
    for batch, expected in ((2, 2), (1, 2), (3, 3), (1, 3), (2, 4)):
        assert_classifies(model, batch)
        assert len(loads) == expected


def reshaping_model() -> onnx.ModelProto:
    """`y = Reshape(x, Concat(rows, [-1]))`, where `rows` is an input of one number."""
    nodes = [
        helper.make_node("Concat", ["rows", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"]),
        helper.make_tensor_value_info("rows", onnx.TensorProto.INT64, [1]),
    ]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    rest = onnx.numpy_helper.from_array(np.array([-1]), "rest")
    return helper.make_model(helper.make_graph(nodes, "reshaping", inputs, outputs, [rest]))


def test_values_that_decide_shapes_are_compiled_when_first_met_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads: list[object] = []

    def counted(*arguments: object, **keywords: object) -> object:
        loads.append(arguments)
        return load_model(*arguments, **keywords)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(mlopt.model, "load_model", counted)
    x = np.arange(6, dtype=np.float32)
    model = mlopt.compile(reshaping_model(), inputs={"x": x, "rows": np.array([2])})
    for rows in (2, 3, 2, 6, 3):
        y = model.run({"x": x, "rows": np.array([rows])})["y"]
        np.testing.assert_array_equal(y, x.reshape(rows, -1))
    assert len(loads) == 3


@pytest.mark.parametrize("level", ["graph", "kernel", "memref"])
def test_ir_that_holds_for_one_value_refuses_another(level: Level) -> None:
    x = np.arange(6, dtype=np.float32)
    text = mlopt.compile(reshaping_model(), inputs={"x": x, "rows": np.array([2])}).ir(level)
    assert "mlopt.value = dense<2> : tensor<1xi64>" in text
    again = mlopt.compile(text)
    np.testing.assert_array_equal(again.run({"x": x, "rows": np.array([2])})["y"], x.reshape(2, 3))
    with pytest.raises(mlopt.InputError, match=r'"rows" is \[3\], but the model was compiled for \[2\]'):
        again.run({"x": x, "rows": np.array([3])})


def test_a_value_that_decides_shapes_must_be_known() -> None:
    with pytest.raises(mlopt.UnsupportedError, match=r'needs the shape "shape" at compile time'):
        mlopt.compile(reshaping_model(), dims={"n": 6})


def test_inputs_whose_values_decide_nothing_are_free() -> None:
    """`Shape` of an input asks for its extents only, and no operator asks for the values that are added."""
    nodes = [
        helper.make_node("Shape", ["like"], ["shape"]),
        helper.make_node("Expand", ["x", "shape"], ["wide"]),
        helper.make_node("Add", ["wide", "like"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in ("x", "like")]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    one = np.ones(2, np.float32)
    source = helper.make_model(helper.make_graph(nodes, "expanding", inputs, outputs))
    model = mlopt.compile(source, inputs={"x": one, "like": one})
    assert "mlopt.value" not in model.ir("graph")
    np.testing.assert_array_equal(model.run({"x": one, "like": 4 * one})["y"], 5 * one)


def test_a_failed_run_changes_nothing(path: Path) -> None:
    model = mlopt.compile(path, dims={"batch": 5})
    for inputs in ({}, {"x": batch_of(5)[:, :7]}, {"x": batch_of(5).astype(np.float64)}, {"z": batch_of(5)}):
        with pytest.raises(mlopt.InputError):
            model.run(inputs)
    assert model.inputs[0].shape == (5, 8)
    assert_classifies(model)


def test_a_second_concurrent_run_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = mlopt.compile(path, dims={"batch": 5})
    entered, leave = threading.Event(), threading.Event()
    run = model.executable.run

    def slow(*arguments: object) -> object:
        entered.set()
        assert leave.wait(60)
        return run(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(model.executable, "run", slow)
    thread = threading.Thread(target=model.run, args=({"x": batch_of(5)},))
    thread.start()
    assert entered.wait(60)
    try:
        with pytest.raises(mlopt.RunError, match="already running"):
            model.run({"x": batch_of(5)})
    finally:
        leave.set()
        thread.join()
    assert_classifies(model)


def test_two_models_run_at_the_same_time(path: Path) -> None:
    """State is not shared: each has its own arena."""
    models = [mlopt.compile(path, dims={"batch": 5}) for _ in range(2)]
    results: dict[int, list[np.ndarray]] = {0: [], 1: []}

    def work(index: int) -> None:
        for _ in range(50):
            results[index].append(models[index].run({"x": batch_of(5, seed=index)})["y"])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, outputs in results.items():
        assert len(outputs) == 50
        for output in outputs:
            np.testing.assert_allclose(output, classify(batch_of(5, seed=index)), rtol=1e-5)


@pytest.mark.parametrize(
    "names", [("input:0", "a/b/output:0"), ("ü ü", "é\n"), ('"quoted"', "%1"), ("main", "arena")]
)
def test_names_of_any_characters(names: tuple[str, str], tmp_path: Path) -> None:
    """From Python, and through every level as a file."""
    x, y = names
    model = mlopt.compile(classifier(x, y), dims={"batch": 5})
    want = model.run({x: batch_of(5)})
    assert list(want) == [y]
    np.testing.assert_allclose(want[y], classify(batch_of(5)), rtol=1e-5)
    for level, module in model.compilation.levels.items():
        save_model(module, model.compilation.ctx.weights, tmp_path / f"{level}.mlir")
        again = mlopt.compile(tmp_path / f"{level}.mlir").run({x: batch_of(5)})
        np.testing.assert_array_equal(again[y], want[y])


# Looking


def test_the_levels(path: Path) -> None:
    model = mlopt.compile(path, dims={"batch": 5})
    assert "graph.softmax" in model.ir("graph") and "kernel." not in model.ir("graph")
    assert "kernel.launch" in model.ir("kernel") and "linalg." not in model.ir("kernel")
    assert "linalg.generic" in model.ir("memref") and "kernel.launch" not in model.ir("memref")
    # The weights are names, not numbers.
    assert '#mlopt.weight<"A">' in model.ir("graph")
    assert 'mlopt.weight = "A"' in model.ir("memref")


def test_levels_that_were_not_passed_through(path: Path) -> None:
    main(
        [
            "compile",
            str(path),
            "--dim",
            "batch=5",
            "--to",
            "kernel",
            "-o",
            str(path.with_name("c.mlir")),
            "-q",
        ]
    )
    model = mlopt.compile(path.with_name("c.mlir"))
    assert "kernel.launch" in model.ir("kernel")
    with pytest.raises(
        mlopt.InputError, match=r"not compiled through level 'graph' \(levels kept: kernel, memref\)"
    ):
        model.ir("graph")


def test_a_level_that_there_is_not() -> None:
    model = mlopt.compile(classifier(), dims={"batch": 5})
    with pytest.raises(
        mlopt.MloptError, match="there is no level 'tensor', expected one of graph, kernel, memref"
    ):
        model.ir("tensor")  # pyright: ignore[reportArgumentType] - the mistake that is tested


def test_memory_and_report_follow_the_version_used_last(path: Path) -> None:
    model = mlopt.compile(path, dims={"batch": 1})
    small = model.memory.arena_bytes
    model.run({"x": batch_of(100)})
    assert model.memory.arena_bytes > small
    report = model.report()
    assert report["memory"]["io_bytes"] == 4 * 100 * (8 + 3)
    assert report["time"]["load_s"] > 0 and report["time"]["run_s"] > 0


# Errors


def test_a_pass_that_is_needed_can_not_be_left_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the command line it is a wrong flag."""
    pipeline = mlopt.PipelineOptions(disabled=("assign-buffers",))
    with pytest.raises(mlopt.MloptError) as caught:
        mlopt.compile(path, options=mlopt.CompileOptions({"batch": 5}, pipeline))
    assert caught.value.message == "pass 'assign-buffers' can't be disabled: without it nothing can run"
    assert main(["run", str(path), "--dim", "batch=5", "--disable-pass", "assign-buffers"]) == 2
    assert caught.value.message in capsys.readouterr().err


def test_errors_are_those_of_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attempts = [
        (["run", str(path)], lambda: mlopt.compile(path)),
        (["run", str(path), "--dim", "rows=1"], lambda: mlopt.compile(path, dims={"rows": 1})),
        (["run", "none.onnx"], lambda: mlopt.compile("none.onnx")),
        (["run", "none.mlir"], lambda: mlopt.compile("none.mlir")),
    ]
    for arguments, attempt in attempts:
        with pytest.raises(mlopt.MloptError) as caught:
            attempt()
        assert main(arguments) == caught.value.exit_code == 1
        place = f"{caught.value.place}: " if caught.value.place else ""
        assert capsys.readouterr().err == f"{place}error: {caught.value.message}\n"


def test_text_of_one_line_needs_an_end_of_line() -> None:
    text = (
        'func.func @main(%x: tensor<2xf32> {mlopt.name = "x"}) -> tensor<2xf32> { return %x : tensor<2xf32> }'
    )
    with pytest.raises(mlopt.InputError) as caught:
        mlopt.compile(text)
    assert caught.value.message == (
        "expected a model, found no file of this name; what tells MLIR text from a path is an end of line in it"
    )
    assert mlopt.compile(text + "\n").inputs[0].shape == (2,)


def test_broken_text_is_located() -> None:
    with pytest.raises(mlopt.ParseFailure) as caught:
        mlopt.compile("func.func @main() {\n  nonsense\n}\n")
    assert str(caught.value.place).startswith("<text>:2:")


def test_the_public_names() -> None:
    for name in mlopt.__all__:
        assert getattr(mlopt, name) is not None
    assert issubclass(mlopt.InputError, mlopt.MloptError)
    with pytest.raises(AttributeError, match="nonsense"):
        mlopt.nonsense  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("op_type", "attributes", "indices", "message"),
    [
        ("Gather", {"axis": 0}, [0, 6], "index 6 is out of bounds for axis 0 of size 6"),
        ("Gather", {"axis": 1}, [0, -3], "index -3 is out of bounds for axis 1 of size 2"),
        ("GatherElements", {"axis": 0}, [[5, -7]], "index -7 is out of bounds for axis 0 of size 6"),
        ("GatherND", {}, [[0, 1], [5, 2]], "index 2 is out of bounds for axis 1 of size 2"),
    ],
)
@pytest.mark.parametrize("optimize", [False, True])
def test_an_index_out_of_bounds_names_its_node(
    op_type: str, attributes: dict[str, int], indices: list[int], message: str, optimize: bool
) -> None:
    """Fed at run time to the second of two equal nodes, which share a kernel; and as a constant."""
    options = mlopt.CompileOptions(pipeline=mlopt.PipelineOptions(optimize=optimize))
    at = np.array(indices, np.int64)
    nodes = [
        helper.make_node(op_type, ["x", name], [f"y_{name}"], f"take_{name}", **attributes)
        for name in ("i", "j")
    ]
    declared = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [6, 2]),
        *(helper.make_tensor_value_info(name, onnx.TensorProto.INT64, at.shape) for name in ("i", "j")),
    ]
    outputs = [onnx.ValueInfoProto(name=f"y_{name}") for name in ("i", "j")]
    graph = helper.make_graph(nodes, "g", declared, outputs)
    model = mlopt.compile(helper.make_model(graph, ir_version=8), options=options)
    arrays = {"x": np.ones((6, 2), np.float32), "i": np.zeros_like(at), "j": at}
    with pytest.raises(mlopt.RunError, match=message) as error:
        model.run(arrays)
    assert error.value.place is not None and error.value.place.node == "take_j"
    graph = helper.make_graph(
        nodes[1:], "g", declared[:1], outputs[1:], [onnx.numpy_helper.from_array(at, "j")]
    )
    constant = helper.make_model(graph, ir_version=8)
    with pytest.raises(mlopt.MloptError, match=message) as error:
        mlopt.compile(constant, options=options).run({"x": arrays["x"]})
    assert error.value.place is not None and error.value.place.node == "take_j"


def doubled(extent: int | str) -> onnx.ModelProto:
    """y = x * (c + c), where the input c is 2 unless it is fed."""
    float_ = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Add", ["c", "c"], ["d"]), helper.make_node("Mul", ["x", "d"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", float_, [extent]),
            helper.make_tensor_value_info("c", float_, [1]),
        ],
        [helper.make_tensor_value_info("y", float_, [extent])],
        [onnx.numpy_helper.from_array(np.array([2], np.float32), "c")],
    )
    return helper.make_model(graph, ir_version=8)


@pytest.mark.parametrize("extent", [1, "n"])
@pytest.mark.parametrize("fed_at_compile_time", [False, True])
def test_an_input_with_a_value_of_its_own_may_be_fed(extent: int | str, fed_at_compile_time: bool) -> None:
    """3 * (5 + 5) is 30, and without c 3 * (2 + 2) is 12, whatever the model was compiled for first."""
    x, c = np.array([3], np.float32), np.array([5], np.float32)
    model = mlopt.compile(doubled(extent), inputs={"x": x, "c": c} if fed_at_compile_time else {"x": x})
    for _ in range(2):
        assert model.run({"x": x, "c": c})["y"] == 30
        assert model.run({"x": x})["y"] == 12
    with pytest.raises(mlopt.InputError, match='input "x" is missing'):
        model.run({"c": c})
    with pytest.raises(mlopt.InputError, match='there is no input "d"'):
        model.run({"x": x, "d": c})
    with pytest.raises(mlopt.InputError):
        model.run({"x": x, "c": c.astype(np.float64)})
    with pytest.raises(mlopt.InputError):
        model.run({"x": x, "c": np.ones((2, 2), np.float32)})


def test_mlopt_run_feeds_an_input_with_a_value_of_its_own(tmp_path: Path) -> None:
    onnx.save(doubled("n"), tmp_path / "m.onnx")
    for arrays, want in (({"x": [3], "c": [5]}, 30), ({"x": [3]}, 12)):
        np.savez(tmp_path / "in.npz", **{name: np.array(a, np.float32) for name, a in arrays.items()})
        files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"), "-q"]
        assert main(["run", str(tmp_path / "m.onnx"), *files]) == 0
        assert np.load(tmp_path / "out.npz")["y"] == want


@pytest.mark.parametrize("model", [None, b"bytes", 3, ["m.onnx"]])
def test_what_is_no_model(model: object) -> None:
    with pytest.raises(mlopt.InputError, match=f"as the model, found {type(model).__name__}"):
        mlopt.compile(model)  # pyright: ignore[reportArgumentType] (wrong on purpose)


@pytest.mark.parametrize("name", ["dims", "options"])
def test_what_are_no_dims_or_options(name: str) -> None:
    with pytest.raises(mlopt.InputError, match=f"expected {name} as a .*, found list"):
        mlopt.compile(classifier(), **{name: [5]})


def test_a_path_that_no_file_can_have() -> None:
    with pytest.raises(mlopt.InputError, match="found a null character"):
        mlopt.compile("a\0b")


@pytest.mark.parametrize("rows", [5, 3])
def test_arrays_of_any_layout(rows: int) -> None:
    """What numpy can hold in several ways is the same input, of shapes known (5) and met first (3)."""
    x = batch_of(rows)
    unaligned = np.frombuffer(bytearray(x.nbytes + 1), np.float32, x.size, 1).reshape(x.shape)
    unaligned[...] = x
    others = (x.astype(">f4"), np.asfortranarray(x), x[::-1][::-1], np.repeat(x, 2, 1)[:, ::2], unaligned)
    for other in others:
        model = mlopt.compile(classifier(), dims={"batch": 5})
        np.testing.assert_array_equal(model.run({"x": other})["y"], model.run({"x": x})["y"])
        np.testing.assert_allclose(model.run({"x": other})["y"], classify(x), rtol=1e-5)
    compiled = mlopt.compile(classifier(), inputs={"x": x.astype(">f4")})
    np.testing.assert_allclose(compiled.run({"x": x})["y"], classify(x), rtol=1e-5)


def test_masked_arrays_are_refused() -> None:
    """Their masks would be lost."""
    model = mlopt.compile(classifier(), dims={"batch": 5})
    masked = np.ma.masked_array(batch_of(5), mask=True)
    with pytest.raises(mlopt.InputError, match='input "x" is a masked array'):
        model.run({"x": masked})
    with pytest.raises(mlopt.InputError, match='input "x" is a masked array'):
        mlopt.compile(classifier(), inputs={"x": masked})
    with pytest.raises(mlopt.InputError, match='output "y" is a masked array'):
        out = np.ma.masked_array(classify(batch_of(5)), mask=True)
        model.run({"x": batch_of(5)}, out={"y": out})


def test_what_are_no_arrays_by_name() -> None:
    model = mlopt.compile(classifier(), dims={"batch": 5})
    for inputs in (None, [batch_of(5)], batch_of(5)):
        with pytest.raises(mlopt.InputError, match="expected inputs as arrays by name"):
            model.run(inputs)  # pyright: ignore[reportArgumentType] (wrong on purpose)
    with pytest.raises(mlopt.InputError, match="expected inputs as arrays by name"):
        mlopt.compile(classifier(), inputs=[batch_of(5)])  # pyright: ignore[reportArgumentType] (wrong on purpose)
    with pytest.raises(mlopt.InputError, match="expected out as arrays by name"):
        model.run({"x": batch_of(5)}, out=[1])  # pyright: ignore[reportArgumentType] (wrong on purpose)
    with pytest.raises(mlopt.InputError, match='output "y" is of type list, expected a numpy array'):
        model.run({"x": batch_of(5)}, out={"y": [0.0]})  # pyright: ignore[reportArgumentType] (wrong on purpose)


def test_a_plan_edited_to_overlap_runs_with_a_warning() -> None:
    """The text is executed as printed, and the user is told that two live buffers share bytes."""
    text = """
      func.func @main(%arena: memref<128xi8> {mlopt.arena}, %x: memref<4xf32> {mlopt.input = "x"},
                      %y: memref<4xf32> {mlopt.output = "y"}) {
        %c0 = arith.constant 0 : index
        %c64 = arith.constant 64 : index
        %a = memref.view %arena[%c0][] : memref<128xi8> to memref<4xf32>
        %b = memref.view %arena[%c64][] : memref<128xi8> to memref<4xf32>
        linalg.copy ins(%x : memref<4xf32>) outs(%a : memref<4xf32>)
        linalg.fill ins(%f : f32) outs(%b : memref<4xf32>)
        linalg.add ins(%a, %b : memref<4xf32>, memref<4xf32>) outs(%y : memref<4xf32>)
        func.return
      }""".replace("%c0 = ", "%f = arith.constant 1.0 : f32\n%c0 = ", 1)
    x = np.arange(4, dtype=np.float32)
    safe, edited = mlopt.compile(text), mlopt.compile(text.replace("%arena[%c64]", "%arena[%c0]"))
    assert not safe.compilation.ctx.warnings
    (warning,) = edited.compilation.ctx.warnings
    assert "the memory plan is not safe" in warning.message and "overlap" in warning.message
    np.testing.assert_array_equal(safe.run({"x": x})["y"], x + 1)
    np.testing.assert_array_equal(edited.run({"x": x})["y"], [2, 2, 2, 2])
