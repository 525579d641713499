"""Runs `mlopt` in this process, in a folder with a small model, its inputs and its reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from mlopt.cli.main import main
from tests.small_models import batch_of, classifier, classify

BATCH = 5


@dataclass(frozen=True)
class Done:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def mlopt(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, in a folder that holds `m.onnx` and `io.npz` (`in:x` of batch 5, `out:y`)."""
    monkeypatch.chdir(tmp_path)
    onnx.save(classifier(), "m.onnx")
    x = batch_of(BATCH)
    np.savez("io.npz", **{"in:x": x, "out:y": classify(x)})

    def run(*arguments: object) -> Done:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err and "internal error" not in captured.err, captured.err
        return Done(code, captured.out, captured.err)

    return run


def files() -> set[str]:
    """The names in the working folder."""
    return {path.name for path in Path.cwd().iterdir()}
