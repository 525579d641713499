"""The demo: its table at a small size, what each switch does to it, and what wrong switches get."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cli.mlopt_command import Done

FOLDER = Path(__file__).parents[2] / "examples" / "multimodal"
SMALL: dict[str, Any] = {
    "model": {"vision_hidden_size": 24, "text_hidden_size": 32, "projection_dim": 16, "num_text_layers": 2},
    "optimization": {
        "enable_fusion": True,
        "enable_inplace": True,
        "memory_reuse_strategy": "aggressive",
    },
    "input": {"image_size": [2, 4, 20], "seq_len": 7},
}
ROWS = [
    "operators",
    "kernels run",
    "kernel functions",
    "peak memory, no reuse",
    "peak memory, reuse",
    "peak memory, planned",
    "of it workspaces",
    "bytes through memory",
    "time of a run",
    "largest difference",
]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module; run as a script, it finds `make_model` beside it."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import demo

    monkeypatch.setattr(demo, "REPEAT", 1)
    return demo


@pytest.fixture
def run(
    demo: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Runs the demo on the small configuration, on a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "small.json").write_text(json.dumps(SMALL))

    def run(*arguments: str) -> Done:
        code = demo.main(["--config", "small.json", *arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err and "internal error" not in captured.err
        return Done(code, captured.out, captured.err)

    return run


def table_of(done: Done) -> dict[str, tuple[str, str]]:
    """Row name → its two columns."""
    assert done.code == 0, done.err
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines() if "│" in line
    ]
    return {row[0]: (row[1], row[2]) for row in cells}


def number(cell: str) -> int:
    return int(re.sub(r"[^\d]", "", cell))


def test_the_table(run: Callable[..., Done]) -> None:
    done = run()
    assert all(len(line) <= 80 for line in done.out.splitlines())
    table = table_of(done)
    assert list(table) == ROWS
    assert table["operators"][0] == "27"
    assert number(table["kernels run"][1]) < number(table["kernels run"][0])
    assert number(table["peak memory, planned"][1]) < number(table["peak memory, reuse"][0])
    assert "with enable_fusion=true enable_inplace=true memory_reuse_strategy=aggressive" in done.out


def test_a_line_for_every_fusion(run: Callable[..., Done]) -> None:
    lines = run().out.splitlines()
    start = lines.index("8 fusions:")
    names = [line.split()[0] for line in lines[start + 1 : start + 9]]
    assert sorted(names) == ["linear"] * 4 + ["linear_relu"] * 4
    assert lines[start + 1] == "  linear_relu  vision: relu/Relu + fc1/Add + fc1/MatMul"
    assert lines[start + 9] == ""


def test_the_files(run: Callable[..., Done]) -> None:
    run("--output", "there/it/is")
    assert sorted(path.name for path in Path("there/it/is").iterdir()) == [
        "graph.mlir",
        "kernel.mlir",
        "memref.mlir",
        "memref.safetensors",
        "multimodal.onnx",
    ]


def test_each_switch_changes_the_table(run: Callable[..., Done]) -> None:
    full = table_of(run())
    unfused = run("--set", "enable_fusion=false")
    assert number(table_of(unfused)["kernels run"][1]) > number(full["kernels run"][1])
    assert "no fusions" in unfused.out and "enable_fusion=false" in unfused.out
    copied = table_of(run("--set", "enable_inplace=false"))
    assert number(copied["peak memory, no reuse"][1]) > number(full["peak memory, no reuse"][1])
    arenas = [
        number(table_of(run("--set", f"memory_reuse_strategy={strategy}"))["peak memory, planned"][1])
        for strategy in ("aggressive", "conservative", "none")
    ]
    assert arenas[0] == number(full["peak memory, planned"][1])
    assert arenas[0] < arenas[1] < arenas[2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["--set", "enable_fuse=true"],
            1,
            "--set: error: unknown key 'optimization.enable_fuse', expected one of",
        ),
        (
            ["--set", "enable_fusion=maybe"],
            1,
            "--set: error: 'optimization.enable_fusion' must be one of true, false",
        ),
        (["--set", "enable_fusion"], 2, "argument --set: expected SWITCH=VALUE, found 'enable_fusion'"),
        (["--config", "none.json"], 1, "none.json: error: "),
        (["--output", "small.json"], 1, "small.json: error: "),
        (["--output", "small.json/below"], 1, "small.json/below: error: "),
    ],
)
def test_mistakes(run: Callable[..., Done], arguments: list[str], code: int, message: str) -> None:
    done = run(*arguments)
    assert done.code == code
    assert message in done.err and done.err.count("error:") == 1
    assert done.out == ""


def test_from_any_folder(tmp_path: Path) -> None:
    """As a program of its own, with the configuration beside it."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "demo.py"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and "SWITCH=VALUE" in done.stdout
