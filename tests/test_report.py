"""The report of `mlopt compile` and `run`: the schema, key by key, and numbers that the IR bears out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import mlopt
from mlopt.cli.main import main
from mlopt.dialects.kernel import LaunchOp
from mlopt.ir import make_context, parse_module
from mlopt.passmanager import parse_pipeline
from mlopt.passmanager.pipeline import passes_on_anchor
from mlopt.report import FUSING_PASSES, fusions
from mlopt.traffic import traffic_of
from tests.small_models import WIDTH, batch_of, classifier

BATCH = 5
NUMBER = (int, float)

SCHEMA: dict[str, Any] = {
    "schema": int,
    "model": str,
    "pipeline": str,
    "ops": {
        "imported": int,
        "graph": int,
        "kernel_launches": int,
        "kernel_functions": int,
        "scalar_loops": int,
        "by_name_imported": dict,
        "by_name_graph": dict,
    },
    "fused": dict,
    "memory": {
        "imported_no_reuse_bytes": int,
        "imported_max_live_bytes": int,
        "no_reuse_bytes": int,
        "max_live_bytes": int,
        "arena_bytes": int,
        "workspace_bytes": int,
        "weights_bytes": int,
        "io_bytes": int,
        "donated": list,
        "status": str,
        "spill_bytes": int,
        "spill_max_live_bytes": int,
        "spill_moved_bytes": int,
        "spill_status": str,
        "run_traced_peak_bytes": int,
        "run_copied_bytes": int,
        "engine_scratch_bytes": int,
    },
    "traffic": {"imported_bytes": int, "bytes": int},
    "time": {"import_s": NUMBER, "compile_s": NUMBER, "load_s": NUMBER, "run_s": NUMBER, "passes": list},
    "check": {"max_abs_error": NUMBER, "max_rel_error": NUMBER},
    "validation": (dict, type(None)),  # None without --validate
    "remarks": list,
}


def assert_schema(report: Any, schema: dict[str, Any], *, may_be_none: bool) -> None:
    """Exactly these keys, in this order, and values of these types."""
    assert list(report) == list(schema)
    for key, expected in schema.items():
        if isinstance(expected, dict):
            assert_schema(report[key], expected, may_be_none=may_be_none)
        elif not (may_be_none and report[key] is None):
            assert isinstance(report[key], expected), key


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(classifier(), "m.onnx")
    return tmp_path


def report_of(command: str, *arguments: str) -> dict[str, Any]:
    assert main([command, *arguments, "--report", "r.json", "-q"]) == 0
    return json.loads(Path("r.json").read_text())


def run_report(*arguments: str) -> dict[str, Any]:
    main(["run", "m.onnx", "--dim", "batch=5", "--outputs", "ref.npz", "-q"])
    return report_of("run", "m.onnx", "--dim", "batch=5", "--check", "ref.npz", *arguments)


def test_the_schema(folder: Path) -> None:
    report = run_report()
    assert_schema(report, SCHEMA, may_be_none=False)
    assert (report["schema"], report["model"]) == (1, "m.onnx")
    for entry in report["time"]["passes"]:
        assert_schema(
            entry,
            {
                "name": str,
                "seconds": float,
                "changed": bool,
                "runs": int,
                "statistics": dict,
                "patterns": dict,
            },
            may_be_none=False,
        )


@pytest.mark.parametrize("level", ["graph", "kernel", "memref"])
def test_the_schema_without_a_run(folder: Path, level: str) -> None:
    """Every key is there; what was not reached is null."""
    report = report_of("compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "--to", level)
    assert_schema(report, SCHEMA, may_be_none=True)
    assert report["time"]["run_s"] is None and report["memory"]["run_traced_peak_bytes"] is None
    assert (report["ops"]["kernel_launches"] is None) is (level != "memref")
    assert (report["traffic"]["bytes"] is None) is (level == "graph")


def test_passes_are_those_of_the_pipeline(folder: Path) -> None:
    report = run_report()
    names = [entry["name"] for entry in report["time"]["passes"]]
    assert names == [pass_.name for pass_ in passes_on_anchor(parse_pipeline(report["pipeline"]).elements)]
    assert names[-1] == "assign-buffers"
    seconds = [entry["seconds"] for entry in report["time"]["passes"]]
    assert 0 < sum(seconds) <= report["time"]["compile_s"]
    by_name = {entry["name"]: entry for entry in report["time"]["passes"]}
    assert by_name["convert-graph-to-kernel"]["changed"] is True
    assert by_name["assign-buffers"]["statistics"]["arena-bytes"] == report["memory"]["arena_bytes"]


def test_operators_as_imported(folder: Path) -> None:
    """The nodes of the ONNX file."""
    ops = run_report()["ops"]
    assert ops["imported"] == 9
    assert ops["by_name_imported"] == {"Add": 2, "Exp": 1, "MatMul": 3, "Relu": 2, "Softmax": 1}


def test_counts_are_those_of_the_text(folder: Path) -> None:
    report = run_report()
    for level in ("graph", "kernel", "memref"):
        assert (
            main(["compile", "m.onnx", "--dim", "batch=5", "-o", f"{level}.mlir", "--to", level, "-q"]) == 0
        )
    graph, kernel, memref = (Path(f"{level}.mlir").read_text() for level in ("graph", "kernel", "memref"))
    ops = report["ops"]
    operators = graph.count(" graph.") - graph.count(" graph.constant")
    assert ops["graph"] == sum(ops["by_name_graph"].values()) == operators
    assert ops["kernel_launches"] == memref.count("call @") == kernel.count("kernel.launch")
    assert ops["kernel_functions"] == memref.count("func.func private @")
    assert ops["scalar_loops"] == 0
    assert f"%arena: memref<{report['memory']['arena_bytes']}xi8>" in memref


def test_memory(folder: Path) -> None:
    """Inputs 5x8, outputs 5x3, weights of more than 64 elements 8x24, 24x24 and 24x3, all of 4 bytes."""
    memory = run_report()["memory"]
    assert memory["io_bytes"] == 4 * BATCH * (8 + 3)
    assert memory["weights_bytes"] == 4 * (8 * WIDTH + WIDTH * WIDTH + WIDTH * 3)
    # xA, fc1, hidden, hB, residual and relu of 5x24 floats in 64-byte steps; logits and soft of 5x3.
    wide, narrow = 512, 64
    assert memory["imported_no_reuse_bytes"] == 6 * wide + 2 * narrow
    # At fc2/Add: hB, hidden and residual.
    assert memory["imported_max_live_bytes"] == 3 * wide
    assert memory["max_live_bytes"] <= memory["arena_bytes"]
    assert memory["workspace_bytes"] <= memory["arena_bytes"]
    assert memory["max_live_bytes"] <= memory["no_reuse_bytes"]
    assert 0 < memory["run_traced_peak_bytes"] <= 16384


def test_traffic(folder: Path) -> None:
    """Operands and results, weights aside: 4 bytes for each of BATCH rows of these widths."""
    traffic = run_report("--no-optimize")["traffic"]
    per_node = [8 + WIDTH, 2 * WIDTH, 2 * WIDTH, 2 * WIDTH, 3 * WIDTH, 2 * WIDTH, WIDTH + 3, 6, 6]
    assert traffic["imported_bytes"] == 4 * BATCH * sum(per_node)
    # Every operator is its own kernel, so that both are the same.
    assert traffic["bytes"] == traffic["imported_bytes"]
    # fc1 reads x; fc2 reads hidden twice, as a factor and as a residual, but is one kernel; head; softmax with exp.
    fused = run_report("--disable-pass", "reuse-in-place")["traffic"]
    assert fused["imported_bytes"] == traffic["imported_bytes"]
    assert fused["bytes"] == 4 * BATCH * ((8 + WIDTH) + 2 * WIDTH + (WIDTH + 3) + 6)


PARTS = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %a = kernel.launch @left ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%X: tensor<4x6xf32>, %O: tensor<4x8xf32>):
    %0 = kernel.map bounds [m = 4, n = 6] ins(%X[m, n] : tensor<4x6xf32>) outs(%O[m, n] : tensor<4x8xf32>) {
    ^bb1(%in: f32, %old: f32):
      kernel.yield %in : f32
    }
    kernel.yield %0 : tensor<4x8xf32>
  } -> tensor<4x8xf32>
  %b = kernel.launch @right ins(%x : tensor<4x6xf32>) outs(%a : tensor<4x8xf32>) {
  ^bb0(%X: tensor<4x6xf32>, %O: tensor<4x8xf32>):
    %0 = kernel.map bounds [m = 4, n = 2] ins(%X[m, n] : tensor<4x6xf32>) outs(%O[m, n + 6] : tensor<4x8xf32>) {
    ^bb1(%in: f32, %old: f32):
      kernel.yield %in : f32
    }
    kernel.yield %0 : tensor<4x8xf32>
  } -> tensor<4x8xf32>
  %c = kernel.launch @update outs(%b : tensor<4x8xf32>) {
  ^bb0(%O: tensor<4x8xf32>):
    %0 = kernel.map bounds [m = 4] outs(%O[m, 3] : tensor<4x8xf32>) {
    ^bb1(%old: f32):
      %s = arith.addf %old, %old : f32
      kernel.yield %s : f32
    }
    kernel.yield %0 : tensor<4x8xf32>
  } -> tensor<4x8xf32>
  %d = kernel.launch @whole ins(%x : tensor<4x6xf32>) outs(%c : tensor<4x8xf32>) {
  ^bb0(%X: tensor<4x6xf32>, %O: tensor<4x8xf32>):
    %z = arith.constant 0.0 : f32
    %0 = kernel.fill %z : f32 outs(%O : tensor<4x8xf32>)
    %1 = kernel.reduce bounds [m = 4, n = 8, k = 6] ins(%X[m, k] : tensor<4x6xf32>) outs(%0[m, n] : tensor<4x8xf32>) {
    ^bb1(%in: f32, %old: f32):
      %s = arith.addf %in, %old : f32
      kernel.yield %s : f32
    }
    kernel.yield %1 : tensor<4x8xf32>
  } -> tensor<4x8xf32>
  func.return %d : tensor<4x8xf32>
}
"""


