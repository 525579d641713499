"""The pages on adding an operator and a pass, followed to the letter in a copy of the tree."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.pages import Tree


@pytest.mark.parametrize("page", ["adding-an-operator.md", "adding-a-pass.md"])
def test_the_page_can_be_followed(page: str, tmp_path: Path) -> None:
    """Its blocks apply, its commands succeed in the changed copy, and what it adds is clean."""
    tree = Tree(tmp_path)
    where = tree.run('python -c "import mlopt, mlopt.passes; print(mlopt.__file__, mlopt.passes.__file__)"')
    assert where.count(str(tmp_path)) == 2
    changed = [str(path) for path in tree.follow(page)]
    assert changed
    sources = " ".join(path for path in dict.fromkeys(changed) if path.endswith(".py"))
    tree.run(f"{sys.executable} -m ruff check {sources}")
    tree.run(f"{sys.executable} -m ruff format --check {sources}")
