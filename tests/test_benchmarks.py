"""The programs in `benchmarks/` run and show their figures. Never how long anything takes."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import mlopt
from tests.small_models import batch_of, classifier, classify

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with its inputs beside it."""
    path = tmp_path / "small.onnx"
    onnx.save(classifier(), path)
    np.savez(path.with_suffix(".npz"), **{"in:x": batch_of(5), "out:y": classify(batch_of(5))})
    return path


def test_arenas(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of the report of the same compilation; a single model is its own geometric mean."""
    runpy.run_path(str(BENCHMARKS / "arenas.py"))["main"]([str(model)])
    _, row, mean, *_ = capsys.readouterr().out.splitlines()
    memory = mlopt.compile(model, inputs={"x": batch_of(5)}).report()["memory"]
    arena = memory["arena_bytes"]
    ratios = [f"{arena / memory[f'imported_{figure}_bytes']:.3f}" for figure in ("max_live", "no_reuse")]
    assert row.split()[:3] == ["small", str(arena), str(memory["max_live_bytes"])]
    assert row.split()[4:6] == ratios
    assert mean.split()[2:] == ratios


def test_models(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    main = runpy.run_path(str(BENCHMARKS / "models.py"))["main"]
    assert main([str(model), "--repeat", "3", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "medians of 3 runs, threads: 1" in out
    row = next(line.split() for line in out.splitlines() if line.strip().startswith("small"))
    assert len(row) == 10
    assert re.fullmatch(r"\d+\.\d\d-\d+\.\d\d", row[4])
    # The error of float32 against float32, as a share of the largest output.
    assert float(row[-1]) < 1e-5
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert main([str(model.with_name("none.onnx"))]) == 1


def test_compile_time(model: Path) -> None:
    """Every phase has a row, and the shares sum up to one."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "compile_time.py", model, "--dim", "batch=5", "--repeat", "1"],
        check=True,
        capture_output=True,
        text=True,
    )
    rows = re.findall(r"^ *([\d.]+) ms +([\d.]+)% ([ -]) (.+)$", done.stdout, re.MULTILINE)
    names = {name: mark for _, _, mark, name in rows}
    for name in ("read the file", "import", "graph: passes", "kernel: passes", "memref: passes", "lowering"):
        assert names[name] == " "
    for name in ("start of Python", "imports", "verification", "print", "load into the engine"):
        assert names[name] == "-"
    assert sum(float(share) for _, share, _, _ in rows) == pytest.approx(100, abs=1)
    outside = sum(float(share) for _, share, mark, _ in rows if mark == "-")
    shown = done.stdout.rpartition(": ")[2].strip().removesuffix("%")
    assert float(shown) == pytest.approx(outside, abs=1)
    packages = re.findall(r"^ {10,}[\d.]+ ms (\w+)$", done.stdout, re.MULTILINE)
    assert {"xdsl", "numpy", "onnx", "mlopt"} <= set(packages)