def test_traffic_of_parts() -> None:
    """A launch writes as much as it writes, and reads of what it updates as much as its body reads.

    In elements: x and 6 of 8 columns; x and 2 columns, without the rest of the tensor; one column, read and written;
    x and all that is written, without the tensor that was there.
    """
    launches = [op for op in parse_module(PARTS, make_context()).walk() if isinstance(op, LaunchOp)]
    assert [traffic_of(op) for op in launches] == [4 * n for n in (24 + 24, 24 + 8, 4 + 4, 24 + 32)]


def test_fused_counts_the_fusions_that_happened(folder: Path) -> None:
    """One for each remark that a fusing pass did something, and nothing else."""
    model = mlopt.compile(classifier(), inputs={"x": batch_of(BATCH)})
    counts = fusions(model.compilation)
    done = [
        remark
        for remark in model.compilation.ctx.remarks
        if remark.kind == "passed" and remark.pass_name.startswith(FUSING_PASSES)
    ]
    assert sum(counts.values()) == len(done) == 5
    assert run_report("--pipeline", "O1")["fused"] == {}


def test_imported_figures_survive_the_text(folder: Path) -> None:
    """A graph-level file carries them."""
    want = run_report()
    for level in ("graph", "kernel", "memref"):
        main(["compile", "m.onnx", "--dim", "batch=5", "-o", "c.mlir", "--to", level, "-q"])
        report = report_of("run", "c.mlir", "--check", "ref.npz")
        for section, key in (
            ("ops", "imported"),
            ("ops", "by_name_imported"),
            ("memory", "imported_no_reuse_bytes"),
            ("memory", "imported_max_live_bytes"),
            ("traffic", "imported_bytes"),
        ):
            assert report[section][key] == want[section][key]


