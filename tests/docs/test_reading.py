"""The walk through the IR, the commands and the Python API: what they run works, and prints what they say it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mlopt.cli import main, opt
from tests.docs.pages import ROOT, Tree

COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text()


@pytest.mark.parametrize(
    "page",
    [
        "reading-ir.md",
        "command-line.md",
        "python-api.md",
        "memory.md",
        "fit-memory.md",
        "validation.md",
        "optimisation.md",
        "split-parallel.md",
    ],
)
def test_the_page_is_true(page: str, tmp_path: Path) -> None:
    Tree(tmp_path).follow(page)


@pytest.mark.parametrize(
    ("command", "entry", "unlisted"),
    [
        # Each command, after four spaces; each flag, after two.
        (main.main, r"^    ([a-z]+)(?:  |$)", set[str]()),
        (opt.main, r"^  (?:-\w, )?(--?[a-z-]+)", {"--version"}),
    ],
)
def test_all_that_help_lists_is_on_the_page(
    command: Callable[[list[str]], int], entry: str, unlisted: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command(["--help"])
    names = set(re.findall(entry, capsys.readouterr().out, re.MULTILINE))
    assert len(names) > 6
    on_page = {name for name in names if re.search(rf"(^|`)(mlopt )?{name}\b", COMMAND_LINE, re.M)}
    assert names - on_page == unlisted