def test_pass_cost() -> None:
    """Each make of model has a row for parsing and for each pass, and one that compares the two."""
    command = [sys.executable, BENCHMARKS / "pass_cost.py", "--sizes", "10", "20", "--repeat", "1"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = {tuple(line.split()[:4]) for line in done.stdout.splitlines()}
    for make in ("chain", "shapes", "branches", "transformer"):
        assert any(row[:2] == (make, "canonicalize") for row in rows)
        assert (make, "O2", "/", "parse") in rows


def test_import_time() -> None:
    """Each make of model has a row; with --compile, so has each pass."""
    command = [
        sys.executable,
        BENCHMARKS / "import_time.py",
        "--sizes",
        "10",
        "20",
        "--repeat",
        "1",
        "--compile",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = {tuple(line.split()[:2]) for line in done.stdout.splitlines()}
    works = ("import", "fold-constants", "fuse-kernels", "assign-buffers", "compile_model")
    assert {(make, work) for make in ("chain", "shapes", "branches") for work in works} <= rows


def test_compile_memory() -> None:
    """Each form of weights has a row for each command, which ends with the ratio."""
    command = [sys.executable, BENCHMARKS / "compile_memory.py", "--mib", "16", "--form", "gemm"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[:3] for row in rows] == [["gemm", "16", "compile"], ["gemm", "16", "run"]]
    for *_, over, ratio in rows:
        assert float(ratio) == pytest.approx(float(over) / 16, abs=0.05)


def test_operator_counts(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model's own operators and those of its export; with the tools that are installed, ONNX Runtime at least."""
    pytest.importorskip("onnxruntime")
    program = runpy.run_path(str(BENCHMARKS / "operator_counts.py"))
    program["main"]([str(model), "--explain"])
    out = capsys.readouterr().out
    title, row = (
        next(line for line in out.splitlines() if line.startswith(word)) for word in ("model", "small")
    )
    assert {"mlopt", "onnxruntime", "best"} <= {*title.split()}
    assert row.split()[1] == str(len(onnx.load(model).graph.node))
    assert re.search(
        r"^1 models: fewer operators than the best of the others for \d, more for \d$", out, re.M
    )
    error = re.search(r"largest relative error of those in f32: ([\d.e+-]+)", out)
    assert error is not None
    assert float(error[1]) <= 1e-5


def test_operators_are_counted_wherever_they_are() -> None:
    """Those in graphs and in functions, once for each call; constants are none."""
    operators = runpy.run_path(str(BENCHMARKS / "operator_counts.py"))["operators"]
    text = """<ir_version: 9, opset_import: ["": 18, "own": 1]>
    model (float[2] x, bool c) => (float[2] y) {
      t = own.twice(x)
      u = own.twice(t)
      v = If (c) <then_branch = yes () => (float[2] a) { a = Relu(u) },
                  else_branch = no () => (float[2] b) { k = Constant <value_float = 1.0> () b = Mul(u, k) }>
      y = other.Thing(v)
    }
    <domain: "own", opset_import: ["": 18]> twice (p) => (q) { q = Add(p, p) }"""
    counted = {"Add": 2, "If": 1, "Relu": 1, "Mul": 1, "other::Thing": 1}
    assert operators(onnx.parser.parse_model(text)) == counted


def test_unsafe_rewrites_have_places() -> None:
    """Sums with +0.0, not with -0.0; a product by a constant of a product by a constant."""
    unsafe = runpy.run_path(str(BENCHMARKS / "operator_counts.py"))["UNSAFE"]
    text = """<ir_version: 9, opset_import: ["": 18]>
    model (float[2] x) => (float[2] y) <float[1] zero = {0}, float[1] minus = {-0.0}, float[1] three = {3}> {
      a = Add(zero, x)
      b = Add(a, minus)
      c = Mul(b, three)
      d = Relu(c)
      e = Mul(three, d)
      y = Mul(e, three)
    }"""
    model = onnx.parser.parse_model(text)
    assert [entry.places(model) for entry in unsafe.values()] == [1, 1]


def test_scheduling(capsys: pytest.CaptureFixture[str]) -> None:
    """Each table has a row for each seed and the means; no list rule is below what the searches found."""
    main = runpy.run_path(str(BENCHMARKS / "scheduling.py"))["main"]
    assert main(["--seeds", "2", "--p", "0.25", "--nodes", "20000"]) == 0
    out = capsys.readouterr().out
    rows = re.findall(r"^ +[01] +(?:34|100|102) +\d.*$", out, re.MULTILINE)
    assert len(rows) == 8
    assert all(float(ratio) >= 1 for row in rows for ratio in row.split()[6:])
    assert out.count("2 of 2 proved") >= 3


def test_budgets(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for the arena as it is, and one for a budget that is met: the outputs in the file beside it are right."""
    arena = mlopt.compile(model, inputs={"x": batch_of(5)}).memory.arena_bytes
    runpy.run_path(str(BENCHMARKS / "budgets.py"))["main"](["--parts", "1.0,0.0", str(model)])
    _, whole, met, refused, *_ = capsys.readouterr().out.splitlines()
    assert whole.split() == ["small", str(arena)]
    assert met.split()[:4] == ["100%", str(arena), "0", "0"]
    assert float(met.split()[5]) < 1e-5
    assert refused.split()[:2] == ["0%", "0"] and "at least" in refused