def test_the_switches_change_the_report(folder: Path) -> None:
    def with_switch(name: str, value: object) -> dict[str, Any]:
        Path("c.json").write_text(json.dumps({"optimization": {name: value}}))
        return run_report("--config", "c.json")

    full = run_report()
    unfused = with_switch("enable_fusion", False)
    assert unfused["ops"]["kernel_launches"] == 9 > full["ops"]["kernel_launches"] == 4
    copied = with_switch("enable_inplace", False)
    assert copied["memory"]["no_reuse_bytes"] > full["memory"]["no_reuse_bytes"]
    arenas = [
        with_switch("memory_reuse_strategy", strategy)["memory"]["arena_bytes"]
        for strategy in ("aggressive", "conservative", "none")
    ]
    assert arenas[0] == full["memory"]["arena_bytes"]
    assert arenas[0] <= arenas[1] <= arenas[2] and arenas[0] < arenas[2]


def test_the_memory_of_the_report_is_the_model_s(folder: Path) -> None:
    model = mlopt.compile(classifier(), inputs={"x": batch_of(BATCH)})
    memory = model.report()["memory"]
    assert memory["arena_bytes"] == model.memory.arena_bytes == model.executable.arena_bytes
    assert memory["max_live_bytes"] == model.memory.max_live_bytes
