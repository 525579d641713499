"""The commands as modules: `python -m mlopt`, `python -m mlopt.cli.main`, `python -m mlopt.cli.opt`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlopt import __version__


@pytest.mark.parametrize(
    ("module", "program"), [("mlopt", "mlopt"), ("mlopt.cli.main", "mlopt"), ("mlopt.cli.opt", "mlopt-opt")]
)
def test_a_module_is_the_command(module: str, program: str) -> None:
    command = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{program} {__version__}\n", "")
