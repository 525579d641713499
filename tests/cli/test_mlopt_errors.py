"""What bad input gets from `mlopt`: one sentence with the place, exit 1 (2 for a wrong command line), no files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from tests.cli.mlopt_command import Command, Done, files
from tests.small_models import batch_of, classifier

GIVEN = {"m.onnx", "io.npz"}


def assert_refused(done: Done, message: str, code: int = 1) -> None:
    """One diagnostic that holds `message`, and nothing on stdout."""
    assert done.code == code, done
    assert message in done.err
    assert done.err.count("error:") == 1
    assert done.out == ""


# Models


def test_models_that_are_none(mlopt: Command) -> None:
    Path("dir.onnx").mkdir()
    Path("dir.mlir").mkdir()
    Path("empty.onnx").touch()
    Path("text.onnx").write_text("this is no model\n")
    Path("latin.mlir").write_bytes(b"// \xe9\n")
    before = files()
    for name, message in {
        "none.onnx": "none.onnx: error: expected an ONNX model, found no such file",
        "none.mlir": "none.mlir: error: no such model file",
        "dir.onnx": "dir.onnx: error: expected an ONNX model, found a directory",
        "dir.mlir": "dir.mlir: error: can't read the model",
        "empty.onnx": "empty.onnx: error: expected an ONNX model, found an empty file",
        "text.onnx": "text.onnx: error: expected an ONNX model, found a truncated file or another format",
        "io.npz": "io.npz: error: expected an ONNX model, found a truncated file or another format",
        "latin.mlir": "latin.mlir: error: can't read the model",
        "": ".: error: expected an ONNX model, found a directory",
    }.items():
        assert_refused(mlopt("run", name, "--inputs", "io.npz", "--outputs", "got.npz"), message)
        assert_refused(mlopt("compile", name, "-o", "c.mlir"), message)
    assert files() == before


def test_an_onnx_file_cut_anywhere(mlopt: Command) -> None:
    whole = Path("m.onnx").read_bytes()
    for length in (1, 2, 7, 50, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        Path("cut.onnx").write_bytes(whole[:length])
        done = mlopt("compile", "cut.onnx", "--dim", "batch=5", "-o", "c.mlir")
        assert_refused(done, "cut.onnx: error: ")
    assert files() == {*GIVEN, "cut.onnx"}


def test_unsupported_operators_are_listed_at_once(mlopt: Command) -> None:
    model = classifier()
    model.graph.node[2].op_type, model.graph.node[5].op_type = "Mysterious", "Mysterious"
    model.graph.node[8].op_type = "Enigmatic"
    onnx.save(model, "odd.onnx")
    done = mlopt("compile", "odd.onnx", "--dim", "batch=5", "-o", "c.mlir")
    assert done.code == 1 and done.out == ""
    for text in ("Mysterious", "Enigmatic", "fc1/Relu", "fc2/Relu", "head/Exp"):
        assert text in done.err
    assert "c.mlir" not in files()


MALFORMED = {
    "}": "bad.mlir:1:1: error: expected an operation",
    "func.func @main(": "bad.mlir:1:",
    "": "bad.mlir:1:1: error: the module has no function @main",
    "func.func @f() {\n  return\n}\n": "the module has no function @main",
    "func.func private @main()\n": "bad.mlir:1:1: error: the function @main has no body",
    'func.func @main(%a: f32 {mlopt.name = "x"}, %b: f32 {mlopt.name = "x"}) {\n  return\n}\n': "two inputs 'x'",
    "func.func @main(%x: tensor<?xf32>) {\n  return\n}\n": "has a tensor of dynamic shape",
    "func.func @main() {\n  %y = arith.addf %z, %z : f32\n  return\n}\n": "bad.mlir:2:19: error: use of undeclared",
    "func.func @main() {\n  %b = arith.addi %a, %a : i32\n  %a = arith.constant 1 : i32\n  return\n}\n": "bad.mlir:",
    "func.func @main(%x: memref<4xf32>) {\n  return\n}\n": "bad.mlir:1:1: error: argument 1 of @main is neither",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_ir(mlopt: Command, text: str) -> None:
    Path("bad.mlir").write_text(text)
    assert_refused(mlopt("run", "bad.mlir"), MALFORMED[text])


# Arrays


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, 'input "x" is missing; found none'),
        ({"z": batch_of(5)}, 'the model has no input "z"; its inputs are: "x"'),
        ({"x": batch_of(5), "z": batch_of(5)}, 'the model has no input "z"; its inputs are: "x"'),
        ({"x": batch_of(5)[:, :7]}, 'input "x": expected shape [batch, 8], found [5, 7]'),
        ({"x": batch_of(5)[0]}, 'input "x": expected shape [batch, 8], found [8]'),
        ({"x": batch_of(5).astype(np.float64)}, 'input "x": expected float32, found float64'),
        ({"x": np.array(["a", "b"])}, 'input "x": expected float32, found <U1'),
    ],
)
def test_inputs_that_do_not_fit(mlopt: Command, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez("bad.npz", **arrays)
    dims = () if "x" in arrays else ("--dim", "batch=5")
    assert_refused(mlopt("run", "m.onnx", "--inputs", "bad.npz", "--outputs", "got.npz", *dims), message)
    assert "got.npz" not in files()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, 'input "x" is missing; found none'),
        ({"x": batch_of(5), "z": batch_of(5)}, 'there is no input "z"; expected "x"'),
        ({"x": batch_of(4)}, 'input "x" has the shape [4, 8], expected [5, 8]'),
        ({"x": batch_of(5).astype(np.float16)}, 'input "x" has the type float16, expected float32'),
    ],
)
def test_inputs_that_do_not_fit_a_compiled_model(
    mlopt: Command, arrays: dict[str, np.ndarray], message: str
) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    np.savez("bad.npz", **arrays)
    assert_refused(mlopt("run", "c.mlir", "--inputs", "bad.npz", "--outputs", "got.npz"), message)
    assert "got.npz" not in files()


def test_files_that_are_no_npz(mlopt: Command) -> None:
    Path("garbage.npz").write_bytes(b"PK\x03\x04 garbage")
    Path("cut.npz").write_bytes(Path("io.npz").read_bytes()[:300])
    Path("empty.npz").touch()
    Path("dir.npz").mkdir()
    np.save("array.npy", np.arange(3))
    np.savez("objects.npz", x=np.array([None]))
    wanted = mlopt("run", "m.onnx", "--inputs", "m.onnx").err
    assert wanted == "m.onnx: error: not a readable .npz file: truncated, or of another format\n"
    assert_refused(
        mlopt("run", "m.onnx", "--inputs", "array.npy"), "array.npy: error: expected an .npz file, found a"
    )
    assert_refused(
        mlopt("run", "m.onnx", "--inputs", "dir.npz"), "dir.npz: error: expected an .npz file, found a f"
    )
    for name in ("none.npz", "garbage.npz", "cut.npz", "empty.npz", "dir.npz", "array.npy", "objects.npz"):
        assert_refused(mlopt("run", "m.onnx", "--inputs", name), f"{name}: error: ")
        assert_refused(mlopt("run", "m.onnx", "--inputs", "io.npz", "--check", name), f"{name}: error: ")


# Dimensions


@pytest.mark.parametrize(
    ("dims", "message", "code"),
    [
        ([], 'no value for the symbolic dimension "batch"', 1),
        (["rows=5"], 'the model has no dimension "rows"; its dimensions are: "batch"', 1),
        (["batch=5", "batch=6"], "--dim gives 'batch' two values, 5 and 6", 2),
        (["batch=-1"], "--dim wants NAME=N with a whole number N, found 'batch=-1'", 2),
        (["batch=1.5"], "found 'batch=1.5'", 2),
        (["batch"], "found 'batch'", 2),
        (["=5"], "found '=5'", 2),
        ([f"batch={10**30}"], "found 'batch=1000", 2),
        ([f"batch={10**15}"], "x8xf32> is too large: expected at most 68719476736 elements", 1),
        ([f"batch={10**16}"], "m.onnx: error: the tensors of these shapes are too large", 1),
        (
            [f"batch={10**17}"],
            f'm.onnx: node "fc1/MatMul": error: MatMul: its result of shape [{10**17}, 24] is larger than any memory',
            1,
        ),
    ],
)
def test_dimensions(mlopt: Command, dims: list[str], message: str, code: int) -> None:
    arguments = [argument for dim in dims for argument in ("--dim", dim)]
    assert_refused(mlopt("compile", "m.onnx", "-o", "c.mlir", *arguments), message, code)
    assert files() == GIVEN


def test_a_dimension_against_the_inputs(mlopt: Command) -> None:
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--dim", "batch=6")
    assert_refused(done, 'm.onnx: error: dimension "batch"')
    assert "5" in done.err and "6" in done.err


def test_ir_has_no_dimensions(mlopt: Command) -> None:
    mlopt("import", "m.onnx", "--dim", "batch=5", "-o", "g.mlir")
    done = mlopt("run", "g.mlir", "--dim", "batch=5")
    assert_refused(done, "g.mlir: error: IR has no symbolic dimensions, found a value for 'batch'")


# Options


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--disable-pass", "fuse-kernel"], "no pass 'fuse-kernel' to disable; did you mean 'fuse-kernels'?", 2),
        (["--disable-pass", "xyz"], "error: there is no pass 'xyz' to disable; expected one of canonicalize, ", 2),
        (["--disable-pass", "assign-buffers"], "pass 'assign-buffers' can't be disabled", 2),
        (["--pipeline", "fast"], "--pipeline wants O0, O1, O2, O3 or the names of passes, found 'fast'", 2),
        (["--pipeline", ""], "found ''", 2),
        (["--pipeline", "cse,nonsense"], "'nonsense' does not refer to a registered pass", 1),
        (["--pipeline", "builtin.module(cse"], "unbalanced parentheses", 1),
        (["--pipeline", "cse{x=1}"], "x", 1),
        (["--pipeline", "O1", "--no-optimize"], "not allowed with", 2),
        (["--pipeline", "cse"], "the pipeline ends at level 'graph', expected 'memref'", 1),
        (["--remarks", "some"], "expected some of passed,missed,analysis, found 'some'", 2),
        (["--rtol", "-1"], "argument --rtol: expected a number of at least 0, found '-1'", 2),
        (["--rtol", "nan"], "argument --rtol: expected a number of at least 0, found 'nan'", 2),
        (["--atol", "tiny"], "argument --atol: expected a number of at least 0, found 'tiny'", 2),
        (["--engine", "abacus"], "invalid choice: 'abacus'", 2),
        (["--nonsense"], "unrecognized arguments: --nonsense", 2),
        (["-q", "-v"], "not allowed with", 2),
        (["--weights", "io.npz"], "--weights goes with an .mlir model only, found 'm.onnx'", 2),
    ],
)  # fmt: skip
def test_wrong_options(mlopt: Command, arguments: list[str], message: str, code: int) -> None:
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--outputs", "got.npz", *arguments)
    assert_refused(done, message, code)
    assert files() == GIVEN


@pytest.mark.parametrize(
    "arguments", [[], ["nonsense"], ["run"], ["compile", "m.onnx"], ["import", "m.mlir", "-o", "g.mlir"]]
)
def test_wrong_command_lines(mlopt: Command, arguments: list[str]) -> None:
    assert_refused(mlopt(*arguments), "error: ", 2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "c.json",
            '{"optimise": true}',
            "c.json: error: unknown key 'optimise', expected one of bisect, dims",
        ),
        ("c.json", '{"optimization": {"fuse": true}}', "unknown key 'optimization.fuse'"),
        ("c.json", "{", "c.json:1:2: error: not JSON"),
        ("c.json", '{"dims": {"a": 1, "a": 2}}', "c.json: error: the key 'a' is given twice"),
        ("c.toml", "x =", "c.toml: error: not TOML"),
        ("c.json", '{"disable_pass": ["nonsense"]}', "there is no pass 'nonsense' to disable"),
        ("none.json", None, "none.json: error: no such configuration file"),
    ],
)
def test_wrong_configurations(mlopt: Command, name: str, text: str | None, message: str) -> None:
    if text is not None:
        Path(name).write_text(text)
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--outputs", "got.npz", "--config", name)
    assert done.code == 1 and message in done.err
    assert "got.npz" not in files()


def test_a_configuration_that_is_no_text(mlopt: Command) -> None:
    Path("c.json").write_bytes(b"\xff\xfe\x00")
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--config", "c.json")
    assert_refused(done, "c.json: error: can't read the configuration file")


# Weights


@pytest.mark.parametrize("command", ["compile", "export", "check", "bench"])
def test_whatever_needs_the_weights_says_which_file(mlopt: Command, command: str) -> None:
    """And what does not need them, such as the memory plan, does without."""
    mlopt("import", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    Path("c.safetensors").unlink()
    output = {"compile": ["-o", "d.mlir"], "export": ["-o", "d.onnx"]}.get(command, [])
    done = mlopt(command, "c.mlir", *output)
    assert done.code == 1
    assert "expected the file c.safetensors beside the model" in done.err + done.out
    assert "d.mlir" not in files() and "d.onnx" not in files()
    assert mlopt("memory", "c.mlir").code == 0


def test_weights_of_another_model(mlopt: Command) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    save_file({"Z": np.zeros(3, np.float32)}, "c.safetensors")
    done = mlopt("run", "c.mlir", "--inputs", "io.npz")
    assert_refused(
        done,
        'c.safetensors: error: there is no weight "A" (and 2 more), which c.mlir names: give another file',
    )


def test_missing_weights(mlopt: Command) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    Path("c.safetensors").unlink()
    done = mlopt("run", "c.mlir", "--inputs", "io.npz")
    assert_refused(
        done,
        'c.mlir: error: there is no weight "A" (and 2 more): expected the file c.safetensors beside the model, '
        "or another one with --weights FILE",
    )
    done = mlopt("run", "c.mlir", "--inputs", "io.npz", "--weights", "none.safetensors")
    assert_refused(
        done, "none.safetensors: error: expected a safetensors file with the weights, found no such file"
    )


@pytest.mark.parametrize("level", ["graph", "kernel", "memref"])
def test_weights_of_other_shapes(mlopt: Command, level: str) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "--to", level, "-o", "c.mlir")
    weights = load_file("c.safetensors")
    save_file({**weights, "A": weights["A"][:, :-1].copy()}, "c.safetensors")
    done = mlopt("run", "c.mlir", "--inputs", "io.npz", "--outputs", "got.npz")
    assert_refused(done, '"A"')
    assert "[8, 23]" in done.err and "8x24" in done.err
    assert "got.npz" not in files()


@pytest.mark.parametrize("level", ["graph", "kernel", "memref"])
def test_weights_of_another_type(mlopt: Command, level: str) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "--to", level, "-o", "c.mlir")
    weights = load_file("c.safetensors")
    save_file({**weights, "A": weights["A"].view(np.int32)}, "c.safetensors")
    assert_refused(mlopt("run", "c.mlir", "--inputs", "io.npz"), '"A"')


def test_damaged_weights(mlopt: Command) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    whole = Path("c.safetensors").read_bytes()
    for damaged in (b"", whole[:4], whole[:40], whole[:-8], b"\xff" * 64):
        Path("c.safetensors").write_bytes(damaged)
        assert_refused(
            mlopt("run", "c.mlir", "--inputs", "io.npz"), "c.safetensors: error: expected a safetensors"
        )


# Where to write


@pytest.mark.parametrize("command", ["import", "compile"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none/c.mlir", "none/c.mlir: error: can't write here: there is no folder 'none'"),
        ("folder.mlir", "folder.mlir: error: can't write here: this is a folder"),
        ("taken.mlir", "taken.safetensors: error: can't write here: this is a folder"),
        ("c.txt", "c.txt: error: expected the name of an .mlir file to write"),
        ("m.onnx", "m.onnx: error: expected the name of an .mlir file to write"),
        ("m.onnx/c.mlir", "m.onnx/c.mlir: error: can't write here: there is no folder 'm.onnx'"),
    ],
)
def test_models_that_can_not_be_written(mlopt: Command, command: str, path: str, message: str) -> None:
    Path("folder.mlir").mkdir()
    Path("taken.safetensors").mkdir()
    before = files()
    assert_refused(mlopt(command, "m.onnx", "--dim", "batch=5", "-o", path), message)
    assert files() == before


@pytest.mark.parametrize("option", ["--outputs", "--report"])
@pytest.mark.parametrize("path", ["none/x", "folder", "/dev/full"])
def test_outputs_and_reports_that_can_not_be_written(mlopt: Command, option: str, path: str) -> None:
    Path("folder").mkdir()
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "-q", option, path)
    assert_refused(done, f"{path}: error: can't write here: ")
    assert files() == {*GIVEN, "folder"}


@pytest.mark.parametrize(
    ("command", "options"),
    [("run", ("--outputs", "--report")), ("memory", ("--svg", "--html")), ("profile", ("--csv", "--json"))],
)
def test_two_results_for_one_file(mlopt: Command, command: str, options: tuple[str, str]) -> None:
    one, other = options
    done = mlopt(command, "m.onnx", "--inputs", "io.npz", "-q", one, "x", other, "./x")
    assert_refused(done, "x: error: two results are to be written here")
    assert files() == GIVEN
    assert (
        mlopt(command, "m.onnx", "--inputs", "io.npz", "-q", one, "/dev/null", other, "/dev/null").code == 0
    )


def test_a_read_only_folder(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the answer of the operating system is made up."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    done = mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    assert_refused(done, "c.mlir: error: can't write here: no permission in folder '.'")


def test_a_failure_leaves_the_old_files(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the weights are written: the old model and weights stay, whole."""
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    before = {path.name: path.read_bytes() for path in Path.cwd().iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlopt.weights.safetensors_file.write", full)
    done = mlopt("compile", "m.onnx", "--dim", "batch=7", "-o", "c.mlir")
    assert_refused(done, "c.mlir: error: can't write here: No space left on device")
    assert {path.name: path.read_bytes() for path in Path.cwd().iterdir()} == before


def test_an_interrupt(mlopt: Command) -> None:
    """SIGINT while the command runs: one line, exit 130, nothing written."""
    os.mkfifo("slow.npz")
    arguments = ["run", "m.onnx", "--inputs", "slow.npz", "--outputs", "got.npz"]
    with subprocess.Popen(
        [sys.executable, "-m", "mlopt.cli.main", *arguments], stderr=subprocess.PIPE
    ) as process:
        writer = opened_for_writing("slow.npz")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        os.close(writer)
    assert (process.returncode, err) == (130, b"mlopt: interrupted\n")
    assert files() == {*GIVEN, "slow.npz"}


def opened_for_writing(path: str) -> int:
    """Open a pipe once somebody reads it."""
    for _ in range(600):
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.1)
    raise TimeoutError
