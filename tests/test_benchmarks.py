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

from tests.small_models import batch_of, classifier, classify

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with its inputs beside it."""
    path = tmp_path / "small.onnx"
    onnx.save(classifier(), path)
    np.savez(path.with_suffix(".npz"), **{"in:x": batch_of(5), "out:y": classify(batch_of(5))})
    return path


def test_models(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    main = runpy.run_path(str(BENCHMARKS / "models.py"))["main"]
    assert main([str(model), "--repeat", "3", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "medians of 3 runs, threads: 1" in out
    row = next(line.split() for line in out.splitlines() if line.strip().startswith("small"))
    assert len(row) == 9
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
