"""`mlopt export`: the files it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mlopt.export import files as export_files
from tests.cli.mlopt_command import BATCH, Command, files
from tests.onnx_oracle import run_model
from tests.small_models import batch_of, classifier, classifier_weights, classify


def check(path: str) -> None:
    """The checker accepts the file, and onnxruntime gives what numpy gives for it."""
    onnx.checker.check_model(path, full_check=True)
    (got,) = run_model(onnx.load(path), {"x": batch_of(BATCH)})
    np.testing.assert_allclose(got, classify(batch_of(BATCH)), rtol=1e-5)


@pytest.mark.parametrize(
    "options", [(), ("--no-optimize",), ("--pipeline", "canonicalize,cse"), ("--disable-pass", "cse")]
)
def test_the_export_is_the_model(mlopt: Command, options: tuple[str, ...]) -> None:
    done = mlopt("export", "m.onnx", "-o", "out.onnx", "--dim", f"batch={BATCH}", *options)
    assert (done.code, done.err) == (0, "wrote out.onnx\n")
    assert files() == {"m.onnx", "io.npz", "out.onnx"}
    check("out.onnx")


def test_the_operator_set_may_be_asked_for(mlopt: Command) -> None:
    arguments = ("export", "m.onnx", "-o", "out.onnx", "--dim", f"batch={BATCH}", "-q")
    versions: list[tuple[int, int]] = []
    for options in ((), ("--opset", "21")):
        assert mlopt(*arguments, *options).code == 0
        check("out.onnx")
        model = onnx.load("out.onnx")
        versions.append((model.opset_import[0].version, model.ir_version))
    assert versions == [(18, 8), (21, 10)]
    done = mlopt(*arguments, "--opset", "17")
    assert done.code != 0
    assert "error: expected an operator set from 18 to " in done.err


def test_a_graph_in_text_is_exported_with_its_weights(mlopt: Command) -> None:
    assert mlopt("import", "m.onnx", "-o", "m.mlir", "--dim", f"batch={BATCH}").code == 0
    assert mlopt("export", "m.mlir", "-o", "out.onnx", "-q").code == 0
    check("out.onnx")


def test_weights_apart(mlopt: Command) -> None:
    done = mlopt("export", "m.onnx", "-o", "out.onnx", "--dim", f"batch={BATCH}", "--external-data")
    assert (done.code, done.err) == (0, "wrote out.onnx and out.onnx.data\n")
    check("out.onnx")
    model = onnx.load("out.onnx", load_external_data=False)
    apart = [
        tensor for tensor in model.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL
    ]
    assert [tensor.name for tensor in apart] == ["B"]  # 2304 bytes; the others are small
    entries = {entry.key: entry.value for entry in apart[0].external_data}
    assert entries == {"location": "out.onnx.data", "offset": "0", "length": "2304"}
    assert Path("out.onnx.data").read_bytes() == classifier_weights()["B"].tobytes()
    assert mlopt("run", "out.onnx", "--inputs", "io.npz", "--check", "io.npz").code == 0


def test_weights_are_apart_when_the_file_would_be_too_large(
    mlopt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("export", "m.onnx", "-o", "out.onnx", "--dim", f"batch={BATCH}")
    assert mlopt(*arguments).code == 0
    size = Path("out.onnx").stat().st_size
    monkeypatch.setattr(export_files, "MAX_FILE_BYTES", size - 1)
    assert "out.onnx.data" in mlopt(*arguments).err
    check("out.onnx")


def test_a_model_can_be_written_over_itself(mlopt: Command) -> None:
    assert mlopt("export", "m.onnx", "-o", "m.onnx", "--dim", f"batch={BATCH}", "--external-data").code == 0
    assert mlopt("export", "m.onnx", "-o", "m.onnx", "--external-data").code == 0
    check("m.onnx")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("missing/out.onnx", "missing/out.onnx: error: can't write here: there is no folder 'missing'\n"),
        ("folder.onnx", "folder.onnx: error: can't write here: this is a folder\n"),
        ("other.onnx", "other.onnx.data: error: can't write here: this is a folder\n"),
        ("out.mlir", "out.mlir: error: expected the name of an .onnx file to write\n"),
    ],
)
def test_places_that_can_t_be_written(mlopt: Command, output: str, message: str) -> None:
    for folder in ("folder.onnx", "other.onnx.data"):
        Path(folder).mkdir()
    done = mlopt("export", "m.onnx", "-o", output, "--dim", f"batch={BATCH}", "--external-data")
    assert (done.code, done.err) == (1, message)


def test_what_is_below_the_graph_level_is_refused(mlopt: Command) -> None:
    assert mlopt("compile", "m.onnx", "-o", "k.mlir", "--to", "kernel", "--dim", f"batch={BATCH}").code == 0
    done = mlopt("export", "k.mlir", "-o", "out.onnx")
    assert done.code == 1 and "at level 'kernel' already" in done.err
    assert "out.onnx" not in files()


def test_a_failed_export_leaves_the_old_files(mlopt: Command) -> None:
    Path("bad.mlir").write_text(
        "func.func @main(%x: tensor<1x1x4xi64>) -> tensor<1x1x2xi64> {\n"
        "  %y = graph.max_pool %x kernel = [2] strides = [2] : (tensor<1x1x4xi64>) -> tensor<1x1x2xi64>\n"
        "  func.return %y : tensor<1x1x2xi64>\n}\n"
    )
    before = onnx.load("m.onnx").SerializeToString()
    done = mlopt("export", "bad.mlir", "-o", "m.onnx")
    assert (done.code, done.err.splitlines()[0]) == (
        1, "bad.mlir:2:8: error: 'graph.max_pool': ONNX MaxPool takes no i64 elements"
    )  # fmt: skip
    assert onnx.load("m.onnx").SerializeToString() == before == classifier().SerializeToString()
    assert files() == {"m.onnx", "io.npz", "bad.mlir"}


def test_an_input_that_decided_a_shape_is_warned_of(mlopt: Command) -> None:
    Path("bound.mlir").write_text(
        'func.func @main(%s: tensor<2xi64> {mlopt.name = "s", mlopt.value = dense<[3, 1]> : tensor<2xi64>},\n'
        "                %x: tensor<3xf32>) -> tensor<3x1xf32> {\n"
        "  %y = graph.reshape %x : tensor<3xf32> to tensor<3x1xf32>\n"
        "  func.return %y : tensor<3x1xf32>\n}\n"
    )
    done = mlopt("export", "bound.mlir", "-o", "out.onnx")
    assert done.code == 0 and 'out.onnx: warning: input "s" decided shapes' in done.err


@pytest.mark.parametrize("option", ["--memory-budget=1KiB", "--waves=2", "--spill-budget=any", "--donate=x"])
def test_there_is_no_memory_to_plan(mlopt: Command, option: str) -> None:
    done = mlopt("export", "m.onnx", "--dim", f"batch={BATCH}", "-o", "out.onnx", option)
    assert done.code == 2
    assert f"unrecognized arguments: {option}" in done.err
