"""`mlopt import`, `compile` and `run`: every way through the levels gives the same bits; options do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlopt.cli import opt
from tests.cli.mlopt_command import BATCH, Command, files
from tests.small_models import batch_of, classify


def outputs(path: str) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file}


def run_bits(mlopt: Command, model: str, *arguments: object) -> bytes:
    """Run a model on the inputs and return the bytes of `y`."""
    done = mlopt("run", model, "--inputs", "io.npz", "--outputs", "got.npz", *arguments)
    assert done.code == 0, done.err
    return outputs("got.npz")["y"].tobytes()


# The way through the levels


def test_run_computes_the_model(mlopt: Command) -> None:
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--outputs", "got.npz")
    assert (done.code, done.out, done.err) == (0, "", "wrote got.npz\n")
    got = outputs("got.npz")
    assert got.keys() == {"y"}
    np.testing.assert_allclose(got["y"], classify(batch_of(BATCH)), rtol=1e-5)


@pytest.mark.parametrize("level", ["graph", "kernel", "memref"])
def test_a_level_written_and_run_gives_the_same_bits(mlopt: Command, level: str) -> None:
    done = mlopt("compile", "m.onnx", "--dim", f"batch={BATCH}", "--to", level, "-o", "c.mlir")
    assert (done.code, done.err) == (0, "wrote c.mlir and c.safetensors\n")
    assert {"c.mlir", "c.safetensors"} <= files()
    assert run_bits(mlopt, "c.mlir") == run_bits(mlopt, "m.onnx")


@pytest.mark.parametrize("command", ["compile", "import", "opt"])
@pytest.mark.parametrize("contents", ["weights", "text"])
def test_weights_replace_no_file_of_others(mlopt: Command, command: str, contents: str) -> None:
    """Weights go beside the `.mlir` file under a name that the command line does not have."""
    beside = Path("c.safetensors")
    if contents == "weights":
        save_file({"x": np.ones(3, np.float32)}, beside)
    else:
        beside.write_text("mine")
    before = beside.read_bytes()
    if command == "opt":
        assert mlopt("import", "m.onnx", "--dim", "batch=5", "-o", "g.mlir").code == 0
        with redirect_stderr(StringIO()) as err:
            code = opt.main(["g.mlir", "--cse", "-o", "c.mlir"])
    else:
        done = mlopt(command, "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
        code, err = done.code, StringIO(done.err)
    assert code == 1
    assert "c.safetensors: error: the weights would be written here" in err.getvalue()
    assert beside.read_bytes() == before
    assert not Path("c.mlir").exists()


def test_an_imported_model_compiles_to_the_same_bytes_as_the_onnx_file(mlopt: Command) -> None:
    """But for the locations of what stands for no ONNX node: the module and its function."""
    assert mlopt("import", "m.onnx", "--dim", "batch=5", "-o", "g.mlir").code == 0
    assert mlopt("compile", "g.mlir", "-o", "a.mlir").code == 0
    assert mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "b.mlir").code == 0
    first = re.sub(r'loc\("g.mlir":\d+:\d+\)', "loc(unknown)", Path("a.mlir").read_text())
    assert first == Path("b.mlir").read_text()
    assert re.search(r'loc\(fused\[[^\]]*"fc1/MatMul"', first)
    assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("command", "file"), [("import", "a.mlir"), ("compile", "a.mlir"), ("export", "a.onnx")]
)
def test_dimensions_come_from_inputs_too(mlopt: Command, command: str, file: str) -> None:
    assert mlopt(command, "m.onnx", "--inputs", "io.npz", "-o", file).code == 0
    assert mlopt(command, "m.onnx", "--dim", f"batch={BATCH}", "-o", f"b.{file}").code == 0
    assert Path(file).read_bytes() == Path(f"b.{file}").read_bytes()
    assert "io.npz" not in mlopt(command, "m.onnx", "--inputs", "io.npz", "-o", file).err
    done = mlopt(command, "m.onnx", "--inputs", "none.npz", "-o", file)
    assert done.code == 1
    assert done.err.startswith("none.npz: error: ")


def test_a_compiled_file_runs_as_it_is(mlopt: Command) -> None:
    """The engine executes the text: a changed constant changes the result, and no pass runs."""
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    text = Path("c.mlir").read_text()
    assert text.count("math.exp") == 2  # softmax, and the exponential after it
    head, _, tail = text.rpartition("math.exp")
    Path("c.mlir").write_text(f"{head}math.exp2{tail}")
    done = mlopt("run", "c.mlir", "--inputs", "io.npz", "--outputs", "got.npz", "--report", "r.json")
    assert done.code == 0, done.err
    want = 2 ** np.log(classify(batch_of(BATCH)).astype(np.float64))
    np.testing.assert_allclose(outputs("got.npz")["y"], want, rtol=1e-5)
    report = json.loads(Path("r.json").read_text())
    assert (report["pipeline"], report["time"]["passes"]) == ("builtin.module()", [])


def test_weights_can_lie_elsewhere(mlopt: Command) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    Path("elsewhere").mkdir()
    Path("c.safetensors").rename("elsewhere/w.safetensors")
    assert mlopt("run", "c.mlir", "--inputs", "io.npz").code == 1
    bits = run_bits(mlopt, "c.mlir", "--weights", "elsewhere/w.safetensors")
    assert bits == run_bits(mlopt, "m.onnx")


def test_a_model_can_be_compiled_onto_itself(mlopt: Command) -> None:
    """Its weights are mapped while the new file takes their place."""
    mlopt("import", "m.onnx", "--dim", "batch=5", "-o", "c.mlir")
    assert mlopt("compile", "c.mlir", "-o", "c.mlir").code == 0
    assert run_bits(mlopt, "c.mlir") == run_bits(mlopt, "m.onnx")
    assert files() == {"m.onnx", "io.npz", "c.mlir", "c.safetensors", "got.npz"}


def test_compiling_is_deterministic(mlopt: Command) -> None:
    for name in ("a", "b"):
        mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", f"{name}.mlir")
    assert Path("a.mlir").read_bytes() == Path("b.mlir").read_bytes()
    assert Path("a.safetensors").read_bytes() == Path("b.safetensors").read_bytes()


# Pipelines


def ran(mlopt: Command, *arguments: object) -> str:
    """The pipeline that a run reports."""
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--check", "io.npz", "--report", "r.json", *arguments)
    assert done.code == 0, done.err
    return json.loads(Path("r.json").read_text())["pipeline"]


def test_named_pipelines(mlopt: Command) -> None:
    plain, unfused, full = (ran(mlopt, "--pipeline", name) for name in ("O0", "O1", "O2"))
    assert full == ran(mlopt)
    assert plain == ran(mlopt, "--no-optimize")
    assert "canonicalize" not in plain and "reuse-in-place" not in plain
    assert "canonicalize" in unfused and "reuse-in-place" in unfused and "fuse-kernels" not in unfused
    assert "fuse-kernels" in full


def test_a_pipeline_as_text(mlopt: Command) -> None:
    passes = "dce,convert-graph-to-kernel,convert-kernel-to-memref,plan-workspaces,assign-buffers"
    for text in (passes, f"builtin.module({passes})", f"  builtin.module ( {passes} )"):
        assert ran(mlopt, "--pipeline", text).startswith("builtin.module(dce,convert-graph-to-kernel,")
    assert "dce" not in ran(mlopt, "--pipeline", passes, "--disable-pass", "dce")


def test_a_pipeline_as_text_ends_where_it_ends(mlopt: Command) -> None:
    arguments = (
        "compile",
        "m.onnx",
        "--dim",
        "batch=5",
        "-o",
        "c.mlir",
        "--pipeline",
        "convert-graph-to-kernel",
    )
    assert mlopt(*arguments).code == 0
    assert "kernel.launch" in Path("c.mlir").read_text()
    assert mlopt(*arguments, "--to", "kernel").code == 0
    done = mlopt(*arguments, "--to", "graph")
    assert (done.code, done.err) == (
        1,
        "m.onnx: error: the pipeline ends at level 'kernel', expected 'graph'\n",
    )


def test_unplanned_memory_runs_and_is_reported_as_unknown(mlopt: Command) -> None:
    text = "convert-graph-to-kernel,convert-kernel-to-memref"
    assert ran(mlopt, "--pipeline", text)
    memory = json.loads(Path("r.json").read_text())["memory"]
    assert memory["arena_bytes"] is None and memory["weights_bytes"] > 0


def test_a_pass_can_be_left_out(mlopt: Command) -> None:
    pipeline = ran(mlopt, "--disable-pass", "fuse-kernels", "--disable-pass", "cse")
    assert "fuse-kernels" not in pipeline and "cse" not in pipeline and "dce" in pipeline


def test_the_command_line_wins_over_the_config(mlopt: Command) -> None:
    Path("c.toml").write_text('disable_pass = ["cse"]\n[optimization]\nenable_fusion = false\n')
    pipeline = ran(mlopt, "--config", "c.toml", "--disable-pass", "dce")
    assert not any(name in pipeline for name in ("cse", "dce", "fuse-kernels"))
    assert "fuse-kernels" in ran(mlopt, "--config", "c.toml", "--pipeline", "O2")


def test_dims_of_the_config(mlopt: Command) -> None:
    Path("c.json").write_text('{"dims": {"batch": 2}}')
    done = mlopt("run", "m.onnx", "--config", "c.json")
    assert (done.code, done.err.splitlines()[-1]) == (0, f"y: float32 {[2, 3]}")


# Running


def test_poison_changes_nothing(mlopt: Command) -> None:
    assert run_bits(mlopt, "m.onnx", "--poison") == run_bits(mlopt, "m.onnx")


def test_random_inputs_are_seeded_and_announced(mlopt: Command) -> None:
    results: list[bytes] = []
    for volume in ((), ("-q",)):
        done = mlopt("run", "m.onnx", "--dim", "batch=2", "--outputs", "got.npz", *volume)
        assert done.code == 0 and "seeded random inputs" in done.err
        results.append(outputs("got.npz")["y"].tobytes())
    assert results[0] == results[1]
    assert len(results[0]) == 2 * 3 * 4


def test_quiet_prints_nothing_else(mlopt: Command) -> None:
    for command in (
        ("import", "m.onnx", "--dim", "batch=5", "-o", "g.mlir"),
        ("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "--report", "r.json"),
        ("run", "m.onnx", "--inputs", "io.npz", "--outputs", "got.npz"),
        ("run", "m.onnx", "--inputs", "io.npz"),
    ):
        done = mlopt(*command, "-q")
        assert (done.code, done.out, done.err) == (0, "", "")


def test_without_outputs_the_shapes_are_told(mlopt: Command) -> None:
    assert mlopt("run", "m.onnx", "--inputs", "io.npz").err == f"y: float32 {[BATCH, 3]}\n"


def test_verbose_lists_the_passes(mlopt: Command) -> None:
    err = mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "-v").err
    assert "fuse-kernels: " in err and " ms, changed" in err


@pytest.mark.parametrize(
    "kinds", [("passed",), ("missed",), ("analysis",), ("passed", "missed"), ("passed", "missed", "analysis")]
)
def test_remarks(mlopt: Command, kinds: tuple[str, ...]) -> None:
    """One line each, with the file, the model's node, and the pass; of the kinds asked for, and no other."""
    err = mlopt("run", "m.onnx", "--inputs", "io.npz", f"--remarks={','.join(kinds)}").err
    assert "remark: [" in err
    fused = "m.onnx: node \"fc1/Add\": remark: [fuse-linear] fused 'matmul', 'add' into 'linear' as its bias"
    for kind, text in (
        ("passed", fused),
        ("missed", "remark: [reuse-in-place] not reused in place: "),
        ("analysis", "remark: [assign-buffers] "),
    ):
        assert (text in err) is (kind in kinds)


