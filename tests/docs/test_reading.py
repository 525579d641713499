"""The walk through the IR: its commands run, and print what the page says they print."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import Tree


def test_the_walk_is_true(tmp_path: Path) -> None:
    Tree(tmp_path).follow("reading-ir.md")
