"""Progress on a terminal: shown for work that takes long, with what is being done; never where nobody looks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from mlopt.cli.progress import progress
from tests.small_models import batch_of, classifier

pty = pytest.importorskip("pty", reason="terminals of Unix only")


def on_a_terminal(code: str, *, cwd: Path | None = None) -> str:
    """What Python code, in a process of its own, writes to a terminal that is its stderr."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=terminal,
        stdout=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(terminal)
    written = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:  # what Linux says when the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(controller)
    assert process.wait(60) == 0, written.decode()
    return written.decode()


def test_long_work_shows_what_it_is_at() -> None:
    text = on_a_terminal(
        "import time\n"
        "import mlopt.cli.progress as p\n"
        "p.DELAY = 0.1\n"
        "with p.progress('planning [a].csv') as update:\n"
        "    time.sleep(0.6)\n"
        "    update('step 1')\n"
        "    time.sleep(0.4)\n"
    )
    assert "planning [a].csv" in text
    assert "planning [a].csv: step 1" in text
    assert text.endswith("\x1b[?25h") or "\x1b[?25h" in text  # the cursor is shown again


def test_quick_work_shows_nothing() -> None:
    code = "from mlopt.cli.progress import progress\nwith progress('quick') as update:\n    update('step')\n"
    assert on_a_terminal(code) == ""


def test_nothing_is_shown_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("compiling") as update:
        update("a pass")
        time.sleep(0.01)
    assert capsys.readouterr().err == ""


def test_commands_name_their_steps(tmp_path: Path) -> None:
    """Passes of a compilation, and rounds of a benchmark."""
    onnx.save(classifier(), tmp_path / "m.onnx")
    np.savez(tmp_path / "io.npz", x=batch_of(5))
    code = (
        "import mlopt.cli.progress as p, sys\n"
        "from mlopt.cli.main import main\n"
        "steps = []\n"
        "class Spinner:\n"
        "    def __init__(self, what): steps.append(what)\n"
        "    def update(self, step): steps.append(step)\n"
        "    def stop(self): pass\n"
        "p._Spinner = Spinner\n"
        "main(['compile', 'm.onnx', '--dim', 'batch=5', '-o', 'c.mlir', '-q'])\n"
        "main(['bench', 'm.onnx', '--inputs', 'io.npz', '--repeat', '10', '-q'])\n"
        "print(*steps, sep='\\n', file=sys.stderr)\n"
    )
    lines = on_a_terminal(code, cwd=tmp_path).replace("\r", "").splitlines()
    for step in ("loading m.onnx", "compiling m.onnx", "fuse-kernels", "assign-buffers", "timing m.onnx"):
        assert step in lines
    assert "loading it into mlopt" in lines
    assert "round 1 of 2, mlopt" in lines
