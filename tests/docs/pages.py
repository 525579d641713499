"""Reading the blocks of a documentation page, and following it in a copy of the tree.

A comment before a fenced block says what the block is:

- `<!-- create: PATH -->`, `<!-- append: PATH -->`: a new file, or the new end of one;
- `<!-- after "LINE": PATH -->`: to be inserted after the first line that is exactly LINE;
- `<!-- run -->`: commands, run from the root of the tree;
- `<!-- prints -->`: what the block before it printed. A line `...` stands for any lines, at its end for any text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(
    r'^<!-- (?:(?P<kind>create|append|run|prints)|after "(?P<line>[^\n]*)")(?:: (?P<path>\S+))? -->\n'
    r"```\w*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One marked block: its kind (`create`, `append`, `after`, `run`, `prints`), path, line to stand after, text."""

    kind: str
    path: str
    line: str
    text: str


def blocks_of(page: str) -> list[Block]:
    """The marked blocks of `docs/PAGE`, in order."""
    text = (ROOT / "docs" / page).read_text()
    found = [
        Block(match["kind"] or "after", match["path"] or "", match["line"] or "", match["text"])
        for match in _BLOCK.finditer(text)
    ]
    assert len(found) == text.count("\n<!-- "), f"docs/{page} has a comment that marks no block"
    return found


class Tree:
    """A copy of the sources, laid out as they are imported, that pages can change."""

    def __init__(self, root: Path):
        self.root = root
        for source, target in (
            ("compiler", "mlopt"),
            ("dialects", "mlopt/dialects"),
            ("passes", "mlopt/passes"),
        ):
            shutil.copytree(ROOT / source, root / target)
        for folder in ("tests", "lit_tests"):
            shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("models", "docs"))
        shutil.copy(ROOT / "pyproject.toml", root)
        (root / "tests" / "models").symlink_to(ROOT / "tests" / "models")

    def path(self, path: str) -> Path:
        """Where a file of the repository is in the copy."""
        package, _, rest = path.partition("/")
        packages = {"compiler": "mlopt", "dialects": "mlopt/dialects", "passes": "mlopt/passes"}
        return self.root / packages.get(package, package) / rest

    def apply(self, block: Block) -> Path:
        """Do what a `create`, `append` or `after` block says; returns the file."""
        path = self.path(block.path)
        if block.kind == "create":
            assert not path.exists(), f"{block.path} is there already: the page needs another example"
            path.write_text(block.text)
        elif block.kind == "append":
            path.write_text(path.read_text() + block.text)
        else:
            before, line, after = path.read_text().partition(f"{block.line}\n")
            assert line, f"{block.path} has no line {block.line!r}"
            path.write_text(before + line + block.text + after)
        return path

    def run(self, command: str) -> str:
        """Run commands in the copy; what they print. Fails the test if one fails."""
        scripts = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def follow(self, page: str) -> list[Path]:
        """Do all that a page says, and check that it prints what it says; the files that it made or changed."""
        changed: list[Path] = []
        printed = ""
        for block in blocks_of(page):
            if block.kind == "run":
                printed = self.run(block.text)
            elif block.kind == "prints":
                assert_prints(printed, block.text)
            else:
                changed.append(self.apply(block))
        return changed


def assert_prints(printed: str, expected: str) -> None:
    """Assert that `printed` is `expected`, where `...` in that stands for any text, or as a line for any lines."""
    remaining = [line.rstrip() for line in printed.strip("\n").split("\n")]
    skipping = False
    for wanted in expected.strip("\n").split("\n"):
        if wanted == "...":
            skipping = True
            continue
        pattern = re.compile(re.escape(wanted.rstrip()).replace(r"\.\.\.", ".*"))
        while skipping and remaining and not pattern.fullmatch(remaining[0]):
            remaining.pop(0)
        assert remaining and pattern.fullmatch(remaining[0]), (
            f"expected\n{wanted}\nin what is printed:\n{printed}"
        )
        remaining.pop(0)
        skipping = False
    assert skipping or not remaining, f"not in the page: {remaining[0]!r}, in what is printed:\n{printed}"
