"""What is loaded only when it is needed: parts of tables, names of packages; and what a compilation loads."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from mlopt.on_demand import TableOnDemand, names_on_demand

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


def test_threads_wait_for_what_another_loads(tmp_path: Path, table: TableOnDemand[str, int]) -> None:
    """The first thread is still inside the module when the second asks for what it enters."""
    slow = "import threading, time\ntime.sleep(0.05)\n"
    path = tmp_path / "module_of_b.py"
    path.write_text(slow + path.read_text())
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(table.__getitem__, "bbcc")] == [2, 2, 3, 3]


def test_names_are_loaded_once_with_their_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_names.py").write_text("x = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = ModuleType("package_of_names")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.delitem(sys.modules, "module_of_names", raising=False)
    load = names_on_demand(package.__name__, {"module_of_names": ("x",)})
    assert "module_of_names" not in sys.modules
    assert load("x") is sys.modules["module_of_names"].x is package.x
    with pytest.raises(AttributeError, match="module 'package_of_names' has no attribute 'y'"):
        load("y")


COMPILE = """
import sys
from pathlib import Path
from mlopt.arrays import read_npz
from mlopt.compilation import compile_model, load_model
from mlopt.options import CompileOptions

model = Path(sys.argv[1])
inputs = read_npz(model.with_suffix(".npz"), "in")
compile_model(load_model(model, CompileOptions(), inputs=inputs), keep_levels=False)
"""

PRINT = "\nimport sys\nprint(*(name for name in sys.modules if name.startswith(('mlopt.', 'xdsl.'))))"

MODEL = Path(__file__).parent / "models" / "clip_tiny_dyn.onnx"


def _modules_loaded_by(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code + PRINT, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_compilation_loads_what_its_model_has() -> None:
    """A transformer: nothing of operations that it has not, or of the dialect as a whole, which only parsing needs."""
    loaded = _modules_loaded_by(COMPILE, str(MODEL))
    assert "mlopt.dialects.graph.contraction" in loaded
    not_needed = (
        *(f"dialects.graph.{name}" for name in ("dialect", "recurrent", "sampling", "scatter")),
        *(f"frontend.onnx.{name}" for name in ("recurrent", "quantization", "resize", "contrib")),
        *("diagnostics.expected", "validation", "model", "report", "cli", "export"),
    )
    assert not [name for name in not_needed if f"mlopt.{name}" in loaded]


@pytest.mark.parametrize("code", ["import mlopt", "from mlopt.cli.main import build_parser; build_parser()"])
def test_the_package_and_the_help_load_no_dialect(code: str) -> None:
    assert not [name for name in _modules_loaded_by(code) if name.startswith(("xdsl.", "mlopt.ir"))]
