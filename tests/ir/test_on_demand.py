"""Tables of which a part is loaded when a key is not found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mlopt.ir.on_demand import TableOnDemand

TABLE: TableOnDemand[str, int] = TableOnDemand([])


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableOnDemand[str, int]:
    """A table with `a`, and two modules that enter `b` and `c`; the first imports the second."""
    made = TableOnDemand[str, int](["module_of_b", "module_of_c"])
    made["a"] = 1
    monkeypatch.setattr(sys.modules[__name__], "TABLE", made)
    head = f"from {__name__} import TABLE\n"
    (tmp_path / "module_of_b.py").write_text(f"import module_of_c\n{head}TABLE['b'] = 2\n")
    (tmp_path / "module_of_c.py").write_text(f"{head}TABLE.update(c=3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("module_of_b", "module_of_c"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return made


def test_what_is_there_loads_nothing(table: TableOnDemand[str, int]) -> None:
    assert (table["a"], table.get("a"), "a" in table) == (1, 1, True)
    assert list(table) == ["a"]


def test_what_is_not_there_is_loaded(table: TableOnDemand[str, int]) -> None:
    assert table["c"] == 3
    assert dict(table) == {"a": 1, "b": 2, "c": 3}


def test_get(table: TableOnDemand[str, int]) -> None:
    assert table.get("b") == 2


def test_contains(table: TableOnDemand[str, int]) -> None:
    assert "b" in table


def test_what_is_nowhere(table: TableOnDemand[str, int]) -> None:
    with pytest.raises(KeyError):
        table["d"]
    assert (table.get("d"), table.get("d", 4), "d" in table) == (None, 4, False)
