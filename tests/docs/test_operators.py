"""The table of operators is what the code says."""

from __future__ import annotations

from difflib import unified_diff

from tests.docs.operators import COMMAND, PAGE, page


def test_the_table_of_operators_is_up_to_date() -> None:
    found, right = PAGE.read_text(encoding="utf-8").splitlines(), page().splitlines()
    difference = "\n".join(unified_diff(found, right, "docs/operators.md", "from the code", lineterm="", n=0))
    assert not difference, f"run `{COMMAND}`, and commit docs/operators.md:\n{difference}"
