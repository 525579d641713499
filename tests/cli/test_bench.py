"""`mlopt bench`: what is measured and shown. Never how long anything takes."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from multiprocessing import spawn
from pathlib import Path

import numpy as np
import pytest

from mlopt.benchmark import driver, engines
from mlopt.benchmark.driver import BenchmarkResult, EngineResult
from mlopt.benchmark.engines import Loaded
from mlopt.benchmark.worker import Job, peak_rss_bytes
from mlopt.compare import compare
from mlopt.diagnostics import Diagnostic, RunError, Severity
from mlopt.options import CompileOptions
from tests.cli.mlopt_command import BATCH, Command, files


def test_side_by_side(mlopt: Command) -> None:
    pytest.importorskip("onnxruntime")
    done = mlopt(
        *("bench", "m.onnx", "--inputs", "io.npz", "--against", "onnxruntime"),
        *("--repeat", 7, "--threads", 1, "--report", "r.json"),
    )
    assert done.code == 0
    header = next(line for line in done.out.splitlines() if "onnxruntime" in line)
    assert header.split() == ["mlopt", "onnxruntime", "ratio"]
    assert "m.onnx: 7 runs, threads: 1" in done.out
    assert "outputs agree: largest relative error" in done.out
    assert max(len(line.rstrip()) for line in done.out.splitlines()) <= 80
    report = json.loads(Path("r.json").read_text())
    measured = report["bench"]["engines"]
    assert list(measured) == ["mlopt", "onnxruntime"]
    for engine in measured.values():
        assert len(engine["runs_s"]) == 7
        assert engine["median_s"] == sorted(engine["runs_s"])[3]
        assert engine["min_s"] == min(engine["runs_s"])
        assert engine["start_s"] > engine["load_s"] > 0
        # A Python process with numpy; a little more than 1 GiB would be a mistake of units.
        assert 10 << 20 < engine["peak_rss_bytes"] < 1 << 30
    # Seven runs are one round.
    assert report["bench"]["ratio"] == measured["mlopt"]["median_s"] / measured["onnxruntime"]["median_s"]
    assert report["bench"]["ratio_p10"] == report["bench"]["ratio_p90"] == report["bench"]["ratio"]
    assert report["memory"]["arena_bytes"] > 0
    assert report["check"]["max_rel_error"] < 1e-5


def test_alone_on_seeded_inputs(mlopt: Command) -> None:
    done = mlopt("bench", "m.onnx", "--dim", f"batch={BATCH}", "--repeat", 1)
    assert done.code == 0
    assert "seeded random inputs" in done.err
    assert "ratio" not in done.out
    assert "run, median (ms)" in done.out


def test_what_passes_did_and_what_validation_found(mlopt: Command) -> None:
    given = ("bench", "m.onnx", "--dim", f"batch={BATCH}", "--repeat", 1)
    done = mlopt(*given, "-v", "--validate")
    assert done.code == 0
    assert "changes hold, 0 undone" in done.err
    assert "\nfuse-linear: " in done.err and "\nassign-buffers: " in done.err
    assert "fuse-linear" not in mlopt(*given).err


def test_a_change_that_is_undone_gives_exit_code_1(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    report = {**MLOPT.report, "validation": {"validated": [], "rejected": [{}]}}
    warning = Diagnostic(Severity.ERROR, "pass 'p' changes the answer")
    own = replace(MEASURED.engines[0], loaded=replace(MLOPT, report=report, warnings=(warning,)))
    monkeypatch.setattr(
        driver, "benchmark", lambda *_, **__: replace(MEASURED, engines=(own,), comparisons=())
    )
    done = mlopt("bench", "m.onnx", "--inputs", "io.npz")
    assert done.code == 1
    assert "error: pass 'p' changes the answer" in done.err
    assert "validated: 0 changes hold, 1 undone" in done.err


def test_no_more_threads_than_processors(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "available_threads", lambda: 1)
    done = mlopt("bench", "m.onnx", "--inputs", "io.npz", "--repeat", 1, "--threads", 99999)
    assert done.code == 0
    assert "warning: --threads 99999 is more than the processors that there are: using 1" in done.err
    assert "m.onnx: 1 run, threads: 1" in done.out


def test_a_model_that_is_not_there_is_all_that_is_said(mlopt: Command) -> None:
    done = mlopt("bench", "none.onnx")
    assert done.code == 1
    assert done.err == "none.onnx: error: expected an ONNX model, found no such file\n"


def test_errors_of_the_worker_are_shown_as_everywhere(mlopt: Command) -> None:
    done = mlopt("bench", "m.onnx")
    assert done.code == 1
    assert 'm.onnx: error: no value for the symbolic dimension "batch"' in done.err
    assert done.out == ""


def test_without_onnxruntime(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(engines, "find_spec", nothing)
    before = files()
    done = mlopt("bench", "m.onnx", "--inputs", "io.npz", "--against", "onnxruntime", "--report", "r.json")
    assert done.code == 1
    assert "needs the package onnxruntime, which is not installed: pip install onnxruntime" in done.err
    assert files() == before


def test_onnxruntime_takes_no_mlir(mlopt: Command) -> None:
    assert mlopt("import", "m.onnx", "--dim", f"batch={BATCH}", "-o", "m.mlir").code == 0
    done = mlopt("bench", "m.mlir", "--against", "onnxruntime")
    assert done.code == 1
    assert "m.mlir: error: onnxruntime takes ONNX models, found MLIR" in done.err


@pytest.mark.parametrize(
    "arguments", [("--repeat", "0"), ("--repeat", "x"), ("--threads", "-1"), ("--against", "another")]
)
def test_wrong_command_lines(arguments: tuple[str, str], mlopt: Command) -> None:
    assert mlopt("bench", "m.onnx", *arguments).code == 2


MLOPT = Loaded({}, 0.5, {"memory": {"arena_bytes": 2048}})
OTHER = Loaded({}, 0.1)
MEASURED = BenchmarkResult(
    Path("m.onnx"),
    2,
    (
        EngineResult("mlopt", MLOPT, 0.9, [[0.03], [0.01], [0.02]], 3 << 20),
        EngineResult("onnxruntime", OTHER, 0.2, [[0.01], [0.02], [0.01]], 1 << 20),
    ),
    (compare("y", np.ones(3, np.float32), np.ones(3, np.float32)),),
)


def shown(result: BenchmarkResult, mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    monkeypatch.setattr(driver, "benchmark", lambda *_, **__: result)
    done = mlopt("bench", "m.onnx", "--inputs", "io.npz")
    return done.code, done.out


def test_figures_in_the_table(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians 20 and 10 ms, fastest 10 and 10 ms, loads of 500 and 100 ms; 3 and 1 MiB; the arena is 2 KiB.

    The ratios of the rounds are 3, 0.5 and 2: with 2 between, a tenth of the way in is 0.8, nine tenths are 2.8.
    """
    code, out = shown(MEASURED, mlopt, monkeypatch)
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["run,", "median", "(ms)", "20.000", "10.000", "2.00"] in rows
    assert ["ratio,", "10th", "to", "90th", "percentile", "0.80-2.80"] in rows
    assert ["run,", "fastest", "(ms)", "10.000", "10.000", "1.00"] in rows
    assert ["load", "the", "model", "(ms)", "500", "100", "5.00"] in rows
    assert ["peak", "memory", "of", "the", "process", "(KiB)", "3,072", "1,024", "3.00"] in rows
    assert ["arena", "(KiB)", "2"] in rows