def test_named_pipelines_in_a_text(mlopt: Command) -> None:
    """A standard pipeline in a text makes what it makes alone, and goes on from the level that a file is at."""
    texts: set[str] = set()
    for pipeline in ("O2", "builtin.module(O2)", "any(O2)"):
        mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "--pipeline", pipeline)
        texts.add(Path("c.mlir").read_text())
    assert len(texts) == 1
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "k.mlir", "--to", "kernel")
    err = mlopt("run", "k.mlir", "--inputs", "io.npz", "--check", "io.npz", "--pipeline", "any(O2)", "-v").err
    assert err.startswith("fuse-kernels: ")


def test_remarks_in_the_report(mlopt: Command) -> None:
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "--report", "r.json")
    remarks = json.loads(Path("r.json").read_text())["remarks"]
    assert {remark["kind"] for remark in remarks} == {"passed", "missed", "analysis"}
    (plan,) = [remark for remark in remarks if remark["pass"] == "assign-buffers"]
    assert plan["message"].endswith("optimal (max-live)")
    fusion = next(remark for remark in remarks if remark["pass"] == "fuse-kernels")
    assert fusion["place"].startswith('node "')


def test_dumps(mlopt: Command) -> None:
    """A file for each pass that changed something, numbered over all phases; it can be read again."""
    mlopt("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "--dump", "dumps", "--report", "r.json")
    passes = json.loads(Path("r.json").read_text())["time"]["passes"]
    changed = [result["name"] for result in passes if result["changed"]]
    folder = Path("dumps", "builtin_module_no-symbol-name")
    assert {path.name for path in folder.iterdir()} == {f"{i}_{name}.mlir" for i, name in enumerate(changed)}
    fused = folder / f"{changed.index('fuse-kernels')}_fuse-kernels.mlir"
    assert "%hidden = kernel.launch @linear_relu" in fused.read_text()
    assert mlopt("compile", fused, "-o", "d.mlir", "--weights", "c.safetensors").code == 0


# Checking


def test_check_passes(mlopt: Command) -> None:
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--check", "io.npz")
    assert done.code == 0
    assert done.out.startswith("y: largest absolute error ") and done.out.endswith(": ok\n")


def test_check_fails(mlopt: Command) -> None:
    want = classify(batch_of(BATCH))
    want[0, 0] += 0.5
    np.savez("ref.npz", y=want)
    arguments = ("run", "m.onnx", "--inputs", "io.npz", "--check", "ref.npz", "--report", "r.json")
    done = mlopt(*arguments)
    assert done.code == 1
    assert done.out.startswith("y: largest absolute error 0.5, relative ") and "FAILED: differs" in done.out
    check = json.loads(Path("r.json").read_text())["check"]
    assert check["max_abs_error"] == pytest.approx(0.5, rel=1e-3)
    assert check["max_rel_error"] == pytest.approx(0.5 / want.max(), rel=1e-3)
    assert mlopt(*arguments, "--rtol", "0", "--atol", "0.51").code == 0
    assert mlopt(*arguments, "--rtol", "0", "--atol", "0.49").code == 1


@pytest.mark.parametrize(
    ("want", "reason"),
    [
        (np.zeros((BATCH, 4), np.float32), f"has shape ({BATCH}, 3), expected ({BATCH}, 4)"),
        (np.zeros((BATCH, 3)), "has dtype float32, expected float64"),
        (np.full((BATCH, 3), np.nan, np.float32), "has NaN or infinities in other places than expected"),
    ],
)
def test_check_of_another_shape_dtype_or_nan(mlopt: Command, want: np.ndarray, reason: str) -> None:
    """There is no error in numbers, then, and none is printed."""
    np.savez("ref.npz", y=want)
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--check", "ref.npz", "--report", "r.json")
    assert (done.code, done.out) == (1, f"y: FAILED: {reason}\n")
    assert json.loads(Path("r.json").read_text())["check"] == {"max_abs_error": None, "max_rel_error": None}


def test_a_missing_reference_is_found_before_anything_runs(mlopt: Command) -> None:
    np.savez("ref.npz", z=np.zeros(3))
    done = mlopt("run", "m.onnx", "--inputs", "io.npz", "--check", "ref.npz", "--outputs", "got.npz")
    assert (done.code, done.err) == (1, "ref.npz: error: expected a reference for output 'y', found 'z'\n")
    assert "got.npz" not in files()


# The command itself


@pytest.mark.parametrize("command", ["import", "compile", "run"])
def test_help_and_version(mlopt: Command, command: str) -> None:
    done = mlopt(command, "--help")
    assert done.code == 0 and f"example:\n  mlopt {command} " in done.out
    assert mlopt(command, "--version").out == mlopt("--version").out


def test_as_a_program(mlopt: Command) -> None:
    """The entry point in a process of its own, from another folder."""
    program = [sys.executable, "-m", "mlopt.cli.main"]
    folder = str(Path.cwd())
    arguments = ["run", f"{folder}/m.onnx", "--inputs", f"{folder}/io.npz", "--check", f"{folder}/io.npz"]
    done = subprocess.run(
        [*program, *arguments], cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(": ok\n")


def test_what_an_import_has_made(mlopt: Command) -> None:
    """It runs no pass: `-v` tells what the operators of the model have become."""
    given = ("import", "m.onnx", "--dim", f"batch={BATCH}", "-o", "m.mlir")
    assert mlopt(*given).err == "wrote m.mlir and m.safetensors\n"
    assert "graph.matmul: 3\ngraph.relu: 2\n" in mlopt(*given, "-v").err
