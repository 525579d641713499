"""Pages name only what is there: links, files and folders; the index names every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, assert_prints

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
MADE_BY_A_PAGE = re.compile(r"<!-- create: (\S+) -->")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_exist(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
    paths = re.findall(
        r"`((?:compiler|dialects|passes|tests|lit_tests|docs|examples|benchmarks)/[\w./-]+)`", text
    )
    made = MADE_BY_A_PAGE.findall(text)
    assert [path for path in paths if path not in made and not (ROOT / path).exists()] == []


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "README.md").read_text()))
    there = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert there - linked == set()


def test_what_a_page_prints_is_compared() -> None:
    assert_prints("a\nb\nc\n", "a\n...\nc\n")
    assert_prints("a\nb\nc\n", "...\nc\n")
    assert_prints("a\nb\nc\n", "a\n...\n")
    assert_prints("a 12 b\n", "a ... b\n")
    with pytest.raises(AssertionError):
        assert_prints("a\nb\nc\n", "a\nc\n")
    with pytest.raises(AssertionError):
        assert_prints("a\nb\n", "b\n")
    with pytest.raises(AssertionError):
        assert_prints("a\nb\n", "a\n")