def test_outputs_that_differ_are_named_and_give_exit_code_1(
    mlopt: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    different = compare("y", np.ones(3, np.float32), np.zeros(3, np.float32))
    code, out = shown(replace(MEASURED, comparisons=(different,)), mlopt, monkeypatch)
    assert code == 1
    assert "output y differs by up to 1, allowed is 1e-06: FAILED" in out
    assert "agree" not in out


def test_a_process_that_dies_is_reported(mlopt: Command) -> None:
    job = Job("mlopt", Path("m.onnx"), CompileOptions(), None, 1)
    with driver._Worker(job) as worker:  # pyright: ignore[reportPrivateUsage]
        worker._process.kill()  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(RunError, match="the process of mlopt ended unexpectedly"):
            worker.load()


def test_a_process_that_never_begins_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much it is to be given: a pipe takes 64 KiB that nobody reads."""
    monkeypatch.setattr(spawn, "_python_exe", b"/bin/false")
    messages: list[str] = []

    def bench() -> None:
        with pytest.raises(RunError) as error:
            driver.benchmark(Path("m.onnx"), CompileOptions(), inputs={"x": np.zeros(1 << 20)})
        messages.append(error.value.message)

    thread = threading.Thread(target=bench, daemon=True)
    thread.start()
    thread.join(60)
    assert messages == ["the process of mlopt ended unexpectedly (exit code 1)"]


def test_threads_are_set_for_the_process_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with driver._thread_environment(3):  # pyright: ignore[reportPrivateUsage]
        assert os.environ["OPENBLAS_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_runs_are_spread_over_the_rounds() -> None:
    shares = driver._shares  # pyright: ignore[reportPrivateUsage]
    assert shares(200) == [10] * 20
    assert shares(50) == [5] * 10
    assert shares(12) == [6, 6]
    assert shares(2) == [2]


def test_the_ratio_is_of_runs_of_the_same_round() -> None:
    """A machine that gets four times as slow halfway: all runs of one engine are no slower than those of the other."""
    slow = [[1.0], [1.0], [4.0], [4.0], [4.0]]
    fast = [[0.5], [0.5], [2.0], [2.0], [2.0]]
    first, second = (EngineResult(name, OTHER, 0.1, rounds) for name, rounds in (("a", slow), ("b", fast)))
    result = replace(MEASURED, engines=(first, second))
    assert result.ratios == [2.0] * 5
    assert result.ratio == 2.0
    assert result.spread == (2.0, 2.0)


def test_engines_take_turns_and_both_are_first(mlopt: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    told: list[str] = []
    driver.benchmark(
        Path("m.onnx"),
        CompileOptions(dims={"batch": BATCH}),
        against="onnxruntime",
        repeat=10,
        threads=1,
        watch=told.append,
    )
    assert told[-4:] == [
        "round 1 of 2, mlopt",
        "round 1 of 2, onnxruntime",
        "round 2 of 2, onnxruntime",
        "round 2 of 2, mlopt",
    ]


def test_peak_memory_is_in_bytes() -> None:
    """64 MiB more, touched, raise the peak to at least that."""
    block = np.ones(64 << 20, np.uint8)
    assert peak_rss_bytes() >= block.nbytes
